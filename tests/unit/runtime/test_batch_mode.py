"""BATCH gives what STREAMING has given in the end: one epoch, one key after the other, no intermediate results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flott.common import Configuration, Duration, JobStatus, Time, WatermarkStrategy
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK, TimestampAssigner
from flott.datastream import (
    DataStream,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeDomain,
    reinterpret_as_keyed_stream,
)
from flott.datastream.connectors.base import Slice, SlicePlan, SliceRequest, SplitEnumerator
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.collection import CollectionSource
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSource, StreamFormat
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from flott.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flott.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flott.errors import JobFailedError, ProgramError
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.testing.harness import Crash, collect, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait

NO_TIME = WatermarkStrategy.no_watermarks()

#: (key, value, timestamp): in the order of time, keys mixed.
EVENTS = [(f"k{n * 7 % 5}", n * n % 11, n * 10) for n in range(100)]
#: The same with neighbours exchanged, so that some come too late for a watermark without patience.
DISORDERED = [EVENTS[n ^ 3] for n in range(100)]


class Third(TimestampAssigner):
    """The third field."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2])


TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Third())
PATIENT = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100)).with_timestamp_assigner(Third())

Build = Callable[[StreamExecutionEnvironment], DataStream[Any]]


def environment(mode: str, parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    """Streaming cuts its input into small epochs; both have memory for a handful of records."""
    frame = {"flott__epoch__initial_records": "7", "flott__epoch__max_records": "7", "flott__exchange__memory": "2kb"}
    return in_process(parallelism, execution__runtime_mode=mode, **{**frame, **options})


def run(mode: str, build: Build, parallelism: int = 2) -> list[Any]:
    return collect(build(environment(mode, parallelism)))


def events(env: StreamExecutionEnvironment, strategy: WatermarkStrategy = TIMED, of: Iterable[Any] = EVENTS) -> Any:
    return env.from_source(CollectionSource(tuple(of)), strategy, "events")


def first(record: Any) -> Any:
    return record[0]


def last_per_key(records: list[Any]) -> dict[Any, Any]:
    return {record[0]: record for record in records}


# ---- rolling aggregates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    "aggregate",
    [
        lambda keyed: keyed.sum(1),
        lambda keyed: keyed.min(1),
        lambda keyed: keyed.max_by(1),
        lambda keyed: keyed.reduce(lambda a, b: (a[0], a[1] * 31 + b[1], b[2])),
    ],
)
@pytest.mark.parametrize("strategy", [NO_TIME, TIMED])
def test_a_rolling_aggregate_is_emitted_once_per_key_as_streaming_left_it(
    aggregate: Callable[[Any], DataStream[Any]], parallelism: int, strategy: WatermarkStrategy
) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        return aggregate(events(env, strategy).key_by(first))

    found = run("BATCH", build, parallelism)
    assert len(found) == 5
    assert last_per_key(found) == last_per_key(run("STREAMING", build, parallelism))


class Stamp(ProcessFunction[Any, Any]):
    """Shows the timestamp of a record."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield (*value[:2], ctx.timestamp())


def test_the_last_aggregate_has_the_timestamp_it_has_in_streaming() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        return events(env).key_by(first).sum(1).process(Stamp())

    assert last_per_key(run("BATCH", build)) == last_per_key(run("STREAMING", build))


def test_two_keyed_stages_give_the_final_results_of_final_results() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        sums = events(env).key_by(first).sum(1)
        return sums.map(lambda r: (r[1] % 2, 1, r[2])).key_by(first).sum(1)

    totals = Counter[str]()
    for key, value, _ in EVENTS:
        totals[key] += value
    parities = Counter(total % 2 for total in totals.values())
    assert sorted((r[0], r[1]) for r in run("BATCH", build)) == sorted(parities.items())


# ---- process functions -----------------------------------------------------------------------------------------------


class Remember(KeyedProcessFunction[str, Any, Any]):
    """Numbers the records of a key, keeps them, and gives them out by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.kept = runtime_context.get_list_state(ListStateDescriptor("kept"))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        self.kept.add(value[1])
        self.seen.put(value[1], value[2])
        ctx.timer_service().register_event_time_timer(10_000)
        ctx.timer_service().register_event_time_timer(20_000)
        ctx.timer_service().delete_event_time_timer(20_000)
        yield "record", ctx.get_current_key(), number, value[1], ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        held = sorted(dict(self.seen.items()).items())
        yield "timer", ctx.get_current_key(), timestamp, tuple(self.kept.get()), tuple(held)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_state_and_timers_give_the_results_of_streaming(parallelism: int) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        return events(env).key_by(first).process(Remember())

    found = run("BATCH", build, parallelism)
    assert Counter(found) == Counter(run("STREAMING", build, parallelism))
    assert sum(record[0] == "timer" for record in found) == 5


def test_records_come_key_by_key_and_in_the_order_of_time() -> None:
    found = collect(events(environment("BATCH", 1), PATIENT, DISORDERED).key_by(first).process(Remember()))
    keys = [key for key, _ in groupby(record[1] for record in found)]
    assert len(keys) == len(set(keys)) == 5
    for _, of_key in groupby(found, key=lambda record: record[1]):
        *records, timer = of_key
        assert [r[4] for r in records] == sorted(r[4] for r in records)
        assert timer[0] == "timer"


class Clockwork(KeyedProcessFunction[str, Any, Any]):
    """Sets timers of both kinds, again whenever one fires, and tells the time. (Not for ever, lest a test hang.)"""

    fired = 0

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        service = ctx.timer_service()
        service.register_event_time_timer(value[2] + 5)
        service.register_processing_time_timer(service.current_processing_time() + 3_600_000)
        yield "record", ctx.timer_service().current_watermark()

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        service = ctx.timer_service()
        self.fired += 1
        if self.fired < 1000:
            service.register_event_time_timer(timestamp + 1)
            service.register_processing_time_timer(timestamp + 1)
        yield ctx.time_domain(), ctx.timer_service().current_watermark(), ctx.timestamp()


def test_event_time_stands_still_until_the_key_ends_and_then_jumps_to_its_end() -> None:
    found = collect(events(environment("BATCH")).key_by(first).process(Clockwork()))
    assert {record[1] for record in found if record[0] == "record"} == {MIN_WATERMARK}
    timers = [record for record in found if record[0] is TimeDomain.EVENT_TIME]
    assert {record[1] for record in timers} == {MAX_WATERMARK}
    assert Counter(record[2] for record in timers) == Counter(value[2] + 5 for value in EVENTS)


def test_processing_time_timers_fire_at_the_end_of_their_key_without_waiting(tmp_path: Path) -> None:
    found: list[Any] = []
    env = environment("BATCH")
    events(env).key_by(first).process(Clockwork()).sink_to(CallableSink(found.append)).set_parallelism(1)
    done = live(env, tmp_path)
    assert done.status is JobStatus.FINISHED
    assert sum(record[0] is TimeDomain.PROCESSING_TIME for record in found) == 5
    assert done.master.clock.now_ms() == 1_000_000  # nobody has waited an hour


class Sides(ProcessFunction[Any, Any]):
    """Everything goes to the main output, large values to a side output as well."""

    def __init__(self, tag: OutputTag):
        self.tag = tag

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value
        if value[1] > 5:
            yield self.tag, value


class KeyedSides(KeyedProcessFunction[Any, Any, Any]):
    """The same of a keyed stream."""

    def __init__(self, tag: OutputTag):
        self.tag = tag

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield "main", value
        if value[1] > 5:
            yield self.tag, ("side", value)


def test_side_outputs_and_unions_carry_the_same_records() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        large, larger = OutputTag("large"), OutputTag("larger")
        split = events(env).process(Sides(large))
        keyed = split.union(split.get_side_output(large)).key_by(first).process(KeyedSides(larger))
        return keyed.union(keyed.get_side_output(larger))

    assert Counter(run("BATCH", build)) == Counter(run("STREAMING", build))


class Doubling(KeyedProcessFunction[Any, Any, Any]):
    """Fails the job by a record that knows where it comes from."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield 1 // (value[1] - 7)


def test_a_failure_card_names_the_key_and_the_record() -> None:
    bad = [("a", 1, 5), ("b", 7, 6)]
    with pytest.raises(JobFailedError) as failed:
        collect(events(environment("BATCH"), TIMED, bad).key_by(first).process(Doubling()))
    assert "('b', 7, 6)" in str(failed.value)
    assert "'b'" in str(failed.value)
    assert "ZeroDivisionError" in str(failed.value)


# ---- two inputs ------------------------------------------------------------------------------------------------------


class Meet(KeyedCoProcessFunction[str, Any, Any, Any]):
    """Tells which input a record came by and what its key has seen, and counts by a timer."""

    def open(self, runtime_context: Any) -> None:
        self.sides = runtime_context.get_list_state(ListStateDescriptor("sides"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._take("left", value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        return self._take("right", value, ctx)

    def _take(self, side: str, value: Any, ctx: Any) -> Iterator[Any]:
        self.sides.add(side)
        ctx.timer_service().register_event_time_timer(MAX_WATERMARK - 1)
        yield ctx.get_current_key(), side, value[2]

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield ctx.get_current_key(), "end", tuple(sorted(Counter(self.sides.get()).items()))


def meeting(env: StreamExecutionEnvironment, strategy: WatermarkStrategy = TIMED) -> DataStream[Any]:
    left = events(env, strategy, EVENTS[::2]).key_by(first)
    return left.connect(events(env, strategy, EVENTS[1::3]).key_by(first)).process(Meet())


@pytest.mark.parametrize("parallelism", [1, 3])
def test_connected_keyed_streams_give_the_results_of_streaming(parallelism: int) -> None:
    assert Counter(run("BATCH", meeting, parallelism)) == Counter(run("STREAMING", meeting, parallelism))


def test_both_inputs_of_a_key_come_merged_by_time() -> None:
    found = run("BATCH", meeting, 1)
    for _, of_key in groupby(found, key=first):
        *records, end = of_key
        assert end[1] == "end"
        assert [r[2] for r in records] == sorted(r[2] for r in records)
        assert {r[1] for r in records} == {"left", "right"}


def test_without_timestamps_the_first_input_of_a_key_comes_before_the_second() -> None:
    for _, of_key in groupby(run("BATCH", lambda env: meeting(env, NO_TIME), 1), key=first):
        sides = [side for _, side, _ in of_key]
        assert sides == sorted(sides, key=["left", "right", "end"].index)


class Either(CoMapFunction[Any, Any, Any]):
    """Says which input a record came by."""

    def map1(self, value: Any) -> Any:
        return "first", value

    def map2(self, value: Any) -> Any:
        return "second", value


def test_inputs_that_are_not_keyed_keep_streaming_s_ways() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        return events(env).connect(events(env, NO_TIME).rebalance()).map(Either())

    assert Counter(run("BATCH", build)) == Counter(run("STREAMING", build))


class Rules(KeyedBroadcastProcessFunction[str, Any, Any, Any]):
    """Looks every record up in the rules, of which none may be missing."""

    RULES = MapStateDescriptor("rules")

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[0], ctx.get_broadcast_state(self.RULES).get(value[1])

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(self.RULES).put(*value)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_broadcast_input_is_complete_before_the_first_keyed_record_comes(parallelism: int) -> None:
    env = environment("BATCH", parallelism)
    rules = env.from_collection([(n, n * 100) for n in range(11)]).broadcast(Rules.RULES)
    found = collect(events(env).key_by(first).connect(rules).process(Rules()))
    assert Counter(found) == Counter((key, value * 100) for key, value, _ in EVENTS)


class UnkeyedRules(BroadcastProcessFunction[Any, Any, Any]):
    """The same for a stream that is not keyed."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value[0], ctx.get_broadcast_state(Rules.RULES).get(value[1])

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(Rules.RULES).put(*value)


def test_broadcast_input_comes_first_even_where_a_neighbour_pushes_records() -> None:
    env = environment("BATCH")
    rules = env.from_collection([(n, n * 100) for n in range(11)]).broadcast(Rules.RULES)
    pushed = events(env).key_by(first).process(KeyedSides(OutputTag("large"))).map(lambda named: named[1])
    found = collect(pushed.connect(rules).process(UnkeyedRules()))
    assert Counter(found) == Counter((key, value * 100) for key, value, _ in EVENTS)


class Pair(ProcessJoinFunction[Any, Any, Any]):
    """The values of both."""

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
        yield left[0], left[2], right[2], ctx.get_timestamp()


def test_an_interval_join_finds_all_pairs() -> None:
    env = environment("BATCH")
    left, right = events(env, TIMED, DISORDERED[::2]).key_by(first), events(env, TIMED, DISORDERED[1::2]).key_by(first)
    found = collect(left.interval_join(right).between(Time.milliseconds(-60), Time.milliseconds(90)).process(Pair()))
    pairs = [(a, b) for a in DISORDERED[::2] for b in DISORDERED[1::2] if a[0] == b[0] and -60 <= b[2] - a[2] <= 90]
    assert Counter(found) == Counter((a[0], a[2], b[2], max(a[2], b[2])) for a, b in pairs)
    assert found


# ---- windows ---------------------------------------------------------------------------------------------------------


class Total(AggregateFunction[Any, Any, Any]):
    """Key and sum of the values."""

    def create_accumulator(self) -> Any:
        return None, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return value[0], accumulator[1] + value[1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, a: Any, b: Any) -> Any:
        return a[0] or b[0], a[1] + b[1]


class Show(ProcessWindowFunction[Any, Any, str, Any]):
    """The window with its contents."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        window = context.window()
        return [(key, getattr(window, "start", None), sorted(element[1] for element in elements))]


def tumbling(keyed: Any) -> Any:
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(130)))


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize(
    "windowed",
    [
        lambda keyed: tumbling(keyed).aggregate(Total()),
        lambda keyed: tumbling(keyed).reduce(lambda a, b: (a[0], a[1] + b[1], b[2])),
        lambda keyed: tumbling(keyed).process(Show()),
        lambda keyed: tumbling(keyed).allowed_lateness(50).process(Show()),
        lambda keyed: keyed.window(
            SlidingEventTimeWindows.of(Time.milliseconds(200), Time.milliseconds(70))
        ).aggregate(Total()),
        lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(45))).aggregate(Total()),
        lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(55))).process(Show()),
        lambda keyed: keyed.count_window(3).process(Show()),
        lambda keyed: keyed.count_window(4, 2).reduce(lambda a, b: (a[0], a[1] + b[1], b[2])),
    ],
)
def test_windows_give_the_results_of_streaming(windowed: Callable[[Any], DataStream[Any]], parallelism: int) -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        return windowed(events(env).key_by(first)).map(repr)

    found = run("BATCH", build, parallelism)
    assert found
    assert Counter(found) == Counter(run("STREAMING", build, parallelism))


def test_nothing_is_late() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        return tumbling(events(env, TIMED, DISORDERED).key_by(first)).aggregate(Total())

    everything = sum(value for _, value, _ in EVENTS)
    assert sum(total for _, total in run("BATCH", build)) == everything
    assert sum(total for _, total in run("STREAMING", build)) < everything


def test_windows_in_processing_time_end_with_the_input() -> None:
    env = environment("BATCH")
    windows = events(env).key_by(first).window(TumblingProcessingTimeWindows.of(Time.hours(24)))
    assert sum(total for _, total in collect(windows.aggregate(Total()))) == sum(value for _, value, _ in EVENTS)


def test_a_trigger_that_sets_its_timer_again_fires_for_the_first_time_and_at_the_end() -> None:
    env = environment("BATCH")
    windows = events(env).key_by(first).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    fired = collect(windows.trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(10))).aggregate(Total()))
    totals = [(f"k{n}", sum(v for k, v, _ in EVENTS if k == f"k{n}")) for n in range(5)]
    assert sorted(fired) == sorted([*totals, *totals])


RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 60)), max_size=40)


@given(RECORDS, st.integers(1, 3), st.sampled_from(["1b", "1kb", "10mb"]))
@settings(max_examples=30)
def test_any_input_in_any_order_gives_the_same_windows(records: list[Any], parallelism: int, memory: str) -> None:
    env = environment("BATCH", parallelism, flott__exchange__memory=memory)
    stream = events(env, TIMED, records).key_by(first).window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    expected: dict[Any, list[int]] = {}
    for key, value, timestamp in records:
        expected.setdefault((key, timestamp // 20 * 20), []).append(value)
    assert sorted(collect(stream.process(Show()))) == sorted((*at, sorted(values)) for at, values in expected.items())


# ---- state -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def keys_held(monkeypatch: pytest.MonkeyPatch) -> list[set[Any]]:
    """The keys in state whenever a key ends."""
    held: list[set[Any]] = []
    end_keys = Subtask.end_keys

    def spied(self: Subtask, index: int = 0) -> None:
        state = self.slots[index].keyed_state
        if state is not None:
            held.append(_keys_of(state))
        end_keys(self, index)

    monkeypatch.setattr(Subtask, "end_keys", spied)
    return held


def _keys_of(state: KeyedState) -> set[Any]:
    keys: set[Any] = set()
    for table in state._tables.values():
        if hasattr(table, "live"):
            keys |= {timer[1] for timer in table.live}
        elif hasattr(table, "panes"):
            keys |= {key for pane in table.panes.values() for key in pane}
        else:
            keys |= {entry[0] if table.namespaced else entry for entry in table.entries}  # type: ignore[attr-defined]
    return keys


@pytest.mark.parametrize(
    "build",
    [
        lambda keyed: keyed.sum(1),
        lambda keyed: keyed.process(Remember()),
        lambda keyed: tumbling(keyed).aggregate(Total()),
        lambda keyed: tumbling(keyed).process(Show()),
        lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(45))).aggregate(Total()),
        lambda keyed: keyed.connect(keyed).process(Meet()),
        lambda keyed: keyed.interval_join(keyed).between(Time.seconds(-1), Time.seconds(1)).process(Pair()),
    ],
)
def test_state_never_holds_more_than_one_key_and_none_is_saved(
    build: Callable[[Any], DataStream[Any]], keys_held: list[set[Any]], tmp_path: Path
) -> None:
    env = environment("BATCH")
    build(events(env).key_by(first)).sink_to(LedgerSink(Ledger(uuid4().hex)))
    files: list[Path] = []
    done = live(env, tmp_path, on_step=lambda step, epoch: files.extend(tmp_path.glob("state/*")))
    assert done.status is JobStatus.FINISHED
    assert [keys for keys in keys_held if len(keys) > 1] == []
    assert {key for keys in keys_held for key in keys} == {f"k{n}" for n in range(5)}
    assert files == []
    assert done.history.epochs[0].state_entries == 0


def test_a_keyed_operator_inside_a_chain_keeps_all_keys_and_still_ends_them() -> None:
    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        named = events(env).key_by(first).process(Remember()).map(lambda r: (r[1], 1))
        return reinterpret_as_keyed_stream(named, first).sum(1)

    assert sorted(run("BATCH", build)) == sorted(last_per_key(run("STREAMING", build)).values())


def test_a_record_in_the_wrong_subtask_is_refused_though_nothing_is_saved() -> None:
    env = environment("BATCH")
    moved = env.from_collection([(n, 1) for n in range(20)]).rebalance().map(lambda r: r)
    with pytest.raises(JobFailedError, match="reinterpret_as_keyed_stream"):
        collect(reinterpret_as_keyed_stream(moved, first).sum(1))


# ---- one epoch -------------------------------------------------------------------------------------------------------


def text_files(folder: Path) -> Any:
    for number in range(200):
        (folder / f"{number:03}.txt").write_text(f"{number}\n{number}\n")
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder)).build()


@pytest.mark.parametrize(
    ("source", "records"),
    [
        (lambda folder: CollectionSource(tuple(range(50)), max_records_per_epoch=3), 50),
        (lambda folder: NumberSequenceSource(1, 50), 50),
        (lambda folder: DataGeneratorSource(lambda n: n, 50, 1.0), 50),
        (lambda folder: ScriptedSource({"a": [1, Wait(60_000), 2, EndOfEpoch()], "b": [EndOfEpoch(), 3, 4]}), 4),
        (text_files, 400),
    ],
)
def test_all_of_a_source_is_read_in_one_epoch(source: Callable[[Path], Any], records: int, tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    (tmp_path / "input").mkdir()
    env = environment("BATCH")
    env.from_source(source(tmp_path / "input"), NO_TIME, "s").key_by(lambda n: int(n) % 5).reduce(max).sink_to(
        LedgerSink(ledger)
    )
    done = live(env, tmp_path / "job")
    assert done.status is JobStatus.FINISHED
    assert [epoch.records_in for epoch in done.history.epochs] == [records]
    assert len(ledger.records) <= 5


class Hesitant(ScriptedSource):
    """A bounded source that knows nothing of requests for everything."""

    def create_enumerator(self) -> SplitEnumerator:
        return _OneByOne()


class _OneByOne(SplitEnumerator):
    def plan(self, request: SliceRequest) -> SlicePlan:
        return SlicePlan((Slice("0", 0, 1),), backlog=True)

    def advance(self, plan: SlicePlan, reached: dict[str, Any]) -> None:
        pass

    def snapshot(self) -> Any:
        return None


def test_a_source_that_keeps_something_for_later_is_refused() -> None:
    env = environment("BATCH")
    with pytest.raises(JobFailedError, match=r"Source 'Source: slow'.* keeps input for later"):
        collect(env.from_source(Hesitant([1, 2]), NO_TIME, "slow"))


@pytest.mark.parametrize("mode", ["BATCH", "AUTOMATIC"])
def test_results_can_be_collected(mode: str) -> None:
    env = environment(mode)
    with events(env).key_by(first).sum(1).execute_and_collect() as results:
        assert len(list(results)) == 5


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_failed_epoch_is_run_again_as_a_whole_and_leaves_no_trace(parallelism: int, tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = environment("BATCH", parallelism, restart_strategy__type="fixed-delay")
    env._configuration.set_string("restart-strategy.fixed-delay.attempts", "5")
    script = [*EVENTS[:30], Abort(), EndOfEpoch(), *EVENTS[30:], Abort(times=2)]
    stream = env.from_source(ScriptedSource(script), TIMED, "s").key_by(first).process(Remember())
    stream.sink_to(LedgerSink(ledger))
    done = live(env, tmp_path)
    assert done.status is JobStatus.FINISHED
    assert len(done.history.restarts) == 3
    expected = run("STREAMING", lambda env: events(env).key_by(first).process(Remember()))
    assert Counter(ledger.records) == Counter(expected)


class FailsAtTheEnd(Remember):
    """Raises in the timer of the third key, at the first attempt."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.attempt, self.ended = runtime_context.get_attempt_number(), 0

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        self.ended += 1
        if self.attempt == 0 and self.ended == 3:
            raise ValueError("not yet")
        yield from super().on_timer(timestamp, ctx)


def test_a_failure_at_the_end_of_a_key_is_a_card_and_the_retry_gives_exact_results(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)
    env = environment("BATCH", 1, restart_strategy__type="fixed-delay")
    events(env).key_by(first).process(FailsAtTheEnd()).sink_to(LedgerSink(ledger))
    done = live(env, tmp_path)
    assert done.status is JobStatus.FINISHED
    ((card, _),) = done.history.restarts
    assert "on_timer(10000) in event time" in card
    assert "'k2'" in card
    expected = run("STREAMING", lambda env: events(env).key_by(first).process(Remember()))
    assert Counter(ledger.records) == Counter(expected)


@pytest.mark.parametrize("step", ["planned", "ran", "acknowledged", "completed", "committed"])
def test_a_job_that_crashed_begins_again_and_commits_once(step: str, tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)

    def crash(name: str, epoch: int) -> None:
        if name == step:
            raise Crash

    def start(on_step: Any) -> Any:
        env = environment("BATCH")
        events(env).key_by(first).process(Remember()).sink_to(LedgerSink(ledger))
        return live(env, tmp_path, on_step=on_step)

    assert start(crash).crashed
    assert start(None).status is JobStatus.FINISHED
    expected = run("STREAMING", lambda env: events(env).key_by(first).process(Remember()))
    assert Counter(ledger.records) == Counter(expected)


def test_a_plan_of_streaming_is_not_taken_for_the_whole_input(tmp_path: Path) -> None:
    ledger = Ledger(uuid4().hex)

    def crash(name: str, epoch: int) -> None:
        raise Crash

    for mode, on_step in (("STREAMING", crash), ("BATCH", None)):
        env = environment(mode)
        events(env).key_by(first).sum(1).sink_to(LedgerSink(ledger))
        done = live(env, tmp_path, on_step=on_step)
    assert done.status is JobStatus.FINISHED
    assert done.history.epochs[0].records_in == len(EVENTS)


def test_a_batch_does_not_continue_from_a_checkpoint(tmp_path: Path) -> None:
    def crash_in_second(name: str, epoch: int) -> None:
        if epoch == 2:
            raise Crash

    for mode, on_step in (("STREAMING", crash_in_second), ("BATCH", None)):
        env = environment(mode)
        events(env).key_by(first).sum(1).sink_to(LedgerSink(Ledger(uuid4().hex)))
        done = live(env, tmp_path, on_step=on_step)
    assert done.status is JobStatus.FAILED
    assert "continue from checkpoint 1" in str(done.failure)


# ---- the choice of the mode ------------------------------------------------------------------------------------------


def program(mode: RuntimeExecutionMode | str | None, *, endless: bool) -> StreamExecutionEnvironment:
    env = in_process()
    if isinstance(mode, str):
        env.configure(Configuration.of({"execution.runtime-mode": mode}))
    elif mode is not None:
        env.set_runtime_mode(mode)
    bounded = env.from_collection([1, 2])
    other = env.from_source(ScriptedSource([1], endless=endless), NO_TIME, "other")
    bounded.union(other).print()
    return env


@pytest.mark.parametrize(
    ("mode", "endless", "batch"),
    [
        (None, False, False),
        (RuntimeExecutionMode.STREAMING, False, False),
        (RuntimeExecutionMode.BATCH, False, True),
        ("batch", False, True),
        (RuntimeExecutionMode.AUTOMATIC, False, True),
        ("AUTOMATIC", True, False),
    ],
)
def test_the_mode_is_chosen_by_the_setting_and_the_sources(mode: Any, endless: bool, batch: bool) -> None:
    assert program(mode, endless=endless).get_job_graph().batch is batch


def test_an_unbounded_source_in_batch_mode_is_refused_by_name() -> None:
    env = program(RuntimeExecutionMode.BATCH, endless=True)
    with pytest.raises(ProgramError, match=r"unbounded: 'Source: other' \(.*test_batch_mode\.py:\d+\)"):
        env.execute()


def test_an_unbounded_source_that_leads_nowhere_does_not_matter() -> None:
    env = in_process(execution__runtime_mode="AUTOMATIC")
    env.from_source(ScriptedSource([1], endless=True), NO_TIME, "unused").map(lambda n: n)
    env.from_collection([1]).print()
    assert env.get_job_graph().batch


def test_a_mode_that_is_none_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"takes a RuntimeExecutionMode"):
        in_process().set_runtime_mode("BATCH")  # type: ignore[arg-type]
