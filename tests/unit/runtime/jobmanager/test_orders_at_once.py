"""Real processes of jobs that are given several orders at once, or die of one: every order has an outcome."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.errors import FlottError
from flott.runtime.jobmanager.job_manager import JobManager
from flott.runtime.orders import (
    CancelJob,
    CancelWithSavepoint,
    ExplainWatermark,
    RescaleJob,
    SavepointOrder,
    StopWithSavepoint,
    TakeCheckpoint,
    TakeSavepoint,
)
from tests.unit.runtime.jobmanager.jobs import await_epoch, await_status, counting, counts, running, submit, wait_for


@pytest.fixture
def cluster(tmp_path: Path):
    with running(tmp_path / "cluster") as manager:
        yield manager


def stop(cluster: JobManager, job: str, folder: Path, order: SavepointOrder | None = None) -> Future[str]:
    answer: Future[str] = cluster.order(job, replace(order or StopWithSavepoint(), target=str(folder)))
    return answer


def outcomes(futures: list[Future[Any]]) -> tuple[list[Any], list[BaseException]]:
    """What came of orders, all of them: results, and failures."""
    assert not wait(futures, 30).not_done
    failures = [failure for future in futures if (failure := future.exception()) is not None]
    return [future.result() for future in futures if future.exception() is None], failures


def test_of_several_stops_at_once_one_ends_the_job_and_the_others_are_told(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "endless")
    await_epoch(cluster, job)
    kinds = (StopWithSavepoint(), StopWithSavepoint(drain=True), StopWithSavepoint(), CancelWithSavepoint())
    paths, failures = outcomes([stop(cluster, job, tmp_path / "savepoints", kind) for kind in kinds])
    assert len(paths) == 1
    assert Path(paths[0], "_metadata").is_file()
    assert len(failures) == 3
    assert all(isinstance(failure, FlottError) for failure in failures)
    wait_for(lambda: cluster.result(job))
    assert cluster.job(job).status in (JobStatus.FINISHED, JobStatus.CANCELED)


def test_a_stop_whose_process_dies_has_an_outcome_and_the_job_goes_on_without_loss(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=3000, rate=1500), "killed")
    process = await_epoch(cluster, job).process
    stopping = stop(cluster, job, tmp_path / "savepoints")
    os.kill(process, signal.SIGKILL)
    paths, failures = outcomes([stopping])
    if failures:  # it had not got that far
        assert "died before it could answer" in str(failures[0])
        await_status(cluster, job, JobStatus.FINISHED)
        assert counts(tmp_path / "out") == dict.fromkeys(range(5), 600)
    else:
        assert Path(paths[0], "_metadata").is_file()


def test_orders_of_all_kinds_at_once_are_all_carried_out(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "busy")
    await_epoch(cluster, job, 1)
    futures: list[Future[Any]] = []
    for parallelism in (3, 1, 2):
        futures += [
            cluster.order(job, RescaleJob(parallelism)),
            cluster.order(job, TakeSavepoint(str(tmp_path / "savepoints"))),
            cluster.order(job, TakeCheckpoint()),
            cluster.order(job, ExplainWatermark()),
        ]
    assert outcomes(futures)[1] == []
    wait_for(lambda: cluster.job(job).parallelism == 2)
    history = cluster.job(job).checkpoints.history
    taken = [view for view in history if view.savepoint_format is not None]
    assert len({view.path for view in taken}) == len(taken)


def test_orders_that_a_cancel_overtakes_have_an_outcome(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "regretted")
    await_epoch(cluster, job, 1)
    futures: list[Future[Any]] = [
        stop(cluster, job, tmp_path / "savepoints"),
        cluster.order(job, RescaleJob(3)),
        cluster.order(job, CancelJob()),
        cluster.order(job, TakeCheckpoint()),
        cluster.order(job, TakeSavepoint(str(tmp_path / "savepoints"))),
    ]
    outcomes(futures)
    wait_for(lambda: cluster.result(job))
    assert cluster.job(job).status in (JobStatus.CANCELED, JobStatus.FINISHED)


def test_orders_to_a_job_that_is_starting_wait_until_it_has_started(cluster: JobManager, tmp_path: Path):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "early")
    assert outcomes([cluster.order(job, TakeCheckpoint()), cluster.order(job, RescaleJob(3))])[1] == []
    assert cluster.job(job).status is JobStatus.RUNNING


def test_a_job_that_is_stopped_while_it_starts_stops_as_soon_as_there_is_something_to_save(
    cluster: JobManager, tmp_path: Path
):
    job = submit(cluster, counting(tmp_path / "out", records=None, rate=500), "brief")
    assert Path(stop(cluster, job, tmp_path / "savepoints").result(120), "_metadata").is_file()
    await_status(cluster, job, JobStatus.FINISHED)
