"""A real Mosquitto for tests: Debian's package. It starts in a tenth of a second."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.process import ServerProcess, debian, free_port


class MosquittoServer:
    """One broker, which can be killed and restarted. With a password it lets only the user "jobs" in."""

    def __init__(self, folder: Path, password: str | None = None):
        program = debian("mosquitto", "mosquitto")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)  # run by root, it changes to a user of its own
        self.port = free_port()
        lines = [
            f"listener {self.port} 127.0.0.1",
            f"persistence_location {folder}/",
            "persistence true",
            "max_queued_messages 0",
            "max_inflight_messages 0",
            "user root",
        ]
        if password is None:
            lines.append("allow_anonymous true")
        else:
            tool = debian("mosquitto_passwd", "mosquitto")
            subprocess.run([tool, "-b", "-c", str(folder / "users"), "jobs", password], check=True, timeout=30)
            lines += ["allow_anonymous false", f"password_file {folder}/users"]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        self.process = ServerProcess(
            "mosquitto", [program, "-c", str(folder / "mosquitto.conf")], folder, self._answers
        )

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        except OSError:
            return False


@contextmanager
def mosquitto_server(folder: Path, password: str | None = None) -> Iterator[MosquittoServer]:
    """Run a broker."""
    server = MosquittoServer(folder, password)
    server.process.start()
    try:
        yield server
    finally:
        server.process.kill()


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a broker for all tests of a run."""
    with mosquitto_server(folder / "mosquitto") as server:
        yield {"port": server.port}
