"""Pipelined jobs in a session: they occupy their cores, are rescaled, stopped, cancelled, and say what is missing.

Everything under them dies, at random moments: they continue from their checkpoints, and their results are exact.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.spark.cluster.conftest import TALLY, Session, counts, found_session, start_session, wait_for
from tests.spark.cluster.test_recovery import java
from tests.spark.driver_process import DriverProcess

PIPELINED = {
    "execution.mode": "pipelined",
    "parallelism.default": "2",
    "execution.checkpointing.interval": "300 ms",
    "flott.progress": "off",
}


@pytest.fixture
def three_cores(tmp_path: Path) -> Iterator[Session]:
    """A session of its own: other jobs would take its cores."""
    session = start_session(tmp_path / "cluster", spark__master="local[3]")
    yield session
    session.process.kill_tree()


@pytest.mark.long
def test_pipelined_jobs_of_a_session(three_cores: Session, tmp_path: Path) -> None:
    session = three_cores
    first = session.submit(tmp_path / "first", "--rate", "200", settings=PIPELINED)
    session.await_epochs(first, 2)

    short = {"slot.request.timeout": "15 s", "restart-strategy.type": "none"}
    second = session.submit(tmp_path / "second", "--rate", "200", settings={**PIPELINED, **short})
    wait_for(lambda: any("needs 2 cores of Spark" in told for told in waits(session, second)))
    assert all("1 of 3 are free" in told and f"held by job {first}" in told for told in waits(session, second))
    wait_for(lambda: session.status(second) == "FAILED")
    assert "needs 2 cores of Spark" in json.dumps(session.rest.get(f"/jobs/{second}/exceptions"))
    assert "needs 2 cores of Spark" in session.cli("logs", second)

    session.cli("rescale", first, "1")
    wait_for(lambda: {vertex["parallelism"] for vertex in session.rest.get(f"/jobs/{first}")["vertices"]} == {1})
    third = session.submit(tmp_path / "third", "--rate", "200", settings=PIPELINED)
    session.await_epochs(third, 2)  # the rescaled job has given a core back

    savepoint = json.loads(session.cli("--json", "stop", third, "-p", tmp_path / "sp"))["savepoint"]
    session.await_status(third, "FINISHED")
    again = {**PIPELINED, "execution.state-recovery.path": savepoint}
    fourth = session.submit(tmp_path / "third", "--rate", "200", settings=again)
    session.await_epochs(fourth, 2)
    for job in (first, fourth):
        session.cli("cancel", job)
        session.await_status(job, "CANCELED")


def waits(session: Session, job: str) -> list[str]:
    """What the subtasks of a job wait for."""
    return [
        subtask["waits-for"]
        for vertex in session.rest.get(f"/jobs/{job}")["vertices"]
        for subtask in session.rest.get(f"/jobs/{job}/vertices/{vertex['id']}/backpressure").get("subtasks", [])
        if "waits-for" in subtask
    ]


# --- death -----------------------------------------------------------------------------------------------------------


def kill_workers(session: Session) -> None:
    for pid, line in session.process.processes().items():
        if "pyspark.daemon" in line:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def kill_jvm(session: Session) -> None:
    os.kill(java(session), signal.SIGKILL)


def completed(session: Session, job: str) -> int:
    latest = session.rest.get(f"/jobs/{job}/checkpoints")["latest"]["completed"]
    return int(latest["id"]) if latest else 0


def restored(session: Session, job: str) -> int:
    """Return the checkpoint that the job has continued from last."""
    latest = session.rest.get(f"/jobs/{job}/checkpoints")["latest"]["restored"]
    return int(latest["id"]) if latest else 0


def go_on(session: Session, job: str) -> bool:
    """Return whether the job completes checkpoints again."""
    before = completed(session, job)
    return bool(wait_for(lambda: completed(session, job) > before + 1, 300))


def kill_at_random(session: Session, job: str, kills: list[Callable[[Session], None]], random: Random) -> None:
    """Kill at moments while tasks run and checkpoints are taken; the job continues after each."""
    for kill in kills:
        assert go_on(session, job)
        time.sleep(random.uniform(0, 0.5))
        before = restored(session, job)
        kill(session)
        wait_for(lambda before=before: restored(session, job) > before, 300)
    assert go_on(session, job)


def numeric(session: Session, job: str, name: str) -> float:
    found = session.rest.get(f"/jobs/{job}/metrics", get=name)
    return float(found[0]["value"]) if found else 0.0


def stop_and_expect_exact(session: Session, job: str, output: Path, savepoints: Path) -> None:
    session.cli("stop", job, "-p", savepoints)
    found = counts(output)  # of each key without gap or repetition
    assert len(found) == 5
    assert max(found.values()) - min(found.values()) <= 1, "no record is missing"


RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "100"}


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_pipelined_job_of_a_session_survives_workers_its_process_and_the_jvm(
    seed: int, sessions: Callable[..., Session], tmp_path: Path
) -> None:
    session, random = sessions(), Random(f"session:{seed}")
    job = session.submit(tmp_path / "out", "--rate", "200", settings={**PIPELINED, **RESTARTS})

    def kill_process_of_job(session: Session) -> None:
        os.kill(session.rest.get(f"/jobs/{job}")["process"], signal.SIGKILL)

    kills = [kill_workers, kill_jvm, kill_process_of_job]
    random.shuffle(kills)
    kill_at_random(session, job, kills, random)
    stop_and_expect_exact(session, job, tmp_path / "out", tmp_path / "savepoints")
    session.await_status(job, "FINISHED")


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_pipelined_application_survives_workers_and_its_jvm(seed: int, tmp_path: Path) -> None:
    settings = {
        **PIPELINED, **RESTARTS, "rest.port": "0", "flott.storage.sync": "false",
        "flott.cluster.dir": tmp_path / "application", "execution.checkpointing.dir": tmp_path / "checkpoints",
    }  # fmt: skip
    options = [f"-D{key}={value}" for key, value in settings.items()]
    program = [str(TALLY), str(tmp_path / "out"), "--rate", "200"]
    process = DriverProcess(["-m", "flott.cli", "run", "--target", "local[2]", *options, *program], tmp_path / "work")
    random = Random(f"application:{seed}")
    try:
        session = found_session(process, tmp_path / "application")
        [job] = wait_for(lambda: session.rest.get("/jobs/overview")["jobs"], 300)
        kills = [kill_workers, kill_jvm]
        random.shuffle(kills)
        kill_at_random(session, job["jid"], kills, random)
        stop_and_expect_exact(session, job["jid"], tmp_path / "out", tmp_path / "savepoints")
        assert "the program is done" in process.wait(300).expect_success().stdout
    finally:
        process.kill_tree()


# --- adaptive --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_an_adaptive_job_shows_its_changes_in_rest_and_in_metrics(
    sessions: Callable[..., Session], tmp_path: Path
) -> None:
    session = sessions()
    job = session.submit(
        tmp_path / "out", "--rate", "100", settings={**PIPELINED, "execution.mode": "adaptive"}
    )  # it has caught up from the beginning
    wait_for(lambda: session.rest.get(f"/jobs/{job}")["execution-mode"] == "pipelined", 300)
    detail = session.rest.get(f"/jobs/{job}")
    assert [change["mode"] for change in detail["execution-mode-changes"]] == ["pipelined"]
    assert (numeric(session, job, "isPipelined"), numeric(session, job, "numModeChanges")) == (1, 1)
    assert go_on(session, job)
    assert numeric(session, job, "numRestarts") == 0
    stop_and_expect_exact(session, job, tmp_path / "out", tmp_path / "savepoints")
