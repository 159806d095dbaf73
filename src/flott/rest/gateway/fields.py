"""The values of a row as JSON, or as texts. Pure."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from flott.table._tableau import text_of
from flott.table._types import logical


def text_field(value: Any, of: logical.LogicalType) -> str | None:
    """Return a value as the shell shows it; NULL is None."""
    return None if value is None else text_of(value, of)


def json_field(value: Any, of: logical.LogicalType) -> Any:
    """Return a value as Flink's JSON format writes it: times in ISO form, bytes in base64, decimals as numbers.

    A decimal stays a ``Decimal``: the reply writes all of its digits.
    """
    if value is None:
        return None
    match of:
        case logical.TimestampType():
            return _timestamp(value)
        case logical.LocalZonedTimestampType():
            return _timestamp(value.astimezone(datetime.UTC)) + "Z"
        case logical.DateType():
            return value.isoformat()
        case logical.TimeType():
            return value.strftime("%H:%M:%S") + _fraction(value.microsecond)
        case logical.DayTimeIntervalType():
            return value // datetime.timedelta(milliseconds=1)
        case logical.ArrayType():
            return [json_field(item, of.element) for item in value]
        case logical.MapType():
            return {_key(key, of.key): json_field(item, of.value) for key, item in _pairs(value)}
        case logical.MultisetType():
            return {_key(key, of.element): count for key, count in _pairs(value)}
        case logical.RowType():
            return _row(value, of)
        case logical.DecimalType():
            return Decimal(value)
        case logical.FloatType() | logical.DoubleType() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value if isinstance(value, str | int | float | bool) else str(value)


def _row(value: Any, of: logical.RowType) -> dict[str, Any]:
    values = [value[field.name] for field in of.fields] if isinstance(value, Mapping) else list(value)
    return {field.name: json_field(item, field.type) for field, item in zip(of.fields, values, strict=True)}


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, Mapping) else value


def _key(key: Any, of: logical.LogicalType) -> str:
    if key is None:
        return "null"
    found = json_field(key, of)
    return found if isinstance(found, str) else text_of(found, of)


def _timestamp(value: datetime.datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S") + _fraction(value.microsecond)


def _fraction(microsecond: int) -> str:
    return f".{microsecond:06d}".rstrip("0") if microsecond else ""
