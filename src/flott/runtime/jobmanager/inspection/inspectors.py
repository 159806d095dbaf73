"""The inspectors of a JobManager: a few processes that answer questions about jobs. JobManager side.

    REST ─► Inspectors.ask ─► one of two threads ─► the inspector of the job ─► JSON

An inspector stays for further questions about its job and makes room for another job's. Everything is bounded: the
number of processes and of waiting questions, the time of an answer, and its size.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Protocol

from flott import errors
from flott.errors import ClusterError, FlottError, ProgramError, StateError, UnreachableError
from flott.runtime.jobmanager.inspection.questions import InspectionSubject, PreviewRecords, Question
from flott.runtime.jobmanager.processes.job_process import child_environment

log = logging.getLogger("flott.cluster")

#: So many inspectors run at once.
PROCESSES = 2
#: So many questions wait; further ones are refused.
MAX_WAITING = 16
#: How long an answer may take, in seconds. An inspector answers incompletely before that.
ANSWER_SECONDS = 20.0
PREVIEW_SECONDS = 90.0
#: The maximum size of an answer.
MAX_ANSWER = 16 * 1024 * 1024


class InspectorLine(Protocol):
    """A running inspector."""

    def ask(self, question: Question, timeout_s: float) -> bytes:
        """Return the answer as JSON; raise ``EOFError`` or ``OSError`` if the process is gone, ``TimeoutError``."""

    def close(self) -> None:
        """End the process."""


class Inspectors:
    """All inspectors of a JobManager. Any thread may ask."""

    def __init__(self, start: Callable[[InspectionSubject], InspectorLine] | None = None):
        self._start = start or InspectorProcess
        self._threads = ThreadPoolExecutor(max_workers=PROCESSES, thread_name_prefix="inspect")
        self._lock = threading.Lock()
        self._waiting = 0
        self._idle: dict[str, tuple[InspectionSubject, InspectorLine]] = {}  #: by job, the least recently used first

    def ask(self, subject: InspectionSubject, question: Question) -> Future[dict[str, Any]]:
        """Return the answer to a question. It fails with ``StateError`` if what was asked for is not there."""
        with self._lock:
            if self._waiting >= MAX_WAITING:
                refused: Future[dict[str, Any]] = Future()
                refused.set_exception(
                    UnreachableError(f"{MAX_WAITING} questions about state wait already: ask again later.")
                )
                return refused
            self._waiting += 1
        try:
            future = self._threads.submit(self._answer, subject, question)
        except RuntimeError:  # closed
            future = Future()
            future.set_exception(UnreachableError("The JobManager is ending."))
        future.add_done_callback(self._done)
        return future

    def close(self) -> None:
        """End all inspectors."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            idle, self._idle = list(self._idle.values()), {}
        for _, line in idle:
            line.close()

    def _done(self, _: Future[dict[str, Any]]) -> None:
        with self._lock:
            self._waiting -= 1

    def _answer(self, subject: InspectionSubject, question: Question) -> dict[str, Any]:
        if isinstance(question, PreviewRecords):  # the user's functions may leave anything behind
            line = self._start(subject)
            try:
                return decoded(self._asked(line, question, PREVIEW_SECONDS))
            except (EOFError, OSError) as error:
                raise ClusterError(f"The process that runs the epoch again has ended: {_reason(error)}.") from error
            finally:
                line.close()
        kept = self._take(subject)
        if kept is not None:
            try:
                return self._answered(subject, kept, question)
            except (EOFError, OSError):  # it had nothing to do and has ended
                kept.close()
        try:
            return self._answered(subject, self._start(subject), question)
        except (EOFError, OSError) as error:
            raise ClusterError(f"The process that reads the state of the job has ended: {_reason(error)}.") from error

    def _answered(self, subject: InspectionSubject, line: InspectorLine, question: Question) -> dict[str, Any]:
        try:
            answer = self._asked(line, question, ANSWER_SECONDS)
        except BaseException:
            line.close()
            raise
        self._give_back(subject, line)
        return decoded(answer)

    @staticmethod
    def _asked(line: InspectorLine, question: Question, timeout_s: float) -> bytes:
        try:
            return line.ask(question, timeout_s)
        except TimeoutError:
            raise UnreachableError(f"The answer took longer than {timeout_s:g} s, and was given up.") from None

    def _take(self, subject: InspectionSubject) -> InspectorLine | None:
        """Return an idle inspector of the job. One with another subject, as after a restart, is ended."""
        with self._lock:
            found = self._idle.pop(subject.job_id, None)
        if found is None:
            return None
        if found[0] != subject:
            found[1].close()
            return None
        return found[1]

    def _give_back(self, subject: InspectionSubject, line: InspectorLine) -> None:
        with self._lock:
            gone = [self._idle.pop(subject.job_id, None)]
            while len(self._idle) >= PROCESSES:
                gone.append(self._idle.pop(next(iter(self._idle))))
            self._idle[subject.job_id] = (subject, line)
        for entry in gone:
            if entry is not None:
                entry[1].close()


def _reason(error: Exception) -> str:
    return "it was ended, or a class of the job ended it" if isinstance(error, EOFError) else str(error)


def decoded(answer: bytes) -> dict[str, Any]:
    """Return the answer in a reply, or raise its error. The text comes from a process that runs user code."""
    reply = json.loads(answer)
    if "answer" in reply:
        found: dict[str, Any] = reply["answer"]
        return found
    kind = getattr(errors, str(reply["error"]), ClusterError)
    text = str(reply["text"])[:8192]
    if not (isinstance(kind, type) and issubclass(kind, FlottError)):
        raise ClusterError(text)
    raise StateError(text) if issubclass(kind, StateError) else ProgramError(text)


class InspectorProcess:
    """An inspector that runs in a process."""

    def __init__(self, subject: InspectionSubject):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-P", "-m", "flott.runtime.jobmanager.inspection.inspector", str(theirs.fileno())
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=child_environment(),
                start_new_session=True,
            )  # fmt: skip
            self._line = Connection(ours.detach())
        self._line.send(subject)

    def ask(self, question: Question, timeout_s: float) -> bytes:
        self._line.send(question)
        if not self._line.poll(timeout_s):
            raise TimeoutError
        return self._line.recv_bytes(MAX_ANSWER)

    def close(self) -> None:
        """End the process and all that it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._line.close()
