"""Visits to pages in event time, counted by second: with late ones, prints, log lines, a metric and an accumulator."""

import argparse
import json
import logging

from flott.common import Duration, Encoder, WatermarkStrategy
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSink, RollingPolicy
from flott.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows

#: Visits come every 10 ms of event time; every 50th is of long ago.
STEP_MS, LATE_EVERY = 10, 50


class VisitTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0 if value % LATE_EVERY == LATE_EVERY - 1 else value * STEP_MS


class Greet(KeyedProcessFunction):
    """Remembers visitors of a page, and says when it has had many."""

    def open(self, runtime_context):
        self.visits = runtime_context.get_state(ValueStateDescriptor("visits"))
        self.greeted = runtime_context.get_metrics_group().counter("greeted")
        self.seen = runtime_context.get_long_counter("seen")

    def process_element(self, value, ctx):
        visits = (self.visits.value() or 0) + 1
        self.visits.update(visits)
        self.greeted.inc()
        self.seen.add(1)
        if visits % 20 == 0:
            print(f"page {ctx.get_current_key()} had {visits} visits")
            logging.getLogger("shop.visits").warning("page %d is popular", ctx.get_current_key())
        yield value


class CountVisits(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        [count] = elements
        yield json.dumps([key, context.window().start, count])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--rate", type=float, default=None)
    options = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda index: index, count=options.records, records_per_second=options.rate)
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    visits = env.from_source(source, in_time.with_timestamp_assigner(VisitTime()), "visits").uid("visits")
    greeted = visits.key_by(lambda visit: visit % 7).process(Greet()).name("Greet").uid("greet")
    windows = greeted.key_by(lambda visit: visit % 7).window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    counted = windows.aggregate(CountVisits(), Describe()).name("Seconds").uid("seconds")
    files = FileSink.for_row_format(options.output, Encoder.simple_string_encoder())
    counted.sink_to(files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).uid("sink")
    env.execute("visits")


if __name__ == "__main__":
    main()
