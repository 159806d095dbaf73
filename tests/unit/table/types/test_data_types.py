"""PyFlink's data types and the logical types that they stand for."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import NamedTuple, Optional

import pytest

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table._types.inference import type_of_hint, type_of_rows, type_of_value, without_nulls
from flott.table.types import DataTypes, logical_type_of


@pytest.mark.parametrize(
    ("data_type", "text"),
    [
        (DataTypes.CHAR(3), "CHAR(3)"),
        (DataTypes.VARCHAR(3, False), "VARCHAR(3) NOT NULL"),
        (DataTypes.STRING(), "STRING"),
        (DataTypes.STRING().not_null(), "STRING NOT NULL"),
        (DataTypes.INT(False).nullable(), "INT"),
        (DataTypes.DECIMAL(10, 2), "DECIMAL(10, 2)"),
        (DataTypes.TIME(), "TIME(0)"),
        (DataTypes.TIMESTAMP(3), "TIMESTAMP(3)"),
        (DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(), "TIMESTAMP_LTZ(6)"),
        (DataTypes.ARRAY(DataTypes.INT(False)), "ARRAY<INT NOT NULL>"),
        (DataTypes.MAP(DataTypes.STRING(), DataTypes.BIGINT()), "MAP<STRING, BIGINT>"),
        (DataTypes.MULTISET(DataTypes.DATE()), "MULTISET<DATE>"),
        (DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT(), "it's"), DataTypes.FIELD("b", DataTypes.BYTES())]),
         "ROW<`a` INT 'it''s', `b` BYTES>"),
        (DataTypes.ROW([DataTypes.DOUBLE()]), "ROW<`f0` DOUBLE>"),
        (DataTypes.INTERVAL(DataTypes.YEAR(), DataTypes.MONTH()), "INTERVAL YEAR TO MONTH"),
        (DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3)), "INTERVAL DAY TO SECOND"),
        (DataTypes.LIST_VIEW(DataTypes.INT()), "ARRAY<INT>"),
    ],
)  # fmt: skip
def test_a_data_type_is_printed_as_in_sql(data_type: object, text: str) -> None:
    assert str(data_type) == text


def test_a_row_type_knows_its_fields() -> None:
    row = DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT()), DataTypes.FIELD("b", DataTypes.STRING())])
    assert row.field_names() == ["a", "b"]
    assert row.field_types() == [DataTypes.INT(), DataTypes.STRING()]
    assert len(row) == 2
    assert row["b"] == row[1] == DataTypes.FIELD("b", DataTypes.STRING())
    with pytest.raises(KeyError, match="no field 'c'"):
        row["c"]


def test_impossible_types_are_refused() -> None:
    with pytest.raises(ProgramError, match=r"DECIMAL\(50, 0\)"):
        DataTypes.DECIMAL(50, 0)
    with pytest.raises(ProgramError, match="no interval"):
        DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.MONTH())
    with pytest.raises(ProgramError, match="not a data type"):
        logical_type_of(7)  # type: ignore[arg-type]


class Point(NamedTuple):
    x: float
    y: int


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "BIGINT"), (str, "STRING"), (Optional[int], "BIGINT"), (float | None, "DOUBLE"),  # noqa: UP045
        (list[str], "ARRAY<STRING>"), (dict[str, list[int]], "MAP<STRING, ARRAY<BIGINT>>"),
        (Decimal, "DECIMAL(38, 18)"),
        (datetime.date, "DATE"), (datetime.datetime, "TIMESTAMP(6)"),
        (tuple[int, str], "ROW<`_1` BIGINT, `_2` STRING>"),
        (Point, "ROW<`x` DOUBLE, `y` BIGINT>"),
    ],
)  # fmt: skip
def test_hints_have_types(hint: object, text: str) -> None:
    assert str(type_of_hint(hint)) == text


def test_a_hint_without_a_type_is_an_error() -> None:
    with pytest.raises(ProgramError, match="no data type"):
        type_of_hint(object)


def test_values_have_types() -> None:
    aware = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert str(type_of_value(aware)) == "TIMESTAMP_LTZ(6)"
    assert str(type_of_value([1, None])) == "ARRAY<BIGINT>"
    assert str(type_of_value(Row(a=1, b="x"))) == "ROW<`a` BIGINT, `b` STRING>"
    assert str(type_of_rows([(1, None), (None, "x")], ["n", "s"])) == "ROW<`n` BIGINT, `s` STRING>"
    assert str(type_of_rows([1, 2.5])) == "ROW<`_1` DOUBLE>"
    assert str(type_of_value((1, ("x", 2.5)))) == "ROW<`_1` BIGINT, `_2` ROW<`_1` STRING, `_2` DOUBLE>>"
    assert str(type_of_value({"a": 1, "b": None})) == "MAP<STRING NOT NULL, BIGINT>"
    assert str(type_of_value(datetime.time(1, 2, 3, 4000))) == str(type_of_hint(datetime.time)) == "TIME(3)"
    with pytest.raises(ProgramError, match="no SQL type"):
        type_of_value(object())


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, Decimal("1.5")], "DECIMAL(38, 18)"), ([Decimal("1.5"), 1], "DECIMAL(38, 18)"),
        ([Decimal("1.5"), 2.5], "DOUBLE"), ([[1], [None], [2.5]], "ARRAY<DOUBLE>"),
    ],
)  # fmt: skip
def test_values_of_a_column_share_the_widest_type(values: list[object], text: str) -> None:
    assert str(type_of_rows([(value,) for value in values])) == f"ROW<`_1` {text}>"


def test_values_without_a_common_type_are_refused() -> None:
    with pytest.raises(ProgramError, match="in one column"):
        type_of_rows([(1,), ("x",)])
    with pytest.raises(ProgramError, match="same number of values"):
        type_of_rows([(1,), (1, 2)])


def test_a_column_of_nulls_is_a_string() -> None:
    found = type_of_rows([(None, [None], {}, Row(a=None))])
    assert [str(without_nulls(of)) for of in found.types] == [
        "STRING", "ARRAY<STRING>", "MAP<STRING NOT NULL, STRING>", "ROW<`a` STRING>",
    ]  # fmt: skip


def test_a_type_may_be_written_as_in_sql() -> None:
    assert str(logical_type_of("ROW<a INT NOT NULL, b ARRAY<STRING>>")) == "ROW<`a` INT NOT NULL, `b` ARRAY<STRING>>"
    assert logical_type_of(int) == logical_type_of("BIGINT")
