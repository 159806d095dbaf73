"""Find the longest rises of a share: ``python examples/cep/rising_price.py``.

Prices that rise at least three times, then fall. The condition compares with what the partial match has so far. The
example also explains why the prices of one share are no match.
"""

from __future__ import annotations

from typing import NamedTuple

from flott.cep import CEP, AfterMatchSkipStrategy, IterativeCondition, Match, Pattern, explain
from flott.common import Duration, WatermarkStrategy
from flott.datastream import StreamExecutionEnvironment


class Price(NamedTuple):
    share: str
    second: int
    amount: int


PRICES = [
    Price("ACME", 1, 10), Price("ACME", 2, 11), Price("ZINC", 3, 50), Price("ACME", 4, 13), Price("ACME", 5, 17),
    Price("ZINC", 6, 55), Price("ACME", 7, 12), Price("ZINC", 8, 54), Price("ACME", 9, 14), Price("ACME", 10, 13),
]  # fmt: skip


def rises(price: Price, ctx: IterativeCondition.Context[Price]) -> bool:
    """Accept the first price, and then those above the last one."""
    before = ctx.get_events_for_pattern("up")
    return not before or price.amount > before[-1].amount


def falls(price: Price, ctx: IterativeCondition.Context[Price]) -> bool:
    """Accept a price below the last one."""
    return price.amount < ctx.get_events_for_pattern("up")[-1].amount


RISE = (
    Pattern[Price].begin("up", AfterMatchSkipStrategy.skip_past_last_event())
    .where(rises).times_or_more(3).consecutive().greedy()
    .next("down").where(falls)
    .within(Duration.of_seconds(60))
)  # fmt: skip


def trend(match: Match[Price]) -> str:
    up, down = match["up"], match["down"][0]
    return f"{down.share} rose from {up[0].amount} to {up[-1].amount} and fell to {down.amount} at {down.second} s"


def main(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda price, _: price.second * 1000
    )
    prices = env.from_collection(PRICES).assign_timestamps_and_watermarks(in_event_time)
    CEP.pattern(prices.key_by(lambda price: price.share), RISE).select(trend).uid("rises").print()
    env.execute("rising price")

    zinc = [price for price in PRICES if price.share == "ZINC"]
    nearest = explain(RISE, zinc, [price.second * 1000 for price in zinc]).nearest()
    assert nearest is not None
    print(f"ZINC is no match: {len(nearest.match['up'])} prices rose, then it {nearest.fate}")


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
