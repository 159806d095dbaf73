"""A real ZooKeeper for tests: Debian's package, run by java from a folder of its own, at a free port."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

JAR = Path("/usr/share/java/zookeeper.jar")
START_SECONDS = 300


class ZooKeeperServer:
    """One server, which can be stopped, killed, and started again with what it knew."""

    def __init__(self, folder: Path, tick_ms: int = 100):
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "zoo.cfg").write_text(
            f"tickTime={tick_ms}\ndataDir={folder / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxClientCnxns=0\n"
        )

    def start(self) -> None:
        """Run until ``stop``; returns when it answers."""
        output = open(self._folder / "zookeeper.log", "ab")  # noqa: SIM115  # the process keeps it
        command = ["java", "-Xmx128m", "-Dzookeeper.jmx.log4j.disable=true", "-cp", f"{self._folder}:{JAR}"]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._process = subprocess.Popen([*command, main, str(self._folder / "zoo.cfg")], stdout=output, stderr=output)
        output.close()
        deadline = time.monotonic() + START_SECONDS
        while not _answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self._folder / "zookeeper.log").read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"ZooKeeper did not start:\n{log}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it answer nobody, without closing any connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def start_zookeeper(tick_ms: int = 100) -> ZooKeeperServer:
    """A new server, or a skipped test where none can be had."""
    if reason := _what_is_missing():
        pytest.skip(reason)
    server = ZooKeeperServer(Path(tempfile.mkdtemp(prefix="flott-zookeeper-")), tick_ms)
    server.start()
    return server


def _what_is_missing() -> str | None:
    if shutil.which("java") is None:
        return "There is no java to run ZooKeeper with."
    if not JAR.exists():
        _install()
    return None if JAR.exists() else f"There is no ZooKeeper ({JAR}): install Debian's package zookeeper."


def _install() -> None:
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "zookeeper"]):
            subprocess.run(command, env=environment, capture_output=True, check=False, timeout=300)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"srvr")
            return connection.recv(100).startswith(b"Zookeeper version")
    except OSError:
        return False
