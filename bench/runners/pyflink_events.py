"""The workloads in event time as PyFlink programs: those of `flott_events` with PyFlink's imports and its types."""

from __future__ import annotations

from pyflink.common import Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.functions import AggregateFunction, KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

from bench.events import GAP_MS, SLIDE_MS, SLIDING_MS, WINDOW_MS, Timeline, group_of, key_of, value_of

EVENT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])


class Total(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value, accumulator: int) -> int:
        return accumulator + value_of(value)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Counted(KeyedProcessFunction):
    """Keeps a running sum in state and passes the event on."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        self.total.update((self.total.value() or 0) + value_of(value))
        yield value


class Stamp(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp: int) -> int:
        return value[2]


def build(env: StreamExecutionEnvironment, timeline: Timeline) -> DataStream:
    """The workload's stream of results."""
    if timeline.workload == "interval":
        raise NotImplementedError("PyFlink has no interval join")
    keyed = _events(env, timeline).key_by(key_of, Types.LONG())
    match timeline.workload:
        case "tumbling":
            windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        case "sliding":
            lengths = Time.milliseconds(SLIDING_MS), Time.milliseconds(SLIDE_MS)
            windows = keyed.window(SlidingEventTimeWindows.of(*lengths))
        case "session":
            windows = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        case _:
            groups = keyed.process(Counted(), EVENT).key_by(group_of, Types.LONG())
            windows = groups.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
    return windows.aggregate(Total(), accumulator_type=Types.LONG(), output_type=Types.LONG())


def _events(env: StreamExecutionEnvironment, timeline: Timeline) -> DataStream:
    (numbers,) = timeline.streams
    source = NumberSequenceSource(numbers.start, numbers.stop - 1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Stamp())
    made = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG())
    return made.map(timeline.maker(), EVENT).assign_timestamps_and_watermarks(strategy)
