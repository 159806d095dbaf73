"""How many records and bytes come in on each edge, where a vertex has several inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common import WatermarkStrategy
from flott.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flott.datastream.functions import CoMapFunction
from flott.runtime.jobmanager.views.job_view import InputView
from flott.testing.harness import in_process
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource
from tests.unit.runtime.jobmanager.tracked_jobs import Count, recorded, vertex_named

NO_WATERMARKS: WatermarkStrategy = WatermarkStrategy.no_watermarks()
MODES = ("epochs", "pipelined", "batch")


class Either(CoMapFunction):
    def map1(self, value: int) -> int:
        return value

    def map2(self, value: int) -> int:
        return value


def environment(mode: str) -> StreamExecutionEnvironment:
    """An environment for two subtasks, in a mode."""
    options = {"execution__mode": "epochs" if mode == "batch" else mode, "restart_strategy__type": "fixed-delay"}
    env = in_process(2, **options)
    if mode == "batch":
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return env


def script(mode: str, *values: Any) -> ScriptedSource:
    """A source; only a streaming one has marks."""
    return ScriptedSource([value for value in values if mode != "batch" or isinstance(value, int)])


def numbers(env: StreamExecutionEnvironment, name: str, source: ScriptedSource) -> Any:
    return env.from_source(source, NO_WATERMARKS, name).uid(name)


def inputs(env: StreamExecutionEnvironment, folder: Path, vertex: str) -> list[InputView]:
    """Run a job; return what came in on the edges of a vertex."""
    tracker, life = recorded(env, folder)
    assert life.status.name == "FINISHED", life.failure
    return list(vertex_named(tracker.view(), vertex).inputs)


@pytest.mark.parametrize("mode", MODES)
def test_a_union_counts_each_of_its_inputs_once_also_after_a_failure(mode: str, tmp_path: Path) -> None:
    env = environment(mode)
    many = numbers(env, "many", script(mode, *range(30), EndOfEpoch(), Abort(), *range(30, 40)))
    few = numbers(env, "few", script(mode, *range(5), EndOfEpoch(), *range(7)))
    counted = many.union(few).key_by(lambda n: n % 7).process(Count()).name("Count")
    counted.sink_to(LedgerSink(Ledger(uuid4().hex)))
    found = inputs(env, tmp_path, "Count")
    assert [one.records for one in found] == [40, 12]
    if mode != "pipelined":  # tasks of a process hand records over without encoding them
        assert all(one.bytes for one in found)


@pytest.mark.parametrize("mode", MODES)
def test_two_inputs_are_counted_apart_and_a_broadcast_one_once_for_every_subtask(mode: str, tmp_path: Path) -> None:
    env = environment(mode)
    left = numbers(env, "left", script(mode, *range(21))).rebalance()
    right = numbers(env, "right", script(mode, *range(4))).broadcast()
    left.connect(right).map(Either()).name("Either").sink_to(LedgerSink(Ledger(uuid4().hex)))
    assert [(one.number, one.records) for one in inputs(env, tmp_path, "Either")] == [(0, 21), (1, 8)]


def test_an_edge_within_a_task_is_counted_without_bytes(tmp_path: Path) -> None:
    env = environment("epochs")
    left = numbers(env, "left", ScriptedSource(range(21)))
    right = numbers(env, "right", ScriptedSource(range(4)))
    left.union(right).map(lambda n: n).name("Both").sink_to(LedgerSink(Ledger(uuid4().hex)))
    assert [(one.records, one.bytes) for one in inputs(env, tmp_path, "Both")] == [(21, 0), (4, 0)]
