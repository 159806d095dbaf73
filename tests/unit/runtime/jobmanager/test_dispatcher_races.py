"""The Dispatcher when several things happen at once: orders, deaths, the loss of Spark, the end of a job."""

from __future__ import annotations

import itertools
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.errors import JobEndedError, JobNotFoundError
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.job_life_cycle import RestartRules
from flott.runtime.jobmanager.processes.channel import Assignment
from flott.runtime.jobmanager.processes.job_process import JobProcessListener
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmaster.lifecycle import STATUS_MOVES
from flott.runtime.orders import CancelJob, Order
from tests.unit.runtime.jobmanager.jobs import wait_for
from tests.unit.runtime.jobmanager.puppets import JOB, RESULT, Puppet, Stage

pytestmark = pytest.mark.usefixtures("puppets")


class Lingering(Puppet):
    """A process that takes a while to die."""

    def kill(self) -> None:
        self.killed = True


class Obedient(Puppet):
    """A process that ends its job when it is told to."""

    def order(self, order: Order[Any]) -> Future[Any]:
        answer = super().order(order)
        if isinstance(order, CancelJob):
            threading.Thread(target=self._obey, args=(answer,)).start()
        return answer

    def _obey(self, answer: Future[Any]) -> None:
        with self.listening, suppress(InvalidStateError):  # it died before
            answer.set_result(True)
            self.end(JobStatus.CANCELED)


def together(*actions: Callable[[], object]) -> None:
    """Do all of it at the same moment, each in a thread of its own."""
    barrier = threading.Barrier(len(actions))

    def act(action: Callable[[], object]) -> None:
        barrier.wait()
        action()

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


def test_a_process_that_hangs_after_its_job_has_ended_is_killed_and_cleaned_up_after(tmp_path: Path):
    stage = Stage(tmp_path, rules=RestartRules(first_pause=0.01, clean_up_seconds=0.05))
    process = stage.submit()
    now = SystemClock().now_ms()
    end = process.view(JobStatus.FINISHED, end_ms=now, checkpoint_directory=str(tmp_path / "checkpoints"))
    assert process.listener.on_ended(process, end, RESULT)
    wait_for(lambda: process.killed)
    wait_for(lambda: not stage.dispatcher.archive.untidy())
    assert (stage.view.status, Puppet.made) == (JobStatus.FINISHED, [process])


def test_a_job_gets_no_other_process_while_the_one_that_lost_spark_is_still_there(
    stage: Stage
):
    stage.start = Lingering
    process = stage.submit()
    process.say(JobStatus.RUNNING)
    stage.dispatcher.restart_processes()
    assert process.killed
    asked = stage.dispatcher.order(JOB, CancelJob())
    stage.dispatcher.tick()
    stage.dispatcher.tick()
    assert Puppet.made == [process]
    process.exit(-9)
    assert asked.result(120) is None
    assert stage.view.status is JobStatus.CANCELED
    assert Puppet.made == [process]


def test_the_loss_of_spark_is_no_death_of_the_jobs_own(tmp_path: Path):
    stage = Stage(tmp_path, **{"flott.cluster.job-process.restarts": "1"})
    process = stage.submit()
    process.say(JobStatus.RUNNING)
    for _ in range(3):
        stage.dispatcher.restart_processes()
        assert stage.view.status is JobStatus.RESTARTING
        assert "Spark" in stage.view.failures[0].text
        process = stage.next(process)
        process.say(JobStatus.RUNNING)
    process.exit(1)
    assert stage.view.status is JobStatus.RESTARTING
    stage.next(process).exit(1)
    assert stage.view.status is JobStatus.FAILED
    stage.dispatcher.close(at_once=True)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), OSError(12, "Cannot allocate memory")])
def test_a_process_that_cannot_be_followed_is_started_later(
    stage: Stage, error: Exception
):
    def refuse(assignment: Assignment, listener: JobProcessListener) -> Puppet:
        raise error

    stage.start = refuse
    stage.dispatcher.submit(JobSubmission(JOB, "puppet", {}, b"graph"), {}).result(120)
    assert str(error) in stage.view.failures[0].text
    stage.start = Puppet
    wait_for(lambda: Puppet.made)


def test_whatever_goes_wrong_with_one_thing_that_is_due_all_else_is_done(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    failed = threading.Event()

    def forget(now_ms: int) -> list[str]:
        failed.set()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stage.dispatcher.archive, "forget_old", forget)
    assert failed.wait(120)
    process = stage.submit()
    process.exit(1)
    assert stage.next(process) is not process


def test_a_job_whose_failure_is_being_written_cannot_be_cancelled_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    stage = Stage(tmp_path, **{"flott.cluster.job-process.restarts": "0"})
    process = stage.submit()
    writing, written = threading.Event(), threading.Event()
    put = stage.dispatcher.archive.put

    def slow(*arguments: Any) -> Any:
        writing.set()
        assert written.wait(120)
        return put(*arguments)

    monkeypatch.setattr(stage.dispatcher.archive, "put", slow)
    dying = threading.Thread(target=process.exit, args=(1,))
    dying.start()
    assert writing.wait(120)
    with pytest.raises(JobEndedError, match="has failed"):
        stage.dispatcher.order(JOB, CancelJob()).result(120)
    assert stage.view.status is not JobStatus.CANCELLING
    written.set()
    dying.join(120)
    assert stage.view.status is JobStatus.FAILED
    assert JobStatus.CANCELLING not in stage.view.timestamps
    stage.dispatcher.close(at_once=True)


def test_who_cancels_a_job_that_ends_and_is_forgotten_at_once_is_answered(tmp_path: Path):
    stage = Stage(tmp_path, **{"jobstore.max-capacity": "0"})
    process = stage.submit()
    asked = stage.dispatcher.order(JOB, CancelJob())
    assert process.end(JobStatus.FINISHED)
    with pytest.raises(JobNotFoundError):
        asked.result(120)
    stage.dispatcher.close(at_once=True)


@pytest.mark.parametrize("seed", range(40))
def test_however_orders_and_deaths_coincide_a_cancelled_job_ends_and_has_one_process_at_a_time(
    tmp_path: Path, seed: int
):
    stage = Stage(tmp_path, start=Obedient, **{"flott.cluster.job-process.restarts": "1000"})
    dispatcher, process = stage.dispatcher, stage.submit()
    if seed % 2:
        process.say(JobStatus.RUNNING)
    answers: list[Future[None]] = []
    actions: list[Callable[[], object]] = [
        lambda: answers.append(dispatcher.order(JOB, CancelJob())),
        lambda: answers.append(dispatcher.order(JOB, CancelJob())),
        lambda: stage.present().exit(1),
        lambda: stage.present().say(JobStatus.RUNNING),
        dispatcher.tick,
        dispatcher.restart_processes,
    ]
    random.Random(seed).shuffle(actions)
    together(*actions)
    wait_for(lambda: stage.view.status is JobStatus.CANCELED)
    for answer in answers:
        assert answer.result(120) is None
    wait_for(lambda: all(puppet.gone.is_set() for puppet in Puppet.made))
    # Each was started after the one before it was gone.
    assert all(before.died < after.born for before, after in itertools.pairwise(Puppet.made))
    dispatcher.close(at_once=True)


#: The Dispatcher shows CANCELLING as soon as it is asked to cancel. The job may fail before it receives the order.
SHOWN_MOVES = {**STATUS_MOVES, JobStatus.CANCELLING: STATUS_MOVES[JobStatus.CANCELLING] | {JobStatus.FAILING}}
REACHABLE: dict[JobStatus, set[JobStatus]] = {}
for _status in SHOWN_MOVES:
    _found, _new = {_status}, {_status}
    while _new:
        _new = {to for at in _new for to in SHOWN_MOVES[at]} - _found
        _found |= _new
    REACHABLE[_status] = _found


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_of_events_the_shown_status_moves_as_the_table_says(tmp_path: Path, seed: int):
    stage = Stage(tmp_path, **{"flott.cluster.job-process.restarts": "3"})
    stage.submit()
    pick = random.Random(seed)
    shown = [stage.view.status]
    asked: list[Future[None]] = []
    lives: dict[Puppet, Iterator[JobStatus]] = defaultdict(lambda: iter([JobStatus.INITIALIZING, JobStatus.CREATED]))

    def step() -> None:
        process = stage.present()
        match pick.randrange(8):
            case 0:
                asked.append(stage.dispatcher.order(JOB, CancelJob()))
            case 1:
                process.exit(1)
            case 2:
                stage.dispatcher.restart_processes()
            case 3:
                stage.dispatcher.tick()
            case 4 if not process.gone.is_set():
                told = stage.view.status is JobStatus.CANCELLING
                process.end(pick.choice([JobStatus.CANCELED if told else JobStatus.FINISHED, JobStatus.FAILED]))
            case _ if not process.gone.is_set():
                process.say(next(lives[process], JobStatus.RUNNING))

    for _ in range(30):
        step()
        shown.append(stage.view.status)
        assert shown[-1] in REACHABLE[shown[-2]], shown
    if stage.view.status.is_globally_terminal_state():
        assert all(answer.done() for answer in asked)
        assert stage.dispatcher.result(JOB).status is stage.view.status
    stage.dispatcher.close(at_once=True)
