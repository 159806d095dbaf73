"""A JobManager shows the jobs that ended under a former version, and continues those that a former version kept."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.job_store import JobArchive, JobStore
from tests.compatibility.snapshots import FIXTURES
from tests.unit.runtime.jobmanager.jobs import await_status, running

_JOBS = {
    "d75085eff4024f2ba293028d93b0c723": "finished",
    "7f68c812fbcf4ac4ba3ff33d17cee60e": "failed",
    "4da48075655946f0af92e740fc40e95a": "canceled",
}
#: Ids and names of the ended jobs in each generation; each is named after how it ended. The first has ``end.pickle``,
#: the second ``end.json``.
ENDED = {"generation-1": _JOBS, "generation-2": _JOBS}


@pytest.mark.parametrize("generation", ENDED)
def test_ended_jobs_of_a_former_version_are_shown(generation: str, tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "jobmanager" / f"{generation}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    jobs = JobArchive(tmp_path / "jobs", capacity=100, keep_ms=10**15).jobs()
    assert {job.view.job_id: job.view.name for job in jobs} == ENDED[generation]
    assert all(job.view.status.name == job.view.name.upper() for job in jobs)
    assert not JobStore(tmp_path / "jobs").ids(), "an ended job would be run again"
    [failed] = [job for job in jobs if job.view.name == "failed"]
    assert "the test says so" in failed.view.failures[0].text


def test_every_generation_is_tested() -> None:
    assert set(ENDED) == {path.name.partition(".")[0] for path in (FIXTURES / "jobmanager").iterdir()}


def test_all_generations_show_the_same_jobs(tmp_path: Path) -> None:
    shown = []
    for generation in ENDED:
        with tarfile.open(FIXTURES / "jobmanager" / f"{generation}.tar.xz") as archive:
            archive.extractall(tmp_path / generation, filter="data")
        jobs = JobArchive(tmp_path / generation / "jobs", capacity=100, keep_ms=10**15).jobs()
        shown.append({job.view.job_id: (job.view, job.result) for job in jobs})
    assert all(found == shown[0] for found in shown)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="pickled functions are read by the same Python only")
def test_a_job_that_a_former_version_kept_is_recovered_and_runs_to_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with tarfile.open(FIXTURES / "kept-jobs" / "generation-1.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    with running(folder) as cluster:
        view = await_status(cluster, "3c" * 16, JobStatus.FINISHED)
        assert (view.name, view.accumulators["records"][1]) == ("kept", "10")
