"""Amazon's services as moto imitates them, for tests: Kinesis, Firehose, SQS. It starts in some seconds."""

from __future__ import annotations

import importlib.util
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import NoServer, ServerProcess, free_port

SECRET_KEY = "motos-secret-key"


def properties(port: int) -> dict[str, str]:
    """How a client reaches the server."""
    return {
        "aws.region": "us-east-1",
        "aws.endpoint": f"http://127.0.0.1:{port}",
        "aws.credentials.provider.basic.accesskeyid": "flott",
        "aws.credentials.provider.basic.secretkey": SECRET_KEY,
    }


class MotoServer:
    """A server that forgets everything when it ends."""

    def __init__(self, folder: Path):
        if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
            raise NoServer("no moto: pip install 'moto[server]'")
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = ServerProcess("moto", command, folder, self._answers)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/", timeout=5).close()
            return True
        except OSError:
            return False


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a server for all tests of a run."""
    server = MotoServer(folder / "moto")
    server.process.start()
    try:
        yield {"port": server.port}
    finally:
        server.process.kill()
