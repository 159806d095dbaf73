"""The workloads in event time as Flott programs."""

from __future__ import annotations

from bench.events import (
    GAP_MS,
    REACH_MS,
    SLIDE_MS,
    SLIDING_MS,
    WINDOW_MS,
    Timeline,
    group_of,
    joined,
    key_of,
    value_of,
)
from flott.common import Time, WatermarkStrategy
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream.connectors.number_seq import NumberSequenceSource
from flott.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessJoinFunction, RuntimeContext
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value, accumulator: int) -> int:
        return accumulator + value_of(value)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Joined(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield joined(left, right)


class Counted(KeyedProcessFunction):
    """Keeps a running sum in state and passes the event on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value_of(value))
        yield value


def _stamp(event, _) -> int:
    return event[2]


def build(env: StreamExecutionEnvironment, timeline: Timeline) -> DataStream:
    """The workload's stream of results."""
    left, *right = [_events(env, timeline, numbers) for numbers in timeline.streams]
    keyed = left.key_by(key_of)
    match timeline.workload:
        case "tumbling":
            return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).aggregate(Total())
        case "sliding":
            windows = SlidingEventTimeWindows.of(Time.milliseconds(SLIDING_MS), Time.milliseconds(SLIDE_MS))
            return keyed.window(windows).aggregate(Total())
        case "session":
            return keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS))).aggregate(Total())
        case "interval":
            near = keyed.interval_join(right[0].key_by(key_of))
            reach = Time.milliseconds(REACH_MS)
            return near.between(Time.milliseconds(-REACH_MS), reach).process(Joined())
    counted = keyed.process(Counted()).key_by(group_of)
    return counted.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).aggregate(Total())


def _events(env: StreamExecutionEnvironment, timeline: Timeline, numbers: range) -> DataStream:
    source = NumberSequenceSource(numbers.start, numbers.stop - 1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_stamp)
    made = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(timeline.maker())
    return made.assign_timestamps_and_watermarks(strategy)
