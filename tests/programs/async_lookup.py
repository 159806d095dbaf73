"""Orders ask a slow and unreliable service for prices, in order; totals per customer are kept behind it."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from flott.common import Time, WatermarkStrategy
from flott.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment
from flott.datastream.functions import RuntimeContext
from flott.testing.sources import EndOfEpoch, ScriptedSource
from tests.programs.runner import lines_to

PRICES = {"tea": 3, "jam": 4, "egg": 1, "oil": 9}

#: (customer, article, number). Ink has no price; some orders are answered only when the service is asked again.
ORDERS = [
    ("ada", "tea", 1), ("bob", "egg", 2), ("cay", "ink", 3), EndOfEpoch(), ("ada", "oil", 4), ("bob", "tea", 5),
    EndOfEpoch(), ("cay", "jam", 6), ("ada", "jam", 7), ("bob", "egg", 8), EndOfEpoch(), ("cay", "tea", 9),
    EndOfEpoch(), ("ada", "egg", 10), ("bob", "oil", 11), ("cay", "egg", 12), EndOfEpoch(), ("ada", "ink", 13),
    ("cay", "oil", 14),
]  # fmt: skip


class AskForPrice(AsyncFunction[tuple[str, str, int], tuple[str, int, int]]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.asked: Counter[int] = Counter()

    async def async_invoke(self, value: tuple[str, str, int]) -> list[tuple[str, int, int]]:
        customer, article, number = value
        self.asked[number] += 1
        await asyncio.sleep(0.001 * (7 - number % 7))  # later ones are answered earlier
        if number % 3 == 1 and self.asked[number] == 1:
            raise ConnectionError("busy")
        return [(customer, number, PRICES[article])] if article in PRICES else []


async def describe(value: Any) -> list[str]:
    customer, number, price = value
    await asyncio.sleep(0.001 * (number % 3))
    return [f"{number}: {customer} pays {price}", f"{number}: thanks"]


def build(env: StreamExecutionEnvironment, folder: str) -> None:
    by_number = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda order, _: order[2])
    orders = env.from_source(ScriptedSource(ORDERS), by_number, "orders").uid("orders")
    again: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(
        3, 1, None, lambda error: isinstance(error, ConnectionError)
    )
    priced = AsyncDataStream.ordered_wait_with_retry(orders, AskForPrice(), Time.minutes(1), again, 4).uid("price")
    # The running total says in which order the results came.
    totals = priced.map(lambda paid: (paid[0], paid[2])).key_by(lambda paid: paid[0]).sum(1).uid("totals")
    totals.map(lambda total: f"{total[0]} {total[1]}").sink_to(lines_to(folder, "totals"))
    AsyncDataStream.unordered_wait(priced.rebalance(), describe, Time.minutes(1)).uid("describe").sink_to(
        lines_to(folder, "receipts")
    )
