"""Values of parsed JSON as values of logical types, one at a time: the exact rules, for what the fast way refuses.

    BOOLEAN    a boolean; of any other value, whether its text is "true"
    integers   a number, without its fraction, or a text of digits
    STRING     a text; a number or boolean as text; an object or array as JSON
    BYTES      base64
    DECIMAL    rounded half up to its scale; NULL if it has too many digits
    MAP        an object; its keys are texts
"""

from __future__ import annotations

import datetime
import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from flott.datastream.formats._times_as_text import parse_date, parse_time
from flott.errors import ProgramError
from flott.runtime.connectors.columns.times import parse_timestamp_text
from flott.table._types import logical

Convert = Callable[[Any], Any]

_ROUNDING = Context(prec=76, rounding=ROUND_HALF_UP)


@dataclass(frozen=True)
class JsonRules:
    """How strictly JSON is read."""

    timestamp_format: str = "SQL"
    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False  #: a field that cannot be read is NULL


def json_converter(of: logical.LogicalType, rules: JsonRules) -> Convert:
    """Return the function that converts a parsed JSON value; it raises ``ValueError`` for one that does not fit."""
    convert = _converter(of, rules)

    def nullable(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, TypeError, ArithmeticError) as error:
            if rules.ignore_parse_errors:
                return None
            raise ValueError(f"expected {of.as_nullable()}, found {shown(value)}: {error}") from None

    return nullable


def shown(value: Any) -> str:
    """Return the beginning of a parsed JSON value as text."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _converter(of: logical.LogicalType, rules: JsonRules) -> Convert:
    match of:
        case logical.BooleanType():
            return lambda value: value if isinstance(value, bool) else text_of(value).strip().lower() == "true"
        case logical.IntegerType():
            return integer_converter(of.bits)
        case logical.FloatType() | logical.DoubleType():
            return lambda value: float(value) if not isinstance(value, str) else float(value.strip())
        case logical.DecimalType():
            return decimal_converter(of)
        case logical.CharType() | logical.VarCharType():
            return text_of
        case logical.BinaryType() | logical.VarBinaryType() | logical.RawType():
            return lambda value: b64decode(_text(value), validate=True)
        case logical.DateType():
            return lambda value: parse_date(_text(value))
        case logical.TimeType():
            return lambda value: parse_time(_text(value))
        case logical.TimestampType():
            separator = " " if rules.timestamp_format == "SQL" else "T"
            return lambda value: parse_timestamp_text(_text(value), separator, of.precision, zoned=False)
        case logical.LocalZonedTimestampType():
            separator = " " if rules.timestamp_format == "SQL" else "T"
            return lambda value: parse_timestamp_text(_text(value), separator, of.precision, zoned=True)
        case logical.YearMonthIntervalType():
            return integer_converter(32)
        case logical.DayTimeIntervalType():
            whole = integer_converter(64)
            return lambda value: datetime.timedelta(milliseconds=whole(value))
        case logical.ArrayType():
            element = json_converter(of.element, rules)
            return lambda value: [element(each) for each in _list(value)]
        case logical.MapType():
            return _map_converter(of.key, json_converter(of.value, rules))
        case logical.MultisetType():
            return _map_converter(of.element, integer_converter(32))
        case logical.RowType():
            return _row_converter(of, rules)
        case logical.NullType():
            return lambda value: None
    raise ProgramError(f"JSON has no form of the type {of}.")


def _map_converter(key: logical.LogicalType, convert: Convert) -> Convert:
    if not isinstance(key, logical.CharType | logical.VarCharType):
        raise ProgramError(f"A JSON object has texts as keys, found a map with keys of the type {key}.")
    return lambda value: [(name, convert(each)) for name, each in _object(value).items()]


def _row_converter(of: logical.RowType, rules: JsonRules) -> Convert:
    fields = [(field.name, json_converter(field.type, rules)) for field in of.fields]

    def convert(value: Any) -> dict[str, Any]:
        found = _object(value)
        if rules.fail_on_missing_field:
            missing = [name for name, _ in fields if name not in found]
            if missing:
                raise ValueError(f"the field {missing[0]!r} is missing")
        return {name: each(found.get(name)) for name, each in fields}

    return convert


def integer_converter(bits: int) -> Convert:
    """Return what makes whole numbers that fit into so many bits."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        number = int(value.strip()) if isinstance(value, str) else int(value)
        if not low <= number <= high or isinstance(value, bool):
            raise ValueError(f"it does not fit into {bits} bits")
        return number

    return convert


def decimal_converter(of: logical.DecimalType) -> Convert:
    """Return what rounds numbers to a DECIMAL; None if it has too many digits."""
    unit = Decimal(1).scaleb(-of.scale)
    limit = Decimal(10) ** (of.precision - of.scale)

    def convert(value: Any) -> Decimal | None:
        try:
            exact = Decimal(value.strip() if isinstance(value, str) else str(value))
            number = exact.quantize(unit, context=_ROUNDING)
        except InvalidOperation:
            raise ValueError("it is no number") from None
        return number if abs(number) < limit else None

    return convert


def text_of(value: Any) -> str:
    """Return any JSON value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("it is no array")
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value
