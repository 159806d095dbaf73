"""A program with a mistake in it, and what its user sees."""

from __future__ import annotations

from flott.datastream import StreamExecutionEnvironment


def price(text: str) -> float:
    return float(text)


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.from_collection(["1.5", "2,5", "3.5"]).rebalance().map(price).name("parse prices").uid("parse").print()
    env.execute("prices")
