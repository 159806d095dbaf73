"""What all real servers for tests have in common: downloads that are kept, a process that can be killed and restarted.

Downloads are kept in ``~/.cache/flott/servers``, one folder each. Several test processes may want the same one at the
same time: the first one downloads it, into a folder that gets its name when it is complete.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

#: How long a server may take to answer on a machine that is busy. It is a watchdog: servers need seconds.
START_SECONDS = 240.0


class NoServer(Exception):
    """There is no server to be had here; the text says why."""


def free_port() -> int:
    """Return a port of the loopback address that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cached(name: str) -> Path:
    """Return the folder that keeps the download of this name. Its parent exists."""
    folder = Path("~/.cache/flott/servers").expanduser() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def filling(folder: Path) -> Iterator[Path | None]:
    """Give a folder to download into, which then becomes ``folder``; None if it is there already."""
    with open(folder.with_name(f".{folder.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        draft = folder.with_name(f".{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        yield draft
        draft.rename(folder)


def maven(name: str, artifacts: Sequence[str]) -> Path:
    """Return a folder with the jars of these artifacts (``group:id:version``) and all that they need."""
    folder = cached(name)
    with filling(folder) as draft:
        if draft is None:
            return folder
        if shutil.which("mvn") is None:
            raise NoServer(f"no {name}: its jars are not in {folder}, and there is no Maven (mvn) to fetch them with")
        wanted = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            "</dependency>"
            for group, artifact, version in (artifact.split(":") for artifact in artifacts)
        )
        pom = draft / "pom.xml"
        pom.write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>flott</groupId><artifactId>server</artifactId><version>1</version>"
            f"<dependencies>{wanted}</dependencies></project>"
        )
        _run(name, ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={draft}"])
        pom.unlink()
    return folder


def debian(program: str, package: str, *, install: bool = True) -> str:
    """Return the path of a program of a Debian package, which is installed if this process may do so."""
    if found := shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
        return found
    if not install or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoServer(f"no {program}: install Debian's package {package}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with open(cached(f".{package}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
            _run(program, command, environment)
    return debian(program, package, install=False)


def _run(name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    try:
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=500)
    except (subprocess.SubprocessError, OSError) as error:
        output = getattr(error, "stdout", None) or b""
        raise NoServer(f"no {name}: {command[0]} failed ({error}) {output.decode(errors='replace')[-500:]}") from error


class ServerProcess:
    """A server of its own process, which can be stopped, killed, paused, and started again with what it stored."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        answers: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ):
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = list(command)
        self._folder = folder
        self._answers = answers
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """Start it without waiting."""
        with open(self.log, "ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def await_answer(self, seconds: float = START_SECONDS) -> None:
        """Wait until it answers; raises with the end of its log if it ends instead."""
        deadline = time.monotonic() + seconds
        while not self._answers():
            if not self.is_running or time.monotonic() > deadline:
                log = self.log.read_text(errors="replace")[-2000:]
                self.kill()
                raise RuntimeError(f"{self.name} did not start:\n{log}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End it by SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, seconds: float = 20) -> None:
        """End it by SIGTERM, and by SIGKILL if that takes too long."""
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            self.kill()

    def restart(self) -> None:
        """Kill it and start it again."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Let it answer nothing, without closing a connection (SIGSTOP). Returns when all its threads have stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        while not all(_is_stopped(thread) for thread in Path(f"/proc/{self.pid}/task").iterdir()):
            time.sleep(0.001)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)


def _is_stopped(thread: Path) -> bool:
    """Return whether a thread stands still: a signal is on its way for a moment, in which a server can still answer."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
