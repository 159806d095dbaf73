"""How calls are written for Spark, where its result is the same. None: Spark gets a function over Arrow columns.

The forms hold whether Spark's ANSI mode is on or off: they cannot overflow, and a division by zero fails in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from flott.table._types.coercion import as_decimal
from flott.table._types.logical import DateType, DecimalType, DoubleType, IntegerType, LogicalType, TimestampType

SparkForm = Callable[[Sequence[str], Sequence[LogicalType], LogicalType], str | None]

_ZERO = "raise_error('Division by zero')"
_PLAIN_PATTERN = re.compile(r"'[yMdHms:/. -]+'")


def arithmetic(operator: str) -> SparkForm:
    """Return how ``+ - * / %`` is written: for doubles, decimals that cannot overflow, and remainders of integers."""

    def written(arguments: Sequence[str], types: Sequence[LogicalType], result: LogicalType) -> str | None:
        one, other = arguments
        if all(isinstance(of, DoubleType) for of in types):
            return None if operator in "/%" else f"({one} {operator} {other})"
        if operator == "%" and all(isinstance(of, IntegerType) for of in types):
            return f"CAST(({one} % if({other} = 0, {_ZERO}, {other})) AS {result.root_text})"
        if isinstance(result, DecimalType) and operator != "%":
            return _decimal(operator, arguments, types, result)
        return None

    return written


def _decimal(operator: str, arguments: Sequence[str], types: Sequence[LogicalType], result: DecimalType) -> str | None:
    exact = [as_decimal(of) for of in types]
    one, other = exact
    if one is None or other is None or _digits(operator, one, other) > 38:
        return None
    left, right = (f"CAST({text} AS {of.root_text})" for text, of in zip(arguments, (one, other), strict=True))
    if operator == "/":
        right = f"if({arguments[1]} = 0, {_ZERO}, {right})"
    return f"CAST(({left} {operator} {right}) AS {result.root_text})"


def _digits(operator: str, one: DecimalType, other: DecimalType) -> int:
    """Return the precision that the result has before it is bounded."""
    match operator:
        case "*":
            return one.precision + other.precision + 1
        case "/":
            return one.precision - one.scale + other.scale + max(6, one.scale + other.precision + 1)
    return max(one.precision - one.scale, other.precision - other.scale) + max(one.scale, other.scale) + 1


def field_of_day(function: str) -> SparkForm:
    """Return how a field of a day or timestamp is written. Points in time depend on the session: not those."""

    def written(arguments: Sequence[str], types: Sequence[LogicalType], result: LogicalType) -> str | None:
        if not isinstance(types[0], DateType | TimestampType):
            return None
        return f"CAST({function}({arguments[0]}) AS BIGINT)"

    return written


def date_format(arguments: Sequence[str], types: Sequence[LogicalType], result: LogicalType) -> str | None:
    """Return DATE_FORMAT by a constant pattern of numbers only."""
    if isinstance(types[0], TimestampType) and _PLAIN_PATTERN.fullmatch(arguments[1]):
        return f"date_format({arguments[0]}, {arguments[1]})"
    return None
