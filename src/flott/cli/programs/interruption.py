"""Handles Ctrl-C while a job is followed, by asking the user. Main thread.

The question is asked inside the signal handler, so that a program that waits for its job continues to wait after the
answer. A second Ctrl-C, or any if there is no terminal, detaches from the job.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from flott.cli.programs.job_watch import JobWatch
from flott.cli.terminal import Terminal
from flott.client.operations import await_operation, trigger
from flott.errors import FlottError
from flott.runtime.orders import StopWithSavepoint

if TYPE_CHECKING:
    from flott.client.rest_client import RestClient


class Detached(KeyboardInterrupt):
    """Raised in the program to detach from the job; the program sees an ordinary Ctrl-C."""

    def __init__(self, job_id: str, interrupted: bool):
        super().__init__(job_id)
        self.job_id = job_id
        self.interrupted = interrupted  #: the user was not asked


class Interruption:
    """A context in which Ctrl-C asks the user. ``can_detach``: whether the job can continue without this process."""

    def __init__(self, terminal: Terminal, client: RestClient, watch: JobWatch, *, can_detach: bool):
        self._terminal = terminal
        self._client = client
        self._watch = watch
        self._can_detach = can_detach
        self._before: Any = None
        self.detached: Detached | None = None  #: the exception that ended the program, if there was one

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _first(self, number: int, frame: FrameType | None) -> None:
        job_id = self._watch.running
        if job_id is None:
            raise KeyboardInterrupt
        if not self._terminal.interactive:
            self._leave(job_id, interrupted=True)
        signal.signal(signal.SIGINT, lambda *_: self._leave(job_id, interrupted=True))
        self._watch.pause()
        try:
            self._act(job_id, self._ask())
        except EOFError:
            self._leave(job_id, interrupted=True)
        finally:
            signal.signal(signal.SIGINT, self._first)
            self._watch.resume()

    def _ask(self) -> str:
        if self._can_detach:
            question = "(d)etach from the running job, (c)ancel it, (s)top it with a savepoint, or (g)o on watching?"
            return self._terminal.ask(f"\n{question}", "dcsg")
        return self._terminal.ask("\n(c)ancel the job, (s)top it with a savepoint, or (g)o on?", "csg")

    def _act(self, job_id: str, answer: str) -> None:
        try:
            match answer:
                case "d":
                    self._leave(job_id, interrupted=False)
                case "c":
                    self._client.patch(f"/jobs/{job_id}", mode="cancel")
                    self._terminal.note(f"Cancelling job {job_id}.")
                case "s":
                    self._stop(job_id)
        except FlottError as error:
            self._terminal.warn(f"{error} The job continues.")

    def _stop(self, job_id: str) -> None:
        self._terminal.note("Stopping with a savepoint …")
        operation = trigger(self._client, job_id, StopWithSavepoint())
        outcome = await_operation(self._client, operation.status_path)
        self._terminal.note(f"Savepoint completed. Path: {outcome['location']}")

    def _leave(self, job_id: str, interrupted: bool) -> None:
        if not self._can_detach:
            raise KeyboardInterrupt
        self.detached = Detached(job_id, interrupted)
        raise self.detached
