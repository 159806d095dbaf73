"""The process of one job, as the JobManager sees it: started, listened to, given orders. JobManager side.

The process may hang, so no caller waits for it: one thread writes to it, and another one reads.
"""

from __future__ import annotations

import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import flott
from flott.common.configuration import Configuration
from flott.errors import ClusterError, JobEndedError, JobRestartingError
from flott.runtime.jobmanager.folders import OUTPUT_FILE
from flott.runtime.jobmanager.processes.channel import (
    Acknowledged,
    Assignment,
    Ended,
    Line,
    Reply,
    Request,
    Viewed,
)
from flott.runtime.jobmanager.processes.job_log import rotation_of
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.logs.output_file import OutputFile
from flott.runtime.orders import Order

log = logging.getLogger("flott.cluster")

R = TypeVar("R")

#: How often it is looked whether a silent process is still there: what it has started may keep the pipe open.
_LOOK_SECONDS = 1.0
#: How long a process that has hung up may take to exit.
_EXIT_SECONDS = 5.0


class JobProcessListener(Protocol):
    """Listens to the process of a job. A thread of the process calls it."""

    def on_view(self, process: JobProcess, view: JobView) -> None:
        """Take in a new view of the job."""

    def on_ended(self, process: JobProcess, view: JobView, result: JobResultView) -> bool:
        """Take in the end of the job; return whether it is durable, so that the process may delete its files."""

    def on_exit(self, process: JobProcess, code: int, ended: bool) -> None:
        """Take in that the process has ended; ``ended``: after the end of the job was durable."""


class JobProcess:
    """A job's process, from its start to its exit, and all that it has started itself."""

    def __init__(self, assignment: Assignment, listener: JobProcessListener):
        self.job_id = assignment.submission.job_id
        self._listener = listener
        self._numbers = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._ended = False  #: the job, and that is durable
        self._outbox: SimpleQueue[object] = SimpleQueue()
        self._outbox.put(assignment)
        rotation = rotation_of(Configuration.of(assignment.configuration))
        self._output = OutputFile(assignment.log_folder / OUTPUT_FILE, rotation)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = _start(theirs.fileno(), self._output, assignment.echo)
            self._line = Line(Connection(ours.detach()))
        self._thread = threading.Thread(target=self._listen, name=f"job-{self.job_id[:8]}", daemon=True)
        self._thread.start()
        threading.Thread(target=self._write, name=f"to-job-{self.job_id[:8]}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def order(self, order: Order[R]) -> Future[R]:
        """Have something done; fails if the process ends before it is."""
        answer: Future[R] = Future()
        number = next(self._numbers)
        with self._lock:
            if self._gone:
                answer.set_exception(self._no_answer())
                return answer
            self._pending[number] = answer
        self._outbox.put(Request(number, order))  # if it is gone, its listener fails what is pending
        return answer

    def kill(self) -> None:
        """End the process at once. Nothing is lost: its job continues from its last checkpoint."""
        if self._process.poll() is None:
            self._kill_group()

    def hang_up(self) -> None:
        """Close the pipe to the process, which ends at once, as when this process dies."""
        self._line.close()

    def wait(self, timeout: float) -> bool:
        """Wait until it is gone; whether it is."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- its threads -------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            self._line.send(message)

    def _listen(self) -> None:
        try:
            self._take_messages()
        except Exception:
            log.exception("Job %s: what its process said cannot be taken in, so the process is ended.", self.job_id)
            self.kill()
        code = self._reap()
        self._outbox.put(None)
        self._line.close()
        with self._lock:
            self._gone = True
            pending, self._pending = self._pending, {}
        for answer in pending.values():
            with suppress(InvalidStateError):
                answer.set_exception(self._no_answer())
        self._listener.on_exit(self, code, self._ended)

    def _take_messages(self) -> None:
        """Handle messages until the process has closed the pipe or has ended."""
        while True:
            self._output.bound()
            if not self._line.has_news(_LOOK_SECONDS):
                if self._process.poll() is not None:
                    return
                continue
            try:
                message = self._line.receive()
            except EOFError:
                return
            match message:
                case Viewed(view):
                    self._listener.on_view(self, view)
                case Reply():
                    self._answer(message)
                case Ended(view, result):
                    self._ended = self._listener.on_ended(self, view, result)
                    if not self._ended:
                        self.kill()
                        return
                    self._outbox.put(Acknowledged())

    def _reap(self) -> int:
        """Wait until the process and everything that it has started are gone; return its exit code."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)
        self._kill_group()
        code = self._process.wait()
        self._output.bound()
        return code

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _answer(self, reply: Reply) -> None:
        with self._lock:
            answer = self._pending.pop(reply.number, None)
        if answer is not None:
            with suppress(InvalidStateError):  # the caller does not wait any more
                if reply.failure is not None:
                    answer.set_exception(reply.failure)
                else:
                    answer.set_result(reply.value)

    def _no_answer(self) -> ClusterError:
        if self._ended:
            return JobEndedError(f"Job {self.job_id} ended before it could answer.")
        return JobRestartingError(f"The process of job {self.job_id} died before it could answer.")


def _start(descriptor: int, output: OutputFile, echo: bool) -> subprocess.Popen[bytes]:
    out = output.open()
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flott.runtime.jobmanager.processes.job_runner", str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=None if echo else out,
            stderr=None if echo else out,
            pass_fds=[descriptor],
            env=child_environment(),
            start_new_session=True,  # a terminal's Ctrl-C is the JobManager's to answer
        )
    finally:
        os.close(out)


def child_environment() -> dict[str, str]:
    """Return the environment variables without the settings of the JobManager, its secrets among them.

    Flott may be on the path by other means than an installation.
    """
    source = str(Path(flott.__file__).parent.parent)
    inherited = os.environ.get("PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if not _is_own(name)}
    return {**environment, "PYTHONPATH": os.pathsep.join([source, *([inherited] if inherited else [])])}


def _is_own(variable: str) -> bool:
    return variable.startswith(("FLOTT_", "PYSPARK_GATEWAY")) and variable != "FLOTT_HOME"
