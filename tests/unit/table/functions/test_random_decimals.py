"""Quick ways to compute with decimals and to round doubles must agree with exact fractions, row by row."""

from __future__ import annotations

import random
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest

from flott.table._types.logical import DOUBLE, INT, DecimalType
from tests.unit.table.functions.evaluation import call, cast, column, evaluate, literal


def _digits(chance: random.Random, precision: int) -> int:
    digits = chance.randint(1, precision)
    return chance.randint(-(10**digits) + 1, 10**digits - 1)


def _decimal(digits: int, scale: int) -> Decimal:
    sign, figures = (1 if digits < 0 else 0), tuple(map(int, str(abs(digits))))
    return Decimal((sign, figures, -scale))


def _expected(operator: str, one: Fraction, other: Fraction, of: DecimalType) -> Decimal | None:
    match operator:
        case "+":
            exact = one + other
        case "-":
            exact = one - other
        case "*":
            exact = one * other
        case "/":
            exact = one / other
        case _:
            exact = (abs(one) % abs(other)) * (1 if one >= 0 else -1)
    number = int(abs(exact) * 10**of.scale + Fraction(1, 2))
    return None if number >= 10**of.precision else _decimal(number if exact >= 0 else -number, of.scale)


@pytest.mark.parametrize("seed", range(60))
def test_decimals_agree_with_fractions(seed: int) -> None:
    chance = random.Random(seed)
    types = []
    for _ in range(2):
        precision = chance.randint(1, 38)
        types.append(DecimalType(precision, chance.randint(0, precision)))
    rows = [(_digits(chance, types[0].precision), _digits(chance, types[1].precision) or 1) for _ in range(20)]
    columns = [(of, [_decimal(row[i], of.scale) for row in rows] + [None]) for i, of in enumerate(types)]
    for operator in "+-*/%":
        calculation = call(operator, column(0, types[0]), column(1, types[1]))
        of = calculation.type
        assert isinstance(of, DecimalType)
        expected = [
            _expected(operator, Fraction(a, 10 ** types[0].scale), Fraction(b, 10 ** types[1].scale), of)
            for a, b in rows
        ]
        assert evaluate(calculation, *columns) == [*expected, None], (operator, types)


def test_doubles_are_rounded_by_their_text() -> None:
    chance = random.Random(1)
    values = [
        chance.choice((chance.random() * 1e9, chance.randint(0, 10**6) / 1000 + 0.0005, chance.randint(-999, 999) / 8))
        for _ in range(2000)
    ]
    for digits in (0, 1, 3, -2):
        for name, mode in (("ROUND", ROUND_HALF_UP), ("TRUNCATE", ROUND_DOWN)):
            step = Decimal(1).scaleb(-digits)
            expected = [float(Decimal(repr(value)).quantize(step, rounding=mode)) for value in values]
            assert evaluate(call(name, column(0, DOUBLE), literal(digits, INT)), (DOUBLE, values)) == expected
    converted = evaluate(cast(column(0, DOUBLE), DecimalType(20, 3)), (DOUBLE, values))
    assert converted == [Decimal(value).quantize(Decimal("0.001"), rounding=ROUND_HALF_UP) for value in values]
