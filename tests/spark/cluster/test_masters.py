"""Spark's standalone master, with real workers: executors come, die and are replaced, and results are the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster.conftest import TALLY, Session, counts, found_session, wait_for
from tests.spark.cluster.standalone import WORKER_MEMORY, StandaloneCluster
from tests.spark.driver_process import DriverProcess

#: One executor on each worker, with JVMs that start quickly.
SPARK = {
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
#: Small epochs, so that what dies dies in the middle.
SMALL_EPOCHS = {"flott.epoch.max-records": "100", "flott.epoch.initial-records": "100", "parallelism.default": "2"}
#: An executor may die with what others are about to read: as in Flink, such an epoch is one for the restart strategy.
RESTARTS = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "10"}


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master without workers."""
    cluster = StandaloneCluster(tmp_path_factory.mktemp("standalone"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What machines of a cluster have: a Python that knows nothing of Flott."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], timeout=300, check=True)
    return str(folder / "bin" / "python")


def task_managers(session: Session) -> list[dict[str, Any]]:
    return list(session.rest.get("/taskmanagers")["taskmanagers"])


def test_a_session_waits_for_workers_and_goes_on_when_they_come_and_when_one_dies(
    sessions: Callable[..., Session], standalone: StandaloneCluster, bare_python: str, tmp_path: Path
) -> None:
    settings = {"spark.master": standalone.url, "spark.pyspark.python": bare_python, **SPARK}
    session = sessions(**settings, **{"execution.checkpointing.dir": tmp_path / "checkpoints"})

    # No worker: there is nothing to run on, and the job says so.
    job = session.submit(tmp_path / "out", "--rate", "200", settings=SMALL_EPOCHS | RESTARTS)
    waiting = wait_for(lambda: session.rest.get(f"/jobs/{job}").get("waiting-for"), 300)
    assert waiting.startswith(f"No executor is registered with Spark ({standalone.url}), so there are no slots.")
    assert f"waits for slots: {waiting[:40]}" in session.cli("status", job)
    assert session.rest.get("/overview")["slots-total"] == 0
    assert task_managers(session) == []

    # A worker joins, and another one.
    worker = standalone.add_worker()
    session.await_epochs(job, 1)
    assert any(line.startswith(bare_python) for line in worker.processes().values()), "workers run what was configured"
    assert "waiting-for" not in session.rest.get(f"/jobs/{job}")
    second = standalone.add_worker()
    found = wait_for(lambda: both if len(both := task_managers(session)) == 2 else None, 300)
    for one in found:
        assert one["slotsNumber"] == 1
        assert 0 <= one["freeSlots"] <= 1
        assert 0 < one["hardware"]["freeMemory"] <= one["hardware"]["physicalMemory"] <= WORKER_MEMORY << 20
        assert session.rest.get("/overview")["slots-total"] == 2
    beats = {one["id"]: one["timeSinceLastHeartbeat"] for one in found}
    wait_for(lambda: all(one["timeSinceLastHeartbeat"] > beats[one["id"]] for one in task_managers(session)), 300)
    used = wait_for(lambda: both if len(both := hosts_of(session, job)) == 2 else None, 300)
    assert used == set(beats)

    # A machine dies with all that ran on it.
    second.kill_tree()
    [left] = wait_for(lambda: one if len(one := task_managers(session)) == 1 else None, 300)
    assert left["id"] in beats
    done = session.rest.get(f"/jobs/{job}/checkpoints")["counts"]["completed"]
    session.await_epochs(job, done + 2)
    assert hosts_of(session, job) == {left["id"]}
    session.cli("stop", job, "-p", tmp_path / "savepoints")
    session.await_status(job, "FINISHED")
    assert_exact(tmp_path / "out")


def assert_exact(output: Path) -> None:
    """What the job wrote is what it would have written undisturbed: the first numbers, each counted once."""
    found = counts(output)  # of each key without gap or repetition
    assert len(found) == 5
    assert max(found.values()) - min(found.values()) <= 1


def hosts_of(session: Session, job: str) -> set[str]:
    """The executors on which the job's subtasks ran last."""
    vertices = [vertex["id"] for vertex in session.rest.get(f"/jobs/{job}")["vertices"]]
    details = [session.rest.get(f"/jobs/{job}/vertices/{vertex}") for vertex in vertices]
    return {subtask["taskmanager-id"] for detail in details for subtask in detail["subtasks"]}


def test_an_application_whose_executors_come_and_go_between_its_epochs_gives_exact_results(
    standalone: StandaloneCluster, bare_python: str, tmp_path: Path
) -> None:
    standalone.keep_workers(1)
    settings = {
        **SPARK,
        "spark.pyspark.python": bare_python,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.executorIdleTimeout": "1s",
        "flott.epoch.min-interval": "4s",
        "flott.storage.sync": "false",
        "flott.cluster.dir": str(tmp_path / "application"),
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    options = [f"-D{key}={value}" for key, value in settings.items()]
    program = [str(TALLY), str(tmp_path / "out"), "--rate", "20"]
    command = ["-m", "flott.cli", "run", "--target", standalone.url, "-p", "1", *options, *program]
    process = DriverProcess(command, tmp_path / "work")
    try:
        session = found_session(process, tmp_path / "application")
        [job] = wait_for(lambda: session.rest.get("/jobs/overview")["jobs"], 300)
        # All that held the state go, and others take over.
        first = wait_for(lambda: {one["id"] for one in task_managers(session)}, 300)
        session.await_epochs(job["jid"], 1)
        wait_for(lambda: not first & {one["id"] for one in task_managers(session)}, 300)
        wait_for(lambda: (used := hosts_of(session, job["jid"])) and not used & first, 300)
        session.cli("stop", job["jid"], "-p", tmp_path / "savepoints")
        assert "the program is done" in process.wait(300).expect_success().stdout
    finally:
        process.kill_tree()
    assert_exact(tmp_path / "out")


TWICE = """
import pathlib
from flott.errors import ConfigurationError
from flott.runtime.spark.session import spark_context

for master in ("spark:/nowhere", "local[1]"):
    try:
        print(spark_context({"spark.master": master}, pathlib.Path("spark.log")).parallelize([1, 2]).sum())
    except ConfigurationError as error:
        print(error)
"""


def test_a_master_that_cannot_be_used_is_named_with_the_reason_and_another_start_may_follow(
    start_driver: Callable[..., DriverProcess],
) -> None:
    process = start_driver("-c", TWICE)
    refused, computed = process.wait(300).expect_success().stdout.splitlines()
    assert refused.startswith("Spark could not be started with the master spark:/nowhere: ")
    assert "Could not parse Master URL: 'spark:/nowhere'" in refused
    assert computed == "3"
