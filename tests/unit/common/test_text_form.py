"""How a value of a declared type is written: the lines beside the values are what Flink writes."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Row, RowKind, Types
from flott.common._text_form import printed_form, text_form
from flott.common.time import Instant
from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._basic import LocalTimeTypeInfo

INSIDE = Types.ROW([Types.STRING(), Types.BOOLEAN()])


@pytest.mark.parametrize(
    ("declared", "value", "text"),
    [
        (Types.STRING(), "it's", "it's"),
        (Types.INT(), -3, "-3"),
        (Types.BOOLEAN(), True, "true"),
        (Types.DOUBLE(), 100.0, "100.0"),
        (Types.DOUBLE(), 1e7, "1.0E7"),
        (Types.DOUBLE(), 9999999.0, "9999999.0"),
        (Types.DOUBLE(), 123456789.0, "1.23456789E8"),
        (Types.DOUBLE(), 0.001, "0.001"),
        (Types.DOUBLE(), 0.0001, "1.0E-4"),
        (Types.DOUBLE(), -0.0, "-0.0"),
        (Types.DOUBLE(), float("nan"), "NaN"),
        (Types.DOUBLE(), float("-inf"), "-Infinity"),
        (Types.FLOAT(), 1.98932, "1.98932"),
        (Types.FLOAT(), 110.0999984741211, "110.1"),
        (Types.FLOAT(), float("-inf"), "-Infinity"),
        (Types.BIG_DEC(), decimal.Decimal("1E+3"), "1E+3"),
        (Types.SQL_DATE(), datetime.date(2021, 1, 9), "2021-01-09"),
        (Types.SQL_TIME(), datetime.time(12, 0, 0, 5), "12:00:00"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12), "2021-01-09 12:00:00.0"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, 0, 0, 11000), "2021-01-09 12:00:00.011"),
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), datetime.time(12, 0), "12:00"),
        (Types.INSTANT(), Instant(1, 500_000_000), "1970-01-01T00:00:01.500Z"),
        (Types.LIST(Types.STRING()), ["a", None], "[a, null]"),
        (Types.MAP(Types.STRING(), Types.BOOLEAN()), {"a": True, "b": None}, "{a=true, b=null}"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a\xff", "[97, -1]"),
        (Types.TUPLE([Types.STRING(), Types.DOUBLE()]), ("a", None), "(a,null)"),
        (Types.TUPLE([Types.STRING(), INSIDE]), ("a", Row("b", False)), "(a,+I[b, false])"),
        (INSIDE, Row.of_kind(RowKind.UPDATE_AFTER, "b", True), "+U[b, true]"),
        (Types.PICKLED_BYTE_ARRAY(), ("a", None), "('a', None)"),
        (Types.of(tuple[int, ...]), (1, 2), "(1, 2)"),
        (None, {"a": None}, "{'a': None}"),
    ],
)
def test_a_value_is_written_as_flink_writes_it(declared: TypeInformation | None, value: Any, text: str) -> None:
    assert text_form(declared)(value) == text


@pytest.mark.parametrize("declared", [Types.STRING(), Types.DOUBLE(), INSIDE, Types.LIST(Types.INT())])
def test_nothing_is_null(declared: TypeInformation) -> None:
    assert text_form(declared)(None) == printed_form(declared)(None) == "null"


def test_print_writes_the_fields_of_a_row_as_python_does() -> None:
    assert printed_form(INSIDE)(Row(f0="b", f1=True)) == "+I[b,True]"
    assert printed_form(Types.TUPLE([INSIDE]))((Row("b", True),)) == "(+I[b, true])"


@pytest.mark.parametrize(
    ("declared", "value"),
    [(Types.DOUBLE(), "a"), (Types.TUPLE([Types.INT()]), (1, 2)), (Types.LIST(Types.INT()), 3), (INSIDE, ("a", 1))],
)
def test_a_value_of_another_type_is_its_own_text(declared: TypeInformation, value: Any) -> None:
    assert text_form(declared)(value) == str(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_number_is_that_number(value: float) -> None:
    text = text_form(Types.DOUBLE())(value)
    assert float(text) == value
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
