"""Small programs whose checkpoints and savepoints are kept as fixtures. ``generate.py`` makes them.

The programs use the public API only, so they run with every version of Flott. Each is a function
``build(env, folder)``: it reads below ``folder/in``, if it reads files, and writes below ``folder/out/<sink>``. The
epochs end where the input says so, hence the output does not depend on how fast a machine is.

A program that has fixtures never changes. Add a program, or a state with another uid, instead.
"""

from __future__ import annotations

import datetime
import decimal
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flott.common import Duration, Encoder, Instant, Row, Time, Types, WatermarkStrategy
from flott.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from flott.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CheckpointedFunction,
    FlatMapFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
)
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flott.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flott.testing.sources import EndOfEpoch, ScriptedSource


def lines_to(folder: str, sink: str, policy: RollingPolicy | None = None) -> FileSink:
    """Return a file sink for ``folder/out/<sink>``, one line per record; by default a part per checkpoint."""
    return (
        FileSink.for_row_format(os.path.join(folder, "out", sink), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy or RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )


def epochs_of(entries: Iterable[Any], size: int) -> list[Any]:
    """Return the entries with the mark of an end of epoch after every ``size`` of them."""
    script: list[Any] = []
    for number, entry in enumerate(entries, 1):
        script.append(entry)
        if number % size == 0:
            script.append(EndOfEpoch())
    return script


# --- kinds: every kind of keyed state, typed and pickled, with and without a time to live -----------------------------


class Place(NamedTuple):
    """A named tuple in typed state."""

    name: str
    height: float


@dataclass
class Person:
    """A dataclass, in typed and in pickled state."""

    name: str
    born: datetime.date
    scores: list[int]


#: One field for each basic type.
BASIC = Types.ROW_NAMED(
    ["text", "flag", "byte", "short", "int", "long", "float", "double", "char", "whole", "decimal", "instant", "date",
     "time", "timestamp", "bytes", "array", "list", "map", "pair"],
    [Types.STRING(), Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(),
     Types.DOUBLE(), Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE(),
     Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.BASIC_ARRAY(Types.LONG()),
     Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.DOUBLE()), Types.TUPLE([Types.INT(), Types.STRING()])],
)  # fmt: skip


def basic_row(n: int) -> Row:
    """Return a value of every basic type; some are absent."""
    return Row(
        text=f"n{n} ü", flag=n % 2 == 0, byte=n % 100, short=n * 3, int=-n, long=n << 40, float=n / 4, double=n / 3,
        char="abc"[n % 3], whole=n**20, decimal=decimal.Decimal(n) / 8, instant=Instant.of_epoch_milli(n * 1001),
        date=datetime.date(2020, 1, 1) + datetime.timedelta(days=n), time=datetime.time(n % 24, 5, 6),
        timestamp=datetime.datetime(2021, 2, 3, 4, 5, n % 60, 123000), bytes=bytes([n % 256, 0, 255]),
        array=[n, n + 1], list=[f"e{n}", None] if n % 3 else None, map={"a": n / 2}, pair=(n, "p"),
    )  # fmt: skip


class Mean(AggregateFunction[int, tuple[int, int], float]):
    """The mean of numbers."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def larger(one: Any, other: Any) -> Any:
    return max(one, other)


def ttl(descriptor: Any, config: StateTtlConfig | None) -> Any:
    if config is not None:
        descriptor.enable_time_to_live(config)
    return descriptor


class AllKinds(KeyedProcessFunction[Any, tuple[Any, int, int], str]):
    """Uses all kinds of state for each key, and tells what they hold."""

    def __init__(self, typed: bool, time_to_live: StateTtlConfig | None = None):
        self.typed = typed
        self.config = time_to_live

    def descriptors(self) -> dict[str, StateDescriptor]:
        typed, long, pair = self.typed, Types.LONG(), Types.TUPLE([Types.LONG(), Types.LONG()])
        made: dict[str, StateDescriptor] = {
            "value": ValueStateDescriptor("value", *([Person] if typed else [])),
            "list": ListStateDescriptor("list", *([Place] if typed else [])),
            "map": MapStateDescriptor("map", *([Types.STRING(), BASIC] if typed else [])),
            "reducing": ReducingStateDescriptor("reducing", larger, *([long] if typed else [])),
            "aggregating": AggregatingStateDescriptor("aggregating", Mean(), *([pair] if typed else [])),
        }
        return {name: ttl(descriptor, self.config) for name, descriptor in made.items()}

    def open(self, runtime_context: RuntimeContext) -> None:
        found: Any = self.descriptors()
        self.value = runtime_context.get_state(found["value"])
        self.list = runtime_context.get_list_state(found["list"])
        self.map = runtime_context.get_map_state(found["map"])
        self.reducing = runtime_context.get_reducing_state(found["reducing"])
        self.aggregating = runtime_context.get_aggregating_state(found["aggregating"])

    def process_element(self, value: tuple[Any, int, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        key, n, _ = value
        before = self.value.value()
        born = datetime.date(1970, 1, 1) + datetime.timedelta(days=n)
        scores = [] if before is None else before.scores
        self.value.update(Person(f"{key}", born, [*scores[-2:], n]))
        self.list.add(Place(f"place {n}", n / 2) if self.typed else {"place": n, "set": {n}})
        self.map.put(f"mod{n % 4}", basic_row(n) if self.typed else (n, [n]))
        self.reducing.add(n % 17)
        self.aggregating.add(n)
        items = sorted((name, repr(item)) for name, item in self.map.items())
        yield (
            f"{key!r} {n} value={self.value.value()!r} before={before!r} list={list(self.list.get())!r} map={items}"
            f" reducing={self.reducing.get()} aggregating={self.aggregating.get():.3f}"
        )
        if n % 5 == 0:
            self.list.clear()
            self.map.remove("mod1")
        if n % 7 == 0:
            self.value.clear()
            self.reducing.clear()
        if n % 11 == 0:
            self.map.clear()
            self.aggregating.clear()


def kinds(env: StreamExecutionEnvironment, folder: str) -> None:
    """All kinds of state: typed and pickled; without a time to live, with one that passes, with one that does not."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[2])
    script = {"a": [], "b": []}
    for n in range(1, 97):
        split = "ab"[n % 2]
        script[split] += [((f"k{n % 6}", n % 2), n, n * 10)]
    epochs = {name: epochs_of(entries, 3) for name, entries in script.items()}
    numbers = env.from_source(ScriptedSource(epochs), strategy, "numbers").uid("numbers")
    by_event_time = StateTtlConfig.new_builder(Time.milliseconds(130)).use_event_time().never_return_expired().build()
    for_ages = (
        StateTtlConfig.new_builder(Time.days(100_000)).update_ttl_on_read_and_write().cleanup_full_snapshot().build()
    )
    at_once = StateTtlConfig.new_builder(Time.milliseconds(1)).never_return_expired().build()
    typed_key = Types.TUPLE([Types.STRING(), Types.LONG()])
    for name, function, key_type in [
        ("typed", AllKinds(True), typed_key),
        ("pickled", AllKinds(False), None),
        ("typed-event-ttl", AllKinds(True, by_event_time), typed_key),
        ("pickled-event-ttl", AllKinds(False, by_event_time), None),
        ("typed-long-ttl", AllKinds(True, for_ages), None),
        ("pickled-long-ttl", AllKinds(False, for_ages), typed_key),
        ("expired", AllKinds(True, at_once), None),
    ]:
        keyed = numbers.key_by(lambda item: item[0], key_type=key_type)
        keyed.process(function).uid(name).sink_to(lines_to(folder, name)).uid(f"{name}-sink")


# --- timers -----------------------------------------------------------------------------------------------------------


class Reminders(KeyedProcessFunction[str, tuple[str, int], str]):
    """Registers timers of both kinds and deletes some; a processing-time timer fires in the epoch after its own."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        key, at = value
        timers = ctx.timer_service()
        self.seen.add(at)
        timers.register_event_time_timer(at + 25)
        timers.register_event_time_timer(at + 55)
        if at % 3 == 0:
            timers.delete_event_time_timer(at + 25)
        timers.register_processing_time_timer(timers.current_processing_time() + 1)
        timers.register_processing_time_timer(10**14)  # in the year 5138
        yield f"{key} at {at}"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[str]:
        seen = list(self.seen.get())
        if ctx.time_domain().name == "EVENT_TIME":
            yield f"{ctx.get_current_key()} event time {timestamp}: {seen}"
            self.seen.update([at for at in seen if at + 55 > timestamp])
        elif timestamp < 10**14:
            yield f"{ctx.get_current_key()} processing time: {seen}"


def timers(env: StreamExecutionEnvironment, folder: str) -> None:
    """Timers of both time domains that wait when the snapshot is taken."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(4)).with_timestamp_assigner(
        lambda item, _: item[1]
    )
    visits = [(f"user{n % 5}", n * 7 - (n % 3) * 2) for n in range(1, 41)]
    source = env.from_source(ScriptedSource(epochs_of(visits, 4)), strategy, "visits").uid("visits")
    for name, key_type in [("untyped", None), ("typed", Types.STRING())]:
        reminded = source.key_by(lambda visit: visit[0], key_type=key_type).process(Reminders()).uid(name)
        reminded.sink_to(lines_to(folder, name)).uid(f"{name}-sink")


# --- windows ----------------------------------------------------------------------------------------------------------

LATE = OutputTag("late")


class Listed(ProcessWindowFunction[Any, str, str, Any]):
    """Tells what is in a window, and how often the window and its key have fired."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        of_window = context.window_state().get_state(ValueStateDescriptor("fired", Types.INT()))
        of_key = context.global_state().get_state(ValueStateDescriptor("windows"))
        of_window.update((of_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)
        yield f"{key} {context.window()!r} {of_window.value()} {of_key.value()}: {sorted(elements)}"

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("fired", Types.INT())).clear()


class Contents(ProcessWindowFunction[Any, str, str, Any]):
    """Tells what is in a window."""

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterator[str]:
        yield f"{key} {context.window()!r}: {sorted(elements)}"


class Total(AggregateFunction[tuple[str, int, int], tuple[int, int], str]):
    """The sum and the number of amounts."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: tuple[str, int, int], accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> str:
        return "{} in {}".format(*accumulator)

    def merge(self, acc_a: tuple[int, int], acc_b: tuple[int, int]) -> tuple[int, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def windows(env: StreamExecutionEnvironment, folder: str) -> None:
    """Windows that are open when the snapshot is taken, in all three operators; typed and untyped."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(8)).with_timestamp_assigner(
        lambda visit, _: visit[1]
    )
    visits = [(f"user{n % 4}", n * 5 - (n % 7) * 3 + (90 if n > 30 else 0), n) for n in range(1, 61)]
    visits += [("user1", 3, 1000), ("user2", 377, 1001), ("user3", 340, 1002)]
    script = epochs_of(visits, 6)
    declared = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
    untyped = env.from_source(ScriptedSource(script), strategy, "visits").uid("visits")
    typed = untyped.map(lambda visit: visit, output_type=declared).uid("declare")
    for form, stream, key_type in [("untyped", untyped, None), ("typed", typed, Types.STRING())]:
        keyed = stream.key_by(lambda visit: visit[0], key_type=key_type)
        tumbling = TumblingEventTimeWindows.of(Time.milliseconds(40))
        sliding = SlidingEventTimeWindows.of(Time.milliseconds(60), Time.milliseconds(20))
        session = EventTimeSessionWindows.with_gap(Time.milliseconds(30))
        made = {
            "aligned-sum": keyed.window(tumbling).side_output_late_data(LATE).sum(2),
            "aligned-aggregate": keyed.window(sliding).aggregate(Total()),
            "aligned-elements": keyed.window(sliding).process(Contents()),
            "sessions-reduce": keyed.window(session).reduce(lambda a, b: max(a, b, key=lambda visit: visit[2])),
            "sessions-aggregate": keyed.window(session).aggregate(Total(), Contents()),
            "sessions-elements": keyed.window(session).process(Contents()),
            "lenient": keyed.window(tumbling).allowed_lateness(60).process(Listed()),
            "lenient-sessions": keyed.window(session).allowed_lateness(60).process(Contents()),
            "evicted": keyed.window(tumbling).evictor(CountEvictor.of(2)).process(Contents()),
            "triggered": keyed.window(tumbling).trigger(PurgingTrigger.of(CountTrigger.of(3))).aggregate(Total()),
            "counted": keyed.count_window(5).process(Contents()),
            "counted-sliding": keyed.count_window(4, 3).aggregate(Total()),
        }
        for name, windowed in made.items():
            windowed.uid(f"{form}-{name}").map(str).sink_to(lines_to(folder, f"{form}-{name}"))
        made["aligned-sum"].get_side_output(LATE).map(str).sink_to(lines_to(folder, f"{form}-late"))


# --- joins ------------------------------------------------------------------------------------------------------------


class Pair(ProcessJoinFunction[Any, Any, str]):
    """Tells of a pair."""

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[str]:
        yield f"{left} {right} {ctx.get_timestamp()}"


def joins(env: StreamExecutionEnvironment, folder: str) -> None:
    """Records that wait for their partners when the snapshot is taken."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(
        lambda item, _: item[1]
    )
    orders = [(f"o{n % 7}", n * 4 - n % 3, "order") for n in range(1, 41)]
    shipments = [(f"o{(n * 3) % 7}", n * 4 + 2 - n % 5, "shipment") for n in range(1, 41)]
    declared = Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])
    left = env.from_source(ScriptedSource(epochs_of(orders, 4)), strategy, "orders").uid("orders")
    right = env.from_source(ScriptedSource(epochs_of(shipments, 4)), strategy, "shipments").uid("shipments")
    for form, type_info, key_type in [("untyped", None, None), ("typed", declared, Types.STRING())]:
        one, other = left, right
        if type_info is not None:
            one = left.map(lambda item: item, output_type=type_info).uid("declare-orders")
            other = right.map(lambda item: item, output_type=type_info).uid("declare-shipments")
        keyed_one = one.key_by(lambda item: item[0], key_type=key_type)
        keyed_other = other.key_by(lambda item: item[0], key_type=key_type)
        joined = keyed_one.interval_join(keyed_other).between(Time.milliseconds(-12), Time.milliseconds(30))
        joined.process(Pair()).uid(f"{form}-interval").sink_to(lines_to(folder, f"{form}-interval"))
        window = TumblingEventTimeWindows.of(Time.milliseconds(25))
        in_window = one.join(other).where(lambda item: item[0]).equal_to(lambda item: item[0]).window(window)
        in_window.apply(lambda a, b: f"{a} {b}").uid(f"{form}-window").sink_to(lines_to(folder, f"{form}-window"))


# --- operator state ---------------------------------------------------------------------------------------------------

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.INT())
BLOCKED = MapStateDescriptor("blocked")


class Screen(BroadcastProcessFunction[Any, Any, Any]):
    """Lets pass what is not blocked."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        if value[0] not in ctx.get_broadcast_state(BLOCKED):
            yield value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
        what, who, at = value
        if what == "block":
            ctx.get_broadcast_state(BLOCKED).put(who, {"since": at})
        elif what == "unblock":
            ctx.get_broadcast_state(BLOCKED).remove(who)


class Judge(KeyedBroadcastProcessFunction[str, Any, Any, str]):
    """Tells of accounts that spent more than the limit."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.spent = runtime_context.get_state(ValueStateDescriptor("spent", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[str]) -> Iterator[str]:
        account, amount, at = value
        self.spent.update((self.spent.value() or 0) + amount)
        limit = ctx.get_broadcast_state(LIMITS).get("limit")
        yield f"{account} spent {self.spent.value()} of {limit} at {at}"

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        what, amount, _ = value
        if what == "limit":
            ctx.get_broadcast_state(LIMITS).put(what, amount)


class Counting(FlatMapFunction[Any, str], CheckpointedFunction):
    """Counts records in split and union list state. All subtasks together have counted what there was."""

    def __init__(self, typed: bool) -> None:
        self.typed = typed
        self.counted = 0
        self.waiting: list[int] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        types: list[Any] = [Types.LONG()] if self.typed else []
        self.split = store.get_list_state(ListStateDescriptor("split", *types))
        self.union = store.get_union_list_state(ListStateDescriptor("union", *types))
        self.counts = store.get_list_state(ListStateDescriptor("counts", *types))
        self.waiting.extend(self.split.get())
        self.counted = sum(self.counts.get())
        self.known = sorted(set(self.union.get()))

    def flat_map(self, value: Any) -> Iterator[str]:
        self.counted += 1
        self.waiting.append(value[2])
        self.known = sorted({*self.known, value[2] % 10})
        if len(self.waiting) == 3:
            yield f"{self.counted} {sorted(self.waiting)} {self.known}"
            self.waiting.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.split.update(self.waiting)
        self.union.update(self.known)
        self.counts.update([self.counted])


class Spread(FlatMapFunction[Any, str], CheckpointedFunction):
    """Keeps every record until the end in split list state, which is divided anew when the parallelism changes."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept"))
        self.kept.extend(self.state.get())

    def flat_map(self, value: Any) -> Iterator[str]:
        self.kept.append(value)
        if value[2] >= 300:  # the last epoch: all subtasks get such records
            yield from map(str, self.kept)
            self.kept.clear()

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.kept)


def operators(env: StreamExecutionEnvironment, folder: str) -> None:
    """Broadcast, union and split list state."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda item, _: item[2])
    payments = [(f"account{n % 5}", n * 3 % 41, n * 10) for n in range(1, 33)] + [("last", 1, 400)] * 8
    rules = [("limit", 60, 5), ("block", "account1", 20), ("limit", 90, 60), ("block", "account3", 70),
             ("unblock", "account1", 150), ("limit", 30, 170), ("block", "account4", 180), ("unblock", "account3", 250),
             ("limit", 200, 260), ("unblock", "account4", 290)]  # fmt: skip
    paid = env.from_source(ScriptedSource(epochs_of(payments, 4)), strategy, "payments").uid("payments")
    ruled = env.from_source(ScriptedSource(epochs_of(rules, 1)), strategy, "rules").uid("rules")
    allowed = paid.rebalance().connect(ruled.broadcast(BLOCKED)).process(Screen()).uid("screen")
    allowed.map(str).sink_to(lines_to(folder, "allowed"))
    judged = allowed.key_by(lambda payment: payment[0]).connect(ruled.broadcast(LIMITS)).process(Judge()).uid("judge")
    judged.sink_to(lines_to(folder, "judged"))
    for name, typed in [("count-typed", True), ("count-pickled", False)]:
        counted = paid.flat_map(Counting(typed)).uid(name).set_parallelism(1)
        counted.sink_to(lines_to(folder, name)).set_parallelism(1)
    paid.rebalance().flat_map(Spread()).uid("spread").sink_to(lines_to(folder, "spread"))


# --- files ------------------------------------------------------------------------------------------------------------


class Numbered(KeyedProcessFunction[Any, Any, str]):
    """Numbers the records of a key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield f"{ctx.get_current_key()} {seen}"


def write_input(folder: str | Path) -> None:
    """Write the files that the program ``files`` reads."""
    Path(folder, "in").mkdir(parents=True, exist_ok=True)
    for file in range(3):
        lines = [f"{file * 40 + n} {'abcde'[n % 5]} {'.' * 90}" for n in range(40)]
        Path(folder, "in", f"part-{file}.txt").write_text("\n".join(lines) + "\n")


def files(env: StreamExecutionEnvironment, folder: str) -> None:
    """Files that are read half, parts that are in progress, and a sequence of numbers that is generated half."""
    write_input(folder)
    no_watermarks = WatermarkStrategy.no_watermarks()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), os.path.join(folder, "in")).build()
    lines = env.from_source(source, no_watermarks, "lines").uid("lines")
    letters = lines.key_by(lambda line: line.split()[1]).process(Numbered()).uid("letters")
    letters.sink_to(lines_to(folder, "letters")).uid("letters-sink")
    # What another job left in progress is published after ten times these intervals.
    in_progress = RollingPolicy.default_rolling_policy(
        part_size=1 << 20, rollover_interval=20_000, inactivity_interval=20_000
    )
    lines.sink_to(lines_to(folder, "in-progress", in_progress)).uid("in-progress-sink")
    numbers = env.from_source(NumberSequenceSource(1, 120), no_watermarks, "numbers").uid("numbers")
    numbers.key_by(lambda n: n % 7).process(Numbered()).uid("sevens").sink_to(lines_to(folder, "sevens"))
    listed = env.from_collection(list(range(120))).uid("listed")
    listed.key_by(lambda n: n % 3).process(Numbered()).uid("thirds").sink_to(lines_to(folder, "thirds"))


# --- tables: what operators of SQL queries keep -----------------------------------------------------------------------

#: (order, user, cents, event time in milliseconds)
ORDERS = [
    (n, ("ann", "bob", "cid", "dan")[n % 7 % 4], decimal.Decimal(n * 37 % 100) / 4, 1_000 * n - 2_500 * (n % 3))
    for n in range(1, 49)
]
#: (order, carrier or None, event time in milliseconds); some orders are sent twice, some never.
SHIPMENTS = [(n * 5 % 48 + 1, (None, "rail", "road")[n % 3], 1_000 * n + 2_000) for n in range(1, 33)]

QUERIES = {
    "groups": "SELECT usr, COUNT(*), SUM(amount), AVG(amount), MIN(amount), MAX(id), COUNT(DISTINCT id / 10),"
    " LAST_VALUE(id), LISTAGG(CAST(id AS STRING)) FROM orders GROUP BY usr",
    "joined": "SELECT o.id, o.usr, s.carrier FROM orders o FULL JOIN shipments s ON o.id = s.order_id",
    "corrected": "SELECT carrier, COUNT(*), MIN(amount), MAX(usr) FROM orders LEFT JOIN shipments ON id = order_id"
    " GROUP BY carrier",
    "semi": "SELECT id FROM orders WHERE id NOT IN (SELECT order_id FROM shipments WHERE carrier = 'rail')",
    "soon": "SELECT o.id, s.carrier FROM orders o LEFT JOIN shipments s ON o.id = s.order_id"
    " AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '9' SECOND",
    "tumbling": "SELECT window_start, usr, SUM(amount), COUNT(DISTINCT id / 2) FROM"
    " TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, usr",
    "hopping": "SELECT window_end, MAX(amount) FROM"
    " TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND))"
    " GROUP BY window_start, window_end",
    "sessions": "SELECT window_start, window_end, usr, COUNT(*) FROM"
    " TABLE(SESSION(TABLE orders PARTITION BY usr, DESCRIPTOR(ts), INTERVAL '3' SECOND))"
    " GROUP BY window_start, window_end, usr",
    "best": "SELECT usr, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY usr ORDER BY amount DESC, id) AS r"
    " FROM orders) WHERE r <= 2",
    "first": "SELECT usr, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY usr ORDER BY ts) AS r FROM orders)"
    " WHERE r = 1",
    "running": "SELECT id, SUM(amount) OVER (PARTITION BY usr ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    " FROM orders",
}


def tables(env: StreamExecutionEnvironment, folder: str) -> None:
    """Queries over two streams: groups, joins, windows, the best and the first rows, and sums over those before."""
    from flott.table import DataTypes, Schema, StreamTableEnvironment

    t_env = StreamTableEnvironment.create(env)
    t_env.get_config().set("table.local-time-zone", "UTC").set("table.exec.mini-batch.allow-latency", "1 h")
    t_env.get_config().set("table.exec.mini-batch.enabled", "true").set("table.exec.mini-batch.size", "1000")
    order = {"id": DataTypes.BIGINT(), "usr": DataTypes.STRING(), "amount": DataTypes.DECIMAL(10, 2)}
    shipment = {"order_id": DataTypes.BIGINT(), "carrier": DataTypes.STRING()}
    kinds = {"id": Types.LONG(), "order_id": Types.LONG(), "amount": Types.BIG_DEC()}
    for name, entries, columns in (("orders", ORDERS, order), ("shipments", SHIPMENTS, shipment)):
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(6)).with_timestamp_assigner(
            lambda entry, _: entry[-1]
        )
        of = Types.ROW_NAMED([*columns], [kinds.get(column, Types.STRING()) for column in columns])
        source = ScriptedSource(epochs_of(entries, len(entries) // 8))
        stream = env.from_source(source, strategy, name).uid(name)
        rows = stream.map(lambda entry: Row(*entry[:-1]), output_type=of).uid(f"{name}-rows")
        schema = Schema.new_builder()
        for column, kind in columns.items():
            schema.column(column, kind)
        schema.column_by_metadata("ts", DataTypes.TIMESTAMP_LTZ(3), "rowtime").watermark("ts", "SOURCE_WATERMARK()")
        t_env.create_temporary_view(name, t_env.from_data_stream(rows, schema.build()))
    for name, query in QUERIES.items():
        changes = t_env.to_changelog_stream(t_env.sql_query(query))
        lines = changes.map(lambda row: f"{row.get_row_kind()} {tuple(map(str, row))}").uid(f"{name}-lines")
        lines.sink_to(lines_to(folder, name)).uid(f"{name}-sink")


#: All programs, by name.
PROGRAMS: dict[str, Callable[[StreamExecutionEnvironment, str], None]] = {
    "kinds": kinds,
    "timers": timers,
    "windows": windows,
    "joins": joins,
    "operators": operators,
    "files": files,
    "tables": tables,
}
