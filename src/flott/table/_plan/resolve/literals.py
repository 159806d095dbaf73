"""Constants: what a literal's text means, and of which type it is."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

from flott.table._expressions.expression import Literal
from flott.table._sql.errors import SqlError
from flott.table._sql.nodes.expressions import (
    SqlBinaryLiteral,
    SqlBooleanLiteral,
    SqlExpression,
    SqlIntervalLiteral,
    SqlNullLiteral,
    SqlNumberLiteral,
    SqlStringLiteral,
    SqlTemporalLiteral,
    SqlValueLiteral,
)
from flott.table._types import logical as types
from flott.table._types.logical import LogicalType

#: Milliseconds of the units of a day-time interval.
UNIT_MS = {
    "WEEK": 604_800_000,
    "DAY": 86_400_000,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1_000,
    "MILLISECOND": 1,
}
#: Months of the units of a year-month interval.
UNIT_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}

_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND")


def literal(node: SqlExpression) -> Literal | None:
    """Return the constant that a node is; None if it is not a literal."""
    match node:
        case SqlNumberLiteral():
            return _number(node)
        case SqlStringLiteral():
            return Literal(types.CharType(len(node.value), nullable=False), node.value)
        case SqlBinaryLiteral():
            return Literal(types.BinaryType(len(node.value), nullable=False), node.value)
        case SqlBooleanLiteral():
            return Literal(types.BooleanType(nullable=node.value is None), node.value)
        case SqlNullLiteral():
            return Literal(types.NULL, None)
        case SqlTemporalLiteral():
            return _temporal(node)
        case SqlIntervalLiteral():
            return _interval(node)
        case SqlValueLiteral():
            return _value(node)
    return None


def _number(node: SqlNumberLiteral) -> Literal:
    text = node.text
    if "e" in text.lower():
        return Literal(types.DoubleType(nullable=False), float(text))
    whole, point, fraction = text.partition(".")
    if not point or not fraction:
        return _integer(int(whole or "0"), node)
    precision, scale = len(whole) + len(fraction), len(fraction)
    if precision > types.MAX_DECIMAL_PRECISION:
        raise SqlError(f"The number {text} has more than 38 digits", node.position)
    return Literal(types.DecimalType(precision, scale, nullable=False), Decimal(text))


def _integer(value: int, node: SqlExpression) -> Literal:
    of: LogicalType
    if -(2**31) <= value < 2**31:
        of = types.IntType(nullable=False)
    elif -(2**63) <= value < 2**63:
        of = types.BigIntType(nullable=False)
    elif len(str(abs(value))) <= types.MAX_DECIMAL_PRECISION:
        return Literal(types.DecimalType(len(str(abs(value))), 0, nullable=False), Decimal(value))
    else:
        raise SqlError(f"The number {value} has more than 38 digits", node.position)
    return Literal(of, value)


def negated(constant: Literal, node: SqlExpression) -> Literal:
    """Return the constant behind a minus: -2147483648 is an INT although 2147483648 is none."""
    if isinstance(constant.type, types.DecimalType) and constant.type.scale == 0:
        return _integer(-int(constant.value), node)
    if isinstance(constant.type, types.IntegerType):
        return _integer(-constant.value, node)
    return Literal(constant.type, -constant.value)


_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?$")
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})$")


def _temporal(node: SqlTemporalLiteral) -> Literal:
    text = node.text.strip()
    try:
        match node.kind.upper():
            case "DATE":
                return Literal(types.DateType(nullable=False), _date(text))
            case "TIME":
                time, digits = _time(text)
                return Literal(types.TimeType(digits, nullable=False), time)
            case "TIMESTAMP":
                date, _, rest = text.replace("T", " ").partition(" ")
                time, digits = _time(rest.strip()) if rest else (dt.time(), 0)
                return Literal(types.TimestampType(digits, nullable=False), dt.datetime.combine(_date(date), time))
    except ValueError:
        pass
    expected = {"DATE": "yyyy-MM-dd", "TIME": "HH:mm:ss[.SSS]"}.get(node.kind.upper(), "yyyy-MM-dd HH:mm:ss[.SSS]")
    raise SqlError(f"Found {node.kind} {node.text!r}, expected a value in the form {expected!r}", node.position)


def _date(text: str) -> dt.date:
    found = _DATE.match(text)
    if found is None:
        raise ValueError(text)
    return dt.date(*(int(part) for part in found.groups()))


def _time(text: str) -> tuple[dt.time, int]:
    found = _TIME.match(text)
    if found is None:
        raise ValueError(text)
    hour, minute, second, fraction = found.groups()
    micros = int((fraction or "").ljust(6, "0")[:6])
    return dt.time(int(hour), int(minute), int(second), micros), len(fraction or "")


def _interval(node: SqlIntervalLiteral) -> Literal:
    start, end = node.qualifier.start.upper(), (node.qualifier.end or node.qualifier.start).upper()
    text = node.text.strip()
    negative = node.negative
    if text[:1] in ("-", "+"):
        negative ^= text[0] == "-"
        text = text[1:].strip()
    amount = _months(text, start, end) if start in UNIT_MONTHS else _milliseconds(text, start, end)
    if amount is None:
        units = start if start == end else f"{start} TO {end}"
        raise SqlError(f"Found INTERVAL {node.text!r} {units}, whose text does not fit its units", node.position)
    of: LogicalType
    of = (
        types.YearMonthIntervalType(nullable=False)
        if start in UNIT_MONTHS
        else types.DayTimeIntervalType(nullable=False)
    )
    if abs(amount) >= 2**63 or (start in UNIT_MONTHS and abs(amount) >= 2**31):
        raise SqlError(f"The interval {node.text!r} is too long", node.position)
    return Literal(of, -amount if negative else amount)


def _months(text: str, start: str, end: str) -> int | None:
    if start == end:
        return int(text) * UNIT_MONTHS[start] if text.isdecimal() else None
    found = re.fullmatch(r"(\d+)-(\d{1,2})", text)
    return None if found is None or int(found[2]) > 11 else int(found[1]) * 12 + int(found[2])


def _milliseconds(text: str, start: str, end: str) -> int | None:
    if start not in UNIT_MS:
        return None
    if start == end:
        found = re.fullmatch(r"(\d+)(?:\.(\d*))?" if start == "SECOND" else r"(\d+)()", text)
        return None if found is None else int(found[1]) * UNIT_MS[start] + _fraction(found[2])
    if start not in _DAY_TIME or end not in _DAY_TIME:
        return None
    units = _DAY_TIME[_DAY_TIME.index(start) : _DAY_TIME.index(end) + 1]
    if not units:
        return None
    pattern = "".join((" +" if before == "DAY" else ":") * bool(before) + r"(\d+)" for before in ("", *units[:-1]))
    found = re.fullmatch(pattern + (r"(?:\.(\d*))?" if end == "SECOND" else r"()"), text)
    if found is None:
        return None
    parts = found.groups()
    return sum(int(part) * UNIT_MS[unit] for part, unit in zip(parts, units, strict=False)) + _fraction(parts[-1])


def _fraction(digits: str | None) -> int:
    return int((digits or "").ljust(3, "0")[:3])


def _value(node: SqlValueLiteral) -> Literal:
    value: Any = node.value
    if isinstance(node.type, LogicalType):
        return Literal(node.type, value)
    match value:
        case None:
            return Literal(types.NULL, None)
        case bool():
            return Literal(types.BooleanType(nullable=False), value)
        case int():
            return _integer(value, node)
        case float():
            return Literal(types.DoubleType(nullable=False), value)
        case str():
            return Literal(types.CharType(len(value), nullable=False), value)
        case bytes():
            return Literal(types.BinaryType(len(value), nullable=False), value)
        case Decimal():
            return Literal(_decimal_type(value), value)
        case dt.datetime():
            digits = 6 if value.microsecond % 1000 else 3 if value.microsecond else 0
            if value.tzinfo is not None:
                return Literal(types.LocalZonedTimestampType(digits, nullable=False), value.astimezone(dt.UTC))
            return Literal(types.TimestampType(digits, nullable=False), value)
        case dt.date():
            return Literal(types.DateType(nullable=False), value)
        case dt.time():
            return Literal(types.TimeType(3 if value.microsecond else 0, nullable=False), value)
        case dt.timedelta():
            return Literal(types.DayTimeIntervalType(nullable=False), value // dt.timedelta(milliseconds=1))
    raise SqlError(f"A value of class {type(value).__name__} cannot be a literal; give its type", node.position)


def _decimal_type(value: Decimal) -> LogicalType:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    return types.DecimalType(precision, scale, nullable=False)
