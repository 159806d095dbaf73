"""A shop for the tests and the pictures of the web UI: two sources, keyed state, windows, late orders, hostile text.

Every 40th order is of long ago and comes too late; every 25th has a customer whose name is markup. With ``--fail-at``,
the order of that number fails the job. With ``--plain``, no text is markup: for the pictures of the docs.
"""

import argparse
import json
import logging
import time
from functools import partial

from flott.common import Duration, Encoder, WatermarkStrategy
from flott.common.watermark_strategy import TimestampAssigner
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.connectors.file_system import FileSink, RollingPolicy
from flott.datastream.functions import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from flott.datastream.state import ValueStateDescriptor
from flott.datastream.window import TumblingEventTimeWindows

COUNTRIES = ["Norway", "Kenya", "Japan", "Brazil", "Canada", "Italy"]
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


def order(index, plain=False):
    """Return the order of an index."""
    customer = HOSTILE if index % 25 == 24 and not plain else f"customer {index % 97}"
    return {"id": index, "country": COUNTRIES[index * 7 % 6], "customer": customer, "cents": 100 + index * 37 % 900}


def price(index):
    """Return a change of a price."""
    return {"id": index, "country": COUNTRIES[index % 6], "customer": "", "cents": 0}


class OrderTime(TimestampAssigner):
    """Event time goes as fast as the clock does."""

    def __init__(self, start_ms, rate):
        self.start_ms = start_ms
        self.step_ms = 1000 / rate

    def extract_timestamp(self, value, record_timestamp):
        return self.start_ms if value["id"] % 40 == 39 else self.start_ms + int(value["id"] * self.step_ms)


class Revenue(KeyedProcessFunction):
    """Keeps the revenue of a country."""

    def __init__(self, fail_at):
        self.fail_at = fail_at

    def open(self, runtime_context):
        self.cents = runtime_context.get_state(ValueStateDescriptor("cents"))
        self.last = runtime_context.get_state(ValueStateDescriptor("last customer"))
        self.orders = runtime_context.get_long_counter("orders")
        self.large = runtime_context.get_metrics_group().counter("largeOrders")

    def process_element(self, value, ctx):
        if self.fail_at is not None and value["customer"] and value["id"] >= self.fail_at:
            raise ValueError(f"order {value['id']} of {value['customer']} has no price")
        self.cents.update((self.cents.value() or 0) + value["cents"])
        self.last.update(value["customer"])
        self.orders.add(1)
        if value["cents"] > 900:
            self.large.inc()
        if value["id"] % 500 == 0:
            logging.getLogger("shop").warning("order %d came from %s", value["id"], value["country"])
        yield value


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value["cents"]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Describe(ProcessWindowFunction):
    def process(self, key, context, elements):
        [cents] = elements
        yield json.dumps([key, context.window().start, cents])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--records", type=int, default=None)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--fail-at", type=int, default=None)
    parser.add_argument("--name", default="shop revenue")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    start_ms = int(time.time() * 1000)
    in_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(500))
    of_orders = in_time.with_timestamp_assigner(OrderTime(start_ms, options.rate))
    of_prices = in_time.with_timestamp_assigner(OrderTime(start_ms, options.rate / 4))
    make_order = partial(order, plain=options.plain)
    orders = DataGeneratorSource(make_order, count=options.records, records_per_second=options.rate)
    prices = DataGeneratorSource(price, count=options.records, records_per_second=options.rate / 4)
    both = env.from_source(orders, of_orders, "orders").uid("orders").union(
        env.from_source(prices, of_prices, "price changes").uid("prices")
    )
    known = both.filter(lambda value: value["cents"] >= 0).name("Check").uid("check")
    revenue = known.key_by(lambda value: value["country"]).process(Revenue(options.fail_at))
    revenue = revenue.name("Revenue" if options.plain else "Revenue <b>per country</b>").uid("revenue")
    seconds = revenue.key_by(lambda value: value["country"]).window(TumblingEventTimeWindows.of(Duration.of_seconds(1)))
    counted = seconds.aggregate(Sum(), Describe()).name("Seconds").uid("seconds")
    files = FileSink.for_row_format(options.output, Encoder.simple_string_encoder())
    counted.sink_to(files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()).name("files").uid(
        "files"
    )
    env.execute(options.name)


if __name__ == "__main__":
    main()
