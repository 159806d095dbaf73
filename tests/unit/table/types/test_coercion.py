from __future__ import annotations

from dataclasses import replace

import pytest

from flott.table._types.coercion import average_type, cast_type, common_type, comparable_type, needs_cast, sum_type
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    ArrayType,
    BinaryType,
    CharType,
    DayTimeIntervalType,
    DecimalType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    TimeAttribute,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
    YearMonthIntervalType,
    row_type,
)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([INT, BIGINT], "BIGINT"),
        ([INT, BIGINT, DecimalType(2, 2)], "DECIMAL(21, 2)"),
        ([DecimalType(38, 10), DecimalType(38, 30)], "DECIMAL(38, 10)"),
        ([INT, FLOAT], "FLOAT"),
        ([FLOAT, DOUBLE], "DOUBLE"),
        ([DecimalType(5, 2), FLOAT], "DOUBLE"),
        ([SMALLINT.as_nullable(False), INT.as_nullable(False)], "INT NOT NULL"),
        ([SMALLINT.as_nullable(False), NULL], "SMALLINT"),
        ([NULL, NULL], "NULL"),
        ([CharType(3), CharType(3)], "CHAR(3)"),
        ([CharType(3), CharType(5)], "VARCHAR(5)"),
        ([CharType(3), STRING], "STRING"),
        ([BinaryType(2), VarBinaryType(4)], "VARBINARY(4)"),
        ([BinaryType(2), BYTES], "BYTES"),
        ([TimeType(0), TimeType(3)], "TIME(3)"),
        ([TimestampType(3), TimestampType(9)], "TIMESTAMP(9)"),
        ([TimestampType(6), LocalZonedTimestampType(3)], "TIMESTAMP_LTZ(6)"),
        ([DATE, TimestampType(3)], "TIMESTAMP(3)"),
        ([DATE, DayTimeIntervalType()], "DATE"),
        ([ArrayType(INT), ArrayType(BIGINT)], "ARRAY<BIGINT>"),
        ([MapType(CharType(1), INT), MapType(CharType(2), INT)], "MAP<VARCHAR(2), INT>"),
        ([row_type({"a": INT}), row_type({"b": DOUBLE})], "ROW<`a` DOUBLE>"),
        ([INT, STRING], None),
        ([BOOLEAN, INT], None),
        ([ArrayType(INT), MapType(INT, INT)], None),
        ([row_type({"a": INT}), row_type({"a": INT, "b": INT})], None),
        ([DayTimeIntervalType(), YearMonthIntervalType()], None),
    ],
)
def test_common_type(types: list[LogicalType], expected: str | None) -> None:
    found = common_type(types)
    assert (None if found is None else str(found)) == expected


def test_a_common_type_of_different_types_is_no_time_attribute() -> None:
    rowtime = TimestampType(3, TimeAttribute.ROWTIME)
    assert common_type([rowtime, rowtime]) == rowtime
    assert common_type([rowtime, TimestampType(6)]) == TimestampType(6)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (INT, BIGINT, "BIGINT"),
        (INT, FLOAT, "DOUBLE"),
        (DecimalType(3, 1), INT, "DECIMAL(11, 1)"),
        (STRING, DATE, "DATE"),
        (TimestampType(3), STRING, "TIMESTAMP(3)"),
        (DATE, TimestampType(3), "TIMESTAMP(3)"),
        (NULL, INT, "INT"),
        (STRING, INT, None),
        (DOUBLE, STRING, None),
        (INT, DATE, None),
    ],
)
def test_what_is_compared_with_what(one: LogicalType, other: LogicalType, expected: str | None) -> None:
    found = comparable_type(one, other)
    assert (None if found is None else str(found)) == expected


def test_types_of_sums_and_averages() -> None:
    assert str(sum_type(DecimalType(10, 2))) == "DECIMAL(38, 2)"
    assert str(average_type(DecimalType(10, 2))) == "DECIMAL(38, 6)"
    assert str(average_type(DecimalType(20, 8))) == "DECIMAL(38, 8)"
    assert sum_type(INT) == INT
    assert average_type(INT) == INT


def test_a_cast_can_be_null_if_its_operand_can_or_if_it_may_fail_to_null() -> None:
    known = STRING.as_nullable(False)
    assert str(cast_type(known, INT, safe=False)) == "INT NOT NULL"
    assert str(cast_type(known, INT, safe=True)) == "INT"
    assert str(cast_type(STRING, INT.as_nullable(False), safe=False)) == "INT"


def test_nullability_and_time_attributes_need_no_cast() -> None:
    assert not needs_cast(INT, INT.as_nullable(False))
    assert not needs_cast(TimestampType(3, TimeAttribute.ROWTIME), TimestampType(3))
    assert not needs_cast(ArrayType(INT), ArrayType(INT.as_nullable(False)))
    assert needs_cast(TimestampType(3), TimestampType(6))
    assert needs_cast(VarCharType(3), replace(STRING))
