"""Where executors are on other machines, a job's state must be where they can reach it. No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flott.errors import ConfigurationError
from tests.unit.runtime.jobmanager.puppets import Stage

STANDALONE = {"spark.master": "spark://host:7077"}
DIRECTORY = "execution.checkpointing.dir"


@pytest.fixture
def stages(tmp_path: Path, puppets: None) -> Iterator[Callable[..., Stage]]:
    made: list[Stage] = []

    def make(**settings: Any) -> Stage:
        made.append(Stage(tmp_path / str(len(made)), **settings))
        return made[-1]

    yield make
    for stage in made:
        stage.dispatcher.close(at_once=True)


def test_a_job_without_a_directory_is_refused_before_it_is_kept(stages: Callable[..., Stage]) -> None:
    stage = stages(**STANDALONE)
    with pytest.raises(ConfigurationError, match=f"spark://host:7077 .* set {DIRECTORY}"):
        stage.submit()
    with pytest.raises(ConfigurationError, match="spark://host:7077"):
        stage.submit(**{"spark.master": "local[2]"})  # which master it is, is not the job's to say
    assert stage.dispatcher.jobs() == []


@pytest.mark.parametrize(
    ("cluster", "job"),
    [
        ({**STANDALONE, DIRECTORY: "/mnt/state"}, {}),
        (STANDALONE, {DIRECTORY: "/mnt/state"}),
        ({"spark.master": "local-cluster[2,1,1024]"}, {}),
        ({**STANDALONE, "execution.target": "in-process"}, {}),
    ],
    ids=["the cluster's directory", "the job's directory", "executors on this machine", "no executors"],
)
def test_a_job_is_taken_that_all_its_tasks_can_keep_state_for(
    stages: Callable[..., Stage], cluster: dict[str, str], job: dict[str, str]
) -> None:
    process = stages(**cluster).submit(**job)
    assert process.assignment.configuration[DIRECTORY]


def test_with_high_availability_the_clusters_storage_is_shared_already(
    stages: Callable[..., Stage], tmp_path: Path
) -> None:
    stage = stages(shared=tmp_path / "shared", **STANDALONE)
    assert stage.submit().assignment.configuration[DIRECTORY] == str(tmp_path / "shared" / "checkpoints")


def test_the_settings_of_spark_are_the_jobmanagers_whatever_a_job_brings_along(stages: Callable[..., Stage]) -> None:
    stage = stages(**{"spark.master": "local[2]"})
    process = stage.submit(**{"spark.master": "local[64]", "spark.executor.cores": "8", "parallelism.default": "3"})
    found = process.assignment.configuration
    assert found["spark.master"] == "local[2]"
    assert "spark.executor.cores" not in found
    assert found["parallelism.default"] == "3"
