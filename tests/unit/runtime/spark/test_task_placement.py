"""What a job asks Spark in order to place its tasks, with a Spark that is a list of executors."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flott.errors import WorkerLostError
from flott.runtime.epoch.placement import decode_homes
from flott.runtime.epoch.report import EpochResult, SubtaskReport, TaskPlace
from flott.runtime.epoch.topology import Stage, Topology
from flott.runtime.spark.application import ExecutorReading, SparkReading
from flott.runtime.spark.runner import Lineage, SparkRunner
from flott.runtime.spark.task_placement import TaskPlacement

VERTICES: Any = ("source", "sink")
STAGES = (Stage(0, VERTICES[:1], 2), Stage(1, VERTICES[1:], 2))
TOPOLOGY = Topology(STAGES, {VERTICES[0]: 0, VERTICES[1]: 1}, frozenset())


@dataclass
class Executors:
    present: list[str]
    answers: bool = True
    reads: int = 0

    def ids(self) -> frozenset[str]:
        if not self.answers:
            raise WorkerLostError("no answer")
        return frozenset(self.present)

    def read(self) -> SparkReading:
        self.reads += 1
        return SparkReading(tuple(ExecutorReading(ident, f"host-{ident}", 1, 1, 1) for ident in self.present))


@dataclass
class Preferences:
    anchors: list[list[str]] = field(default_factory=list)

    def anchor(self, locations: list[str]) -> list[str]:
        self.anchors.append(locations)
        return locations

    def prefer(self, anchor: list[str], rdd: Any) -> Any:
        return rdd, anchor


@dataclass
class Bench:
    executors: Executors
    preferences: Preferences = field(default_factory=Preferences)

    def __post_init__(self) -> None:
        self.placement = TaskPlacement(cast(Any, self.executors), cast(Any, self.preferences), turn=0)
        self.placement.deploy(TOPOLOGY)


def ran(homes: dict[tuple[int, int], str]) -> EpochResult:
    return EpochResult(
        tuple(
            SubtaskReport(VERTICES[stage], cast(Any, n), "a", {}, {}, None, 0.0, 1, place=TaskPlace("h", executor))
            for (stage, n), executor in homes.items()
        )
    )


def test_executors_are_read_and_anchors_made_only_when_something_has_changed() -> None:
    bench = Bench(Executors(["1", "2"]))
    placed = bench.placement.decide()
    assert placed.prefer(1, "rows") == ("rows", ["executor_host-1_1", "executor_host-2_2"])  # type: ignore[arg-type]
    assert not bench.placement.note(ran(dict(placed.placement.homes)), placed)
    assert bench.placement.decide() is placed
    assert (bench.executors.reads, len(bench.preferences.anchors)) == (1, 2)
    bench.executors.present = ["2", "3"]
    moved = bench.placement.decide()
    assert moved.placement.of_stage(0) == ["3", "2"]
    assert (bench.executors.reads, len(bench.preferences.anchors)) == (2, 4)
    own = decode_homes(moved.text, "3")
    assert own is not None
    assert own.of_executor == own.of_host == {(0, 0), (1, 0)}


def test_without_executors_spark_chooses_and_a_spark_that_does_not_answer_changes_nothing() -> None:
    bench = Bench(Executors([]))
    nothing = bench.placement.decide()
    assert (nothing.prefer(0, "rows"), nothing.text) == ("rows", "")  # type: ignore[arg-type]
    bench.executors.present = ["1"]
    placed = bench.placement.decide()
    assert placed.placement.of_stage(0) == ["1", "1"]
    bench.executors.answers = False
    assert bench.placement.decide() is placed


@pytest.mark.parametrize(("executor", "away"), [("1", False), ("2", True), ("driver", False)])
def test_a_task_that_ran_elsewhere_is_noted_unless_its_worker_does_not_know_where_it_is(
    executor: str, away: bool
) -> None:
    bench = Bench(Executors(["1", "2"]))
    placed = bench.placement.decide()
    assert bench.placement.note(ran({**placed.placement.homes, (0, 0): executor}), placed) is away


def test_another_shape_of_the_job_keeps_the_homes_of_its_positions() -> None:
    bench = Bench(Executors(["1", "2", "3"]))
    first = bench.placement.decide()
    bench.placement.deploy(Topology((Stage(0, VERTICES, 3),), dict.fromkeys(VERTICES, 0), frozenset()))
    second = bench.placement.decide()
    assert second.placement.of_stage(0) == [*first.placement.of_stage(0), "3"]


def slots_at(*executors: str) -> dict[int, TaskPlace]:
    return {slot: TaskPlace("h", executor) for slot, executor in enumerate(executors)}


def test_slots_prefer_the_executors_of_the_last_start_and_a_lost_one_leaves_its_host() -> None:
    bench = Bench(Executors(["1", "2"]))
    assert bench.placement.prefer_slots(cast(Any, "rows"), 2) == "rows", "they were nowhere yet"
    bench.placement.note_slots(slots_at("2", "1"))
    assert bench.placement.prefer_slots(cast(Any, "rows"), 2) == (
        "rows", ["executor_host-2_2", "executor_host-1_1"]
    )  # fmt: skip
    bench.executors.present = ["1", "3"]
    assert bench.placement.prefer_slots(cast(Any, "rows"), 2) == ("rows", ["host-2", "executor_host-1_1"])


def test_a_worker_that_does_not_know_its_executor_gives_its_slot_no_preference() -> None:
    bench = Bench(Executors(["1", "2"]))
    bench.placement.note_slots(slots_at("driver", "1"))
    assert bench.placement.prefer_slots(cast(Any, "rows"), 2) == ("rows", [None, "executor_host-1_1"])


def test_a_job_that_changes_its_mode_stays_where_it_is() -> None:
    bench = Bench(Executors(["1", "2"]))
    epochs = bench.placement.decide()
    assert epochs.placement.of_stage(1) == ["1", "2"]
    assert bench.placement.prefer_slots(cast(Any, "rows"), 2) == (
        "rows", ["executor_host-1_1", "executor_host-2_2"]
    )  # fmt: skip
    bench.placement.note_slots(slots_at("2", "1"))
    assert bench.placement.is_outdated, "the epoch that was prepared prefers other executors"
    assert bench.placement.decide().placement.of_stage(1) == ["2", "1"]
    assert not bench.placement.is_outdated


class Lineages(SparkRunner):
    """Prepares epochs that are collected at once, where the placement says."""

    def __init__(self, placement: TaskPlacement) -> None:
        self._placement = placement
        self._context = cast(Any, SimpleNamespace(setLocalProperty=lambda key, value: None))
        self._pools = cast(Any, SimpleNamespace(enter=lambda: "pool", leave=lambda pool: None))
        self._ahead = ThreadPoolExecutor(1)
        self._next: Future[Lineage] | None = None

    def _lineage(self) -> Lineage:
        assert self._placement is not None
        rdd = SimpleNamespace(collect=list, cleanShuffleDependencies=lambda: None)
        return Lineage(cast(Any, rdd), self._placement.decide())

    def ran_at(self) -> list[str]:
        return self._collect()[1].placement.of_stage(0)


def test_an_epoch_that_was_prepared_before_slots_ran_is_prepared_again() -> None:
    bench = Bench(Executors(["1", "2"]))
    runner = Lineages(bench.placement)
    assert runner.ran_at() == ["1", "2"]
    assert runner._next is not None
    runner._next.result()  # the next one is ready
    bench.placement.note_slots(slots_at("2", "1"))
    assert runner.ran_at() == ["2", "1"]
    runner._ahead.shutdown()
