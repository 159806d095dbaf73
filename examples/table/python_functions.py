"""Functions in Python: row by row, over pandas Series, and an aggregate, in the Table API and in SQL.

Run it: ``python examples/table/python_functions.py``
"""

from __future__ import annotations

from typing import Any

from flott.datastream import StreamExecutionEnvironment
from flott.table import AggregateFunction, StreamTableEnvironment
from flott.table.expressions import col
from flott.table.udf import udaf, udf


@udf(result_type="STRING")  # type: ignore[untyped-decorator]
def greeting(name: str) -> str:
    """Greet."""
    return f"hello, {name}"


@udf(result_type="DOUBLE", func_type="pandas")  # type: ignore[untyped-decorator]
def celsius(fahrenheit: Any) -> Any:
    """Convert a whole column."""
    return (fahrenheit - 32) / 1.8


class Widest(AggregateFunction[float | None, list[float]]):
    """The distance between the least and the greatest value."""

    def create_accumulator(self) -> list[float]:
        return []

    def accumulate(self, accumulator: list[float], *args: Any) -> None:
        accumulator.append(args[0])

    def get_value(self, accumulator: list[float]) -> float | None:
        return max(accumulator) - min(accumulator) if accumulator else None

    def get_result_type(self) -> str:
        return "DOUBLE"

    def get_accumulator_type(self) -> str:
        return "ARRAY<DOUBLE>"


def main(env: StreamExecutionEnvironment) -> None:
    """Call each of them."""
    env.set_parallelism(1)
    t_env = StreamTableEnvironment.create(env)
    readings = t_env.from_elements([("north", 50.0), ("south", 86.0), ("north", 41.0)], ["place", "fahrenheit"])

    readings.select(greeting(col("place")).alias("text"), celsius(col("fahrenheit")).alias("celsius")).execute().print()

    t_env.create_temporary_view("readings", readings)
    t_env.create_temporary_function("widest", udaf(Widest()))
    t_env.sql_query("SELECT place, widest(fahrenheit) AS spread FROM readings GROUP BY place").execute().print()


if __name__ == "__main__":
    main(StreamExecutionEnvironment.get_execution_environment())
