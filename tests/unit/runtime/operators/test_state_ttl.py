"""State with a time to live in programs: in every function that has keyed state, through crashes and rescaling."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock
from uuid import uuid4

import pytest

from flott.common import Duration, Time, WatermarkStrategy
from flott.common.job_status import JobStatus
from flott.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flott.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
)
from flott.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flott.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from flott.errors import StorageError
from flott.runtime.epoch.image import TaskSettings
from flott.runtime.managed_state.backends.backend import BackendSettings
from flott.testing import OperatorHarness, TwoInputHarness
from flott.testing import harness as harness_module
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel, Crash, Faults, Incarnation, collect, in_process, live
from flott.testing.sinks import Ledger, LedgerSink
from flott.testing.sources import Abort, EndOfEpoch, ScriptedSource, Wait
from tests.unit.runtime.epoch.wandering import wandering
from tests.unit.runtime.jobmaster.test_protocol import STEPS, Storm, TornStorage, patient

TTL = 100
NO_TIME = WatermarkStrategy.no_watermarks()

D = Callable[[], StateDescriptor]


def expiring(descriptor: Any, *, event_time: bool = False, **options: Any) -> Any:
    """The descriptor with a time to live."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
    if event_time:
        builder.use_event_time()
    for name, arguments in options.items():
        getattr(builder, name)(*arguments)
    descriptor.enable_time_to_live(builder.build())
    return descriptor


def by_key(value: Any) -> Any:
    return value[0]


class Number(KeyedProcessFunction[Any, Any, Any]):
    """Numbers the records of a key, from one again when it has forgotten it."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(expiring(ValueStateDescriptor("count"), **self.options))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield (*value, number)


# ---- with a harness --------------------------------------------------------------------------------------------------


def test_in_processing_time_state_is_forgotten_when_its_time_is_over() -> None:
    with OperatorHarness(lambda stream: stream.key_by(by_key).process(Number())) as harness:
        for time in (1000, 1050, 1149, 1249, 1300):
            harness.set_processing_time(time)
            harness.process_element(("a", time))
        assert [number for _, _, number in harness.output] == [1, 2, 3, 1, 2]
        assert harness.get_state("a", "count") == 2
        harness.set_processing_time(1400)
        assert harness.get_state("a", "count") is None


def test_time_to_live_outlasts_a_restore_and_a_change_of_parallelism() -> None:
    def piece(stream: DataStream[Any]) -> DataStream[Any]:
        return stream.key_by(by_key).process(Number()).uid("number")

    keys = [f"key {n}" for n in range(20)]
    with OperatorHarness(piece, parallelism=2, processing_time=1000) as harness:
        harness.process_elements([(key,) for key in keys])
        snapshot = harness.snapshot()
    for now, number in ((1000 + TTL - 1, 2), (1000 + TTL, 1)):
        with OperatorHarness(piece, parallelism=3, snapshot=snapshot, processing_time=now) as restored:
            restored.process_elements([(key,) for key in keys])
            assert {found for _, found in restored.output} == {number}


def test_every_record_sweeps_if_the_program_wants_it() -> None:
    class Now(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            descriptor = expiring(ValueStateDescriptor("s"), cleanup_incrementally=(2, True))
            self.state = runtime_context.get_state(descriptor)

        def process_element(self, value: Any, ctx: Any) -> None:
            if value != "rest":
                self.state.update(1)

    with OperatorHarness(lambda stream: stream.key_by(lambda v: v).process(Now()), processing_time=1000) as harness:
        harness.process_elements(list(range(10)))
        harness.set_processing_time(2000)
        harness.process_elements(["rest"] * 3)
        harness.end_epoch()
        assert harness.num_keyed_state_entries == 4
        harness.end_epoch()
        assert harness.num_keyed_state_entries == 4  # no records, no sweeping


# ---- event time: in every function, a record sees what is not older than its own timestamp ---------------------------


class Keeps:
    """Keeps the timestamp, which is the second item of every record, and shows what it found."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(expiring(ValueStateDescriptor("last"), event_time=True))

    def see(self, value: Any) -> Any:
        found = self.last.value()
        self.last.update(value[1])
        return value[1], found


class InMap(Keeps, MapFunction[Any, Any]):
    def map(self, value: Any) -> Any:
        return self.see(value)


class InFlatMap(Keeps, FlatMapFunction[Any, Any]):
    def flat_map(self, value: Any) -> Any:
        return [self.see(value)]


class InFilter(Keeps, FilterFunction[Any]):
    def filter(self, value: Any) -> bool:
        value.append(self.see(value))
        return True


class InReduce(Keeps, ReduceFunction[Any]):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return [*value2, self.see(value2)]


class InProcess(Keeps, KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.see(value)


class Lazy(KeyedProcessFunction[Any, Any, Any]):
    """Asks for its state when it needs it."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        last = self.context.get_state(expiring(ValueStateDescriptor("last"), event_time=True))
        yield value[1], last.value()
        last.update(value[1])


#: One batch; and what is found by each: the record before it, unless that is too old. The fourth comes too early.
TIMES = [1000, 1099, 1199, 1150, 1400]
FOUND = [(1000, None), (1099, 1000), (1199, None), (1150, 1199), (1400, None)]

PIECES: dict[str, Callable[[DataStream[Any]], DataStream[Any]]] = {
    "map": lambda s: s.key_by(by_key).map(InMap()),
    "flat_map": lambda s: s.key_by(by_key).flat_map(InFlatMap()),
    "filter": lambda s: s.key_by(by_key).filter(InFilter()).map(lambda value: value[2]),
    "reduce": lambda s: s.key_by(by_key).reduce(InReduce()).map(lambda value: value[2:][-1] if value[2:] else None),
    "process": lambda s: s.key_by(by_key).process(InProcess()),
    "process, asked for late": lambda s: s.key_by(by_key).process(Lazy()),
}


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("epochs", [1, 2, 5])
def test_in_event_time_a_record_sees_what_is_not_older_than_itself(
    piece: Callable[[DataStream[Any]], DataStream[Any]], epochs: int
) -> None:
    with OperatorHarness(piece) as harness:
        for start in range(epochs):
            part = TIMES[start * 5 // epochs : (start + 1) * 5 // epochs]
            harness.process_elements([["k", time] for time in part], timestamps=part)
            harness.process_watermark(min(TIMES[(start + 1) * 5 // epochs :], default=10**4) - 1)
    found = [pair for pair in harness.output if pair is not None]
    if len(found) < len(FOUND):  # the first record of a reduce is not reduced
        assert found == [(1099, None), *FOUND[2:]]
    else:
        assert found == FOUND


class InCoMap(Keeps, CoMapFunction[Any, Any, Any]):
    def map1(self, value: Any) -> Any:
        return self.see(value)

    def map2(self, value: Any) -> Any:
        return self.see(value)


class InCoFlatMap(Keeps, CoFlatMapFunction[Any, Any, Any]):
    def flat_map1(self, value: Any) -> Any:
        return [self.see(value)]

    def flat_map2(self, value: Any) -> Any:
        return [self.see(value)]


class InCoProcess(Keeps, KeyedCoProcessFunction[Any, Any, Any, Any]):
    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.see(value)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self.see(value)


@pytest.mark.parametrize(
    "piece",
    [
        lambda a, b: a.connect(b).key_by(by_key, by_key).map(InCoMap()),
        lambda a, b: a.connect(b).key_by(by_key, by_key).flat_map(InCoFlatMap()),
        lambda a, b: a.connect(b).key_by(by_key, by_key).process(InCoProcess()),
    ],
    ids=["map", "flat_map", "process"],
)
def test_functions_of_two_inputs_have_the_event_time_of_each_record(piece: Any) -> None:
    with TwoInputHarness(piece) as harness:
        harness.process_elements1([["k", 1000], ["k", 1099]], timestamps=[1000, 1099])
        harness.process_elements2([["k", 1198], ["k", 1298]], timestamps=[1198, 1298])
    assert harness.output == [(1000, None), (1099, 1000), (1198, 1099), (1298, None)]


def test_timers_see_state_as_of_their_own_time() -> None:
    class Late(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.state = runtime_context.get_state(expiring(ValueStateDescriptor("s"), event_time=True))

        def process_element(self, value: Any, ctx: Any) -> None:
            self.state.update(value)
            for delay in (50, TTL - 1, TTL):
                ctx.timer_service().register_event_time_timer(ctx.timestamp() + delay)
            ctx.timer_service().register_processing_time_timer(7000)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield timestamp, self.state.value()

    with OperatorHarness(lambda stream: stream.key_by(lambda _: 1).process(Late())) as harness:
        harness.process_element("there", 1000)
        harness.process_watermark(5000)  # far past all of them, at once
        assert harness.output == [(1050, "there"), (1099, "there"), (1100, None)]
        harness.set_processing_time(7000)
        assert harness.output[3:] == [(7000, None)]  # as of the watermark


class Visits(ProcessWindowFunction[Any, Any, Any, Any]):
    """Numbers the windows of a key, from one again when it has forgotten it."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        number = context.global_state().get_state(expiring(ValueStateDescriptor("n"), event_time=True))
        number.update((number.value() or 0) + 1)
        yield context.window().max_timestamp(), number.value()


@pytest.mark.parametrize(
    "windows",
    [
        lambda s: s.window(TumblingEventTimeWindows.of(Time.milliseconds(10))),
        lambda s: s.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).allowed_lateness(5),
        lambda s: s.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10))),
    ],
    ids=["aligned", "with lateness", "sessions"],
)
@pytest.mark.parametrize("folded", [False, True])
def test_windows_see_state_as_of_their_end(windows: Any, folded: bool) -> None:
    def piece(stream: DataStream[Any]) -> DataStream[Any]:
        windowed = windows(stream.key_by(by_key))
        return windowed.reduce(lambda a, b: b, Visits()) if folded else windowed.process(Visits())

    times = [1000, 1060, 1260, 1300]
    with OperatorHarness(piece) as harness:
        harness.process_elements([("k", time) for time in times], timestamps=times)
        harness.process_watermark(9000)  # all windows at once
    assert harness.output == [(1009, 1), (1069, 2), (1269, 1), (1309, 2)]


def test_a_window_that_fires_early_has_the_time_of_the_record() -> None:
    def piece(stream: DataStream[Any]) -> DataStream[Any]:
        hours = stream.key_by(by_key).window(TumblingEventTimeWindows.of(Time.milliseconds(10_000)))
        return hours.trigger(CountTrigger.of(1)).process(Visits())

    times = [1000, 1050, 1200, 1250]
    with OperatorHarness(piece) as harness:
        harness.process_elements([("k", time) for time in times], timestamps=times)
        assert [number for _, number in harness.output] == [1, 2, 1, 2]


def test_state_of_a_window_expires_too() -> None:
    class PerWindow(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
            fired = context.window_state().get_list_state(expiring(ListStateDescriptor("fired"), event_time=True))
            fired.add(len(list(elements)))
            yield list(fired.get())

        def clear(self, context: Any) -> None:
            context.window_state().get_list_state(expiring(ListStateDescriptor("fired"), event_time=True)).clear()

    def piece(stream: DataStream[Any]) -> DataStream[Any]:
        hours = stream.key_by(by_key).window(TumblingEventTimeWindows.of(Time.milliseconds(10_000)))
        return hours.trigger(CountTrigger.of(1)).process(PerWindow())

    with OperatorHarness(piece) as harness:
        for time in (1000, 1050, 1120):
            harness.process_element(("k", time), time)
            harness.end_epoch()
        assert harness.output == [[1], [1, 2], [2, 3]]


class SumTrigger(Trigger[Any, Any]):
    """Fires when what came within the time to live adds up to ten."""

    total = staticmethod(lambda: expiring(ReducingStateDescriptor("sum", operator.add), event_time=True))
    seen = staticmethod(lambda: expiring(ListStateDescriptor("seen"), event_time=True))

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        total, seen = ctx.get_partitioned_state(self.total()), ctx.get_partitioned_state(self.seen())
        total.add(element[1])
        seen.add(element[1])
        assert sum(seen.get()) >= element[1]
        return TriggerResult.FIRE if total.get() >= 10 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Any) -> None:
        ctx.merge_partitioned_state(self.total())
        ctx.merge_partitioned_state(self.seen())

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.total()).clear()
        ctx.get_partitioned_state(self.seen()).clear()


@pytest.mark.parametrize(
    ("age", "fires"), [(TTL - 1, True), (TTL, False)], ids=["both are alive", "the first has expired"]
)
def test_state_of_triggers_is_merged_as_far_as_it_has_not_expired(age: int, fires: bool) -> None:
    def piece(stream: DataStream[Any]) -> DataStream[Any]:
        sessions = stream.key_by(by_key).window(EventTimeSessionWindows.with_gap(Time.milliseconds(100)))
        return sessions.trigger(SumTrigger()).reduce(lambda a, b: (a[0], a[1] + b[1]))

    with OperatorHarness(piece) as harness:
        harness.process_elements([("k", 4), ("k", 5)], timestamps=[1000, 1050 + age])
        assert harness.output == []
        harness.process_element(("k", 2), 1000 + age)  # just touches the first session, and joins it with the second
        assert harness.output == ([("k", 11)] if fires else [])
        assert harness.num_keyed_state_entries == 4  # the session, where it is, and the two states of its trigger


def test_an_interval_join_has_the_time_of_the_record_that_found_its_partner() -> None:
    class Pairs(ProcessJoinFunction[Any, Any, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(expiring(ValueStateDescriptor("n"), event_time=True))

        def process_element(self, left: Any, right: Any, ctx: Any) -> Iterator[Any]:
            self.count.update((self.count.value() or 0) + 1)
            yield self.count.value()

    def piece(left: DataStream[Any], right: DataStream[Any]) -> DataStream[Any]:
        joined = left.key_by(by_key).interval_join(right.key_by(by_key))
        return joined.between(Time.milliseconds(-1000), Time.milliseconds(1000)).process(Pairs())

    with TwoInputHarness(piece) as harness:
        harness.process_element1(("k", 0), 1000)
        for time in (1000, 1099, 1300):
            harness.process_element2(("k", time), time)
    assert harness.output == [1, 2, 1]


@pytest.mark.parametrize(
    ("descriptor", "write"),
    [
        (lambda: ValueStateDescriptor("s"), lambda state: state.update(1)),
        (lambda: ListStateDescriptor("s"), lambda state: state.add(1)),
        (lambda: MapStateDescriptor("s"), lambda state: state.put(1, 1)),
        (lambda: ReducingStateDescriptor("s", max), lambda state: state.add(1)),
    ],
    ids=["value", "list", "map", "reducing"],
)
@pytest.mark.parametrize("sweeps", [False, True])
def test_a_broadcast_record_is_applied_to_keys_whose_state_has_not_expired(
    descriptor: D, write: Any, sweeps: bool
) -> None:
    cleanup: dict[str, Any] = {"disable_cleanup_in_background": ()}
    if sweeps:
        cleanup = {"cleanup_incrementally": (1000, True)}
    get = {
        "ValueStateDescriptor": "get_state",
        "ListStateDescriptor": "get_list_state",
        "MapStateDescriptor": "get_map_state",
        "ReducingStateDescriptor": "get_reducing_state",
    }

    class Touch(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
        def open(self, runtime_context: RuntimeContext) -> None:
            known = expiring(descriptor(), **cleanup)
            self.state = getattr(runtime_context, get[type(known).__name__])(known)

        def process_element(self, value: Any, ctx: Any) -> None:
            write(self.state)

        def process_broadcast_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            keys: list[Any] = []
            ctx.apply_to_keyed_state(expiring(descriptor(), **cleanup), lambda key, state: keys.append(key))
            yield sorted(keys)

    def piece(data: DataStream[Any], rules: DataStream[Any]) -> DataStream[Any]:
        return data.key_by(lambda key: key).connect(rules.broadcast(MapStateDescriptor("rules"))).process(Touch())

    with TwoInputHarness(piece, processing_time=1000) as harness:
        harness.process_elements1(["a", "b"])
        harness.set_processing_time(1050)
        harness.process_element1("c")
        harness.process_element2("rule")
        harness.set_processing_time(1000 + TTL)
        harness.process_element2("rule")
        harness.set_processing_time(1050 + TTL)
        harness.process_element2("rule")
    assert harness.output == [["a", "b", "c"], ["c"], []]


def test_a_batch_in_event_time_gives_what_the_stream_gives() -> None:
    records = [(key, time) for time in range(1000, 3000, 37) for key in ("a", "b") if (time * 7 + len(key)) % 3]

    def run(mode: RuntimeExecutionMode) -> Counter[Any]:
        env = in_process(2)
        env.set_runtime_mode(mode)
        stream = env.from_collection(records).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        )
        return Counter(collect(stream.key_by(by_key).process(Number(event_time=True))))

    found = run(RuntimeExecutionMode.STREAMING)
    assert found == run(RuntimeExecutionMode.BATCH)
    assert len({number for _, _, number in found}) > 2


# ---- jobs, with everything that can happen to them -------------------------------------------------------------------

DISORDER = 30


class Window(KeyedProcessFunction[Any, Any, Any]):
    """What of the last hundred milliseconds of event time a key remembers, in all kinds of state."""

    def open(self, runtime_context: RuntimeContext) -> None:
        def aged(descriptor: Any) -> Any:
            return expiring(descriptor, event_time=True, cleanup_incrementally=(2, True))

        self.last = runtime_context.get_state(aged(ValueStateDescriptor("last", int)))
        self.all = runtime_context.get_list_state(aged(ListStateDescriptor("all", int)))
        self.by_digit = runtime_context.get_map_state(aged(MapStateDescriptor("digits", int, int)))
        self.sum = runtime_context.get_reducing_state(aged(ReducingStateDescriptor("sum", operator.add, int)))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        _, time = value
        yield value, self.last.value(), tuple(self.all.get()), tuple(sorted(self.by_digit.items())), self.sum.get()
        self.last.update(time)
        self.all.add(time)
        self.by_digit.put(time % 10, time)
        self.sum.add(time)


def expected_of(records: list[Any]) -> Counter[Any]:
    """The same, from the definition: what is younger than the time to live, seen from each record."""
    found: list[Any] = []
    state: dict[Any, Any] = {}
    for key, time in records:
        last, everything, digits, total = state.setdefault(key, [None, [], {}, None])
        seen = tuple(t for t in everything if time < t + TTL)
        by_digit = tuple(sorted((digit, t) for digit, t in digits.items() if time < t + TTL))
        added = total[0] if total is not None and time < total[1] + TTL else None
        found.append(((key, time), last if last is not None and time < last + TTL else None, seen, by_digit, added))
        everything.append(time)
        digits[time % 10] = time
        state[key] = [time, everything, digits, (time if added is None else added + time, time)]
    return Counter(found)


def windows_program(env: StreamExecutionEnvironment, source: Any, ledger: Ledger) -> None:
    patience = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    in_event_time = patience.with_timestamp_assigner(lambda value, _: value[1])
    stream = env.from_source(source, in_event_time, "events").uid("events")
    stream.key_by(by_key).process(Window()).uid("window").sink_to(LedgerSink(ledger)).uid("sink")


@pytest.mark.parametrize(
    ("seed", "backend"), [*((seed, "hashmap") for seed in range(16)), *((seed, "rocksdb") for seed in range(4))]
)
def test_in_event_time_results_depend_on_the_records_alone(seed: int, backend: str, tmp_path: Path) -> None:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict", reason="the RocksDB binding is not installed")
    random = Random(seed)
    records: list[Any] = []
    time = 1000
    for _ in range(random.randint(20, 120)):
        time += random.choice([0, 3, 10, 40, 150 if random.random() < 0.2 else 5])
        records.append((random.choice("abcdef"), time - random.randint(0, DISORDER)))
    script: list[Any] = []
    for record in records:
        script += [record, *random.choices([[], [EndOfEpoch()], [Abort(1)], [Wait(500)]], [10, 4, 0.5, 1])[0]]
    source, clock, folder, ledger = ScriptedSource(script), ManualClock(), tmp_path / "job", Ledger(uuid4().hex)
    faults = Faults()
    storage = TornStorage(str(folder), sync=False, faults=faults)
    settings = partial(TaskSettings, backend=BackendSettings(backend, 8 << 20, str(tmp_path / "local")))
    with wandering(seed), mock.patch.object(harness_module, "TaskSettings", settings):
        for life in range(40):
            storm = Storm(random, []) if life < 8 else None
            if storm is not None and backend == "rocksdb":
                storm.crash_in_storage = 10**9  # a process that dies lets go of its databases, but this one does not
            faults.fails = storm.storage if storm is not None else (lambda verb, name: False)
            env = patient(random.randint(1, 4))
            windows_program(env, source, ledger)
            try:
                done = live(env, folder, clock=clock, storage=storage, on_step=storm.step if storm else None)
            except StorageError:
                continue  # while it was being started
            if done.status is JobStatus.FINISHED:
                break
        else:
            pytest.fail("it never finished")
    assert Counter(ledger.records) == expected_of(records)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_in_processing_time_a_crash_and_another_parallelism_change_nothing(
    step: str, epoch: int, tmp_path: Path
) -> None:
    keys = [f"key {n}" for n in range(9)]
    script: list[Any] = []
    for wait in (10, 10, 1000, 10, 10):  # the time to live is over after the third
        script += [*((key, wait) for key in keys), Wait(wait)]
    source, clock, ledger = ScriptedSource([*script, *((key, 0) for key in keys)]), ManualClock(), Ledger(uuid4().hex)

    def life(parallelism: int, signal: type[BaseException] | None, at: int) -> Incarnation:
        def interrupt(now: str, epoch_now: int) -> None:
            if signal is not None and (now, epoch_now) == (step, at):
                raise signal

        env = patient(parallelism)
        numbered = env.from_source(source, NO_TIME, "n").uid("n").key_by(by_key).process(Number()).uid("number")
        numbered.sink_to(LedgerSink(ledger)).uid("sink")
        return live(env, tmp_path, clock=clock, on_step=interrupt)

    with wandering(epoch):
        assert life(1, Crash, epoch).crashed
        assert life(3, Cancel, epoch + 1).status is JobStatus.CANCELED
        assert life(2, None, 0).status is JobStatus.FINISHED
    numbers = [1, 2, 3, 1, 2, 3]
    assert Counter((key, number) for key, _, number in ledger.records) == Counter(
        (key, number) for key in keys for number in numbers
    )


def test_a_time_to_live_can_be_added_and_taken_away_between_two_runs(tmp_path: Path) -> None:
    keys = [f"key {n}" for n in range(9)]
    script: list[Any] = []
    for _ in range(6):
        script += [*((key,) for key in keys), Wait(60)]
    source, clock, ledger = ScriptedSource(script), ManualClock(), Ledger(uuid4().hex)

    class Forever(Number):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def life(function: Any, parallelism: int, until: int | None) -> None:
        def interrupt(step: str, epoch: int) -> None:
            if (step, epoch) == ("committed", until):
                raise Cancel

        env = patient(parallelism)
        numbered = env.from_source(source, NO_TIME, "n").uid("n").key_by(by_key).process(function).uid("number")
        numbered.sink_to(LedgerSink(ledger)).uid("sink")
        live(env, tmp_path, clock=clock, on_step=interrupt)

    life(Forever(), 2, 2)
    life(Number(), 3, 4)
    clock.advance(1000)  # nobody looks
    life(Forever(), 2, None)
    counted: dict[Any, list[int]] = {}
    for key, number in ledger.records:
        counted.setdefault(key, []).append(number)
    assert counted == {key: [1, 2, 3, 4, 1, 2] for key in keys}
