"""The process of a job when it cannot begin: what the JobManager hears, and whether the job is tried again."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest

from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError, LeadershipLostError, StorageError
from flott.runtime.cluster import job_runner
from flott.runtime.cluster.channel import Acknowledged, Assignment, Ended, Line, Request, SuspendOrder, Viewed
from flott.runtime.cluster.job_runner import JobRunner
from flott.runtime.cluster.job_view import NEVER
from flott.runtime.cluster.submission import JobSubmission
from tests.unit.runtime.cluster.jobs import wait_for


class Died(BaseException):
    """Where the process would have."""


class Process:
    """A job's process, played in a thread: its end of the line is ours to read."""

    made: ClassVar[list[Process]] = []

    def __init__(self, folder: Path, prepare: Callable[[], Any]):
        self.line, theirs = map(Line, multiprocessing.Pipe())
        submission = JobSubmission("ab" * 16, "job", {}, b"")
        self.runner = JobRunner(theirs, Assignment(submission, {}, folder / "files", folder / "logs", 0, None))
        self.runner._prepare = lambda *_: prepare()  # type: ignore[method-assign]
        self.died = threading.Event()
        self.made.append(self)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.runner.run()
        except Died:
            self.died.set()

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
        process.line.close()
    # They learn that nobody is there any more while it is not this process that dies of it.
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == "take_orders"])
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
    assert process.died.wait(10), "and is started again by the JobManager"


@pytest.mark.parametrize("error", [ConfigurationError("no such option"), SystemExit(3), MemoryError()])
def test_a_job_that_can_never_begin_fails_with_the_reason(tmp_path: Path, died: threading.Event, error: BaseException):
    process = Process(tmp_path, failing(error))
    said = process.says()
    assert isinstance(said, Ended)
    assert said.view.status is said.result.status is JobStatus.FAILED
    assert said.result.failure.name == type(error).__name__
    assert not died.is_set()
    process.line.send(Acknowledged())
    process.thread.join(10)
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
    process.line.send(Request(1, SuspendOrder()))
    assert died.wait(10)
    suspended.set()
    assert process.died.wait(10)
