"""Subtasks stay with their executors, in every stage, and move only when an executor is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster.namespaces import HostNetwork, why_not
from tests.spark.cluster.standalone import StandaloneCluster
from tests.spark.conftest import StartDriver
from tests.spark.driver_process import SCRIPTS

#: Four executors with a core each, in processes of their own, on one host.
CLUSTER = {"spark.master": "local-cluster[4,1,1024]", "spark.executor.memory": "512m"}
#: Of all epochs of all subtasks, so many per cent may run elsewhere than the epoch before.
MAX_MOVES_PERCENT = 2


@dataclass(frozen=True)
class Stay:
    """What a run of ``scripts/settler.py`` noted."""

    places: list[dict[str, str]]  #: by epoch: the executor of each subtask
    killed: str | None
    restarts: int
    workers: int  #: how many Python processes ran tasks
    held: dict[str, list[list[int]]]  #: the tasks that workers held last, besides the running one, by executor
    read_by: list[str]  #: the executors whose workers have read state files into RocksDB

    @property
    def moves(self) -> list[tuple[int, str]]:
        """The epochs in which a subtask ran elsewhere than in the epoch before, and the subtasks."""
        return [
            (epoch, subtask)
            for epoch, (before, after) in enumerate(pairwise(self.places), start=2)
            for subtask, executor in after.items()
            if before[subtask] != executor
        ]

    @property
    def moves_percent(self) -> float:
        return 100 * len(self.moves) / sum(map(len, self.places))

    @property
    def orphans(self) -> set[str]:
        """The subtasks of the executor that was killed."""
        return {s for places in self.places for s, executor in places.items() if executor == self.killed}

    def expect_own_tasks_only(self) -> None:
        """Workers hold the tasks of their executor's own subtasks, and no other."""
        for executor in set(self.places[-1].values()):
            own = {int(subtask.rpartition("/")[2]) for subtask, ran in self.places[-1].items() if ran == executor}
            assert {position for _, position in self.held.get(executor, [])} <= own


def stay(start_driver: StartDriver, folder: Path, options: dict[str, str], minutes: int = 5, **settings: Any) -> Stay:
    """Run the job to its end. It compares its results itself."""
    content = {"folder": str(folder), "executors": 4, "options": options, **settings}
    ended = start_driver(SCRIPTS / "settler.py", json.dumps(content), folder=folder).wait(60 * minutes)
    return Stay(**json.loads(ended.expect_success().stdout.splitlines()[-1]))


def test_subtasks_stay_with_their_executors_and_move_when_theirs_is_lost(
    start_driver: StartDriver, tmp_path: Path
) -> None:
    found = stay(start_driver, tmp_path / "job", CLUSTER, epochs=12, kill_after=4)
    assert len(found.places) == 12
    assert len(set(found.places[0].values())) == 4, "every executor has its share"
    assert found.orphans
    # With an executor less, one has two tasks of a stage. Spark may give the second one to whichever is free earlier.
    # Then an executor replaces the lost one, and the subtasks have a home again.
    assert {epoch for epoch, _ in found.moves} <= set(range(5, 12))
    assert len(set(found.places[-1].values())) == 4
    assert {subtask for _, subtask in found.moves} == found.orphans
    assert found.workers <= 2 * 5, "Python processes are used again: one for each core, and a spare one"
    found.expect_own_tasks_only()


@pytest.mark.long
def test_slots_of_a_pipelined_job_return_to_their_executors_and_read_no_state_there(
    start_driver: StartDriver, tmp_path: Path
) -> None:
    found = stay(start_driver, tmp_path / "job", CLUSTER, epochs=600, kill_after=2, mode="pipelined")
    assert found.restarts == 1
    assert len(found.places) > 3, "there are checkpoints before and after"
    assert len(set(found.places[0].values())) == 4, "every executor has a slot"
    assert len(set(found.places[-1].values())) == 4
    assert found.orphans
    assert {subtask for _, subtask in found.moves} == found.orphans, "the others returned to their executors"
    assert {epoch for epoch, _ in found.moves} == {3}, "none moves later"
    survivors = {executor for subtask, executor in found.places[0].items() if subtask not in found.orphans}
    assert not survivors & set(found.read_by), "they have their state"


@pytest.mark.long
def test_over_five_hundred_epochs_at_most_two_per_cent_of_subtask_epochs_move(
    start_driver: StartDriver, tmp_path: Path
) -> None:
    found = stay(start_driver, tmp_path / "job", CLUSTER, epochs=500, minutes=60)
    assert len(found.places) == 500
    assert found.moves_percent <= MAX_MOVES_PERCENT
    found.expect_own_tasks_only()


@pytest.fixture
def host_network() -> Iterator[HostNetwork]:
    """Four hosts with addresses of their own."""
    if reason := why_not():
        pytest.skip(reason)
    network = HostNetwork(4)
    yield network
    network.delete()


@pytest.mark.long
@pytest.mark.parametrize(("epochs", "kill_after"), [(500, None), (40, 20)])
def test_on_four_hosts_subtasks_stay_with_their_executors(
    start_driver: StartDriver, host_network: HostNetwork, tmp_path: Path, epochs: int, kill_after: int | None
) -> None:
    cluster = StandaloneCluster(tmp_path / "cluster", host_network.address)
    try:
        for host in host_network.hosts:
            cluster.add_worker(host.address, host.prefix)
        options = {
            "spark.master": cluster.url,
            "spark.driver.host": host_network.address,
            "spark.driver.bindAddress": host_network.address,
            "spark.pyspark.python": sys.executable,
            "spark.executor.memory": "512m",
        }
        found = stay(start_driver, tmp_path / "job", options, 60, epochs=epochs, kill_after=kill_after)
    finally:
        cluster.stop()
    assert len(found.places) == epochs
    assert len(set(found.places[0].values())) == 4, "every host has its share"
    found.expect_own_tasks_only()
    if kill_after is None:
        assert found.moves_percent <= MAX_MOVES_PERCENT
    else:
        assert {subtask for _, subtask in found.moves} == found.orphans
