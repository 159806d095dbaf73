"""Rows as text, as Java prints them: ``+I[1, Ada, 2026-01-31T12:30, [1, 2], {a=1}]``. Task side."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common._text_form import text_form
from flott.common.typeinfo import Types
from flott.table._types import logical

KINDS = ("+I", "-U", "+U", "-D")

_double = text_form(Types.DOUBLE())
_float = text_form(Types.FLOAT())


def row_lines(
    columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None, types: Sequence[logical.LogicalType], prefix: str = ""
) -> list[str]:
    """Return a line for each row."""
    cells = [
        [write(value) for value in _plain(column).to_pylist()]
        for write, column in zip(map(value_text, types), columns.columns, strict=True)
    ]
    codes = [0] * columns.num_rows if kinds is None else kinds.tolist()
    rows = zip(*cells, strict=True) if cells else iter([()] * columns.num_rows)
    return [f"{prefix}{KINDS[code]}[{', '.join(row)}]" for code, row in zip(codes, rows, strict=True)]


def _plain(column: pa.Array) -> pa.Array:
    """Return a column whose values Python can hold: it has no nanoseconds."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", tz=column.type.tz), safe=False)
    return column


def value_text(of: logical.LogicalType) -> Callable[[Any], str]:
    """Return what writes a value of a type as Java does."""
    write = _present_text(of)
    return lambda value: "null" if value is None else write(value)


def _present_text(of: logical.LogicalType) -> Callable[[Any], str]:
    match of:
        case logical.BooleanType():
            return lambda value: "true" if value else "false"
        case logical.DoubleType():
            return _double
        case logical.FloatType():
            return _float
        case logical.DecimalType():
            return lambda value: format(value, "f")
        case logical.BinaryType() | logical.VarBinaryType():
            return lambda value: f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]"
        case logical.TimestampType():
            return java_date_time
        case logical.LocalZonedTimestampType():
            return lambda value: _instant(value)
        case logical.TimeType():
            return _java_time
        case logical.DayTimeIntervalType():
            return lambda value: f"PT{value.total_seconds():g}S"
        case logical.ArrayType():
            element = value_text(of.element)
            return lambda value: f"[{', '.join(map(element, value))}]"
        case logical.MapType() | logical.MultisetType():
            key = value_text(of.key if isinstance(of, logical.MapType) else of.element)
            cell = value_text(of.value) if isinstance(of, logical.MapType) else str
            return lambda value: "{" + ", ".join(f"{key(k)}={cell(v)}" for k, v in value) + "}"
        case logical.RowType():
            parts = [(field.name, value_text(field.type)) for field in of.fields]
            return lambda value: f"+I[{', '.join(write(value[name]) for name, write in parts)}]"
    return str


def java_date_time(value: datetime.datetime) -> str:
    """Return a timestamp as ``LocalDateTime.toString``: seconds and their fraction only where they are needed.

    >>> java_date_time(datetime.datetime(2026, 1, 31, 12, 30)), java_date_time(datetime.datetime(2026, 1, 1, 0, 0, 1))
    ('2026-01-31T12:30', '2026-01-01T00:00:01')
    """
    return f"{value.date().isoformat()}T{_java_time(value.time())}"


def _instant(value: datetime.datetime) -> str:
    moment = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return f"{moment.isoformat(timespec='seconds')}{_fraction(moment.microsecond)}Z"


def _java_time(value: datetime.time) -> str:
    text = value.isoformat(timespec="seconds")
    if value.microsecond:
        return text + _fraction(value.microsecond)
    return text if value.second else text[:5]


def _fraction(microsecond: int) -> str:
    if not microsecond:
        return ""
    return f".{microsecond // 1000:03d}" if microsecond % 1000 == 0 else f".{microsecond:06d}"
