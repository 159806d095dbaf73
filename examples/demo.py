"""A shop's orders, live: what ``make demo`` runs. Ends by itself after about half a minute.

Orders arrive at a steady rate, slightly out of order. For each country the program keeps the running revenue in keyed
state, and when event time passes the end of a five-second period it emits that period's total from a timer. Everything
is exactly-once, on local Spark, without a server.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from flott.common import Configuration, Duration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import MapStateDescriptor, ValueStateDescriptor

COUNTRIES = ["Norway", "Kenya", "Japan", "Brazil", "Canada", "Italy"]
SHARES = [5, 9, 21, 28, 14, 17]
START_MS = 1_767_225_600_000  # 2026-01-01
PERIOD_MS = 5_000
RATE = 20_000
SECONDS = 30


@dataclass(frozen=True)
class Order:
    country: str
    cents: int
    at_ms: int


@dataclass(frozen=True)
class Period:
    ends_at_ms: int
    country: str
    orders: int
    revenue: float
    total: float


def order(index: int) -> Order:
    """The index-th order, always the same one: up to two seconds of event time out of order."""
    chance = random.Random(index)
    late_by = chance.randrange(2_000)
    country = chance.choices(COUNTRIES, SHARES)[0]
    return Order(country, chance.randrange(100, 20_000), START_MS + index * 1000 // RATE - late_by)


class RevenuePerPeriod(KeyedProcessFunction[str, Order, Period]):
    """Adds up orders per country and five seconds of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.periods = runtime_context.get_map_state(MapStateDescriptor("periods"))
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> None:
        end = value.at_ms - value.at_ms % PERIOD_MS + PERIOD_MS
        orders, cents = self.periods.get(end) or (0, 0)
        self.periods.put(end, (orders + 1, cents + value.cents))
        ctx.timer_service().register_event_time_timer(end - 1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[Period]:
        end = timestamp + 1
        orders, cents = self.periods.get(end) or (0, 0)
        self.periods.remove(end)
        total = (self.total.value() or 0) + cents
        self.total.update(total)
        yield Period(end, ctx.get_current_key(), orders, cents / 100, total / 100)


def show(period: Period) -> None:
    bar = "█" * round(period.revenue / 110_000)
    seconds = (period.ends_at_ms - START_MS) // 1000
    print(
        f"  up to {seconds // 60}:{seconds % 60:02}  {period.country:<8} {period.orders:>6,} orders"
        f" {period.revenue:>12,.2f} {bar:<26} total {period.total:>14,.2f}",
        flush=True,
    )


def main(env: StreamExecutionEnvironment, seconds: int = SECONDS) -> None:
    env.enable_checkpointing(500)
    orders = DataGeneratorSource(order, count=RATE * seconds, records_per_second=RATE)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
        lambda order, _: order.at_ms
    )
    print(f"Orders of {len(COUNTRIES)} countries at {RATE:,} a second for {seconds} seconds; Spark is starting ...")
    (
        env.from_source(orders, in_event_time, "orders")
        .key_by(lambda order: order.country)
        .process(RevenuePerPeriod())
        .name("revenue per five seconds")
        .uid("revenue")
        .sink_to(CallableSink(show))
    )
    env.execute("demo: shop orders")


if __name__ == "__main__":
    configuration = Configuration()
    if not sys.stderr.isatty():
        configuration.set_string("flott.progress", "log")
    main(
        StreamExecutionEnvironment.get_execution_environment(configuration),
        int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS,
    )
