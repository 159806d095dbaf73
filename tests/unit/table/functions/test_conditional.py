from __future__ import annotations

from decimal import Decimal

import pytest

from flott.table._functions.argument_checks import EvaluationError
from flott.table._types.logical import BIGINT, BOOLEAN, INT, STRING, CharType, DecimalType
from tests.unit.table.functions.evaluation import apply, call, column, evaluate, literal


def test_case_takes_the_first_condition_that_is_true() -> None:
    case = call(
        "CASE",
        call(">", column(0, INT), literal(0, INT)),
        literal("more", CharType(4)),
        call("=", column(0, INT), literal(0, INT)),
        literal("equal", CharType(5)),
        literal("less", CharType(4)),
    )
    assert str(case.type) == "VARCHAR(5) NOT NULL"
    assert evaluate(case, (INT, [1, 0, -1, None])) == ["more", "equal", "less", "less"]


def test_a_branch_that_is_not_taken_does_not_fail() -> None:
    share = call("/", literal(10, INT), column(0, INT))
    case = call("CASE", call("=", column(0, INT), literal(0, INT)), literal(-1, INT), share)
    assert evaluate(case, (INT, [0, 5, None])) == [-1, 2, None]
    with pytest.raises(EvaluationError):
        evaluate(share, (INT, [0, 5]))


def test_coalesce_is_null_only_if_everything_is() -> None:
    found = call("COALESCE", column(0, BIGINT), literal(1, INT))
    assert str(found.type) == "BIGINT NOT NULL"
    assert evaluate(found, (BIGINT, [None, 7])) == [1, 7]
    assert str(call("COALESCE", column(0, BIGINT), column(1, INT)).type) == "BIGINT"


def test_ifnull_finds_the_common_type() -> None:
    found = call("IFNULL", column(0, INT), column(1, DecimalType(5, 2, nullable=False)))
    assert str(found.type) == "DECIMAL(12, 2) NOT NULL"
    assert evaluate(found, (INT, [None, 3]), (DecimalType(5, 2), [Decimal("1.25")] * 2)) == [
        Decimal("1.25"),
        Decimal("3.00"),
    ]


def test_if_treats_unknown_as_false() -> None:
    found = apply("IF", (BOOLEAN, [True, False, None]), (STRING, ["a"] * 3), (STRING, ["b"] * 3))
    assert found == ["a", "b", "b"]


def test_nullif() -> None:
    assert apply("NULLIF", (INT, [1, 2, None]), (BIGINT, [1, 1, 1])) == [None, 2, None]


@pytest.mark.parametrize(("name", "expected"), [("GREATEST", [3, None, 2]), ("LEAST", [1, None, -5])])
def test_extremes_are_null_if_one_value_is(name: str, expected: list[int | None]) -> None:
    assert apply(name, (INT, [1, 2, -5]), (INT, [3, None, 0]), (BIGINT, [2, 7, 2])) == expected
