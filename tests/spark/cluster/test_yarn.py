"""YARN as Spark's master: the JobManager asks it for executors, and results are the same. With FLOTT_TEST_YARN=1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.spark.cluster.conftest import TALLY, Session, counts, run_cli, wait_for
from tests.spark.cluster.test_masters import bare_python, hosts_of, task_managers
from tests.spark.cluster.yarn import YarnCluster, start_yarn

__all__ = ["bare_python"]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    cluster = start_yarn(tmp_path_factory.mktemp("yarn"))
    yield cluster
    cluster.stop()


def test_when_tasks_of_a_session_wait_for_slots_yarn_is_asked_for_another_executor(
    sessions: Callable[..., Session],
    yarn: YarnCluster,
    bare_python: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
    session = sessions(**yarn.settings, **{
        "spark.executor.instances": "1",
        "spark.pyspark.python": bare_python,
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "slotmanager.number-of-slots.max": "2",
    })  # fmt: skip
    [first] = wait_for(lambda: task_managers(session), 300)
    assert (first["slotsNumber"], first["freeSlots"]) == (1, 1)
    assert first["hardware"]["physicalMemory"] == 512 << 20
    job = session.submit(tmp_path / "out", settings={"parallelism.default": "3"})  # as fast as it can
    both = wait_for(lambda: found if len(found := task_managers(session)) == 2 else None, 300)
    assert "Asked Spark for 2 executors in all" in session.rest.text("/jobmanager/log")
    assert wait_for(lambda: used if len(used := hosts_of(session, job)) == 2 else None, 300) == {
        one["id"] for one in both
    }
    session.cli("stop", job, "-p", tmp_path / "savepoints")
    assert len(counts(tmp_path / "out")) == 5  # each without gap or repetition
    assert len(task_managers(session)) == 2


def test_an_application_on_yarn_gives_the_same_results_as_locally(
    yarn: YarnCluster, bare_python: str, tmp_path: Path
) -> None:
    settings = {
        **yarn.settings,
        "spark.pyspark.python": bare_python,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    options = [f"-D{key}={value}" for key, value in settings.items()]
    program = ["-p", "2", "--target", "yarn", TALLY, tmp_path / "out", "--records", "2500"]
    ran = run_cli("run", *options, *program, environment={"HADOOP_CONF_DIR": str(yarn.configuration)})
    assert ran.returncode == 0, ran.stderr
    assert "the program is done" in ran.stdout
    assert counts(tmp_path / "out") == dict.fromkeys(range(5), 500)
