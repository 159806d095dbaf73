"""The Dispatcher with processes that do as they are told: every order of events, without waiting for real ones."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.errors import ClusterError, JobEndedError, JobNotFoundError, LeadershipLostError, SubmissionError
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import SystemClock
from flott.runtime.jobmanager.job_life_cycle import RestartRules
from flott.runtime.jobmanager.job_store import has_ended
from flott.runtime.jobmanager.submission import JobFile, JobSubmission
from flott.runtime.jobmanager.views.job_view import EpochView, FailureView
from flott.runtime.jobmaster.lifecycle import STATUS_MOVES
from flott.runtime.orders import CancelJob, SuspendJob, TakeCheckpoint
from flott.runtime.storage import PosixStorage
from flott.runtime.storage.posix_fence import PosixFence
from tests.unit.runtime.jobmanager.jobs import wait_for
from tests.unit.runtime.jobmanager.puppets import JOB, RESULT, Puppet, Stage

pytestmark = pytest.mark.usefixtures("puppets")


# --- deaths ----------------------------------------------------------------------------------------------------------


def test_through_deaths_it_is_one_job_that_moves_as_the_table_says(stage: Stage):
    process = stage.submit()
    seen = [stage.view.status]
    started = stage.view.start_ms

    def say(puppet: Puppet, status: JobStatus, **facts: Any) -> None:
        puppet.say(status, **facts)
        seen.append(stage.view.status)

    old = FailureView("ValueError", "user", 98)
    for status in (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING):
        say(process, status, restarts=2, failures=(old,), metrics={"numRestarts": 2})
    process.exit(-9)
    seen.append(stage.view.status)
    second = stage.next(process)
    for status in (JobStatus.INITIALIZING, JobStatus.CREATED, JobStatus.RUNNING):
        say(second, status, metrics={"numRestarts": 0})
    assert stage.view.restarts == 3
    assert stage.view.metrics["numRestarts"] == 3
    assert [failure.name for failure in stage.view.failures] == ["JobProcessDied", "ValueError"]
    assert "SIGKILL" in stage.view.failures[0].text
    assert second.end(JobStatus.FINISHED)
    seen.append(stage.view.status)
    distinct = [status for number, status in enumerate(seen) if number == 0 or status is not seen[number - 1]]
    assert all(after in STATUS_MOVES[before] for before, after in itertools.pairwise(distinct)), distinct
    assert JobStatus.RESTARTING in distinct
    assert stage.view.start_ms == started
    assert stage.view.timestamps[JobStatus.INITIALIZING] >= started
    assert stage.dispatcher.result(JOB).net_runtime_ms >= stage.view.end_ms - started


def test_the_history_of_a_job_goes_on_through_deaths_and_its_end(stage: Stage):
    process = stage.submit()
    epochs = [EpochView(n, 0, 1000 * n, 1, 1, 0, {"run": 5.0}, 0, 1, False) for n in range(1, 4)]
    process.say(JobStatus.RUNNING, epochs=tuple(epochs[:2]))
    process.exit(-9)
    second = stage.next(process)
    second.say(JobStatus.RUNNING, epochs=(epochs[2],))
    history = stage.dispatcher.history(JOB)
    assert [epoch.epoch for epoch in history.epochs()] == [1, 2, 3]
    assert any(event.kind == "failure" and "SIGKILL" in event.text for event in history.events())
    assert second.end(JobStatus.FINISHED)
    assert stage.dispatcher.history(JOB) is history
    assert "FINISHED" in [event.text for event in history.events()]
    with pytest.raises(JobNotFoundError):
        stage.dispatcher.history("f" * 32)


def test_the_program_of_an_ended_job_is_submitted_again_from_a_savepoint(stage: Stage, tmp_path: Path):
    (tmp_path / "lib.zip").write_bytes(b"code")
    settings = {"execution.savepoint.path": "/s/0", "execution.state-recovery.claim-mode": "CLAIM", "spark.x": "kept"}
    submission = JobSubmission(JOB, "puppet", settings, b"graph", (JobFile("lib.zip", "python"),))
    stage.dispatcher.submit(submission, {"lib.zip": tmp_path / "lib.zip"}).result(120)
    process = stage.present()
    process.say(JobStatus.RUNNING)
    with pytest.raises(SubmissionError, match="is running"):
        stage.dispatcher.submit_again(JOB, "/s/1", False)
    assert process.end(JobStatus.FINISHED)
    again = stage.dispatcher.submit_again(JOB, "/s/1", True)
    assert again != JOB
    started = stage.next(process).assignment
    assert started.submission.job_id == again
    assert started.submission.graph == b"graph"
    assert dict(started.submission.configuration) == {
        "spark.x": "kept",
        "execution.state-recovery.path": "/s/1",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    assert (started.files / "lib.zip").read_bytes() == b"code"
    assert (stage.folders.jobs / JOB / "files" / "lib.zip").read_bytes() == b"code"  # it can be done again
    with pytest.raises(JobNotFoundError):
        stage.dispatcher.submit_again("f" * 32, "/s/1", False)


def test_what_an_old_process_says_late_is_not_believed(stage: Stage):
    process = stage.submit()
    process.exit(1)
    second = stage.next(process)
    second.say(JobStatus.RUNNING)
    process.say(JobStatus.FAILING)
    assert stage.view.status is JobStatus.RUNNING
    process.listener.on_exit(process, 1, False)
    assert stage.present() is second


def test_a_process_that_cannot_be_started_is_tried_again_and_the_job_is_not_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Puppet, "starts", 0)
    stage.dispatcher.submit(JobSubmission(JOB, "puppet", {}, b"graph"), {}).result(120)
    assert stage.view.status is JobStatus.RESTARTING
    assert "temporarily unavailable" in stage.view.failures[0].text
    monkeypatch.setattr(Puppet, "starts", 1)
    wait_for(lambda: Puppet.made)


def test_too_many_deaths_are_the_end_of_the_job(tmp_path: Path):
    stage = Stage(tmp_path, **{"flott.cluster.job-process.restarts": "1"})
    process = stage.submit()
    process.exit(3)
    stage.next(process).exit(3)
    assert stage.view.status is JobStatus.FAILED
    assert JobStatus.FAILING in stage.view.timestamps
    assert "exited with code 3" in stage.dispatcher.result(JOB).failure.text
    assert has_ended(tmp_path / "jobs" / JOB)


def test_a_restart_that_is_due_and_one_that_is_ordered_start_one_process(stage: Stage):
    process = stage.submit()
    process.exit(1)
    stage.dispatcher.restart_processes()
    stage.dispatcher.tick()
    stage.dispatcher.tick()
    stage.next(process)
    stage.dispatcher.tick()
    assert len(Puppet.made) == 2
    stage.dispatcher.restart_processes()
    assert stage.view.status is JobStatus.RESTARTING
    wait_for(lambda: len(Puppet.made) == 3)
    assert Puppet.made[1].killed


# --- cancelling ------------------------------------------------------------------------------------------------------


def test_a_job_that_is_told_to_end_is_cancelling_until_it_has(stage: Stage):
    process = stage.submit()
    process.say(JobStatus.RUNNING)
    asked = stage.dispatcher.order(JOB, CancelJob())
    assert not asked.done()
    order, answer = process.orders[0]
    assert isinstance(order, CancelJob)
    answer.set_result(True)
    assert asked.result(120) is None
    process.say(JobStatus.RUNNING)  # from before it took notice
    assert stage.view.status is JobStatus.CANCELLING
    assert process.end(JobStatus.CANCELED)
    assert stage.view.status is JobStatus.CANCELED


def test_a_job_that_dies_while_it_is_cancelled_is_cancelled_and_not_started_again(stage: Stage):
    process = stage.submit()
    process.say(JobStatus.RUNNING)
    asked = stage.dispatcher.order(JOB, CancelJob())
    process.exit(-11)
    assert asked.result(120) is None
    assert stage.view.status is JobStatus.CANCELED
    assert JobStatus.CANCELLING in stage.view.timestamps
    assert len(Puppet.made) == 1


def test_a_job_that_finished_before_it_was_told_to_end_has_finished(stage: Stage):
    process = stage.submit()
    asked = stage.dispatcher.order(JOB, CancelJob())
    assert process.end(JobStatus.FINISHED)
    with pytest.raises(JobEndedError, match="FINISHED"):
        asked.result(120)


def test_a_job_without_a_process_is_cancelled_by_one_that_only_cleans_up(tmp_path: Path):
    stage = Stage(tmp_path, rules=RestartRules(first_pause=60.0))
    process = stage.submit()
    process.exit(1)
    with pytest.raises(ClusterError, match="no process at the moment"):
        stage.dispatcher.order(JOB, TakeCheckpoint()).result(120)
    assert stage.dispatcher.order(JOB, CancelJob()).result(120) is None
    assert stage.view.status is JobStatus.CANCELLING
    last = stage.next(process)
    wait_for(lambda: last.orders)
    assert isinstance(last.orders[0][0], CancelJob)
    last.say(JobStatus.INITIALIZING)
    assert stage.view.status is JobStatus.CANCELLING
    assert last.end(JobStatus.CANCELED)
    assert stage.view.status is JobStatus.CANCELED


def test_a_process_that_does_not_end_its_job_in_time_is_killed(stage: Stage):
    process = stage.submit(**{"task.cancellation.timeout": "20ms"})
    stage.dispatcher.order(JOB, CancelJob())
    wait_for(lambda: stage.view.status is JobStatus.CANCELED)
    assert process.killed


# --- ends ------------------------------------------------------------------------------------------------------------


def test_a_process_may_forget_its_job_only_when_the_end_is_durable(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    process = stage.submit()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage.dispatcher.archive, "put", full)
    told: list[bool] = []
    ending = threading.Thread(target=lambda: told.append(process.end(JobStatus.FINISHED)))
    ending.start()
    stage.dispatcher.close(at_once=True)
    ending.join(120)
    assert told == [False]
    assert Stage(stage.folders.own).recovered == 1, "the next JobManager goes on with it"


def test_nobody_is_told_of_an_end_before_it_is_durable(stage: Stage):
    process = stage.submit()
    process.say(JobStatus.RUNNING)
    process.say(JobStatus.FINISHED)
    assert stage.view.status is JobStatus.RUNNING
    assert process.end(JobStatus.FINISHED)
    assert stage.view.status is JobStatus.FINISHED
    assert stage.dispatcher.result(JOB) is not None


def test_a_disk_that_has_room_again_takes_the_end(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    process = stage.submit()
    put, failures = stage.dispatcher.archive.put, [OSError(28, "No space left on device")]

    def full_at_first(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return put(*arguments)

    monkeypatch.setattr(stage.dispatcher.archive, "put", full_at_first)
    assert process.end(JobStatus.FINISHED)
    assert stage.view.status is JobStatus.FINISHED


def _checkpoints_of(stage: Stage, job_id: str = JOB) -> str:
    """A directory of checkpoints, as a job leaves it that was killed."""
    root = str(stage.folders.checkpoints / job_id)
    store = CheckpointStore(PosixStorage(root))
    store.claim("puppet")
    store.release()
    return root


@pytest.mark.parametrize(("status", "kept"), [(JobStatus.FINISHED, False), (JobStatus.FAILED, True)])
def test_checkpoints_a_process_did_not_live_to_delete_are_deleted(stage: Stage, status: JobStatus, kept: bool):
    process = stage.submit(**{"execution.checkpointing.externalized-checkpoint-retention": "DELETE_ON_CANCELLATION"})
    root = _checkpoints_of(stage)
    facts = {"checkpoint_directory": root, "configuration": process.assignment.configuration}
    view = process.view(status, end_ms=SystemClock().now_ms(), **facts)
    assert process.listener.on_ended(process, view, RESULT)
    process.exit(-9, ended=True)
    assert Path(root).exists() is kept


def test_checkpoints_a_jobmanager_did_not_live_to_delete_are_deleted_by_the_next(stage: Stage):
    process = stage.submit()
    root = _checkpoints_of(stage)
    view = process.view(JobStatus.FINISHED, end_ms=SystemClock().now_ms(), checkpoint_directory=root)
    assert process.listener.on_ended(process, view, RESULT)
    following = Stage(stage.folders.own)  # the first one is not heard of any more
    assert following.recovered == 0
    assert following.view.status is JobStatus.FINISHED
    wait_for(lambda: not Path(root).exists())
    wait_for(lambda: not following.dispatcher.archive.untidy())
    following.dispatcher.close()


def test_ended_jobs_that_are_forgotten_leave_nothing_behind(tmp_path: Path):
    stage = Stage(tmp_path, **{"jobstore.max-capacity": "2"})
    for number in range(5):
        process = stage.submit(f"{number:032x}")
        log_folder = process.assignment.log_folder
        log_folder.mkdir(parents=True)
        (log_folder / "job.log").touch()
        assert process.end(JobStatus.FINISHED)
    assert len(os.listdir(tmp_path / "jobs")) == len(os.listdir(tmp_path / "logs" / "jobs")) == 2
    assert len(stage.dispatcher.jobs()) == 2


def test_a_job_that_has_ended_is_not_run_again(stage: Stage):
    process = stage.submit()
    assert process.end(JobStatus.FINISHED)
    following = Stage(stage.folders.own)
    assert following.recovered == 0
    assert following.view.status is JobStatus.FINISHED


def test_an_id_stays_taken_when_its_job_can_be_read_no_more(stage: Stage):
    process = stage.submit()
    assert process.end(JobStatus.FINISHED)
    (stage.folders.jobs / JOB / "end.json").write_bytes(b"")
    following = Stage(stage.folders.own)
    with pytest.raises(SubmissionError, match="already"):
        following.submit()


# --- the JobManager's own end ----------------------------------------------------------------------------------------


def test_nothing_is_started_or_taken_in_by_a_jobmanager_that_ends(stage: Stage):
    process = stage.submit()
    stage.dispatcher.close()
    assert isinstance(process.orders[0][0], SuspendJob)
    for job_id in (JOB, "cd" * 16):
        with pytest.raises(ClusterError, match="is ending"):
            stage.dispatcher.submit(JobSubmission(job_id, "late", {}, b""), {}).result(120)
    stage.dispatcher.tick()
    assert len(Puppet.made) == 1
    assert os.listdir(stage.folders.jobs) == [JOB], "kept"
    assert not has_ended(stage.folders.jobs / JOB)


def test_all_jobs_are_recovered_whatever_becomes_of_one(stage: Stage):
    for number in range(30):
        stage.submit(f"{number:032x}")
    stage.dispatcher.close(at_once=True)
    (stage.folders.jobs / f"{7:032x}" / "graph.pickle").unlink()
    Puppet.made.clear()
    assert Stage(stage.folders.own).recovered == 29
    assert len(Puppet.made) == 29


# --- several JobManagers ---------------------------------------------------------------------------------------------


def test_a_job_that_another_leader_has_taken_is_neither_ended_nor_failed_here(tmp_path: Path):
    stage = Stage(tmp_path, token=1, **{"flott.cluster.job-process.restarts": "0"})
    process = stage.submit()
    for _ in range(3):
        process.say(JobStatus.RUNNING)
        assert process.end(JobStatus.SUSPENDED)
        assert os.listdir(tmp_path / "jobs") == [JOB]
        process = stage.next(process)


def test_a_deposed_leader_takes_no_job_in_and_puts_none_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stage = Stage(tmp_path, token=1, **{"flott.cluster.job-process.restarts": "0"})
    process = stage.submit()
    PosixFence(str(tmp_path / "fence"), 2).claim()
    with pytest.raises(LeadershipLostError):
        stage.submit("cd" * 16)
    dying = threading.Thread(target=process.exit, args=(1,))
    dying.start()
    threading.Event().wait(0.05)
    stage.dispatcher.close(at_once=True)
    dying.join(120)
    assert os.listdir(tmp_path / "jobs") == [JOB]
    assert not has_ended(tmp_path / "jobs" / JOB)


def test_a_job_that_another_leader_has_put_away_has_ended_as_that_one_says(stage: Stage):
    process = stage.submit()
    other = Stage(stage.folders.own)
    assert Puppet.made[-1].end(JobStatus.FINISHED)
    assert process.end(JobStatus.CANCELED)
    assert stage.view.status is JobStatus.FINISHED
    other.dispatcher.close()
