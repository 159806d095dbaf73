"""Values of columns as Python objects, in the classes that PyFlink gives functions, and back."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from flott.common.types import Row
from flott.table._types import logical
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType

Convert = Callable[[Any], Any]


def python_column(column: pa.Array, of: LogicalType, zone: ZoneInfo | None = None) -> list[Any]:
    """Return the values of a column: rows as ``Row``, maps as dicts, points in time in the session's time zone."""
    values: list[Any] = _without_nanoseconds(column).to_pylist()
    convert = _reader(of, zone)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def python_value(value: Any, of: LogicalType, zone: ZoneInfo | None = None) -> Any:
    """Return one plain value of Arrow in the class that functions get."""
    convert = _reader(of, zone)
    return value if value is None or convert is None else convert(value)


def _without_nanoseconds(column: pa.Array) -> pa.Array:
    """Return a column whose times fit into Python's classes, which know microseconds."""
    wanted = _microseconds(column.type)
    return column if wanted == column.type else column.cast(wanted, safe=False)


def _microseconds(of: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(of) and of.unit == "ns":
        return pa.timestamp("us", of.tz)
    if pa.types.is_map(of):
        return pa.map_(_microseconds(of.key_type), _microseconds(of.item_type))
    if pa.types.is_list(of):
        return pa.list_(_microseconds(of.value_type))
    if pa.types.is_struct(of):
        return pa.struct([pa.field(field.name, _microseconds(field.type)) for field in of])
    return of


def _reader(of: LogicalType, zone: ZoneInfo | None) -> Convert | None:
    """Return what converts a value from Arrow's plain form; None if it is that form already."""
    match of:
        case logical.RowType():
            return _row_reader(of, zone)
        case logical.MapType():
            return _map_reader(_reader(of.key, zone), _reader(of.value, zone))
        case logical.MultisetType():
            return _map_reader(_reader(of.element, zone), None)
        case logical.ArrayType():
            inner = _reader(of.element, zone)
            return None if inner is None else lambda values: [None if one is None else inner(one) for one in values]
        case logical.LocalZonedTimestampType():
            return None if zone is None else lambda value: value.astimezone(zone)
        case logical.RawType():
            return pickle.loads
    return None


def _row_reader(of: logical.RowType, zone: ZoneInfo | None) -> Convert:
    readers = [_reader(one, zone) for one in of.types]
    names = list(of.names)

    def read(value: Any) -> Row:
        found = [
            one if convert is None or one is None else convert(one)
            for convert, one in zip(readers, value.values(), strict=True)
        ]
        row = Row(*found)
        row.set_field_names(names)
        return row

    return read


def _map_reader(key: Convert | None, value: Convert | None) -> Convert:
    def read(entries: Any) -> dict[Any, Any]:
        return {
            (name if key is None or name is None else key(name)): (one if value is None or one is None else value(one))
            for name, one in entries
        }

    return read


# --- back ------------------------------------------------------------------------------------------------------------


def arrow_column(values: Iterable[Any], of: LogicalType, zone: ZoneInfo | None = None) -> pa.Array:
    """Return Python values as a column."""
    convert = _writer(of, zone)
    plain = list(values) if convert is None else [None if value is None else convert(value) for value in values]
    return pa.array(plain, type=arrow_type(of), from_pandas=True)


def _writer(of: LogicalType, zone: ZoneInfo | None) -> Convert | None:
    match of:
        case logical.RowType():
            return _row_writer(of, zone)
        case logical.MapType():
            return _map_writer(_writer(of.key, zone), _writer(of.value, zone))
        case logical.MultisetType():
            return _map_writer(_writer(of.element, zone), None)
        case logical.ArrayType():
            inner = _writer(of.element, zone)
            if inner is None:
                return list
            return lambda values: [None if one is None else inner(one) for one in values]
        case logical.DecimalType():
            return _decimal_writer(of.scale)
        case logical.LocalZonedTimestampType():
            return lambda value: value.replace(tzinfo=zone or datetime.UTC) if value.tzinfo is None else value
        case logical.CharType() | logical.VarCharType():
            return _text
        case logical.FloatType() | logical.DoubleType():
            return float
        case logical.RawType():
            return lambda value: pickle.dumps(value, 5)
    return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is {type(value).__name__}, expected str")
    return value


def _decimal_writer(scale: int) -> Convert:
    step = Decimal(1).scaleb(-scale)

    def write(value: Any) -> Decimal:
        number = value if isinstance(value, Decimal) else Decimal(repr(value) if isinstance(value, float) else value)
        return number.quantize(step, ROUND_HALF_UP)

    return write


def _row_writer(of: logical.RowType, zone: ZoneInfo | None) -> Convert:
    writers = [_writer(one, zone) for one in of.types]
    names = of.names

    def write(value: Any) -> dict[str, Any]:
        found = _fields(value, names)
        if len(found) != len(names):
            raise TypeError(f"{value!r} has {len(found)} fields, expected {len(names)} ({', '.join(names)})")
        return {
            name: one if convert is None or one is None else convert(one)
            for name, convert, one in zip(names, writers, found, strict=True)
        }

    return write


def _fields(value: Any, names: Sequence[str]) -> list[Any]:
    """Return the fields of a row in the order of names: of a Row, tuple, list or dict, or of a single value."""
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    if isinstance(value, Row | tuple | list):
        return list(value)
    if len(names) == 1:
        return [value]
    raise TypeError(f"{value!r} is not a row of the fields {', '.join(names)}")


def _map_writer(key: Convert | None, value: Convert | None) -> Convert:
    def write(entries: Any) -> list[tuple[Any, Any]]:
        return [
            (name if key is None or name is None else key(name), one if value is None or one is None else value(one))
            for name, one in entries.items()
        ]

    return write
