"""A real Redis for tests, of Debian's package. It starts in a tenth of a second and keeps a log of its changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import ServerProcess, debian, free_port


class RedisServer:
    """One server with append-only persistence, so that it has everything after a SIGKILL."""

    def __init__(self, folder: Path, *settings: str, password: str | None = None):
        import redis

        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = (
            f"redis://127.0.0.1:{self.port}/0" if password is None else f"redis://:{password}@127.0.0.1:{self.port}"
        )
        command = [
            debian("redis-server", "redis-server"),
            *("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "always"),
            *(() if password is None else ("--requirepass", password)),
            *settings,
        ]
        self.client: Any = redis.Redis.from_url(self.url, socket_timeout=30, retry=None)
        self.process = ServerProcess("redis", command, folder, self._answers)

    def _answers(self) -> bool:
        import redis

        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False


@contextmanager
def redis_server(folder: Path, *settings: str, password: str | None = None) -> Iterator[RedisServer]:
    """Give a Redis of one's own."""
    server = RedisServer(folder, *settings, password=password)
    server.process.start()
    try:
        yield server
    finally:
        server.process.stop()
