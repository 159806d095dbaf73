from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from flott.table._functions.argument_checks import EvaluationError
from flott.table._functions.function import Session
from flott.table._types.coercion import can_assign, can_cast, can_cast_implicitly
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIME,
    TINYINT,
    ArrayType,
    BinaryType,
    CharType,
    DayTimeIntervalType,
    DecimalType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
    YearMonthIntervalType,
    row_type,
)
from tests.unit.table.functions.evaluation import cast, column, evaluate

BERLIN = Session(time_zone="Europe/Berlin")
PAIR = row_type({"a": INT, "b": STRING})


def converted(source: LogicalType, target: LogicalType, *values: Any, safe: bool = False) -> list[Any]:
    return evaluate(cast(column(0, source), target, safe), (source, values), session=BERLIN)


@pytest.mark.parametrize(
    ("source", "target", "value", "expected"),
    [
        # numbers: integers wrap, floats saturate, decimals round half up
        (INT, TINYINT, 300, 44),
        (BIGINT, INT, 2**31, -(2**31)),
        (DOUBLE, INT, -3.99, -3),
        (DOUBLE, INT, 1e20, 2147483647),
        (DOUBLE, BIGINT, float("nan"), 0),
        (DOUBLE, BIGINT, -1e30, -(2**63)),
        (DOUBLE, TINYINT, 300.5, 44),
        (DecimalType(5, 2), INT, Decimal("-7.99"), -7),
        (DecimalType(38, 0), BIGINT, Decimal(2**64 + 5), 5),
        (DecimalType(10, 5), DecimalType(5, 2), Decimal("1.00500"), Decimal("1.01")),
        (DecimalType(10, 5), DecimalType(5, 2), Decimal("-1.00500"), Decimal("-1.01")),
        (DecimalType(10, 2), DecimalType(4, 2), Decimal("100.00"), None),
        (INT, DecimalType(8, 4), 12345, None),
        (DOUBLE, DecimalType(8, 4), 3.123456, Decimal("3.1235")),
        (DOUBLE, FLOAT, 0.5, 0.5),
        (BOOLEAN, INT, True, 1),
        (BOOLEAN, DecimalType(3, 1), True, Decimal("1.0")),
        (INT, BOOLEAN, 2, True),
        (DecimalType(3, 1), BOOLEAN, Decimal("0.0"), False),
        # from texts
        (STRING, INT, " 42 ", 42),
        (STRING, INT, "-12.9", -12),
        (STRING, INT, "+7", 7),
        (STRING, DOUBLE, "1.5e3", 1500.0),
        (STRING, DOUBLE, "2.5d", 2.5),
        (STRING, DOUBLE, "Infinity", float("inf")),
        (STRING, DecimalType(5, 2), "1.005", Decimal("1.01")),
        (STRING, BOOLEAN, " Yes", True),
        (STRING, BOOLEAN, "0", False),
        (STRING, DATE, "2021-09-27 12:34:56", date(2021, 9, 27)),
        (STRING, DATE, "2021-9-7", date(2021, 9, 7)),
        (STRING, DATE, "2021", date(2021, 1, 1)),
        (STRING, TIME, "23:45", time(23, 45)),
        (STRING, TimeType(3), "12:34:56.123456", time(12, 34, 56, 123000)),
        (STRING, TIME, "12:34:56.9", time(12, 34, 56)),
        (STRING, TimestampType(3), "2021-09-27 12:34:56.123456", datetime(2021, 9, 27, 12, 34, 56, 123000)),
        (STRING, TimestampType(0), "2021-09-27", datetime(2021, 9, 27)),
        (STRING, TimestampType(6), "1500-1-2 3:04:05", datetime(1500, 1, 2, 3, 4, 5)),
        (STRING, TimestampType(3), "2021-09-31 12:34:56", datetime(2021, 9, 30, 12, 34, 56)),
        (STRING, LocalZonedTimestampType(3), "2021-07-01 12:00:00", datetime(2021, 7, 1, 10, tzinfo=UTC)),
        (STRING, BYTES, "äb", b"\xc3\xa4b"),
        # to texts
        (INT, STRING, -5, "-5"),
        (BOOLEAN, STRING, True, "TRUE"),
        (DOUBLE, STRING, 1.0, "1.0"),
        (DOUBLE, STRING, -0.0, "-0.0"),
        (DOUBLE, STRING, 12345678.9, "1.23456789E7"),
        (DOUBLE, STRING, 0.00012, "1.2E-4"),
        (DOUBLE, STRING, 1e100, "1.0E100"),
        (DOUBLE, STRING, float("-inf"), "-Infinity"),
        (FLOAT, STRING, 123.456, "123.456"),
        (DecimalType(12, 10), STRING, Decimal("0.0000000001"), "0.0000000001"),
        (DecimalType(5, 2), STRING, Decimal("-1.50"), "-1.50"),
        (DATE, STRING, date(987, 1, 2), "0987-01-02"),
        (TimeType(3), STRING, time(1, 2, 3, 4000), "01:02:03.004"),
        (TIME, STRING, time(1, 2, 3), "01:02:03"),
        (TimestampType(4), STRING, datetime(2021, 9, 24, 12, 34, 56, 123456), "2021-09-24 12:34:56.1234"),
        (TimestampType(0), STRING, datetime(2021, 9, 24, 12, 34, 56), "2021-09-24 12:34:56"),
        (LocalZonedTimestampType(3), STRING, datetime(2021, 1, 1, tzinfo=UTC), "2021-01-01 01:00:00.000"),
        (DayTimeIntervalType(), STRING, timedelta(days=-1, hours=-2), "-1 02:00:00.000"),
        (YearMonthIntervalType(), STRING, 124, "+10-04"),
        (BYTES, STRING, b"hello", "hello"),
        (BinaryType(1), STRING, b"\xff", "\ufffd"),
        (ArrayType(INT), STRING, [1, None], "[1, NULL]"),
        (MapType(STRING, BOOLEAN), STRING, [("a", True), ("b", None)], "{a=TRUE, b=NULL}"),
        (PAIR, STRING, {"a": 1, "b": None}, "(1, NULL)"),
        # lengths
        (STRING, CharType(5), "abc", "abc  "),
        (STRING, CharType(2), "abc", "ab"),
        (STRING, VarCharType(2), "äöü", "äö"),
        (INT, VarCharType(3), 12345, "123"),
        (BYTES, BinaryType(3), b"\x01", b"\x01\0\0"),
        (STRING, VarBinaryType(2), "abc", b"ab"),
        # times
        (DATE, TimestampType(3), date(2020, 2, 29), datetime(2020, 2, 29)),
        (TimestampType(3), DATE, datetime(1969, 12, 31, 23), date(1969, 12, 31)),
        (TimestampType(6), TIME, datetime(2020, 1, 1, 12, 34, 56, 999999), time(12, 34, 56)),
        (TimeType(3), TimestampType(3), time(12, 0, 0, 5000), datetime(1970, 1, 1, 12, 0, 0, 5000)),
        (TimestampType(6), TimestampType(3), datetime(1969, 12, 31, 23, 59, 59, 999999),
         datetime(1969, 12, 31, 23, 59, 59, 999000)),
        (TimestampType(3), LocalZonedTimestampType(3), datetime(2021, 1, 1), datetime(2020, 12, 31, 23, tzinfo=UTC)),
        (TimestampType(3), LocalZonedTimestampType(3), datetime(2021, 3, 28, 2, 30),  # skipped by the clock
         datetime(2021, 3, 28, 1, 30, tzinfo=UTC)),
        (TimestampType(3), LocalZonedTimestampType(3), datetime(2021, 10, 31, 2, 30),  # shown twice
         datetime(2021, 10, 31, 0, 30, tzinfo=UTC)),
        (LocalZonedTimestampType(3), TimestampType(3), datetime(2021, 7, 1, tzinfo=UTC), datetime(2021, 7, 1, 2)),
        (LocalZonedTimestampType(3), DATE, datetime(2021, 7, 1, 23, tzinfo=UTC), date(2021, 7, 2)),
        # intervals of a single field
        (INT, DayTimeIntervalType(text="INTERVAL HOUR"), 2, timedelta(hours=2)),
        (DayTimeIntervalType(text="INTERVAL MINUTE"), BIGINT, timedelta(hours=2), 120),
        (YearMonthIntervalType(text="INTERVAL YEAR"), INT, 30, 2),
        # collections
        (ArrayType(STRING), ArrayType(INT), ["1", None], [1, None]),
        (MapType(INT, STRING), MapType(STRING, INT), [(1, "2")], [("1", 2)]),
        (PAIR, row_type({"x": STRING, "y": VarCharType(1)}), {"a": 1, "b": "xyz"}, {"x": "1", "y": "x"}),
    ],
)  # fmt: skip
def test_cast(source: LogicalType, target: LogicalType, value: Any, expected: Any) -> None:
    assert converted(source, target, value, None) == [expected, None]


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (STRING, INT, "Flink"),
        (STRING, INT, ""),
        (STRING, INT, "0x1F"),
        (STRING, TINYINT, "128"),
        (STRING, SMALLINT, "1e3"),
        (STRING, DOUBLE, "1,5"),
        (STRING, DecimalType(8, 4), "12345.6789"),
        (STRING, BOOLEAN, "perhaps"),
        (STRING, DATE, "2021-02-30"),
        (STRING, TIME, "2021-09-27 12:34:56"),
        (STRING, TIME, "25:00"),
        (STRING, TimestampType(3), "2021-09-27T12:34:56"),
        (STRING, TimestampType(3), "2021-13-01 12:34:56"),
        (ArrayType(STRING), ArrayType(INT), ["1", "x"]),
        (MapType(STRING, INT), MapType(INT, INT), [("a", 1)]),
        (PAIR, row_type({"a": INT, "b": TIME}), {"a": 1, "b": "abc"}),
    ],
)
def test_what_cannot_be_converted_fails_or_is_null_if_asked_for(
    source: LogicalType, target: LogicalType, value: Any
) -> None:
    with pytest.raises(EvaluationError, match="TRY_CAST"):
        converted(source, target, value)
    assert converted(source, target, value, None, safe=True) == [None, None]


def test_slices_of_nested_columns_are_cast() -> None:
    import pyarrow as pa

    from flott.table._expressions.compiled import compile_expressions

    values = pa.array([["9"], ["1", "2"], None, ["3"]], type=pa.list_(pa.string())).slice(1)
    compiled = compile_expressions([cast(column(0, ArrayType(STRING)), ArrayType(BIGINT))])
    assert compiled.over([values], 3, BERLIN)[0].to_pylist() == [[1, 2], None, [3]]


@pytest.mark.parametrize(
    ("source", "target", "explicit", "assigned", "implicit"),
    [
        (INT, BIGINT, True, True, True),
        (BIGINT, INT, True, True, False),
        (DOUBLE, FLOAT, True, True, False),
        (STRING, INT, True, False, False),
        (INT, STRING, True, False, False),
        (DATE, INT, False, False, False),
        (TimestampType(3), DATE, True, True, True),
        (DATE, TimestampType(3), True, True, False),
        (BYTES, BOOLEAN, False, False, False),
        (INT, BYTES, False, False, False),
        (YearMonthIntervalType(text="INTERVAL YEAR"), INT, True, False, False),
        (YearMonthIntervalType(), INT, False, False, False),
        (ArrayType(INT), ArrayType(BIGINT), True, True, True),
        (ArrayType(INT), MapType(INT, INT), False, False, False),
        (CharType(3), VarCharType(5), True, True, True),
    ],
)
def test_which_casts_there_are(
    source: LogicalType, target: LogicalType, explicit: bool, assigned: bool, implicit: bool
) -> None:
    assert (can_cast(source, target), can_assign(source, target), can_cast_implicitly(source, target)) == (
        explicit,
        assigned,
        implicit,
    )
