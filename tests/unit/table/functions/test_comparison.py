from __future__ import annotations

from typing import Any

import pytest

from flott.table._functions.function import SignatureError
from flott.table._types.logical import BIGINT, BOOLEAN, DOUBLE, INT, STRING, ArrayType, DecimalType
from tests.unit.table.functions.evaluation import apply, call, column, evaluate, literal

T, F, U = True, False, None


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("=", [T, F, U, U]),
        ("<>", [F, T, U, U]),
        ("<", [F, T, U, U]),
        ("<=", [T, T, U, U]),
        (">", [F, F, U, U]),
        (">=", [T, F, U, U]),
        ("IS DISTINCT FROM", [F, T, T, F]),
        ("IS NOT DISTINCT FROM", [T, F, F, T]),
    ],
)
@pytest.mark.parametrize(
    "columns",
    [
        ((INT, [1, 1, 1, None]), (BIGINT, [1, 2, None, None])),
        ((STRING, ["a", "a", "a", None]), (STRING, ["a", "b", None, None])),
        ((BOOLEAN, [False, False, True, None]), (BOOLEAN, [False, True, None, None])),
        ((DOUBLE, [1.0, 1.0, 1.0, None]), (INT, [1, 2, None, None])),
        ((DecimalType(3, 1), [1, 1, 1, None]), (INT, [1, 2, None, None])),
    ],
)
def test_comparisons(operator: str, expected: list[Any], columns: Any) -> None:
    assert apply(operator, *columns) == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("AND", [T, F, U, F, F, F, U, F, U]),
        ("OR", [T, T, T, T, F, U, T, U, U]),
    ],
)
def test_logic_of_three_values(operator: str, expected: list[Any]) -> None:
    one, other = [T, T, T, F, F, F, U, U, U], [T, F, U, T, F, U, T, F, U]
    assert apply(operator, (BOOLEAN, one), (BOOLEAN, other)) == expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("NOT", [F, T, U]),
        ("IS TRUE", [T, F, F]),
        ("IS NOT TRUE", [F, T, T]),
        ("IS FALSE", [F, T, F]),
        ("IS NOT FALSE", [T, F, T]),
        ("IS UNKNOWN", [F, F, T]),
        ("IS NOT UNKNOWN", [T, T, F]),
        ("IS NULL", [F, F, T]),
        ("IS NOT NULL", [T, T, F]),
    ],
)
def test_tests_of_a_condition(operator: str, expected: list[Any]) -> None:
    assert apply(operator, (BOOLEAN, [T, F, U])) == expected


def test_between_looks_at_the_order_of_its_bounds_unless_it_is_symmetric() -> None:
    bounds = (literal(5, INT), literal(1, INT))
    values = (INT, [0, 1, 3, 5, 6, None])
    assert evaluate(call("BETWEEN", column(0, INT), *bounds), values) == [F, F, F, F, F, U]
    assert evaluate(call("BETWEEN SYMMETRIC", column(0, INT), *bounds), values) == [F, T, T, T, F, U]
    assert evaluate(call("NOT BETWEEN SYMMETRIC", column(0, INT), *bounds), values) == [T, F, F, F, T, U]


def test_in_is_unknown_if_the_value_may_be_the_null_of_the_list() -> None:
    items = [literal(1, INT), literal(2, INT)]
    assert evaluate(call("IN", column(0, INT), *items), (INT, [1, 3, None])) == [T, F, U]
    assert evaluate(call("NOT IN", column(0, INT), *items), (INT, [1, 3, None])) == [F, T, U]
    items.append(literal(None, INT))
    assert evaluate(call("IN", column(0, INT), *items), (INT, [1, 3, None])) == [T, U, U]
    assert evaluate(call("NOT IN", column(0, INT), *items), (INT, [1, 3, None])) == [F, U, U]


def test_in_takes_columns_too() -> None:
    found = apply("IN", (INT, [1, 1, 1, None]), (INT, [1, 2, None, 1]), (BIGINT, [5, 1, 5, 5]))
    assert found == [T, T, U, U]


def test_arrays_are_equal_if_their_elements_are() -> None:
    of = ArrayType(INT)
    assert apply("=", (of, [[1, 2], [1], None]), (of, [[1, 2], [2], [1]])) == [T, F, U]


def test_a_text_is_not_compared_with_a_number() -> None:
    with pytest.raises(SignatureError, match="compared"):
        call("=", column(0, STRING), column(1, INT))
