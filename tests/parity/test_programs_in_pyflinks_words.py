"""Programs as one writes them for PyFlink, with ``pyflink`` replaced by ``flott`` in the imports and nothing else.

Each is given an environment and prints; beside it stands what PyFlink prints, sorted and without the number of the
subtask. They keep to PyFlink's own habits (its import paths, declared types, functions that yield or return lists), so
that a change which only suits Flott's habits is noticed here.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flott.common import Configuration, Encoder, Row, Time, WatermarkStrategy
from flott.common.time import Duration
from flott.common.typeinfo import Types
from flott.common.types import RowKind
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeDomain,
)
from flott.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
)
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.data_stream import DataStream
from flott.datastream.functions import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from flott.datastream.output_tag import OutputTag
from flott.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flott.datastream.window import (
    CountTrigger,
    CountWindow,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from flott.testing import in_process

Program = Callable[[StreamExecutionEnvironment], Any]

#: (program, what it prints: sorted lines)
PROGRAMS: list[tuple[Program, list[str]]] = []

SUBTASK = re.compile(r"^((?:.*:)?)\d+(> )", re.MULTILINE)


def prints(*lines: str) -> Callable[[Program], Program]:
    """Add a program and what it prints to the table."""

    def entered(program: Program) -> Program:
        PROGRAMS.append((program, sorted(lines)))
        return program

    return entered


STRING, INT, LONG = Types.STRING(), Types.INT(), Types.LONG()
PAIR = Types.TUPLE([STRING, INT])
SALE = Types.ROW_NAMED(["shop", "amount"], [STRING, INT])
SALES = [("north", 4), ("south", 7), ("north", 1), ("south", 2)]


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


def timed(stream: DataStream[Any]) -> DataStream[Any]:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    return stream.assign_timestamps_and_watermarks(strategy)


# ---------------------------------------------------------------------------------------------- records and their text


@prints("(a,1,[])", "(b,2,[x, y])")
def tuples_are_printed_as_flink_writes_them(env: StreamExecutionEnvironment) -> None:
    declared = Types.TUPLE([STRING, INT, Types.BASIC_ARRAY(STRING)])
    env.from_collection([("a", 1, []), ("b", 2, ["x", "y"])], type_info=declared).print()


@prints("('a', 1)", "{'k': [None, True]}", "<Row('b', 2)>", "2.5")
def records_without_a_type_are_printed_as_python_writes_them(env: StreamExecutionEnvironment) -> None:
    env.from_collection([("a", 1), {"k": [None, True]}, Row("b", 2), 2.5]).print()


@prints("+I[north,4]", "-D[south,None]")
def rows_are_printed_with_their_kind(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1, 2]).map(
        lambda n: Row("north", 4) if n == 1 else Row.of_kind(RowKind.DELETE, "south", None), output_type=SALE
    ).print()


@prints("true", "false", "1.0E10", "0.5", "{a=1}", "[1, 2]", "2026-01-02 03:04:05.25", "03:04:05", "1.50")
def single_values_are_printed_as_java_writes_them(env: StreamExecutionEnvironment) -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 250_000)
    env.from_collection([True, False], Types.BOOLEAN()).print()
    env.from_collection([1e10, 0.5], Types.DOUBLE()).print()
    env.from_collection([{"a": 1}]).map(lambda m: m, Types.MAP(STRING, INT)).print()
    env.from_collection([[1, 2]]).map(lambda e: e, Types.LIST(INT)).print()
    env.from_collection([moment], Types.SQL_TIMESTAMP()).print()
    env.from_collection([moment.time()]).map(lambda t: t.replace(microsecond=0), Types.SQL_TIME()).print()
    env.from_collection([decimal.Decimal("1.50")], Types.BIG_DEC()).print()


@prints("shops:north 4 4 {'shop': 'north', 'amount': 4} Row(shop='north', amount=4)")
def named_rows_answer_by_name_by_position_and_as_a_dict(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(SALES[:1], type_info=SALE)
    stream.map(lambda r: f"shops:{r.shop} {r['amount']} {r[1]} {r.as_dict()} {r}", output_type=STRING).print()


@prints("{'f0': 'north', 'f1': 4} True Row(f0='north', f1=4)", "{'f0': 'ten', 'f1': 10} True Row(f0='ten', f1=10)")
def rows_of_a_type_without_names_are_called_f0_f1(env: StreamExecutionEnvironment) -> None:
    declared = Types.ROW([STRING, INT])
    both = env.from_collection(SALES[:1], type_info=declared).union(
        env.from_collection([10]).map(lambda n: Row("ten", n), output_type=declared)
    )
    both.map(lambda r: f"{r.as_dict()} {r.f1 == r['f1']} {r}").print()


# ----------------------------------------------------------------------------------------------- functions, one by one


class PriceOf(MapFunction):
    def map(self, value: Any) -> Any:
        return value[0], value[1] * 100


class Bills(FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return [value, (value[0] + "!", value[1])] if value[1] >= 400 else []


class NotTheLoud(FilterFunction):
    def filter(self, value: Any) -> bool:
        return not value[0].endswith("!")


@prints("(north,400)", "(south,700)")
def map_flat_map_and_filter_take_classes(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(SALES, type_info=PAIR)
    stream.map(PriceOf(), output_type=PAIR).flat_map(Bills(), output_type=PAIR).filter(NotTheLoud()).print()


@prints("(north,5)", "(south,8)", "(north,2)", "(south,3)")
def and_functions(env: StreamExecutionEnvironment) -> None:
    def more(value: Any) -> Any:
        yield value[0], value[1] + 1

    env.from_collection(SALES).filter(lambda s: s[1]).flat_map(more, output_type=PAIR).print()


DEAR = OutputTag("dear", INT)
SHOPS = OutputTag("shops", STRING)


class Sorted(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value[1]
        if value[1] > 3:
            yield DEAR, value[1]
        yield SHOPS, value[0]


@prints("4", "7", "1", "2", "dear> 4", "dear> 7", "shops> north", "shops> south", "shops> north", "shops> south")
def side_outputs_are_pairs_of_a_tag_and_a_value(env: StreamExecutionEnvironment) -> None:
    main = env.from_collection(SALES, type_info=SALE).process(Sorted(), output_type=INT)
    main.print()
    main.get_side_output(DEAR).print("dear")
    main.get_side_output(SHOPS).print("shops")


# ------------------------------------------------------------------------------------------------------- keyed streams


class Shop(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Richest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return Row(value1[0], max(value1[1], value2[1]))


@prints("+I[north,4]", "+I[north,4]", "+I[south,7]", "+I[south,7]", "+I[north,4]", "+I[north,5]", "+I[south,7]",
        "+I[south,9]")  # fmt: skip
def rolling_results_keep_the_type_of_the_stream(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection(SALES, type_info=SALE).key_by(Shop(), key_type=STRING)
    keyed.reduce(Richest()).print()
    keyed.sum("amount").print()


@prints("(north,1)", "(north,4)", "(south,2)", "(south,7)", "by:(north,1,a)", "by:(north,4,a)")
def min_and_min_by_take_positions(env: StreamExecutionEnvironment) -> None:
    env.from_collection(SALES, type_info=PAIR).key_by(lambda s: s[0]).min(1).print()
    three = env.from_collection([("north", 4, "a"), ("north", 1, "a")]).key_by(lambda s: s[0]).min_by(1)
    three.map(lambda s: "by:({},{},{})".format(*s)).print()


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class EveryKindOfState(KeyedProcessFunction):
    def __init__(self) -> None:
        self.last: Any = None

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", INT))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", INT))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", INT, Types.BOOLEAN()))
        self.total = runtime_context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, INT))
        mean = AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        before = self.last.value()
        self.last.update(value[1])
        self.all.add(value[1])
        self.seen[value[1]] = True
        self.total.add(value[1])
        self.mean.add(value[1])
        known = sorted(key for key, _ in self.seen.items())
        yield f"{ctx.get_current_key()} {before} {list(self.all.get())} {known} {self.total.get()} {self.mean.get()}"


@prints("north None [4] [4] 4 4.0", "north 4 [4, 1] [1, 4] 5 2.5",
        "south None [7] [7] 7 7.0", "south 7 [7, 2] [2, 7] 9 4.5")  # fmt: skip
def every_kind_of_state_belongs_to_its_key(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(SALES, type_info=PAIR).key_by(lambda s: s[0], key_type=STRING)
    stream.process(EveryKindOfState(), output_type=STRING).print()


class Reminder(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 11)
        ctx.timer_service().delete_event_time_timer(ctx.timestamp() + 11)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        assert ctx.time_domain() == TimeDomain.EVENT_TIME
        yield ctx.get_current_key(), timestamp


@prints("(north,14)", "(north,11)", "(south,17)", "(south,12)")
def timers_fire_for_their_key(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(sorted(SALES, key=lambda s: s[1]), type_info=PAIR)
    timed(stream).key_by(lambda s: s[0]).process(Reminder(), output_type=PAIR).print()


# --------------------------------------------------------------------------------------------------------- two streams


class Signs(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return -value


class Twice(CoFlatMapFunction):
    def flat_map1(self, value: Any) -> Any:
        yield value
        yield value

    def flat_map2(self, value: Any) -> Any:
        return []


class Names(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        yield f"left {value}"

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        return [f"right {value}"]


@prints("1", "2", "-3", "twice:1", "twice:1", "twice:2", "twice:2", "left 1", "left 2", "right 3")
def connected_streams_keep_their_types_apart(env: StreamExecutionEnvironment) -> None:
    left, right = env.from_collection([1, 2], INT), env.from_collection([3], INT)
    left.connect(right).map(Signs(), output_type=INT).print()
    left.connect(right).flat_map(Twice()).map(lambda n: f"twice:{n}").print()
    left.connect(right).process(Names(), output_type=STRING).print()


class Matched(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", INT))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        return self._seen(ctx, value)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
        return self._seen(ctx, value)

    def _seen(self, ctx: Any, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100)
        return []

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), self.count.value()


@prints("(north,3)", "(south,2)", "(east,1)")
def both_sides_of_a_keyed_connection_share_state_and_timers(env: StreamExecutionEnvironment) -> None:
    left = timed(env.from_collection(SALES, type_info=SALE))
    right = timed(env.from_collection([("north", 5), ("east", 6)], type_info=SALE))
    left.connect(right).key_by(lambda s: s.shop, lambda s: s.shop).process(Matched(), output_type=PAIR).print()


RATES = MapStateDescriptor("rates", STRING, INT)


class Converted(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        rate = ctx.get_broadcast_state(RATES).get(value[0])
        yield (value[0], value[1] * rate) if rate else (value[0], 0)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        ctx.get_broadcast_state(RATES).put(value[0], value[1])
        return []


class ConvertedByKey(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        yield DEAR, value[1]
        ctx.timer_service().register_event_time_timer(50)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        ctx.get_broadcast_state(RATES).put(value[0], value[1])
        return []

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        yield f"{ctx.get_current_key()} {ctx.get_broadcast_state(RATES).get(ctx.get_current_key())}"


@prints("north 3", "south None", "dear> 4", "dear> 7", "dear> 1", "dear> 2")
def a_keyed_broadcast_function_has_timers_and_side_outputs(env: StreamExecutionEnvironment) -> None:
    rates = timed(env.from_collection([("north", 3)], type_info=PAIR)).broadcast(RATES)
    stream = timed(env.from_collection(SALES, type_info=PAIR)).key_by(lambda s: s[0], key_type=STRING)
    done = stream.connect(rates).process(ConvertedByKey(), output_type=STRING)
    done.print()
    done.get_side_output(DEAR).print("dear")


@prints("4 zones")
def a_broadcast_function_sees_every_rule_in_every_subtask(env: StreamExecutionEnvironment) -> None:
    rates = env.from_collection([("north", 3)], type_info=PAIR).broadcast(RATES)
    stream = env.from_collection(SALES, type_info=PAIR).connect(rates).process(Converted(), output_type=PAIR)
    ones = stream.map(lambda s: ("zones", 1), output_type=PAIR).key_by(lambda s: s[0])
    ones.sum(1).filter(lambda s: s[1] == 4).map(lambda s: f"{s[1]} {s[0]}").print()


# ------------------------------------------------------------------------------------------------------------- windows


class Bounds(ProcessWindowFunction):
    def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Any:
        window: TimeWindow = context.window()
        return [(key, window.start, window.end, len(list(elements)))]

    def clear(self, context: ProcessWindowFunction.Context) -> None:
        pass


class AmountOf(WindowFunction):
    def apply(self, key: Any, window: CountWindow, inputs: Any) -> Any:
        return [(key, sum(amount for _, amount in inputs))]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return int(element[1])


class EveryThird(Trigger):
    """Fires at the third record, as a program's own trigger does it: with state."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(ReducingStateDescriptor("n", lambda a, b: a + b, LONG))
        count.add(1)
        if count.get() < 3:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE_AND_PURGE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        pass


WINDOW = Types.TUPLE([STRING, LONG, LONG, INT])
VISITS = [("ann", 1), ("ann", 3), ("bob", 4), ("ann", 6), ("ann", 20)]


def visits(env: StreamExecutionEnvironment) -> Any:
    stream = timed(env.from_collection(VISITS, type_info=PAIR))
    return stream.key_by(lambda v: v[0], key_type=STRING)


@prints("(ann,0,5,2)", "(ann,5,10,1)", "(ann,20,25,1)", "(bob,0,5,1)")
def tumbling_windows(env: StreamExecutionEnvironment) -> None:
    visits(env).window(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(Bounds(), WINDOW).print()


@prints("(ann,0,10,3)", "(ann,-5,5,2)", "(ann,5,15,1)", "(ann,15,25,1)", "(ann,20,30,1)", "(bob,-5,5,1)",
        "(bob,0,10,1)")  # fmt: skip
def sliding_windows(env: StreamExecutionEnvironment) -> None:
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    visits(env).window(assigner).process(Bounds(), WINDOW).print()


@prints("(ann,1,10,3)", "(ann,20,24,1)", "(bob,4,8,1)", "dynamic:(ann,1,2,1)", "dynamic:(ann,3,12,2)",
        "dynamic:(ann,20,40,1)", "dynamic:(bob,4,8,1)")  # fmt: skip
def session_windows(env: StreamExecutionEnvironment) -> None:
    keyed = visits(env)
    keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(4))).process(Bounds(), WINDOW).print()
    dynamic = keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Bounds(), WINDOW)
    dynamic.map(lambda w: "dynamic:({},{},{},{})".format(*w)).print()


@prints("(ann,4)", "(ann,26)", "sliding:4", "sliding:9", "sliding:26")
def windows_of_counts_fire_when_they_are_full(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection(VISITS, type_info=PAIR).key_by(lambda v: v[0], key_type=STRING)
    keyed.count_window(2).apply(AmountOf(), PAIR).print()
    keyed.count_window(2, 1).apply(AmountOf(), PAIR).map(lambda w: f"sliding:{w[1]}").print()


@prints("ann 2", "ann 2", "third ann 10")
def global_windows_need_a_trigger(env: StreamExecutionEnvironment) -> None:
    class Number(ProcessWindowFunction):
        def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Any:
            yield f"{key} {len(list(elements))}"

    windowed = visits(env).window(GlobalWindows.create())
    windowed.trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Number(), STRING).print()
    third = visits(env).window(GlobalWindows.create()).trigger(EveryThird())
    third.reduce(lambda a, b: (a[0], a[1] + b[1]), output_type=PAIR).map(lambda v: "third {} {}".format(*v)).print()


@prints("(ann,4)", "(ann,6)", "(ann,20)", "(bob,4)", "ann from 0: 2.0", "ann from 5: 6.0", "ann from 20: 20.0",
        "bob from 0: 4.0")  # fmt: skip
def windows_fold_as_records_come(env: StreamExecutionEnvironment) -> None:
    class From(ProcessWindowFunction):
        def process(self, key: Any, context: ProcessWindowFunction.Context, elements: Any) -> Any:
            yield f"{key} from {context.window().start}: {next(iter(elements))}"

    class MeanOfSecond(Mean):
        def add(self, value: Any, accumulator: Any) -> Any:
            return Mean.add(self, value[1], accumulator)

    tumbling = TumblingEventTimeWindows.of(Time.milliseconds(5))
    visits(env).window(tumbling).reduce(lambda a, b: (a[0], a[1] + b[1]), output_type=PAIR).print()
    visits(env).window(tumbling).aggregate(
        MeanOfSecond(), window_function=From(), accumulator_type=Types.TUPLE([INT, INT]), output_type=STRING
    ).print()


@prints("0 3", "5 1", "20 1")
def windows_of_all_keys(env: StreamExecutionEnvironment) -> None:
    class Number(ProcessAllWindowFunction):
        def process(self, context: ProcessAllWindowFunction.Context, elements: Any) -> Any:
            yield f"{context.window().start} {len(list(elements))}"

    windows = timed(env.from_collection(VISITS, type_info=PAIR)).window_all(
        TumblingEventTimeWindows.of(Time.milliseconds(5))
    )
    windows.process(Number(), STRING).print()


# ---------------------------------------------------------------------------------------------- asynchronous functions


class Lookup(AsyncFunction):
    def __init__(self) -> None:
        self.failed: dict[Any, bool] = {}

    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(0.001 * (10 - value[1]))
        if value not in self.failed:  # a row is a key
            self.failed[value] = True
            raise ConnectionError("the first time")
        return [value[1] * 10]

    def timeout(self, value: Any) -> Any:
        return [-1]


class Sleeper(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        await asyncio.sleep(60)
        return [value]

    def timeout(self, value: Any) -> Any:
        return [f"{value.shop} timed out"]


@prints("40", "70", "10", "20", "north timed out")
def asynchronous_functions_are_retried_and_time_out(env: StreamExecutionEnvironment) -> None:
    again = AsyncRetryStrategy.fixed_delay(
        max_attempts=3,
        backoff_time_millis=1,
        result_predicate=None,
        exception_predicate=lambda error: "first" in str(error),
    )
    stream = env.from_collection(SALES, type_info=SALE)
    AsyncDataStream.ordered_wait_with_retry(stream, Lookup(), Time.seconds(30), again, 2, INT).print()
    four = stream.filter(lambda s: s.amount == 4)
    AsyncDataStream.unordered_wait(four, Sleeper(), Time.milliseconds(20), 2, STRING).print()


# -------------------------------------------------------------------------------------------------------- and the rest


class ByLength(Partitioner):
    def partition(self, key: Any, num_partitions: int) -> int:
        assert num_partitions == 3
        return len(key) % num_partitions


class Where(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.here = runtime_context.get_index_of_this_subtask()
        self.count = runtime_context.get_metrics_group().counter("seen")
        self.greeting = runtime_context.get_job_parameter("greeting", "none")

    def map(self, value: Any) -> Any:
        self.count.inc()
        return f"{value} in {self.here}, {self.greeting}"


@prints("a in 1, none", "bb in 2, none", "ccc in 0, none")
def records_go_where_a_partitioner_sends_them(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection(["a", "bb", "ccc"], STRING).partition_custom(ByLength(), lambda word: word)
    stream.map(Where(), output_type=STRING).set_parallelism(3).name("where").uid("where").print()


@prints("2", "4", "6", "(b,d)")
def sources_have_types_and_tuples_are_projected(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers", type_info=LONG)
    numbers.rebalance().map(lambda n: n * 2, output_type=LONG).print()
    env.from_collection([["a", "b", "c", "d"]], type_info=Types.TUPLE([STRING] * 4)).project(1, 3).print()


@prints("+I[north,5]", "+I[south,9]")
def batch_mode_gives_the_final_result_only(env: StreamExecutionEnvironment) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection(SALES, type_info=SALE).key_by(lambda s: s.shop).sum("amount").print()


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(("program", "lines"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_a_program_in_pyflinks_words_prints_what_pyflink_prints(
    program: Program, lines: list[str], parallelism: int, capsys: pytest.CaptureFixture[str]
) -> None:
    env = in_process(parallelism)
    program(env)
    env.execute("in PyFlink's words")
    printed = SUBTASK.sub(r"\1\2", capsys.readouterr().out)
    assert sorted(line.removeprefix("> ").replace(":> ", "> ") for line in printed.splitlines()) == lines


def test_a_file_becomes_lines_of_flinks_text(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "sales.txt").write_text("north 4\nsouth 7\n")
    env = in_process(1)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in")).build()
    lines = env.from_source(source, WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)), "lines")
    sales = lines.map(lambda line: (line.split()[0], int(line.split()[1])), output_type=PAIR)
    sales.sink_to(
        FileSink.for_row_format(base_path=str(tmp_path / "out"), encoder=Encoder.simple_string_encoder())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("p").with_part_suffix(".txt").build())
        .with_rolling_policy(RollingPolicy.default_rolling_policy())
        .build()
    )
    env.execute()
    (part,) = (path for path in (tmp_path / "out").rglob("p*.txt"))
    assert part.read_text() == "(north,4)\n(south,7)\n"


def test_results_come_to_the_client() -> None:
    env = in_process(2)
    stream = env.from_collection(SALES, type_info=SALE).map(lambda s: (s.shop, s.amount), output_type=PAIR)
    with stream.execute_and_collect("collected") as results:
        assert sorted(results) == sorted(SALES)
    assert len(stream.execute_and_collect(limit=3)) == 3
    stream.print()
    client = env.execute_async("apart")
    result = client.get_job_execution_result().result()
    assert str(result.get_job_id()) == str(client.get_job_id())


def test_a_program_may_set_what_only_flink_has() -> None:
    configuration = Configuration()
    configuration.set_string("python.execution-mode", "process")
    configuration.set_integer("python.fn-execution.bundle.size", 1)
    configuration.set_string("execution.target", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(1000).set_parallelism(1)
    env.add_jars("file:///connector.jar")
    env.set_buffer_timeout(10)
    assert list(env.from_collection([1, 2], INT).slot_sharing_group("a").execute_and_collect()) == [1, 2]
