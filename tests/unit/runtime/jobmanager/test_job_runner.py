"""The process of a job when it cannot begin, and when it is given orders: what the JobManager hears of it."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NoReturn

import pytest

from flott.common.completable_future import CompletableFuture
from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError, EpochFailure, JobEndedError, LeadershipLostError, StorageError
from flott.runtime.jobmanager.processes import job_runner
from flott.runtime.jobmanager.processes.channel import (
    Acknowledged,
    Assignment,
    Ended,
    Line,
    Reply,
    Request,
    Viewed,
)
from flott.runtime.jobmanager.processes.job_runner import JobRunner
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import NEVER, JobView
from flott.runtime.orders import CancelJob, Order, SuspendJob, TakeCheckpoint
from tests.unit.runtime.jobmanager.jobs import wait_for


class Died(BaseException):
    """Where the process would have."""


class Process:
    """A job's process, played in a thread: its end of the line is ours to read."""

    made: ClassVar[list[Process]] = []

    def __init__(self, folder: Path, prepare: Callable[[], Any], recorder: Any = None, job: Job | None = None):
        self.job = job
        self.line, theirs = map(Line, multiprocessing.Pipe())
        submission = JobSubmission("ab" * 16, "job", {}, b"")
        assignment = Assignment(submission, {}, folder / "files", folder / "logs", 0, None)
        self.recorder = recorder
        self.runner = JobRunner(theirs, assignment, prepare=lambda *_: prepare(), recorder=recorder)
        self.died = threading.Event()
        self.made.append(self)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except Died:
            self.died.set()

    def end(self) -> None:
        """Let the job end, and with it all threads that would end the process of the tests."""
        if self.job is not None:
            self.job.over.set()
        self.line.send(Acknowledged())
        self.thread.join(120)
        assert not self.thread.is_alive()
        self.line.close()

    def says(self) -> Any:
        assert self.line.has_news(10)
        return self.line.receive()


@pytest.fixture
def died(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    noted = threading.Event()

    def die() -> NoReturn:
        noted.set()
        raise Died

    monkeypatch.setattr(job_runner, "_die", die)
    monkeypatch.setattr(job_runner, "log_process_to", lambda *_: None)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # of threads that die with the process
    yield noted
    for process in Process.made:
        process.end()
    # They learn that the JobManager is gone while it is not this process that dies of it.
    wait_for(lambda: not [one for one in threading.enumerate() if one.name in ("take_orders", "send_views")])
    Process.made.clear()


def failing(error: BaseException) -> Callable[[], NoReturn]:
    def prepare() -> NoReturn:
        raise error

    return prepare


def test_storage_that_is_away_is_no_end_of_the_job(tmp_path: Path, died: threading.Event):
    process = Process(tmp_path, failing(StorageError("the disk is away")))
    said = process.says()
    assert isinstance(said, Viewed)
    assert (said.view.status, said.view.end_ms) == (JobStatus.INITIALIZING, NEVER)
    assert said.view.failures[0].text == "the disk is away"
    assert process.died.wait(120), "and is started again by the JobManager"


@pytest.mark.parametrize("error", [ConfigurationError("no such option"), SystemExit(3), MemoryError()])
def test_a_job_that_can_never_begin_fails_with_the_reason(tmp_path: Path, died: threading.Event, error: BaseException):
    process = Process(tmp_path, failing(error))
    said = process.says()
    assert isinstance(said, Ended)
    assert said.view.status is said.result.status is JobStatus.FAILED
    assert said.result.failure.name == type(error).__name__
    assert not died.is_set()
    process.line.send(Acknowledged())
    process.thread.join(120)
    assert not process.thread.is_alive()


def test_a_job_that_another_leader_has_is_left_to_it(tmp_path: Path, died: threading.Event):
    said = Process(tmp_path, failing(LeadershipLostError("token 2"))).says()
    assert isinstance(said, Ended)
    assert said.view.status is JobStatus.SUSPENDED
    assert said.view.failures == ()


def test_a_process_that_is_still_getting_ready_makes_room_at_once(tmp_path: Path, died: threading.Event):
    suspended = threading.Event()

    def prepare() -> NoReturn:
        suspended.wait()
        raise Died

    process = Process(tmp_path, prepare)
    process.line.send(Request(1, SuspendJob()))
    assert died.wait(120)
    suspended.set()
    assert process.died.wait(120)


# --- orders ----------------------------------------------------------------------------------------------------------


class Untold:
    """A result of a user's class, which travels as a text if it can be made one."""

    def __str__(self) -> NoReturn:
        raise TypeError("it does not travel")


class Job:
    """A prepared job that runs until it is told to end, and answers a checkpoint with whatever it was given."""

    def __init__(self, checkpoint: CompletableFuture[Any]):
        self.directory = SimpleNamespace(job_id="ab" * 16)
        self.checkpoint = checkpoint
        self.over = threading.Event()
        self.stubborn = False
        self.on_end: Callable[[JobStatus], None] = lambda status: None
        history = SimpleNamespace(status=JobStatus.RUNNING)
        self.master = SimpleNamespace(
            history=history, submit=self.submit, failure=None, ledger={},
            accumulators={}, metrics={},
        )  # fmt: skip

    def submit(self, order: Order[Any]) -> CompletableFuture[Any]:
        if order == TakeCheckpoint():
            return self.checkpoint
        assert order == CancelJob()
        self.over.set()
        if self.stubborn:
            raise OSError(9, "Bad file descriptor")
        return CompletableFuture.completed(None)

    def run(self) -> None:
        self.over.wait()
        self.on_end(JobStatus.CANCELED)


class Watched:
    """A recorder of a job that nobody can make a view of, or only at the end."""

    def __init__(self, tellable: bool):
        self.tellable = tellable
        self.version = 0

    def view(self) -> JobView:
        self.version += 1
        if not self.tellable:
            raise KeyError("a vertex that nobody has heard of")
        return JobView("ab" * 16, "job", JobStatus.RUNNING, 0)


def begun(tmp_path: Path, job: Job, tellable: bool = True) -> Process:
    return Process(tmp_path, lambda: job, Watched(tellable), job)


def answer_to(process: Process, number: int) -> Reply:
    reply: Reply = wait_for(lambda: said if isinstance(said := process.says(), Reply) else None, 120)
    assert reply.number == number
    return reply


def test_a_job_that_cannot_be_told_to_end_goes_on_hearing_what_it_is_told(tmp_path: Path, died: threading.Event):
    job = Job(CompletableFuture.completed(7))
    job.stubborn = True
    process = begun(tmp_path, job)
    process.runner.ready.wait(120)
    process.line.send(Request(1, CancelJob()))
    assert answer_to(process, 1).failure is None
    wait_for(lambda: isinstance(process.says(), Ended))
    process.line.send(Acknowledged())
    process.thread.join(120)
    assert not process.thread.is_alive(), "it heard that its end is durable"


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (CompletableFuture.completed(Untold()), "does not travel"),
        (CompletableFuture.failed(EpochFailure("the disk is away")), "the disk is away"),
    ],
    ids=["a result that does not travel", "a failure"],
)
def test_every_order_is_answered(tmp_path: Path, died: threading.Event, result: Any, says: str):
    job = Job(result)
    process = begun(tmp_path, job)
    process.line.send(Request(1, TakeCheckpoint()))
    failure = answer_to(process, 1).failure
    assert failure is not None
    assert says in str(failure)
    job.over.set()


def test_an_order_is_answered_though_nobody_can_say_how_the_job_stands(tmp_path: Path, died: threading.Event):
    job = Job(CompletableFuture.completed(7))
    process = begun(tmp_path, job, tellable=False)
    process.line.send(Request(1, TakeCheckpoint()))
    assert answer_to(process, 1).value == 7
    process.recorder.tellable = True
    assert isinstance(process.says(), Viewed), "views are sent again as soon as there are any"
    job.over.set()


def test_an_order_to_a_job_that_never_began_is_told_that_it_has_ended(tmp_path: Path, died: threading.Event):
    process = Process(tmp_path, failing(ConfigurationError("no such option")))
    process.line.send(Request(1, TakeCheckpoint()))
    assert isinstance(process.says(), Ended)
    process.line.send(Acknowledged())
    assert isinstance(answer_to(process, 1).failure, JobEndedError)
