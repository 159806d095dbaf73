from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pytest

from flott.table._functions.argument_checks import EvaluationError
from flott.table._functions.function import Session
from flott.table._types.logical import BIGINT, DOUBLE, FLOAT, INT, TINYINT, DecimalType, LogicalType
from tests.unit.table.functions.evaluation import apply, call, column, evaluate, literal

D52 = DecimalType(5, 2)


@pytest.mark.parametrize(
    ("name", "of", "value", "expected"),
    [
        ("SQRT", INT, 16, 4.0),
        ("LN", DOUBLE, math.e, 1.0),
        ("LOG10", INT, 1000, 3.0),
        ("LOG2", INT, 8, 3.0),
        ("LOG", DOUBLE, 1.0, 0.0),
        ("EXP", INT, 0, 1.0),
        ("SIN", INT, 0, 0.0),
        ("COS", INT, 0, 1.0),
        ("COSH", INT, 0, 1.0),
        ("DEGREES", DOUBLE, math.pi, 180.0),
        ("RADIANS", INT, 180, math.pi),
        ("ABS", TINYINT, -128, -128),
        ("ABS", D52, Decimal("-1.50"), Decimal("1.50")),
        ("SIGN", D52, Decimal("-1.50"), Decimal("-1.00")),
        ("SIGN", INT, -7, -1),
        ("SIGN", DOUBLE, 0.5, 1.0),
        ("FLOOR", DOUBLE, -1.5, -2.0),
        ("CEILING", DOUBLE, -1.5, -1.0),
        ("FLOOR", D52, Decimal("-1.50"), Decimal("-2")),
        ("CEIL", D52, Decimal("-1.50"), Decimal("-1")),
        ("CEIL", BIGINT, 5, 5),
        ("ROUND", DOUBLE, 2.5, 3.0),
        ("ROUND", D52, Decimal("-2.50"), Decimal("-3")),
        ("TRUNCATE", DOUBLE, 42.924, 42.0),
        ("BIN", INT, 12, "1100"),
        ("BIN", INT, -1, "1" * 64),
    ],
)
def test_functions_of_a_number(name: str, of: LogicalType, value: Any, expected: Any) -> None:
    found = apply(name, (of, [value, None]))
    assert found == ([pytest.approx(expected, abs=1e-15), None] if isinstance(expected, float) else [expected, None])


@pytest.mark.parametrize(
    ("name", "of", "value", "digits", "expected", "text"),
    [
        ("ROUND", DecimalType(6, 3), Decimal("123.456"), 2, Decimal("123.46"), "DECIMAL(6, 2)"),
        ("TRUNCATE", DecimalType(6, 3), Decimal("123.456"), 2, Decimal("123.45"), "DECIMAL(6, 2)"),
        ("ROUND", DecimalType(6, 3), Decimal("155.456"), -1, Decimal("160"), "DECIMAL(4, 0)"),
        ("ROUND", DecimalType(6, 3), Decimal("123.456"), 5, Decimal("123.456"), "DECIMAL(6, 3)"),
        ("ROUND", DOUBLE, 1.005, 2, 1.01, "DOUBLE"),
        ("ROUND", FLOAT, 0.125, 2, pytest.approx(0.13), "FLOAT"),
        ("TRUNCATE", DOUBLE, -42.324, 2, -42.32, "DOUBLE"),
        ("ROUND", INT, 155, -1, 160, "INT"),
        ("TRUNCATE", INT, -155, -2, -100, "INT"),
        ("ROUND", BIGINT, 155, 2, 155, "BIGINT"),
    ],
)
def test_rounding(name: str, of: LogicalType, value: Any, digits: int, expected: Any, text: str) -> None:
    rounded = call(name, column(0, of), literal(digits, INT))
    assert str(rounded.type) == text
    assert evaluate(rounded, (of, [value, None])) == [expected, None]


def test_the_number_of_digits_may_be_a_column() -> None:
    assert apply("ROUND", (DOUBLE, [1.25, 155.0, 1.0]), (INT, [1, -1, None])) == [1.3, 160.0, None]


def test_power_and_logarithms_of_two_numbers() -> None:
    assert apply("POWER", (INT, [2, 4, None]), (DOUBLE, [10.0, 0.5, 1.0])) == [1024.0, 2.0, None]
    assert apply("LOG", (INT, [2]), (INT, [8])) == [3.0]
    assert apply("ATAN2", (DOUBLE, [1.0]), (DOUBLE, [1.0])) == [pytest.approx(math.pi / 4)]
    assert apply("PI") == [math.pi]


def test_out_of_the_domain_there_is_no_number() -> None:
    found = apply("LN", (DOUBLE, [-1.0, 0.0]))
    assert math.isnan(found[0])
    assert found[1] == -math.inf


def test_seeded_random_numbers_are_those_of_java() -> None:
    assert apply("RAND", (INT, [10, 10, None])) == [0.7304302967434272, 0.7304302967434272, None]
    sequence = evaluate(call("RAND", literal(10, INT)), (INT, [0, 0, 0]))
    assert sequence[0] == 0.7304302967434272
    assert len(set(sequence)) == 3
    assert apply("RAND_INTEGER", (INT, [10]), (INT, [10])) == [3]


def test_random_numbers_differ_and_stay_in_their_range() -> None:
    one, other = (evaluate(call("RAND"), (INT, [0] * 100)) for _ in range(2))
    assert len(set(one)) == 100
    assert one != other
    assert all(0 <= number < 1 for number in one)
    assert set(evaluate(call("RAND_INTEGER", literal(3, INT)), (INT, [0] * 200))) == {0, 1, 2}
    with pytest.raises(EvaluationError, match="bound"):
        apply("RAND_INTEGER", (INT, [0]))


def test_uuids_are_of_type_4() -> None:
    found = evaluate(call("UUID"), (INT, [0] * 50), session=Session(seed=7))
    assert len(set(found)) == 50
    assert all(re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", u) for u in found)
