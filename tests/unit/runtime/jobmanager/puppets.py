"""Processes of jobs that do as a test tells them, and the dispatcher that starts them."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from flott.common import Configuration
from flott.common.job_status import JobStatus
from flott.errors import ClusterError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.dispatcher import Dispatcher
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.job_life_cycle import RestartRules
from flott.runtime.jobmanager.processes.channel import Assignment
from flott.runtime.jobmanager.processes.job_process import JobProcessListener
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.orders import Order, SuspendJob
from tests.unit.runtime.jobmanager.jobs import wait_for

JOB = "ab" * 16
QUICK = RestartRules(first_pause=0.01)
RESULT = JobResultView(JOB, JobStatus.FINISHED, 5)


class Puppet:
    """A process of a job, played by the test."""

    made: ClassVar[list[Puppet]] = []
    moments: ClassVar[Iterator[int]] = itertools.count()
    starts: int = 10**9  #: how many of them can be started

    def __init__(self, assignment: Assignment, listener: JobProcessListener):
        if len(self.made) >= self.starts:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        folder = Path(assignment.files).parent
        kept = ["files", "graph.pickle", "submission.json", "untidy"]
        assert sorted(os.listdir(folder)) == kept, "before it is started"
        self.assignment, self.job_id, self.listener = assignment, assignment.submission.job_id, listener
        self.orders: list[tuple[Order[Any], Future[Any]]] = []
        self.killed = False
        self.gone = threading.Event()
        self.listening = threading.RLock()  #: what a process says is heard by one thread, as in life
        self.born, self.died = next(self.moments), math.inf
        self.made.append(self)

    def order(self, order: Order[Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        self.orders.append((order, answer))
        if self.gone.is_set():
            _fail(answer)
        elif isinstance(order, SuspendJob):
            self.exit(0)
        return answer

    def kill(self) -> None:
        self.killed = True
        self.exit(-9)

    def wait(self, timeout: float) -> bool:
        return self.gone.wait(timeout)

    def exit(self, code: int, ended: bool = False) -> None:
        with self.listening:
            if not self.gone.is_set():
                self.died = next(self.moments)
                self.gone.set()
                for _, answer in self.orders:
                    _fail(answer)
                self.listener.on_exit(self, code, ended)

    def say(self, status: JobStatus, **facts: Any) -> None:
        with self.listening:
            self.listener.on_view(self, self.view(status, **facts))

    def end(self, status: JobStatus, **facts: Any) -> bool:
        with self.listening:
            view = self.view(status, end_ms=SystemClock().now_ms(), **facts)
            durable = self.listener.on_ended(self, view, replace(RESULT, status=status))
            if durable:
                self.exit(0, ended=True)
            return durable

    def view(self, status: JobStatus, **facts: Any) -> JobView:
        return JobView(self.job_id, "puppet", status, start_ms=99, timestamps={status: 99}, **facts)


def _fail(answer: Future[Any]) -> None:
    with suppress(InvalidStateError):  # it came before
        answer.set_exception(ClusterError("died"))


class Stage:
    """A dispatcher and its puppets."""

    def __init__(
        self,
        folder: Path,
        token: int = 0,
        *,
        shared: Path | None = None,
        rules: RestartRules = QUICK,
        start: Callable[[Assignment, JobProcessListener], Any] = Puppet,
        **settings: str,
    ):
        self.folders = ClusterFolders(shared or folder, folder)
        self.configuration = Configuration.of(settings)
        self.start = start  #: makes processes; a test may replace it
        self.dispatcher = Dispatcher(
            self.configuration, self.folders, SystemClock(), token, spark=lambda: None, rules=rules, tick_seconds=0.01,
            start_process=lambda assignment, listener: self.start(assignment, listener),
        )  # fmt: skip
        self.recovered = self.dispatcher.recover()

    def submit(self, job_id: str = JOB, **settings: str) -> Puppet:
        self.dispatcher.submit(JobSubmission(job_id, "puppet", settings, b"graph"), {}).result(120)
        return self.present()

    def present(self) -> Puppet:
        return Puppet.made[-1]

    def next(self, after: Puppet) -> Puppet:
        wait_for(lambda: self.present() is not after)
        return self.present()

    @property
    def view(self) -> JobView:
        return self.dispatcher.job(JOB)
