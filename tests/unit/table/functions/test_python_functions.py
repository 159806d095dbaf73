"""Functions in Python: declarations, types, and calls over columns in all styles."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table._expressions.compiled import compile_expressions
from flott.table._expressions.expression import InputRef, Literal, UserCall
from flott.table._functions.function import Session
from flott.table._functions.python_functions import AsyncLimits, FunctionScope, duration_ms
from flott.table._types import logical
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import BIGINT, INT, STRING, LogicalType
from flott.table.types import DataTypes
from flott.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ScalarFunction,
    TableFunction,
    udaf,
    udf,
    udtf,
)


def evaluated(wrapped: Any, columns: list[tuple[LogicalType, list[Any]]], **parameters: str) -> list[Any]:
    """Return the values of a function over columns."""
    function = wrapped.user_function
    call = UserCall(function.result_type, function, tuple(InputRef(of, i) for i, (of, _) in enumerate(columns)))
    arrays = [pa.array(values, type=arrow_type(of)) for of, values in columns]
    session = Session(time_zone="Europe/Berlin", parameters=parameters)
    (found,) = compile_expressions([call]).over(arrays, len(arrays[0]), session)
    assert found.type == arrow_type(function.result_type)
    return found.to_pylist()  # type: ignore[no-any-return]


class Scale(ScalarFunction):
    """Multiplies by a job parameter, and counts its calls."""

    def __init__(self) -> None:
        self.closed = False

    def open(self, function_context: FunctionContext) -> None:
        self.factor = int(function_context.get_job_parameter("factor", "2"))

    def eval(self, value: int) -> int:
        return value * self.factor

    def close(self) -> None:
        self.closed = True


def test_a_function_is_called_for_each_row() -> None:
    add = udf(lambda a, b: None if a is None else a + b, result_type=DataTypes.BIGINT())
    assert evaluated(add, [(BIGINT, [1, None]), (BIGINT, [10, 20])]) == [11, None]


def test_types_come_from_hints_where_they_are_not_declared() -> None:
    @udf
    def describe(name: str, size: int | None) -> list[str]:
        return [name] * (size or 0)

    function = describe.user_function
    assert (function.name, function.kind, function.style) == ("describe", "scalar", "general")
    assert function.argument_types == (STRING, BIGINT)
    assert str(function.result_type) == "ARRAY<STRING>"
    with pytest.raises(ProgramError, match="result type of function <lambda>"):
        udf(lambda a: a)


def test_declared_types_may_be_data_types_or_sql_text() -> None:
    one = udf(lambda a: a, input_types=[DataTypes.INT()], result_type="ROW<a INT, b STRING>", name="one")
    assert one.user_function.argument_types == (INT,)
    assert str(one.user_function.result_type) == "ROW<`a` INT, `b` STRING>"
    assert one.user_function.name == "one"


def test_arguments_come_as_the_classes_of_pyflink() -> None:
    seen: list[Any] = []
    keep = udf(lambda *values: seen.append(values), result_type="STRING")
    row = logical.row_type({"a": INT, "m": logical.MapType(STRING, INT)})
    instant = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    evaluated(
        keep,
        [
            (row, [{"a": 1, "m": [("k", 2)]}]),
            (logical.DecimalType(5, 2), [Decimal("1.50")]),
            (logical.LocalZonedTimestampType(3), [instant]),
            (logical.TimestampType(9), [datetime.datetime(2026, 1, 1, 12)]),
            (logical.ArrayType(STRING), [["x", None]]),
            (logical.DATE, [datetime.date(2026, 1, 2)]),
        ],
    )
    ((first, decimal, local, plain, texts, day),) = seen
    assert isinstance(first, Row)
    assert (first.a, first.m) == (1, {"k": 2})
    assert (decimal, plain, texts) == (Decimal("1.50"), datetime.datetime(2026, 1, 1, 12), ["x", None])
    assert local == instant
    assert local.hour == 13
    assert day == datetime.date(2026, 1, 2)


def test_results_are_taken_as_rows_maps_and_decimals() -> None:
    made = udf(lambda a: Row(a, {"n": a}), result_type="ROW<a INT, m MAP<STRING, INT>>")
    assert evaluated(made, [(INT, [7])]) == [{"a": 7, "m": [("n", 7)]}]
    rounded = udf(lambda a: a / 3, result_type=DataTypes.DECIMAL(5, 2))
    assert evaluated(rounded, [(INT, [2])]) == [Decimal("0.67")]


def test_a_result_of_another_type_is_an_error_that_names_the_function() -> None:
    wrong = udf(lambda a: a, result_type="STRING", name="wrong")
    with pytest.raises(ProgramError, match="Function wrong gave a value that is not of its result type STRING"):
        evaluated(wrong, [(INT, [7])])


def test_a_pandas_function_gets_series_and_constants() -> None:
    scaled = udf(lambda series, factor: series * factor, result_type="BIGINT", func_type="pandas")
    function = scaled.user_function
    call = UserCall(BIGINT, function, (InputRef(BIGINT, 0), Literal(BIGINT, 3)))
    (found,) = compile_expressions([call]).over([pa.array([1, 2])], 2, Session())
    assert found.to_pylist() == [3, 6]
    short = udf(lambda series: series.head(1), result_type="BIGINT", func_type="pandas", name="short")
    with pytest.raises(ProgramError, match="gave 1 values for 2 rows"):
        evaluated(short, [(BIGINT, [1, 2])])


def test_a_pandas_function_may_take_and_give_rows() -> None:
    def swap(frame: Any) -> Any:
        return pandas.DataFrame({"x": frame["b"], "y": frame["a"]})

    swapped = udf(swap, result_type="ROW<x STRING, y INT>", func_type="pandas")
    of = logical.row_type({"a": INT, "b": STRING})
    assert evaluated(swapped, [(of, [{"a": 1, "b": "p"}])]) == [{"x": "p", "y": 1}]


def test_an_arrow_function_gets_arrays() -> None:
    upper = udf(lambda texts: pc.utf8_upper(texts), result_type="STRING", func_type="arrow")
    assert evaluated(upper, [(STRING, ["a", None])]) == ["A", None]


def test_an_async_function_is_called_for_several_rows_at_a_time() -> None:
    class Slow(AsyncScalarFunction):
        def __init__(self) -> None:
            self.running = self.most = 0

        async def eval(self, value: int) -> int:
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1
            return -value

    slow = Slow()
    wrapped = udf(slow, result_type="BIGINT")
    options = {"table.exec.async-scalar.max-concurrent-operations": "4"}
    assert evaluated(wrapped, [(BIGINT, list(range(20)))], **options) == [-value for value in range(20)]
    assert slow.most == 4
    assert wrapped.user_function.style == "async"


def test_an_async_function_is_tried_again_up_to_the_limit() -> None:
    calls: list[int] = []

    async def shaky(value: int) -> int:
        calls.append(value)
        if len(calls) < 3:
            raise OSError("not yet")
        return value

    options = {"table.exec.async-scalar.retry-delay": "1 ms"}
    assert evaluated(udf(shaky), [(BIGINT, [5])], **options) == [5]
    assert calls == [5, 5, 5]
    calls.clear()
    with pytest.raises(OSError, match="not yet"):
        evaluated(udf(shaky), [(BIGINT, [5])], **{"table.exec.async-scalar.retry-strategy": "NO_RETRY"})


def test_an_async_function_that_takes_too_long_is_an_error() -> None:
    async def stuck(value: int) -> int:
        await asyncio.Event().wait()
        return value

    with pytest.raises(ProgramError, match="Function stuck took longer than 5 ms"):
        evaluated(udf(stuck), [(BIGINT, [5])], **{"table.exec.async-scalar.timeout": "5 ms"})


def test_limits_of_async_functions_have_flinks_defaults() -> None:
    assert AsyncLimits.of_session(Session()) == AsyncLimits(10, 180_000, 3, 100)
    assert [duration_ms(text) for text in ("2s", "3 min", "1 h", "10")] == [2000, 180_000, 3_600_000, 10]
    with pytest.raises(ProgramError, match="not a duration"):
        duration_ms("soon")


def test_functions_are_opened_once_and_closed_with_their_scope() -> None:
    scale = Scale()
    scope = FunctionScope(FunctionContext(None, {"factor": "10"}))
    with scope.active():
        wrapped = udf(scale)
        assert evaluated(wrapped, [(BIGINT, [1, 2])]) == [10, 20]
        scale.factor = 7
        assert evaluated(wrapped, [(BIGINT, [1])]) == [7]
    scope.close()
    assert scale.closed


def test_declarations_that_contradict_are_refused() -> None:
    with pytest.raises(ValueError, match="deterministic"):
        udf(Scale(), deterministic=False)
    with pytest.raises(ValueError, match="func_type"):
        udf(lambda a: a, result_type="INT", func_type="numpy")
    with pytest.raises(TypeError, match="Expected a function"):
        udf(7, result_type="INT")

    async def waits(a: int) -> int:
        return a

    with pytest.raises(ValueError, match="asynchronous"):
        udf(waits, func_type="pandas")


def test_a_table_function_has_a_row_type() -> None:
    class Words(TableFunction):
        def eval(self, text: str) -> Iterator[tuple[str, int]]:
            for word in text.split():
                yield word, len(word)

    hinted = udtf(Words()).user_function
    assert (hinted.kind, hinted.name) == ("table", "Words")
    assert str(hinted.result_type) == "ROW<`_1` STRING, `_2` BIGINT>"
    declared = udtf(lambda n: range(n), result_types=DataTypes.INT(), name="numbers")
    assert str(declared.user_function.result_type) == "ROW<`f0` INT>"
    assert declared.alias("n").alias_names == ("n",)
    several = udtf(lambda n: (n, n), input_types="INT", result_types=["INT", DataTypes.STRING()])
    assert str(several.user_function.result_type) == "ROW<`f0` INT, `f1` STRING>"


def test_aggregate_functions_say_their_types() -> None:
    class Mean(AggregateFunction[float, list[float]]):
        def create_accumulator(self) -> list[float]:
            return [0.0, 0.0]

        def accumulate(self, accumulator: list[float], *args: Any) -> None:
            accumulator[0] += args[0]
            accumulator[1] += 1

        def get_value(self, accumulator: list[float]) -> float:
            return accumulator[0] / accumulator[1]

        def get_result_type(self) -> str:
            return "DOUBLE"

        def get_accumulator_type(self) -> str:
            return "ARRAY<DOUBLE>"

    mean = udaf(Mean()).user_function
    assert (mean.kind, str(mean.result_type), str(mean.accumulator_type)) == ("aggregate", "DOUBLE", "ARRAY<DOUBLE>")
    total = udaf(lambda values: values.sum(), result_type="BIGINT", func_type="pandas", name="total").user_function
    accumulator = total.function.create_accumulator()
    total.function.accumulate(accumulator, pandas.Series([1, 2]))
    assert total.function.get_value(accumulator) == 3
    with pytest.raises(TypeError, match="pandas"):
        udaf(lambda values: values, result_type="INT")
