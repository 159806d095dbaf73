"""Process a shop's orders: ``make demo`` runs this program. It ends after about half a minute.

Orders arrive at a steady rate, slightly out of order. For each country, the program keeps the running revenue in keyed
state, and a timer emits the total of each five-second period when event time passes its end. After a third of the
orders, the parallelism of the running job is doubled. After two thirds, a savepoint of the running job is taken and
read. At the end, all results are compared with those of a plain loop over the same orders. It runs on local Spark,
without a server.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import flott.state
from flott.common import Configuration, Duration, IntCounter, JobClient, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.datagen import DataGeneratorSource
from flott.datastream.functions import KeyedProcessFunction, RuntimeContext
from flott.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flott.errors import FlottError

COUNTRIES = ["Norway", "Kenya", "Japan", "Brazil", "Canada", "Italy"]
SHARES = [5, 9, 21, 28, 14, 17]
START_MS = 1_767_225_600_000  # 2026-01-01
PERIOD_MS = 5_000
RATE = 10_000
SECONDS = 30


@dataclass(frozen=True)
class Order:
    country: str
    cents: int
    at_ms: int

    @property
    def period(self) -> int:
        """Return the end of the order's period."""
        return self.at_ms - self.at_ms % PERIOD_MS + PERIOD_MS


@dataclass(frozen=True)
class Period:
    ends_at_ms: int
    country: str
    orders: int
    cents: int
    total_cents: int


def order(index: int) -> Order:
    """Return the order of an index, which is deterministic and up to two seconds of event time out of order."""
    chance = random.Random(index)
    late_by = chance.randrange(2_000)
    country = chance.choices(COUNTRIES, SHARES)[0]
    return Order(country, chance.randrange(100, 20_000), START_MS + index * 1000 // RATE - late_by)


class RevenuePerPeriod(KeyedProcessFunction[str, Order, Period]):
    """Sums orders per country and five seconds of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.periods = runtime_context.get_map_state(MapStateDescriptor("periods", int, tuple[int, int]))
        self.total = runtime_context.get_state(ValueStateDescriptor("total", int))
        self.processed = IntCounter()
        runtime_context.add_accumulator("orders", self.processed)

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context[str]) -> None:
        end = value.period
        orders, cents = self.periods.get(end) or (0, 0)
        self.periods.put(end, (orders + 1, cents + value.cents))
        ctx.timer_service().register_event_time_timer(end - 1)
        self.processed.add(1)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[str]) -> Iterator[Period]:
        end = timestamp + 1
        orders, cents = self.periods.get(end) or (0, 0)
        self.periods.remove(end)
        total = (self.total.value() or 0) + cents
        self.total.update(total)
        yield Period(end, ctx.get_current_key(), orders, cents, total)


def show(period: Period) -> None:
    revenue, total = period.cents / 100, period.total_cents / 100
    seconds = (period.ends_at_ms - START_MS) // 1000
    print(
        f"  up to {seconds // 60}:{seconds % 60:02}  {period.country:<8} {period.orders:>6,} orders"
        f" {revenue:>12,.2f} {'█' * round(revenue / 60_000):<26} total {total:>14,.2f}",
        flush=True,
    )


def reached(client: JobClient, orders: int) -> bool:
    """Wait until so many orders are processed. Return False if the job ended before."""
    ended = client.get_job_execution_result()
    while not ended.done():
        if client.get_accumulators().result().get("orders", 0) >= orders:
            return True
        time.sleep(0.05)
    return False


def rescale(client: JobClient, before: int, after: int) -> None:
    started = time.monotonic()
    client.rescale(after).result()  # completes with the first epoch that has so many subtasks
    seconds = time.monotonic() - started
    print(f"-- rescaled while it runs, from {before} to {after} subtasks, in {seconds:.1f} s", flush=True)


def take_savepoint(client: JobClient, folder: str) -> None:
    started = time.monotonic()
    path = client.trigger_savepoint(folder).result()
    seconds = time.monotonic() - started
    countries = flott.state.open(path).operator("revenue").keyed("periods").key_count
    print(f"-- savepoint taken while it runs, in {seconds:.1f} s: it holds {countries} countries", flush=True)


@contextmanager
def suppress_after_the_end(client: JobClient) -> Iterator[None]:
    """Continue if the job ended while a request was waiting, which can happen on a slow machine."""
    try:
        yield
    except FlottError as refusal:
        if not client.get_job_status().result().is_terminal_state():
            raise
        print(f"-- too late: {refusal} Try it with more seconds.", flush=True)


def check(periods: Sequence[Period], orders: int) -> None:
    """Compare the results with those of a plain loop over the same orders."""
    print(f"Checking against a plain loop over the same {orders:,} orders ...", flush=True)
    counts, cents, totals = Counter[tuple[int, str]](), Counter[tuple[int, str]](), Counter[str]()
    for made in map(order, range(orders)):
        counts[made.period, made.country] += 1
        cents[made.period, made.country] += made.cents
    expected = []
    for end, country in sorted(counts):
        totals[country] += cents[end, country]
        expected.append(Period(end, country, counts[end, country], cents[end, country], totals[country]))
    if Counter(periods) != Counter(expected):
        raise SystemExit(f"The results are not those of a plain loop.\nShown: {periods}\nExpected: {expected}")
    print(f"All {len(periods)} results are exact: every order was counted once, and every result shown once.")


def main(env: StreamExecutionEnvironment, seconds: int = SECONDS) -> None:
    subtasks = max(1, env.get_parallelism() // 2)
    env.set_parallelism(subtasks).enable_checkpointing(500)
    count = RATE * seconds
    orders = DataGeneratorSource(order, count=count, records_per_second=RATE)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(
        lambda order, _: order.at_ms
    )
    periods: list[Period] = []

    def take(period: Period) -> None:
        periods.append(period)
        show(period)

    print(f"Orders of {len(COUNTRIES)} countries at {RATE:,} a second for {seconds} seconds; Spark is starting ...")
    (
        env.from_source(orders, in_event_time, "orders")
        .key_by(lambda order: order.country)
        .process(RevenuePerPeriod())
        .name("revenue per five seconds")
        .uid("revenue")
        .sink_to(CallableSink(take))
        .name("screen")
    )
    client = env.execute_async("demo: shop orders")
    try:
        with tempfile.TemporaryDirectory() as folder, suppress_after_the_end(client):
            if reached(client, count // 3):
                rescale(client, subtasks, 2 * subtasks)
            if reached(client, count * 2 // 3):
                take_savepoint(client, folder)
        client.get_job_execution_result().result()
    except KeyboardInterrupt:
        client.cancel().result()
        raise
    check(periods, count)


if __name__ == "__main__":
    configuration = Configuration()
    if not sys.stderr.isatty():
        configuration.set_string("flott.progress", "log")
    main(
        StreamExecutionEnvironment.get_execution_environment(configuration),
        int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS,
    )
