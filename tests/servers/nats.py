"""A real NATS server with JetStream for tests: Debian's package. It starts in a tenth of a second."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import ServerProcess, debian, free_port


class NatsServer:
    """One server, which can be killed and restarted."""

    def __init__(self, folder: Path, options: Sequence[str] = ()):
        program = debian("nats-server", "nats-server")
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(folder / "data"), *options]
        self.process = ServerProcess("nats", command, folder, self._answers)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False


@contextmanager
def nats_server(folder: Path, options: Sequence[str] = ()) -> Iterator[NatsServer]:
    """Run a server."""
    server = NatsServer(folder, options)
    server.process.start()
    try:
        yield server
    finally:
        server.process.kill()


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a server for all tests of a run."""
    with nats_server(folder / "nats") as server:
        yield {"url": server.url}
