"""The process that runs the SQL sessions of a JobManager: started on demand, ended with it. JobManager side.

    JobManager ── HTTP over a Unix socket in a folder of its own ──► python -m flott.rest.gateway.mounted
               ◄─ a pipe: the job of each query that has started; its end is the end of the other side ─

Functions of users and the planner run there and never in the JobManager. The JobManager makes the socket and listens
before the process is there, so a request that comes meanwhile waits. Other users cannot reach the socket, so it needs
no secret.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flott.runtime.jobmanager.processes.job_process import child_environment
from flott.runtime.jobmanager.programs import PROPERTIES_VARIABLE
from flott.runtime.logs.output_file import OutputFile
from flott.runtime.logs.rotation import Rotation

log = logging.getLogger("flott.cluster")

#: What the Table API needs, by the names of the modules.
MODULES = ("numpy", "pyarrow")
INSTALL = "pip install 'flott[sql]'"
OUTPUT_FILE = "sql.out"

#: How long the process has to end its queries when it is told to end, in seconds.
FAREWELL_SECONDS = 5.0
#: How often the size of its output is looked at.
_LOOK_SECONDS = 1.0
#: A path of a Unix socket is shorter than this, in bytes.
_MAX_PATH = 104
_SOCKET = "socket"


def missing_packages() -> tuple[str, ...]:
    """Return the modules that the Table API needs and that are not installed. Nothing is imported."""
    return tuple(name for name in MODULES if importlib.util.find_spec(name) is None)


@dataclass(frozen=True)
class EndedProcess:
    """How the last process ended."""

    code: int
    expected: bool  #: it was told to end, or had nothing to do


class SqlProcess:
    """One process with all SQL sessions. ``on_end`` gets the jobs of queries that it may have left running."""

    def __init__(
        self,
        properties: Callable[[], Mapping[str, str]],
        output: Path,
        rotation: Rotation,
        on_end: Callable[[EndedProcess, Sequence[str]], None],
        command: Sequence[str] = ("-P", "-m", "flott.rest.gateway.mounted"),
    ):
        self.path = ""
        self._on_end = on_end
        self._queries: list[str] = []
        self._told_to_end = threading.Event()
        self._folder = _short_folder()
        self._output = OutputFile(output, rotation)
        try:
            self._process = self._started(command, properties())
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        log.info("The process of SQL sessions has been started (%d).", self._process.pid)
        self._listener = threading.Thread(target=self._listen, name="sql-process", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Return whether the process is there and may be asked."""
        return self._listener.is_alive() and self._process.poll() is None

    def end(self, patience_s: float = FAREWELL_SECONDS) -> None:
        """Have it end its queries and then itself; end it at once if that takes too long."""
        self._told_to_end.set()
        with suppress(ProcessLookupError):
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        self._kill_group()
        self._listener.join(patience_s)

    def _started(self, command: Sequence[str], properties: Mapping[str, str]) -> subprocess.Popen[bytes]:
        self.path = str(self._folder / _SOCKET)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")},
            "PYTHONPATH": child_environment()["PYTHONPATH"],
            PROPERTIES_VARIABLE: json.dumps(dict(properties)),
        }
        self._line, theirs = socket.socketpair()
        output = self._output.open()
        try:
            with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
                listening.bind(self.path)
                listening.listen(128)
                return subprocess.Popen(
                    [sys.executable, *command, str(listening.fileno()), str(theirs.fileno())],
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=[listening.fileno(), theirs.fileno()],
                    env=environment,
                    start_new_session=True,
                )
        except BaseException:
            self._line.close()
            raise
        finally:
            os.close(output)

    def _listen(self) -> None:
        """Take in the jobs of queries until the process has ended, then clean up behind it."""
        unread = b""
        self._line.settimeout(_LOOK_SECONDS)
        while True:
            self._output.bound()
            try:
                received = self._line.recv(4096)
            except TimeoutError:
                if self._process.poll() is not None:  # what it has started may keep the pipe open
                    break
                continue
            except OSError:
                break
            if not received:
                break
            *lines, unread = (unread + received)[-4096:].split(b"\n")
            self._queries += [line.decode("ascii", "replace") for line in lines]
            del self._queries[:-1000]
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LOOK_SECONDS)
        self._kill_group()
        code = self._process.wait()
        self._line.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        ended = EndedProcess(code, self._told_to_end.is_set() or code == 0)
        log.log(
            logging.INFO if ended.expected else logging.ERROR,
            "The process of SQL sessions has ended with exit code %d%s.",
            code,
            "" if ended.expected else f": its sessions are lost, and {self._output.path} has what it said",
        )
        self._on_end(ended, tuple(self._queries))

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _short_folder() -> Path:
    """Return a new folder, which only this user may enter, with a path that is short enough for a socket in it."""
    made = Path(tempfile.mkdtemp(prefix="flott-sql-"))
    if len(os.fsencode(made / _SOCKET)) < _MAX_PATH:
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="flott-sql-", dir="/tmp"))
