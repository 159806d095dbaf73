"""What a function of SQL is written as for Spark must give the result of its own kernel, with ANSI mode on and off."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from flott.table._expressions.expression import Call
from flott.table._functions.registry import function_named
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    DecimalType,
    LogicalType,
    TimestampType,
)
from tests.unit.table.functions.evaluation import call, column, evaluate

pytestmark = pytest.mark.spark

MONEY = DecimalType(12, 2)
RATE = DecimalType(4, 3)
MOMENT = TimestampType(6)
MONEYS = [Decimal("1.25"), Decimal("-9999999999.99"), Decimal("0.01"), None]
RATES = [Decimal("0.908"), Decimal("-1.111"), Decimal("0.007"), Decimal("1.000")]
DAYS = [date(1969, 12, 31), date(2020, 2, 29), date(2021, 1, 3), None]
MOMENTS = [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2020, 2, 29, 1, 2, 3), datetime(2021, 1, 3), None]
TRUTH = [True, False, None, None]

CASES: list[tuple[str, list[tuple[LogicalType, list[Any]]]]] = [
    *((name, [(MONEY, MONEYS), (RATE, RATES)]) for name in "+-*/"),
    *((name, [(BIGINT, [5, -7, 2**62, None]), (RATE, RATES)]) for name in "+-*/"),
    *((name, [(DOUBLE, [1.5, -0.1, 1e300, None]), (DOUBLE, [0.1, 3.0, 1e10, 1.0])]) for name in "+-*"),
    ("%", [(BIGINT, [5, -7, 2**62, None]), (INT, [3, 3, -5, 2])]),
    *((name, [(INT, [1, 2, 3, None]), (BIGINT, [1, 3, 2, 1])]) for name in ("=", "<>", "<", "<=", ">", ">=")),
    *((name, [(BOOLEAN, TRUTH), (BOOLEAN, [None, None, True, False])]) for name in ("AND", "OR")),
    *((name, [(BOOLEAN, TRUTH)]) for name in ("NOT", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN")),
    ("IN", [(STRING, ["a", "b", "c", None]), (STRING, ["a", "x", "y", "z"]), (STRING, ["b", None, "c", "d"])]),
    ("COALESCE", [(INT, [1, None, None, 4]), (INT, [9, 8, None, 7])]),
    ("IF", [(BOOLEAN, TRUTH), (INT, [1, 2, 3, 4]), (INT, [5, 6, 7, 8])]),
    *((name, [(DATE, DAYS)]) for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAYOFYEAR", "DAYOFMONTH", "DAYOFWEEK")),
    *((name, [(MOMENT, MOMENTS)]) for name in ("YEAR", "HOUR", "MINUTE", "SECOND")),
    *((name, [(DOUBLE, [0.25, 1.0, 0.0, None])]) for name in ("SQRT", "EXP", "SIN", "COS", "TANH", "ATAN")),
    ("POWER", [(DOUBLE, [2.0, -8.0, 0.0, None]), (DOUBLE, [10.0, 3.0, -1.0, 1.0])]),
]


def _spark_type(of: LogicalType) -> str:
    return "TIMESTAMP_NTZ" if isinstance(of, TimestampType) else of.root_text


def _on_spark(
    session: SparkSession, name: str, columns: Sequence[tuple[LogicalType, list[Any]]], written: Call
) -> list[Any]:
    function = function_named(name)
    assert function is not None
    names = [f"c{i}" for i in range(len(columns))]
    types = [argument.type for argument in written.arguments]
    texts = [f"CAST({c} AS {_spark_type(of)})" for c, of in zip(names, types, strict=True)]
    form = function.spark
    text = f"{form}({', '.join(texts)})" if isinstance(form, str) else form and form(texts, types, written.type)
    assert text, f"{name} has no form for Spark"
    schema = ", ".join(["n INT", *(f"{c} {_spark_type(of)}" for c, (of, _) in zip(names, columns, strict=True))])
    rows = list(enumerate(zip(*(values for _, values in columns), strict=True)))
    table = session.createDataFrame([(n, *row) for n, row in rows], schema)
    return [row[1] for row in sorted(table.selectExpr("n", f"{text} AS r").collect())]


@pytest.fixture
def session_of_sql(spark: SparkContext) -> Iterator[SparkSession]:
    session = SparkSession.builder.getOrCreate()
    before = session.conf.get("spark.sql.ansi.enabled")
    yield session
    session.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_forms_give_the_results_of_the_kernels(session_of_sql: SparkSession, ansi: str) -> None:
    session_of_sql.conf.set("spark.sql.ansi.enabled", ansi)
    wrong = []
    for name, columns in CASES:
        written = call(name, *(column(i, of) for i, (of, _) in enumerate(columns)))
        assert isinstance(written, Call)
        ours = evaluate(written, *columns)
        theirs = _on_spark(session_of_sql, name, columns, written)
        if not all(_same(one, other) for one, other in zip(ours, theirs, strict=True)):
            wrong.append((name, ours, theirs))
    assert not wrong


def _same(one: Any, other: Any) -> bool:
    """Return whether results are equal; the last bit of a sine is left to the mathematics library."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-15)
    return bool(one == other)
