from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from flott.table._functions.argument_checks import EvaluationError
from flott.table._types.logical import (
    BIGINT,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    TINYINT,
    DayTimeIntervalType,
    DecimalType,
    LogicalType,
    YearMonthIntervalType,
)
from tests.unit.table.functions.evaluation import apply, call, column, evaluate, literal


def _decimal(*numbers: str | None) -> list[Decimal | None]:
    return [None if number is None else Decimal(number) for number in numbers]


@pytest.mark.parametrize(
    ("operator", "one", "other", "expected"),
    [
        ("+", (INT, [1, None, 2147483647]), (INT, [2, 3, 1]), [3, None, -2147483648]),
        ("-", (TINYINT, [-128, 5]), (TINYINT, [1, 7]), [127, -2]),
        ("*", (BIGINT, [2**62, 3]), (INT, [2, -4]), [-(2**63), -12]),
        ("/", (INT, [7, -7, -2147483648, None]), (INT, [2, 2, -1, 0]), None),
        ("/", (INT, [7, -7, -2147483648]), (INT, [2, 2, -1]), [3, -3, -2147483648]),
        ("%", (INT, [7, -7, 7]), (INT, [3, 3, -3]), [1, -1, 1]),
        ("MOD", (BIGINT, [10_000_000_000, -5, None]), (INT, [123, 3, 4]), [10_000_000_000 % 123, -2, None]),
        ("/", (DOUBLE, [1.0, 0.0]), (INT, [0, 2]), [float("inf"), 0.0]),
        ("%", (DOUBLE, [5.5, None]), (DOUBLE, [-2.0, 1.0]), [1.5, None]),
        ("+", (FLOAT, [1.5]), (INT, [2]), [3.5]),
        ("+", (DecimalType(5, 2), _decimal("1.25", None)), (INT, [2, 3]), _decimal("3.25", None)),
        ("*", (DecimalType(5, 2), _decimal("-1.25")), (DecimalType(3, 1), _decimal("2.5")), _decimal("-3.125")),
        ("/", (DecimalType(3, 0), _decimal("2", "-2")), (DecimalType(1, 0), _decimal("3", "3")), None),
        ("%", (DecimalType(5, 2), _decimal("-7.25")), (DecimalType(3, 1), _decimal("2.5")), _decimal("-2.25")),
    ],
)  # fmt: skip
def test_operators_on_numbers(operator: str, one: Any, other: Any, expected: list[Any] | None) -> None:
    if expected is None and isinstance(one[0], DecimalType):
        expected = _decimal("0.666667", "-0.666667")
    if expected is None:  # a divisor that is 0 next to a NULL
        with pytest.raises(EvaluationError, match="zero"):
            apply(operator, one, other)
    else:
        assert apply(operator, one, other) == expected


@pytest.mark.parametrize(
    ("operator", "one", "other", "expected"),
    [
        ("+", INT, BIGINT, "BIGINT"),
        ("*", SMALLINT, TINYINT, "SMALLINT"),
        ("+", BIGINT, FLOAT, "FLOAT"),
        ("+", DecimalType(5, 2), FLOAT, "DOUBLE"),
        ("-", DecimalType(5, 2), DecimalType(10, 4), "DECIMAL(11, 4)"),
        ("*", BIGINT, DecimalType(3, 3), "DECIMAL(23, 3)"),
        ("*", DecimalType(38, 10), DecimalType(38, 10), "DECIMAL(38, 6)"),
        ("/", DecimalType(5, 2), INT, "DECIMAL(16, 13)"),
        ("%", BIGINT, INT, "INT"),
        ("%", DecimalType(5, 2), DecimalType(10, 4), "DECIMAL(7, 4)"),
    ],
)
def test_types_of_results(operator: str, one: LogicalType, other: LogicalType, expected: str) -> None:
    assert str(call(operator, column(0, one), column(1, other)).type) == expected


def test_not_null_operands_give_a_not_null_result() -> None:
    assert str(call("+", column(0, INT.as_nullable(False)), literal(1, INT)).type) == "INT NOT NULL"


def test_a_sum_of_too_many_digits_is_null() -> None:
    big = Decimal("9" * 38)
    of = DecimalType(38, 0)
    assert apply("+", (of, [big, big]), (of, [Decimal(1), Decimal(-1)])) == [None, Decimal("9" * 37 + "8")]


def test_products_beyond_64_bits_are_exact() -> None:
    of = DecimalType(18, 0)
    number = Decimal("123456789012345678")
    assert apply("*", (of, [number, None]), (of, [-number, number])) == [
        Decimal("-15241578753238836527968299765279684"),
        None,
    ]


def test_a_price_times_a_constant() -> None:
    product = call("*", literal(Decimal("0.908"), DecimalType(3, 3)), column(0, BIGINT))
    assert evaluate(product, (BIGINT, [100, None, -7])) == _decimal("90.800", None, "-6.356")


@pytest.mark.parametrize("of", [INT, DecimalType(5, 2)])
def test_a_division_by_zero_fails(of: LogicalType) -> None:
    with pytest.raises(EvaluationError, match="zero"):
        apply("/", (of, [1]), (of, [0]))


def test_intervals() -> None:
    days, months = DayTimeIntervalType(), YearMonthIntervalType()
    twice = call("*", column(0, days), literal(2, INT))
    assert [str(v) for v in evaluate(twice, (days, [1500, None]))] == ["0:00:03", "None"]
    assert evaluate(call("NEGATIVE", column(0, months)), (months, [5, None])) == [-5, None]
    assert evaluate(call("-", column(0, months), literal(12, months)), (months, [5])) == [-7]
