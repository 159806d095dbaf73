"""Programs with the Table API run in this process and give the rows that they should."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table import AggregateFunction, StreamTableEnvironment, Table, TableAggregateFunction
from flott.table._remaining_rows import remaining
from flott.table.expressions import col, if_then_else, lit
from flott.table.udf import udaf, udf, udtaf, udtf
from flott.testing import in_process

ROWS = [(1, "a", 10.0), (2, "b", 20.0), (3, "a", 5.0), (4, None, 1.0)]


class Top2(TableAggregateFunction[Row, list[float]]):
    def create_accumulator(self) -> list[float]:
        return []

    def accumulate(self, accumulator: list[float], *args: Any) -> None:
        accumulator[:] = sorted([*accumulator, args[0]], reverse=True)[:2]

    def emit_value(self, accumulator: list[float]) -> list[Row]:
        return [Row(value) for value in accumulator]

    def get_result_type(self) -> str:
        return "ROW<x DOUBLE>"

    def get_accumulator_type(self) -> str:
        return "ARRAY<DOUBLE>"


class CountAndSum(AggregateFunction[Row, list[float]]):
    def create_accumulator(self) -> list[float]:
        return [0, 0.0]

    def accumulate(self, accumulator: list[float], *args: Any) -> None:
        accumulator[0] += 1
        accumulator[1] += args[0]

    def get_value(self, accumulator: list[float]) -> Row:
        return Row(int(accumulator[0]), accumulator[1])

    def get_result_type(self) -> str:
        return "ROW<n BIGINT, s DOUBLE>"

    def get_accumulator_type(self) -> str:
        return "ARRAY<DOUBLE>"


PROGRAMS: dict[str, tuple[Callable[[Table], Table], list[tuple[Any, ...]]]] = {
    "filter": (lambda t: t.filter(col("v") > 6).select(col("id")), [(1,), (2,)]),
    "expressions": (
        lambda t: t.select(col("k").upper_case.if_null("?"), if_then_else(col("id") > 2, "hi", "lo"), lit(2) ** 3),
        [("?", "hi", 8.0), ("A", "hi", 8.0), ("A", "lo", 8.0), ("B", "lo", 8.0)],
    ),
    "group": (
        lambda t: t.group_by(col("k")).select(col("k"), col("v").sum.alias("s")),
        [(None, 1.0), ("a", 15.0), ("b", 20.0)],
    ),
    "map of rows": (
        lambda t: t.map(udf(lambda row: Row(row.id + 1, row.k), result_type="ROW<p BIGINT, q STRING>")),
        [(2, "a"), (3, "b"), (4, "a"), (5, None)],
    ),
    "map of frames": (
        lambda t: t.map(
            udf(lambda frame: frame[["id", "v"]], result_type="ROW<p BIGINT, q DOUBLE>", func_type="pandas")
        ),
        [(1, 10.0), (2, 20.0), (3, 5.0), (4, 1.0)],
    ),
    "flat_map": (
        lambda t: t.flat_map(udtf(lambda row: [(row.id, 1)] * (row.id % 2), result_types=["BIGINT", "INT"])),
        [(1, 1), (3, 1)],
    ),
    "aggregate": (
        lambda t: (
            t.group_by(col("k")).aggregate(udaf(CountAndSum())(col("v")).alias("n", "s")).select(col("n"), col("s"))
        ),
        [(1, 1.0), (1, 20.0), (2, 15.0)],
    ),
    "flat_aggregate": (
        lambda t: (
            t.group_by(col("k")).flat_aggregate(udtaf(Top2())(col("v")).alias("top")).select(col("k"), col("top"))
        ),
        [(None, 1.0), ("a", 5.0), ("a", 10.0), ("b", 20.0)],
    ),
    "pandas aggregate": (
        lambda t: t.group_by(col("k")).select(
            col("k"), udaf(lambda v: v.mean(), result_type="DOUBLE", func_type="pandas")(col("v")).alias("m")
        ),
        [(None, 1.0), ("a", 7.5), ("b", 20.0)],
    ),
    "lateral": (
        lambda t: t.left_outer_join_lateral(
            udtf(lambda text: text.split() if text else [], result_types="STRING")(col("k")).alias("w")
        ).select(col("id"), col("w")),
        [(1, "a"), (2, "b"), (3, "a"), (4, None)],
    ),
    "in a table": (
        lambda t: t.filter(col("id").in_(t.filter(col("v") > 6).select(col("id")))).select(col("id")),
        [(1,), (2,)],
    ),
    "order": (lambda t: t.order_by(col("v").desc).limit(2).select(col("id")), [(1,), (2,)]),
    "minus": (lambda t: t.select(col("k")).minus(t.filter(col("id") == 1).select(col("k"))), [(None,), ("b",)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_its_rows(name: str) -> None:
    make, expected = PROGRAMS[name]
    t_env = StreamTableEnvironment.create(in_process(parallelism=2))
    table = make(t_env.from_elements(ROWS, ["id", "k", "v"]))
    with table.execute().collect() as rows:
        found = [tuple(row) for row in remaining(rows)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_query_of_values_cannot_be_stored() -> None:
    t_env = StreamTableEnvironment.create(in_process())
    t_env.execute_sql("CREATE TABLE sink (a BIGINT) WITH ('connector' = 'blackhole')")
    values = t_env.from_elements([(1,)], ["a"])
    doubled = values.select(udf(lambda a: a * 2, result_type="BIGINT")(col("a")).alias("a"))
    with pytest.raises(ProgramError, match="cannot be stored"):
        doubled.insert_into("sink").compile_plan()


def test_elements_without_a_schema_keep_nested_rows_and_instants() -> None:
    t_env = StreamTableEnvironment.create(in_process())
    at = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    table = t_env.from_elements([((1, "x"), at, 1), ((2, None), None, Decimal("1.5"))], ["pair", "at", "amount"])
    assert [str(of) for of in table.row_type.types] == [
        "ROW<`_1` BIGINT, `_2` STRING>", "TIMESTAMP_LTZ(6)", "DECIMAL(38, 18)",
    ]  # fmt: skip
    with table.execute().collect() as rows:
        found = sorted((row[0]["_1"], row[0]["_2"], row[1] is None, row[2]) for row in rows)
    assert found == [(1, "x", False, Decimal(1)), (2, None, True, Decimal("1.5"))]
