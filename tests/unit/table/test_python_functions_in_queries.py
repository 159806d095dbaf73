"""Functions in Python in whole queries, SQL and Table API, run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.errors import FlottError
from flott.table import DataTypes, StreamTableEnvironment
from flott.table.expressions import col
from flott.table.udf import (
    AggregateFunction,
    FunctionContext,
    ScalarFunction,
    TableAggregateFunction,
    udaf,
    udf,
    udtaf,
    udtf,
)
from flott.testing.harness import in_process

COLUMNS = DataTypes.ROW([
    DataTypes.FIELD("id", DataTypes.INT()),
    DataTypes.FIELD("text", DataTypes.STRING()),
    DataTypes.FIELD("numbers", DataTypes.ARRAY(DataTypes.INT())),
])  # fmt: skip
ROWS = [(1, "to be", [3, 1]), (2, "or not", []), (1, None, None), (2, "to", [7])]


@pytest.fixture
def tables() -> StreamTableEnvironment:
    environment = StreamTableEnvironment.create(in_process(2))
    environment.create_temporary_view("lines", environment.from_elements(ROWS, COLUMNS))
    return environment


def rows(table: Any) -> list[tuple[Any, ...]]:
    """Return the rows that a query leaves in the end, in any order."""
    held: list[tuple[Any, ...]] = []
    with table.execute().collect() as results:
        for row in results:
            values = tuple(row)
            if str(row.get_row_kind()) in ("+I", "+U"):
                held.append(values)
            else:
                held.remove(values)
    return sorted(held, key=repr)


class Prefixed(ScalarFunction):
    def open(self, function_context: FunctionContext) -> None:
        self.prefix = function_context.get_job_parameter("prefix", "-")

    def eval(self, text: str) -> str | None:
        return None if text is None else self.prefix + text


@udtf(result_types=[DataTypes.STRING(), DataTypes.INT()])
def words(text: str) -> Iterator[tuple[str, int]]:
    for word in (text or "").split():
        yield word, len(word)


def test_a_scalar_function_knows_the_parameters_of_the_job(tables: StreamTableEnvironment) -> None:
    tables.get_config().set("pipeline.global-job-parameters", "prefix:>")
    tables.create_temporary_system_function("prefixed", udf(Prefixed()))
    found = rows(tables.sql_query("SELECT id, prefixed(text) FROM lines WHERE prefixed(text) IS NOT NULL"))
    assert found == [(1, ">to be"), (2, ">or not"), (2, ">to")]


def test_pandas_arrow_and_async_functions_stand_side_by_side(tables: StreamTableEnvironment) -> None:
    async def later(value: int) -> int:
        await asyncio.sleep(0)
        return value + 1

    doubled = udf(lambda series: series * 2, result_type="BIGINT", func_type="pandas", name="doubled")
    same = udf(lambda array: array, result_type="INT", func_type="arrow", name="same")
    lines = tables.from_path("lines")
    found = rows(lines.select(doubled(col("id")), same(col("id")), udf(later)(col("id"))))
    assert found == [(2, 1, 2), (2, 1, 2), (4, 2, 3), (4, 2, 3)]


def test_options_of_async_functions_reach_the_task(tables: StreamTableEnvironment) -> None:
    async def stuck(value: int) -> int:
        await asyncio.Event().wait()
        return value

    tables.get_config().set("table.exec.async-scalar.timeout", "5 ms")
    tables.create_temporary_system_function("stuck", udf(stuck))
    with pytest.raises(FlottError, match="stuck took longer than 5 ms"):
        rows(tables.sql_query("SELECT stuck(id) FROM lines"))


def test_settings_that_are_changed_later_reach_the_session(tables: StreamTableEnvironment) -> None:
    tables.get_config().set("table.local-time-zone", "Asia/Tokyo")
    assert tables._session.configuration["table.local-time-zone"] == "Asia/Tokyo"


def test_table_functions_are_joined_in_sql_and_in_the_table_api(tables: StreamTableEnvironment) -> None:
    tables.create_temporary_system_function("words", words)
    inner = [(1, "be", 2), (1, "to", 2), (2, "not", 3), (2, "or", 2), (2, "to", 2)]
    sql = "SELECT id, word, size FROM lines{} LATERAL TABLE(words(text)) AS w(word, size){}"
    assert rows(tables.sql_query(sql.format(",", ""))) == inner
    outer = sorted([*inner, (1, None, None)], key=repr)
    assert rows(tables.sql_query(sql.format(" LEFT JOIN", " ON TRUE"))) == outer
    lines = tables.from_path("lines")
    joined = lines.join_lateral(words(col("text")).alias("word", "size"))
    assert rows(joined.select(col("id"), col("word"), col("size"))) == inner


def test_arrays_are_unnested(tables: StreamTableEnvironment) -> None:
    query = "SELECT id, n, place FROM lines CROSS JOIN UNNEST(numbers) WITH ORDINALITY AS u(n, place)"
    assert rows(tables.sql_query(query)) == [(1, 1, 2), (1, 3, 1), (2, 7, 1)]


class Longest(AggregateFunction[str, list[str]]):
    def create_accumulator(self) -> list[str]:
        return [""]

    def accumulate(self, accumulator: list[str], *args: Any) -> None:
        accumulator[0] = max(accumulator[0], args[0] or "", key=len)

    def get_value(self, accumulator: list[str]) -> str:
        return accumulator[0]

    def get_result_type(self) -> str:
        return "STRING"

    def get_accumulator_type(self) -> str:
        return "ARRAY<STRING>"


class TopTwo(TableAggregateFunction[Any, list[int]]):
    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], *args: Any) -> None:
        accumulator.append(args[0])
        accumulator.sort(reverse=True)
        del accumulator[2:]

    def emit_value(self, accumulator: list[int]) -> Iterator[Any]:
        yield from accumulator

    def get_result_type(self) -> str:
        return "ROW<top INT>"

    def get_accumulator_type(self) -> str:
        return "ARRAY<INT>"


def test_aggregate_functions_group_rows(tables: StreamTableEnvironment) -> None:
    tables.create_temporary_system_function("longest", udaf(Longest()))
    assert rows(tables.sql_query("SELECT id, longest(text) FROM lines GROUP BY id")) == [(1, "to be"), (2, "or not")]


def test_table_aggregate_functions_emit_several_rows(tables: StreamTableEnvironment) -> None:
    numbers = tables.from_elements([(1, 5), (1, 9), (1, 7), (2, 1)], ["k", "n"])
    top = numbers.group_by(col("k")).flat_aggregate(udtaf(TopTwo())(col("n")).alias("top"))
    assert rows(top.select(col("k"), col("top"))) == [(1, 7), (1, 9), (2, 1)]
