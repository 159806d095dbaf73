"""Tasks: the order of their input, their determinism, failure marks, spilling, buffers, and how stages are laid out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from flott.common import WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.base import Slice
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.functions import KeyedProcessFunction
from flott.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flott.graph.chain import chain
from flott.graph.job_graph import JobGraph
from flott.runtime.epoch.gate import InputGate
from flott.runtime.epoch.image import JobImage, TaskSettings, make_image
from flott.runtime.epoch.placement import OwnTasks
from flott.runtime.epoch.plan import EpochPlan, SubtaskState, assign_slices
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.runner import EpochEnded, RunnerEvent, report_epoch
from flott.runtime.epoch.task import run_task
from flott.runtime.epoch.task_cache import TaskCache
from flott.runtime.epoch.topology import lay_out
from flott.runtime.epoch.wire import ABORT, DATA, FAILURE, REPORT, TIME, Row, decode_batch, encode_batch
from flott.runtime.managed_state.backends.backend import ROCKSDB, BackendSettings
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.source import SliceAssignment, SourceAssignment
from flott.runtime.operators.watermarks import TimeProgress
from flott.runtime.storage import PosixStorage
from flott.testing.harness import in_process
from flott.testing.sources import ScriptedSource

Shuffle = Callable[[list[Row]], list[Row]]


class Bench:
    """Runs epochs of a program row by row, as a carrier does, and lets a test interfere in between."""

    def __init__(self, env: StreamExecutionEnvironment, folder: Any, settings: TaskSettings | None = None):
        self.graph: JobGraph = chain(env.get_stream_graph(clear_transformations=True, job_name="bench"))
        self.storage = PosixStorage(str(folder), sync=False)
        self.image: JobImage = make_image(self.graph, "image", "job", self.storage, settings or TaskSettings())
        self.states: dict[Any, tuple[SubtaskState, ...]] = {}

    def plan(self, epoch: int, start: int, stop: int, attempt: int = 0, final: bool = False) -> EpochPlan:
        """Every split of every source from start to stop."""
        sources = {}
        for vertex in self.graph.sources:
            slices = [Slice(name, start, stop, stop - start) for name in vertex.head.node.spec.source.splits]  # type: ignore[attr-defined]
            sources[vertex.head.id] = tuple(
                SourceAssignment(tuple(SliceAssignment(part, TimeProgress()) for part in parts), None, final)
                for parts in assign_slices(slices, vertex.parallelism, {})
            )
        return EpochPlan("run", epoch, attempt, 1_000 * epoch, 7, sources, self.states, final)

    def run(self, plan: EpochPlan, cache: TaskCache, shuffle: Shuffle = list) -> tuple[list[list[Row]], EpochResult]:
        """All rows that left each stage, and the result."""
        stages = self.image.topology.stages
        rows: list[list[Row]] = [[] for _ in range(stages[0].width)]
        left: list[list[Row]] = []
        for stage in stages:
            width = stages[stage.index + 1].width if stage.index + 1 < len(stages) else 1
            following: list[list[Row]] = [[] for _ in range(width)]
            for partition in range(stage.width):
                attempt = f"{plan.epoch}.{stage.index}.{partition}"
                incoming = shuffle(rows[partition])
                for target, row in run_task(cache, self.image, plan, stage.index, partition, attempt, incoming):
                    following[target].append(row)
            left.append([row for part in following for row in part])
            rows = following
        events: list[RunnerEvent] = []
        report_epoch(plan.epoch, rows[0], events.append)
        return left, next(event.result for event in events if isinstance(event, EpochEnded))

    def accept(self, result: EpochResult) -> None:
        """The next epoch continues from this one."""
        for ident in self.graph.operators:
            self.states = {
                **self.states,
                ident: tuple(
                    SubtaskState(outcome.watermark, outcome.sequence or (), outcome.progress or TimeProgress())
                    for _, outcome in result.of_operator(ident)
                ),
            }


class Remember(KeyedProcessFunction[int, int, Any]):
    def open(self, runtime_context: Any) -> None:
        self.random = runtime_context.get_random()
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        before = self.last.value()
        self.last.update(value)
        self.seen.put(str(value % 7), value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)
        yield value, before, list(self.seen.items()), self.random.random()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield "timer", timestamp, ctx.get_current_key(), self.last.value()


def stateful(splits: int = 3, records: int = 60) -> StreamExecutionEnvironment:
    env = in_process(3)
    script = {f"split{s}": [s + splits * i for i in range(records)] for s in range(splits)}
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    source = env.from_source(ScriptedSource(script), strategy, "numbers").set_parallelism(2)
    kept = source.map(lambda v: v + 1).rebalance().map(lambda v: v - 1).key_by(lambda v: v % 10).process(Remember())
    kept.key_by(lambda item: str(item[0])).map(lambda item: item).sink_to(CallableSink(print)).set_parallelism(2)
    return env


def data_rows(left: list[list[Row]]) -> list[list[Row]]:
    return [sorted((row for row in rows if row[2] == DATA), key=lambda row: row[:6]) for rows in left]


def decoded(left: list[list[Row]]) -> list[Any]:
    return [[(*row[:6], repr(decode_batch(row[6]))) for row in rows] for rows in data_rows(left)]


def contents(bench: Bench, result: EpochResult) -> dict[str, bytes]:
    return {
        file.name: bench.storage.read(file.name)
        for report in result.reports
        for outcome in report.operators.values()
        for file in outcome.sequence or ()
    }


SMALL = TaskSettings(buffer_records=4)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_in_which_rows_arrive_makes_no_difference(tmp_path: Any, seed: int) -> None:
    random = Random(seed)

    def shuffled(rows: list[Row]) -> list[Row]:
        return random.sample(rows, len(rows))

    outputs = []
    for shuffle in (list, shuffled):
        bench = Bench(stateful(), tmp_path / shuffle.__name__, SMALL)
        cache = TaskCache()
        rows: list[Any] = []
        for epoch in (1, 2, 3):
            left, result = bench.run(bench.plan(epoch, 20 * epoch - 20, 20 * epoch, final=epoch == 3), cache, shuffle)
            assert not result.failures
            bench.accept(result)
            rows.append((data_rows(left), contents(bench, result)))
        outputs.append(rows)
    assert outputs[0] == outputs[1]


def test_a_repeated_epoch_gives_the_same_bytes(tmp_path: Any) -> None:
    bench = Bench(stateful(), tmp_path, SMALL)
    cache = TaskCache()
    _, first = bench.run(bench.plan(1, 0, 20), cache)
    bench.accept(first)
    left, result = bench.run(bench.plan(2, 20, 40), cache)
    again, repeated = bench.run(bench.plan(2, 20, 40, attempt=1), cache)
    assert [decode_batch(row[6]) for row in left[0] if row[2] == DATA]
    assert decoded(left) == decoded(again)
    assert [sorted(report.operators) for report in result.reports] == [sorted(r.operators) for r in repeated.reports]


def test_a_worker_that_knows_nothing_computes_what_one_that_was_there_does(tmp_path: Any) -> None:
    bench = Bench(stateful(), tmp_path, SMALL)
    old, stale = TaskCache(), TaskCache()
    for epoch in (1, 2, 3):
        _, result = bench.run(bench.plan(epoch, 10 * epoch - 10, 10 * epoch), old)
        if epoch == 1:
            bench.run(bench.plan(1, 0, 10), stale)  # was there, and then was not
        bench.accept(result)
    there, _ = bench.run(bench.plan(4, 30, 40), old)
    new, _ = bench.run(bench.plan(4, 30, 40), TaskCache())
    behind, _ = bench.run(bench.plan(4, 30, 40), stale)
    assert decoded(there) == decoded(new) == decoded(behind)


def test_a_failed_attempt_leaves_no_trace_in_a_worker(tmp_path: Any) -> None:
    bench = Bench(stateful(), tmp_path, SMALL)
    cache = TaskCache()
    expected, _ = bench.run(bench.plan(1, 0, 20), TaskCache())
    bench.run(bench.plan(1, 0, 50), cache)  # an attempt with other input, never acknowledged
    got, _ = bench.run(bench.plan(1, 0, 20, attempt=1), cache)
    assert decoded(got) == decoded(expected)


def positions(cache: TaskCache) -> set[tuple[int, int]]:
    return {position for tasks in cache._jobs.values() for position in tasks}


def test_a_worker_releases_the_tasks_that_have_moved_away_and_catches_up_when_they_return(tmp_path: Any) -> None:
    bench = Bench(stateful(), tmp_path, SMALL)
    cache = TaskCache()
    _, first = bench.run(bench.plan(1, 0, 20), cache)
    bench.accept(first)
    everything = positions(cache)
    own = frozenset(position for position in everything if position[1] == 1)
    cache.keep_only("another image", OwnTasks(frozenset(), frozenset()))
    assert positions(cache) == everything
    cache.keep_only(bench.image.image_id, OwnTasks(own, own))
    assert positions(cache) == own
    again, _ = bench.run(bench.plan(2, 20, 40), cache)
    new, _ = bench.run(bench.plan(2, 20, 40), TaskCache())
    assert decoded(again) == decoded(new)


@pytest.mark.parametrize("same_host", [True, False])
def test_a_copy_on_disk_goes_when_its_subtask_moves_to_another_host(tmp_path: Any, same_host: bool) -> None:
    pytest.importorskip("rocksdict")
    backend = BackendSettings(ROCKSDB, local_dir=str(tmp_path / "local"))
    bench = Bench(stateful(), tmp_path / "state", TaskSettings(backend=backend))
    cache = TaskCache()
    _, first = bench.run(bench.plan(1, 0, 20), cache)
    bench.accept(first)
    before = sorted(path.name for path in backend.job_folder("job").iterdir())
    everything = frozenset(positions(cache))
    own = frozenset(position for position in everything if position[1] == 1)
    cache.keep_only(bench.image.image_id, OwnTasks(own, everything if same_host else own))
    after = sorted(path.name for path in backend.job_folder("job").iterdir())
    assert (after == before) if same_host else (0 < len(after) < len(before))
    left, _ = bench.run(bench.plan(2, 20, 40), cache)
    other = BackendSettings(ROCKSDB, local_dir=str(tmp_path / "elsewhere"))
    bench.image = replace(bench.image, settings=TaskSettings(backend=other))
    new, _ = bench.run(bench.plan(2, 20, 40), TaskCache())
    assert decoded(left) == decoded(new)


# --- failure is data -------------------------------------------------------------------------------------------------


def failing(at: int) -> StreamExecutionEnvironment:
    env = in_process(3)
    source = env.from_source(ScriptedSource(list(range(60))), WatermarkStrategy.no_watermarks(), "numbers")
    stream: Any = source.set_parallelism(2)
    for stage in range(3):
        stream = stream.rebalance().map(lambda v, stage=stage: 1 // (v != 13) if stage == at else v)
    stream.rebalance().map(lambda v: v).sink_to(CallableSink(print))
    return env


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_failure_in_any_stage_reaches_the_driver_and_stops_the_stages_after_it(tmp_path: Any, at: int) -> None:
    bench = Bench(failing(at), tmp_path)
    left, result = bench.run(bench.plan(1, 0, 60), TaskCache())
    assert [card.error for card in result.failures] == ["ZeroDivisionError: integer division or modulo by zero"]
    kinds = [{row[2] for row in rows} for rows in left]
    for stage, seen in enumerate(kinds):
        if stage > at + 1:
            assert seen <= {ABORT, FAILURE, REPORT}, f"stage {stage} worked on"
    ran = {bench.image.topology.stage_of[report.vertex] for report in result.reports}
    assert max(ran) <= at + 1


def test_after_a_failure_the_same_workers_run_the_epoch_again(tmp_path: Any) -> None:
    bench = Bench(failing(1), tmp_path)
    cache = TaskCache()
    assert bench.run(bench.plan(1, 0, 60), cache)[1].failures
    _, result = bench.run(bench.plan(1, 0, 10, attempt=1), cache)
    assert not result.failures
    assert result.missing(bench.graph) == []
    assert result.mixed(bench.image.topology) == []


def test_output_of_two_attempts_of_one_task_is_noticed(tmp_path: Any) -> None:
    bench = Bench(failing(9), tmp_path)
    calls = 0

    def tamper(rows: list[Row]) -> list[Row]:
        nonlocal calls
        calls += 1
        if calls != 6:  # one task of a later stage gets another attempt's mark
            return rows
        return [(*row[:6], ("other-attempt", row[6][1])) if row[2] == TIME else row for row in rows]

    _, result = bench.run(bench.plan(1, 0, 10), TaskCache(), tamper)
    assert len(result.mixed(bench.image.topology)) == 1


# --- the gate and the buffers ----------------------------------------------------------------------------------------


def test_a_gate_without_memory_spills_and_gives_the_same_batches_in_order() -> None:
    random = Random(5)
    rows: list[Row] = [
        (1, 0, DATA, edge, channel, sequence, encode_batch(RowBatch([(edge, channel, sequence, "x" * 50)])))
        for edge in (0, 1) for channel in range(3) for sequence in range(20)
    ]  # fmt: skip
    random.shuffle(rows)
    for memory in (0, 300, 1 << 20):
        gate = InputGate(memory)
        for row in rows:
            gate.add(row)
        assert (gate._spill is None) == (memory == 1 << 20)
        for edge in (0, 1):
            found = [batch.values[0][:3] for batch, _ in gate.batches(edge, 0)]
            assert found == [(edge, channel, sequence) for channel in range(3) for sequence in range(20)]
        gate.close()


@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("how", ["rebalance", "key_by", "broadcast", "custom", "shuffle"])
def test_large_records_of_different_sizes_arrive_once_each(tmp_path: Any, how: str, stamped: bool) -> None:
    """The size of a buffer follows the size of records, also downwards while other buffers are half full."""
    random = Random(3)
    sizes = [1, 10, 400, 3_000, 40_000]
    script = {s: [(s, i, "x" * random.choice(sizes[: 1 + i // 700])) for i in range(3_000)] for s in ("a", "b")}
    env = in_process(3)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    source: Any = env.from_source(
        ScriptedSource(script), strategy if stamped else WatermarkStrategy.no_watermarks(), "sizes"
    )
    moved = {
        "rebalance": lambda: source.rebalance(),
        "shuffle": lambda: source.shuffle(),
        "broadcast": lambda: source.broadcast(),
        "custom": lambda: source.partition_custom(lambda key, n: key % n, lambda v: v[1]),
        "key_by": lambda: source.key_by(lambda v: v[1] % 5),
    }[how]()
    found: list[Any] = []
    moved.map(lambda v: (v[0], v[1])).sink_to(CallableSink(found.append))
    env.execute("sizes")
    expected = sorted((name, number) for name, items in script.items() for _, number, _ in items)
    assert sorted(found) == (sorted(expected * 3) if how == "broadcast" else expected)


# --- stages ----------------------------------------------------------------------------------------------------------


def test_a_vertex_stands_one_stage_after_its_furthest_redistributed_input() -> None:
    env = in_process(2)
    one = env.from_collection([1]).set_parallelism(1).map(lambda v: v).set_parallelism(2).name("a")
    two = env.from_collection([2]).set_parallelism(1)
    late = one.key_by(lambda v: v).map(lambda v: v).name("b").set_parallelism(4)
    joined = late.union(one, two).map(lambda v: v).name("c").set_parallelism(3)
    joined.sink_to(CallableSink(print)).name("d").set_parallelism(3)
    graph = chain(env.get_stream_graph(job_name="stages"))
    topology = lay_out(graph)
    stages = {vertex.name: topology.stage_of[vertex.id] for vertex in graph.vertices}
    assert stages == {"Source: Collection Source": 0, "a": 1, "b": 2, "c -> Sink: d": 3}
    assert [stage.width for stage in topology.stages] == [1, 2, 4, 3]
    assert topology.driver == 4
    assert str(topology).startswith("4 stages")


def test_forward_edges_between_vertices_of_one_stage_stay_in_the_task() -> None:
    env = in_process(2)
    source = env.from_source(ScriptedSource([1]), WatermarkStrategy.no_watermarks(), "s")
    other = source.map(lambda v: v).start_new_chain()
    source.union(other).map(lambda v: v).sink_to(CallableSink(print))
    graph = chain(env.get_stream_graph(job_name="local"))
    topology = lay_out(graph)
    assert len(topology.stages) == 1
    assert topology.local_edges == {edge.index for edge in graph.edges}


def test_slices_go_to_the_least_loaded_subtask_and_splits_stay_with_their_reader() -> None:
    slices = [Slice("a", 0, 9, 9), Slice("b", 0, 5, 5), Slice("c", 0, 4, 4), Slice("d", 0, 1, 1)]
    assert [[p.split for p in own] for own in assign_slices(slices, 2, {})] == [["a", "d"], ["b", "c"]]
    kept = assign_slices(slices, 2, {"a": 1, "d": 1})
    assert [[p.split for p in own] for own in kept] == [["b", "c"], ["a", "d"]]
    assert assign_slices([], 3, {}) == [[], [], []]


def test_reports_and_cards_can_be_sent(tmp_path: Any) -> None:
    bench = Bench(failing(0), tmp_path)
    _, result = bench.run(bench.plan(1, 0, 60), TaskCache())
    assert pickle.loads(pickle.dumps(result)) == result
