"""Turns Python values into literals of the syntax tree."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table._sql import nodes as ast
from flott.table._sql.parser import parse_type_name
from flott.table._types import logical


def literal(value: Any) -> ast.SqlExpression:
    """Return the literal of a Python value: 12 is INT, "abc" is CHAR(3), a float is DOUBLE."""
    match value:
        case None:
            return ast.SqlNullLiteral()
        case bool():
            return ast.SqlBooleanLiteral(value)
        case int() | Decimal():
            number = ast.SqlNumberLiteral(format(abs(value), "f") if isinstance(value, Decimal) else str(abs(value)))
            return ast.SqlUnaryOperation("-", number) if value < 0 else number
        case float():
            return _approximate(value)
        case str():
            return ast.SqlStringLiteral(value)
        case bytes() | bytearray():
            return ast.SqlBinaryLiteral(bytes(value))
        case datetime.datetime():
            return ast.SqlTemporalLiteral("TIMESTAMP", value.replace(tzinfo=None).isoformat(" "))
        case datetime.date():
            return ast.SqlTemporalLiteral("DATE", value.isoformat())
        case datetime.time():
            return ast.SqlTemporalLiteral("TIME", value.isoformat())
        case datetime.timedelta():
            return interval_of_millis(round(value / datetime.timedelta(milliseconds=1)))
        case Row():
            return ast.SqlRowConstructor(tuple(literal(item) for item in value))
        case list():
            return ast.SqlArrayConstructor(tuple(literal(item) for item in value))
        case tuple():
            return ast.SqlRowConstructor(tuple(literal(item) for item in value))
        case dict():
            return ast.SqlMapConstructor(tuple(literal(part) for entry in value.items() for part in entry))
    raise ProgramError(f"Found a {type(value).__name__} where an expression stands, expected an Expression or a value")


def _approximate(value: float) -> ast.SqlExpression:
    if not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return ast.SqlCast(ast.SqlStringLiteral(text), ast.SqlTypeName("DOUBLE"))
    text = repr(abs(value))
    number = ast.SqlNumberLiteral(text if "e" in text else f"{text}e0")
    return ast.SqlUnaryOperation("-", number) if math.copysign(1, value) < 0 else number


def interval_of_millis(millis: int) -> ast.SqlExpression:
    """Return the interval of a number of milliseconds."""
    seconds, rest = divmod(abs(millis), 1000)
    qualifier = ast.SqlIntervalQualifier("SECOND", precision=max(2, len(str(seconds))), fraction=3)
    return ast.SqlIntervalLiteral(f"{seconds}.{rest:03d}", qualifier, millis < 0)


def interval(operand: ast.SqlExpression, unit: str, factor: int = 1) -> ast.SqlExpression:
    """Return the interval of a number of units; ``factor`` is how many of them one of the program's is."""
    if isinstance(operand, ast.SqlNumberLiteral) and operand.text.isdigit():
        count = str(int(operand.text) * factor)
        return ast.SqlIntervalLiteral(count, ast.SqlIntervalQualifier(unit, precision=max(2, len(count))))
    if factor != 1:
        operand = ast.SqlBinaryOperation("*", operand, ast.SqlNumberLiteral(str(factor)))
    return ast.SqlIntervalValue(operand, ast.SqlIntervalQualifier(unit))


def type_node(of: logical.LogicalType) -> ast.SqlTypeName | logical.LogicalType:
    """Return how the syntax tree names a type; a RAW type, which SQL cannot name, stands for itself."""
    return of if isinstance(of, logical.RawType) else parse_type_name(str(logical.plain(of)))
