"""A real RabbitMQ for tests: Debian's package, run from a folder of its own. It starts in about 15 seconds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.servers.process import NoServer, ServerProcess, debian, free_port

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
USER, PASSWORD = "guest", "guest"


class _ProcessGroup(ServerProcess):
    """The server is started by a script: what is killed is the script with all its children."""

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        super().kill()

    def pause(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)


class RabbitServer:
    """One broker, which can be killed and restarted."""

    def __init__(self, folder: Path):
        debian("rabbitmq-server", "rabbitmq-server")
        if not PROGRAM.exists():
            raise NoServer(f"no RabbitMQ: {PROGRAM} is missing")
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self._epmd_port = free_port(), free_port()
        self.host = "127.0.0.1"
        self.uri = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}/%2F"
        (folder / "enabled_plugins").write_text("[].")
        (folder / "rabbitmq.conf").write_text(
            "vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 50MB\n"
        )
        environment = {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"flott{uuid4().hex[:8]}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 -kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "1",
        }
        self._environment = environment
        self.process = _ProcessGroup("rabbitmq", ["setsid", str(PROGRAM)], folder, self._answers, environment)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"AMQP\x00\x00\x09\x01")
                return bool(connection.recv(1))
        except OSError:
            return False

    def start(self) -> RabbitServer:
        self.process.start()
        return self

    def stop(self) -> None:
        self.process.kill()
        # The name server of Erlang outlives it.
        subprocess.run(
            ["epmd", "-port", str(self._epmd_port), "-kill"],
            env={**os.environ, **self._environment}, check=False, capture_output=True, timeout=30,
        )  # fmt: skip


@contextmanager
def serve(folder: Path) -> Iterator[dict[str, Any]]:
    """Run a broker for all tests of a run."""
    server = RabbitServer(folder / "rabbitmq")
    try:
        server.start()
        yield {"port": server.port}
    finally:
        server.stop()
