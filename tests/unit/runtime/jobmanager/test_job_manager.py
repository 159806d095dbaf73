"""A JobManager and real processes of jobs, without Spark: what is promised when jobs, processes and it itself end."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from flott.common import Configuration
from flott.common.job_status import JobStatus
from flott.errors import FlottError, JobEndedError, JobNotFoundError, SubmissionError
from flott.runtime.jobmanager.inspection.questions import PageRows, PreviewRecords
from flott.runtime.jobmanager.job_manager import JobManager
from flott.runtime.jobmanager.job_store import has_ended
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.orders import (
    CancelJob,
    ExplainWatermark,
    RescaleJob,
    StopWithSavepoint,
    TakeCheckpoint,
    TakeSavepoint,
)
from tests.unit.runtime.jobmanager.jobs import (
    await_epoch,
    await_status,
    counting,
    counts,
    running,
    submission_of,
    submit,
    wait_for,
)

EVEN = dict.fromkeys(range(5), 400)


@pytest.fixture
def cluster(tmp_path: Path):
    with running(tmp_path / "cluster") as manager:
        yield manager


def test_a_job_runs_to_its_end_and_is_remembered(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out"), "numbers")
    view = await_status(cluster, job, JobStatus.FINISHED)
    assert counts(tmp_path / "out") == EVEN
    assert [v.name for v in view.vertices]
    assert sum(v.traffic.records_in for v in view.vertices if v.inputs) == 2000
    result = cluster.result(job)
    assert result is not None
    assert result.status is JobStatus.FINISHED
    assert list(view.timestamps)[-1] is JobStatus.FINISHED
    # A finished job needs its checkpoints no more; its process deletes them once the end is durable.
    wait_for(lambda: not list((tmp_path / "cluster" / "checkpoints").iterdir()))
    assert has_ended(tmp_path / "cluster" / "jobs" / job)


def test_a_process_that_is_killed_is_started_again_and_results_are_exact(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", rate=1000), "killed")
    for epochs in (3, 6):
        process = await_epoch(cluster, job, epochs).process
        os.kill(process, signal.SIGKILL)
        wait_for(lambda gone=process: cluster.job(job).process not in (0, gone))
    view = await_status(cluster, job, JobStatus.FINISHED)
    assert counts(tmp_path / "out") == EVEN
    assert cluster.result(job).status is JobStatus.FINISHED
    assert view.end_ms >= view.start_ms


def test_a_job_whose_process_keeps_dying_fails_and_says_so(tmp_path: Path):
    with running(tmp_path / "cluster", **{"flott.cluster.job-process.restarts": "1"}) as cluster:
        job = submit(cluster, counting(tmp_path / "out", change=lambda value: os._exit(3)), "mortal")
        view = await_status(cluster, job, JobStatus.FAILED)
        assert "exited with code 3" in view.failures[0].text
        assert cluster.result(job).failure is not None


def test_jobs_left_by_a_jobmanager_that_ended_go_on_with_the_next(tmp_path: Path):
    with running(tmp_path / "cluster") as first:
        job = submit(first, counting(tmp_path / "out", rate=1000), "handed on")
        await_epoch(first, job)
    with running(tmp_path / "cluster") as second:
        assert second.job(job).name == "handed on"
        await_status(second, job, JobStatus.FINISHED)
    assert counts(tmp_path / "out") == EVEN


def test_what_a_jobmanager_knew_of_ended_jobs_the_next_one_knows(tmp_path: Path):
    with running(tmp_path / "cluster") as first:
        job = submit(first, counting(tmp_path / "out", records=10), "short")
        await_status(first, job, JobStatus.FINISHED)
    with running(tmp_path / "cluster") as second:
        assert second.job(job).status is JobStatus.FINISHED
        assert second.result(job).status is JobStatus.FINISHED


def test_a_job_is_cancelled_and_its_checkpoints_are_deleted(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "endless")
    await_epoch(cluster, job)
    cluster.order(job, CancelJob()).result(120)
    view = await_status(cluster, job, JobStatus.CANCELED)
    assert JobStatus.CANCELLING in view.timestamps
    counts(tmp_path / "out")
    cluster.order(job, CancelJob()).result(120)  # asked twice is fine
    wait_for(lambda: not list((tmp_path / "cluster" / "checkpoints").iterdir()))


def test_a_job_that_was_cancelled_before_it_ran_is_cancelled(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "regretted")
    cluster.order(job, CancelJob()).result(120)
    await_status(cluster, job, JobStatus.CANCELED)


def test_orders_are_carried_out_while_the_job_goes_on(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "ordered")
    await_epoch(cluster, job, 1)
    path = cluster.order(job, TakeSavepoint(str(tmp_path / "savepoints"))).result(120)
    assert Path(path, "_metadata").is_file()
    checkpoint = cluster.order(job, TakeCheckpoint()).result(120)
    assert checkpoint > 1
    cluster.order(job, RescaleJob(3)).result(120)
    wait_for(lambda: cluster.job(job).parallelism == 3)
    assert "numbers" in str(cluster.order(job, ExplainWatermark()).result(120))
    saved = cluster.job(job).checkpoints.latest_savepoint
    assert saved is not None
    assert saved.path == path
    cluster.dispose_savepoint(path).result(120)
    assert not Path(path).exists()
    with pytest.raises(FlottError):
        cluster.dispose_savepoint(path).result(120)
    stopped = cluster.order(job, StopWithSavepoint(target=str(tmp_path / "savepoints"))).result(120)
    assert Path(stopped).is_dir()
    await_status(cluster, job, JobStatus.FINISHED)
    written = sum(counts(tmp_path / "out").values())
    again = counting(tmp_path / "out", records=written + 500, **{"execution.state-recovery.path": stopped})
    await_status(cluster, submit(cluster, again, "continued"), JobStatus.FINISHED)
    assert sum(counts(tmp_path / "out").values()) == written + 500


def test_an_order_that_cannot_be_carried_out_fails_and_the_job_goes_on(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "patient")
    await_epoch(cluster, job)
    with pytest.raises(Exception, match="savepoint-dir"):
        cluster.order(job, TakeSavepoint()).result(120)
    with pytest.raises(Exception, match="no operator"):
        cluster.order(job, RescaleJob(2, "nobody")).result(120)
    before = cluster.job(job).checkpoints.completed
    await_epoch(cluster, job, before + 2)


def test_one_job_that_fails_touches_no_other(cluster: JobManager, tmp_path: Path):
    good = submit(cluster, counting(tmp_path / "good", rate=1500), "good")
    bad = submit(
        cluster, counting(tmp_path / "bad", change=lambda v: 1 // (v - 100), **{"restart-strategy.type": "none"}), "bad"
    )
    view = await_status(cluster, bad, JobStatus.FAILED)
    assert "ZeroDivisionError" in view.failures[0].text
    await_status(cluster, good, JobStatus.FINISHED)
    assert counts(tmp_path / "good") == EVEN
    assert cluster.job(good).restarts == 0


def test_a_job_that_waits_for_slots_is_told_who_has_them(
    cluster: JobManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jobs = [submit(cluster, counting(tmp_path / name, records=None, rate=100), name) for name in ("one", "two")]
    monkeypatch.setattr(
        cluster.resources, "waiting", lambda views: {jobs[0]: " and ".join(sorted(view.name for view in views))}
    )
    assert cluster.job(jobs[0]).waiting_for == "one and two"
    assert cluster.job(jobs[1]).waiting_for is None


def test_a_job_that_cannot_even_be_read_fails_with_the_reason(cluster: JobManager):
    job = JobSubmission("ab" * 16, "garbage", {}, b"no pickle")
    cluster.submit(job, {}).result(120)
    view = await_status(cluster, job.job_id, JobStatus.FAILED)
    assert view.failures[0].name == "SubmissionError"


def test_a_job_is_refused_before_it_is_kept_if_its_options_are_wrong(cluster: JobManager, tmp_path: Path):
    job = JobSubmission("cd" * 16, "typo", {"paralelism.default": "2"}, b"")
    with pytest.raises(Exception, match=r"parallelism\.default"):
        cluster.submit(job, {}).result(120)
    with pytest.raises(JobNotFoundError):
        cluster.job(job.job_id)
    assert not list((tmp_path / "cluster" / "jobs").iterdir())


def test_the_same_job_twice_is_refused(cluster: JobManager, tmp_path: Path):
    submission = submission_of(counting(tmp_path / "out", records=10), "twice")
    cluster.submit(submission, {}).result(120)
    with pytest.raises(SubmissionError, match="already"):
        cluster.submit(submission, {}).result(120)
    await_status(cluster, submission.job_id, JobStatus.FINISHED)
    with pytest.raises(SubmissionError, match="already"):
        cluster.submit(submission, {}).result(120)


def test_questions_about_jobs_nobody_knows_and_orders_to_ended_ones_are_refused(cluster: JobManager, tmp_path: Path):
    with pytest.raises(JobNotFoundError):
        cluster.job("ab" * 16)
    with pytest.raises(JobNotFoundError):
        cluster.order("ab" * 16, CancelJob()).result(120)
    job = submit(cluster, counting(tmp_path / "out", records=10), "short")
    await_status(cluster, job, JobStatus.FINISHED)
    with pytest.raises(JobEndedError):
        cluster.order(job, CancelJob()).result(120)
    with pytest.raises(JobEndedError):
        cluster.order(job, TakeCheckpoint()).result(120)


def test_a_job_knows_nothing_of_the_jobmanagers_secrets(tmp_path: Path):
    with running(tmp_path / "cluster", **{"flott.rest.token": "sesame", "restart-strategy.type": "none"}) as cluster:
        job = submit(cluster, counting(tmp_path / "out", records=10), "curious")
        view = await_status(cluster, job, JobStatus.FINISHED)
        assert "flott.rest.token" not in view.configuration
        assert view.configuration["restart-strategy.type"] == "none", "the cluster's options are a job's defaults"


def test_processes_of_jobs_end_when_the_jobmanager_is_gone(tmp_path: Path):
    manager = JobManager(Configuration.of({"flott.cluster.dir": str(tmp_path), "execution.target": "in-process"}))
    manager.start()
    job = submit(manager, counting(tmp_path / "out", records=None, rate=500), "orphan")
    process = await_epoch(manager, job).process
    of_job = manager.dispatcher.process_of(job)
    assert of_job is not None
    of_job.hang_up()  # as the death of the JobManager's process does
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}").exists() and "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    manager.close()


def test_a_running_job_is_looked_into_and_continued_from_an_exported_savepoint(cluster: JobManager, tmp_path: Path):
    settings = {"execution.checkpointing.num-retained": "100"}
    job = submit(cluster, counting(tmp_path / "out", None, rate=500, **settings), "looked into")
    await_epoch(cluster, job)
    rows = cluster.inspect(job, PageRows("count", "seen")).result(120)["rows"]
    assert sorted(row["key"]["json"] for row in rows) == [0, 1, 2, 3, 4]
    shown = cluster.inspect(job, PreviewRecords("count", limit=10)).result(240)
    assert (shown["failure"], len(shown["records"])) == (None, min(10, shown["count"]))
    assert all(json.loads(record["value"]["json"])[0] < 5 for record in shown["records"])
    savepoint = cluster.order(job, StopWithSavepoint(target=str(tmp_path / "savepoints"))).result(120)
    await_status(cluster, job, JobStatus.FINISHED)
    epochs = [epoch.epoch for epoch in cluster.history(job).epochs()]
    assert epochs == sorted(set(epochs))
    assert len(epochs) >= 3
    before = counts(tmp_path / "out")
    copy = cluster.export_savepoint(savepoint, str(tmp_path / "backup")).result(120)
    cluster.dispose_savepoint(savepoint).result(120)
    again = cluster.restore(job, copy, allow_non_restored_state=False).result(120)
    assert await_epoch(cluster, again).checkpoints.restored.is_savepoint
    cluster.order(again, StopWithSavepoint(target=str(tmp_path / "savepoints"))).result(120)
    after = counts(tmp_path / "out")  # each number once, though an epoch was run again to be looked at
    assert all(after[key] > before[key] for key in range(5))
