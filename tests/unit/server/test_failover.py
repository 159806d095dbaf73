"""Two JobManagers, real processes without Spark: when the one that leads dies or stops, the other goes on, exactly."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.runtime.jobmanager.jobs import counting, counts, submission_of, wait_for
from tests.unit.server.standby import Standby

EVEN = dict.fromkeys(range(5), 600)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Standby, Standby]]:
    """One that leads, and one that stands by."""
    first = Standby(tmp_path / "first", tmp_path / "shared")
    wait_for(first.leads)
    second = Standby(tmp_path / "second", tmp_path / "shared")
    yield first, second
    for standby in (first, second):
        standby.end()


def test_a_standby_says_who_leads_and_does_nothing_else(pair: tuple[Standby, Standby]):
    first, second = pair
    answer = second.get("/jobs/overview")
    assert answer.status_code == 503
    assert first.url in answer.json()["errors"][0]
    assert list(answer.json()) == ["errors"]


def test_a_leader_killed_in_mid_epoch_is_followed_by_the_standby_and_results_are_exact(
    pair: tuple[Standby, Standby], tmp_path: Path
):
    first, second = pair
    job = submission_of(counting(tmp_path / "out", records=3000, rate=600), "survivor")
    first.submit(job)
    wait_for(lambda: first.epochs(job.job_id) >= 3)
    first.process.kill()
    wait_for(second.leads)
    wait_for(lambda: second.status(job.job_id) == "FINISHED")
    assert counts(tmp_path / "out") == EVEN
    assert second.get(f"/jobs/{job.job_id}").json()["name"] == "survivor"


def test_a_leader_that_was_stopped_and_wakes_up_after_its_time_changes_nothing(
    pair: tuple[Standby, Standby], tmp_path: Path
):
    first, second = pair
    job = submission_of(counting(tmp_path / "out", records=3000, rate=600), "zombie")
    first.submit(job)
    wait_for(lambda: first.epochs(job.job_id) >= 3)
    process = _job_process(first)
    for pid in (first.process.pid, process):
        os.kill(pid, signal.SIGSTOP)
    wait_for(second.leads)
    wait_for(lambda: second.epochs(job.job_id) >= 2)
    for pid in (process, first.process.pid):  # the job first: it still believes in its leader
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: second.status(job.job_id) == "FINISHED")
    wait_for(lambda: not first.leads())
    assert counts(tmp_path / "out") == EVEN


def test_a_leader_that_ends_in_good_order_is_followed_at_once(pair: tuple[Standby, Standby], tmp_path: Path):
    first, second = pair
    job = submission_of(counting(tmp_path / "out", records=3000, rate=600), "heir")
    first.submit(job)
    wait_for(lambda: first.epochs(job.job_id) >= 2)
    first.process.terminate()
    assert first.process.wait(120) == 0
    assert not (first.folder / "cluster.json").exists()
    wait_for(second.leads)
    wait_for(lambda: second.status(job.job_id) == "FINISHED")
    assert counts(tmp_path / "out") == EVEN


def _job_process(standby: Standby) -> int:
    children = Path(f"/proc/{standby.process.pid}/task").glob("*/children")
    found = [int(pid) for file in children for pid in file.read_text().split()]
    return next(pid for pid in found if b"job_runner" in Path(f"/proc/{pid}/cmdline").read_bytes())
