"""reinterpret_as_keyed_stream: keyed operators without an exchange, whatever happens to the job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from flott.common import Time, Types, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import (
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessJoinFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    reinterpret_as_keyed_stream,
)
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows
from flott.errors import ProgramError
from flott.graph.specs import KeySpec
from flott.testing import Crash, EndOfEpoch, Ledger, LedgerSink, ScriptedSource, collect, in_process, live
from flott.testing.harness import Incarnation

KEYS = [f"key{n}" for n in range(12)]


def key(record: Any) -> str:
    return str(record[0])


class Numbered(KeyedProcessFunction[str, Any, Any]):
    """Puts behind each record how many of its key came before, from state; a timer at the end tells the total."""

    def __init__(self, end: int | None = None):
        self.end = end

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        assert ctx.get_current_key() == value[0]
        count = self.count.value() or 0
        self.count.update(count + 1)
        if self.end is not None:
            ctx.timer_service().register_event_time_timer(self.end)
        yield *value, count

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), "total", self.count.value()


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_next_operator_is_keyed_and_fused_with_the_one_before(env: StreamExecutionEnvironment) -> None:
    sums = env.from_collection([("a", 1)]).key_by(0).sum(1)
    made = reinterpret_as_keyed_stream(sums, key, Types.STRING()).process(Numbered())
    made.print()
    graph = env.get_stream_graph()
    node = graph.node(made._id)  # type: ignore[arg-type]
    assert node.keys == (KeySpec(key, Types.STRING(), in_place=True),)
    assert [edge.partitioning.label for edge in graph.edges_into(node.id)] == ["FORWARD"]
    assert [vertex.name for vertex in env.get_job_graph().vertices] == [
        "Source: Collection Source",
        "Keyed Aggregation -> KeyedProcess -> Sink: Print",
    ]


def test_other_parallelism_is_refused(env: StreamExecutionEnvironment) -> None:
    sums = env.from_collection([("a", 1)]).key_by(0).sum(1).set_parallelism(4)
    reinterpret_as_keyed_stream(sums, 0).max(1).print()
    with pytest.raises(
        ProgramError,
        match=r"reinterpret_as_keyed_stream\(\) between 'Keyed Aggregation' \(parallelism 4\).*use key_by\(\)",
    ):
        env.get_stream_graph()


@pytest.mark.parametrize("method", ["rebalance", "shuffle", "key_by"])
def test_it_does_not_undo_another_distribution(env: StreamExecutionEnvironment, method: str) -> None:
    stream = env.from_collection([("a", 1)]).map(tuple)
    distributed = stream.key_by(0) if method == "key_by" else getattr(stream, method)()
    with pytest.raises(ProgramError, match=rf"would undo {method}\(\)"):
        reinterpret_as_keyed_stream(distributed, 0)


def test_it_takes_a_stream_and_a_key(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match="takes a stream, found 7"):
        reinterpret_as_keyed_stream(7, 0)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="needs a KeySelector"):
        reinterpret_as_keyed_stream(env.from_collection([1]), 1.5)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="type is one of"):
        reinterpret_as_keyed_stream(env.from_collection([1]), 0, "text")  # type: ignore[arg-type]


def test_key_by_after_it_moves_records_again(env: StreamExecutionEnvironment) -> None:
    sums = env.from_collection([("a", 1)]).key_by(0).sum(1)
    made = reinterpret_as_keyed_stream(sums, 0).key_by(1).sum(0)
    made.print()
    graph = env.get_stream_graph()
    assert [e.partitioning.label for e in graph.edges_into(made._id)] == ["HASH"]  # type: ignore[arg-type]


# --- the job ----------------------------------------------------------------------------------------------------------

ASCENDING = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])


def script(seed: int) -> list[Any]:
    random, entries = Random(seed), []
    for time in range(60):
        entries += [(random.choice(KEYS), time), *random.choices([[], [EndOfEpoch()]], [3, 1])[0]]
    return entries


def expected(entries: list[Any]) -> list[Any]:
    """Each record with its number among those of its key, twice, and the total of each key."""
    counts: dict[str, int] = {}
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, tuple):
            count = counts[entry[0]] = counts.get(entry[0], -1) + 1
            found.append((*entry, count, count))
    return sorted([*found, *((name, "total", count + 1) for name, count in counts.items())], key=repr)


def twice_keyed(stream: DataStream[Any], fused: bool) -> DataStream[Any]:
    first = stream.key_by(key).process(Numbered()).uid("first")
    second = reinterpret_as_keyed_stream(first, key, Types.STRING()).process(Numbered(1000)).uid("second")
    return second if fused else second.disable_chaining()


def run_job(
    source: ScriptedSource, ledger: Ledger, folder: Path, fused: bool, parallelism: int, steps: int = 0
) -> Incarnation:
    env = in_process(parallelism)
    stream = env.from_source(source, ASCENDING, "records").uid("records")
    twice_keyed(stream, fused).sink_to(LedgerSink(ledger)).uid("sink")

    def die(step: str, epoch: int) -> None:
        nonlocal steps
        steps -= 1
        if steps == 0:
            raise Crash

    return live(env, folder, on_step=die)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_state_and_timers_survive_crashes_and_other_parallelisms(tmp_path: Path, seed: int, fused: bool) -> None:
    random, entries, ledger = Random(seed), script(seed), Ledger(uuid4().hex)
    source, lives = ScriptedSource(entries), 0
    while True:
        lives += 1
        steps = random.randint(3, 25)
        incarnation = run_job(source, ledger, tmp_path, fused, random.randint(1, 4), steps)
        if not incarnation.crashed:
            break
    assert incarnation.failure is None, incarnation.failure
    assert lives > 1
    assert sorted(ledger.records, key=repr) == expected(entries)


@pytest.mark.parametrize("fused", [True, False])
def test_a_record_in_another_key_s_subtask_fails_the_job_and_the_error_names_the_call(
    tmp_path: Path, fused: bool
) -> None:
    env = in_process(2, restart_strategy__type="none")
    ledger = Ledger(uuid4().hex)
    dealt = env.from_collection([(name, 1) for name in KEYS]).rebalance().map(tuple)
    made = reinterpret_as_keyed_stream(dealt, key).process(Numbered())
    (made if fused else made.disable_chaining()).sink_to(LedgerSink(ledger))
    incarnation = live(env, tmp_path)
    assert incarnation.status is JobStatus.FAILED
    message = " ".join(str(incarnation.failure).split())
    assert "reinterpret_as_keyed_stream(), which does not move records" in message
    assert "Use key_by() instead." in message
    assert ledger.records == []


def test_another_maximum_parallelism_is_another_place_of_keys(tmp_path: Path) -> None:
    env = in_process(2, restart_strategy__type="none")
    first = env.from_collection([(name, 1) for name in KEYS]).key_by(key).process(Numbered())
    made = reinterpret_as_keyed_stream(first, key).process(Numbered()).set_max_parallelism(3)
    made.sink_to(LedgerSink(Ledger(uuid4().hex)))
    incarnation = live(env, tmp_path)
    assert "same parallelism and maximum parallelism" in " ".join(str(incarnation.failure).split())


def test_a_key_of_another_type_than_declared_is_refused(tmp_path: Path) -> None:
    env = in_process(1, restart_strategy__type="none")
    numbers = env.from_collection([("a", 1), ("b", 2)])
    made = reinterpret_as_keyed_stream(numbers, 1, Types.STRING()).sum(1)
    made.sink_to(LedgerSink(Ledger(uuid4().hex)))
    incarnation = live(env, tmp_path)
    assert incarnation.status is JobStatus.FAILED
    assert "TypeMismatchError" in str(incarnation.failure)


class Latest(KeyedCoProcessFunction[str, Any, Any, Any]):
    """Puts the latest record of the second input behind each of the first."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value, self.latest.value()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.latest.update(value)
        yield "latest", value


@pytest.mark.parametrize("parallelism", [1, 3])
def test_it_can_be_connected_with_a_stream_that_is_moved_by_key(parallelism: int) -> None:
    env = in_process(parallelism)
    records = env.from_collection([(name, n) for n, name in enumerate(KEYS)])
    first = records.key_by(key).process(Numbered())
    in_place = reinterpret_as_keyed_stream(first, key)
    found = collect(in_place.connect(records.key_by(key)).process(Latest()))
    assert {found_of[0][0] for found_of in found if found_of[0] != "latest"} == set(KEYS)
    assert len(found) == 2 * len(KEYS)


class Pairs(ProcessJoinFunction[Any, Any, Any]):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left, right


def test_windows_and_joins_work_on_it() -> None:
    env = in_process(3)
    records = env.from_collection([(name, n) for name in KEYS for n in range(5)])
    stamped = records.assign_timestamps_and_watermarks(ASCENDING)
    counted = stamped.key_by(key).process(Numbered())
    in_place = reinterpret_as_keyed_stream(counted, key)
    joined = in_place.interval_join(stamped.key_by(key)).between(Time.milliseconds(1), Time.milliseconds(1))
    pairs = joined.process(Pairs()).map(lambda pair: (pair[0][0], pair[1][1] - pair[0][1]))
    windows = in_place.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).sum(1).map(lambda r: (r[0], r[1]))
    found = collect(pairs.union(windows))
    assert sorted(found) == sorted([*((name, 1) for name in KEYS for _ in range(4)), *((name, 10) for name in KEYS)])
