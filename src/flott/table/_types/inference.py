"""Logical types of Python: of a type hint, of a value, and of rows of values."""

from __future__ import annotations

import datetime
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import reduce
from typing import Any

from flott.common.types import Row
from flott.errors import ProgramError
from flott.table._types import logical
from flott.table._types.logical import LogicalType

#: A time has milliseconds, and a datetime microseconds: what a value of Python may have and a column can keep.
_OF_CLASS: dict[Any, LogicalType] = {
    bool: logical.BOOLEAN,
    int: logical.BIGINT,
    float: logical.DOUBLE,
    str: logical.STRING,
    bytes: logical.BYTES,
    bytearray: logical.BYTES,
    Decimal: logical.DecimalType(38, 18),
    datetime.datetime: logical.TimestampType(6),
    datetime.date: logical.DATE,
    datetime.time: logical.TimeType(3),
    datetime.timedelta: logical.DayTimeIntervalType(),
    type(None): logical.NULL,
}


def type_of_hint(hint: Any) -> LogicalType:
    """Return the type of values that a type hint of Python describes; ``X | None`` is X, which may be NULL."""
    known = _OF_CLASS.get(hint)
    if known is not None:
        return known
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [one for one in arguments if one is not type(None)]
        if len(inner) == 1:
            return type_of_hint(inner[0])
    if origin is typing.Annotated:
        return type_of_hint(arguments[0])
    if origin in (list, Sequence, Iterable, typing.List) and len(arguments) == 1:  # noqa: UP006
        return logical.ArrayType(type_of_hint(arguments[0]))
    if origin in (dict, typing.Dict) and len(arguments) == 2:  # noqa: UP006
        return logical.MapType(type_of_hint(arguments[0]), type_of_hint(arguments[1]))
    if origin is tuple and arguments and Ellipsis not in arguments:
        return _row([type_of_hint(one) for one in arguments])
    fields = getattr(hint, "__annotations__", None) if isinstance(hint, type) else None
    if fields and issubclass(hint, tuple):
        hints = typing.get_type_hints(hint)
        return logical.row_type({name: type_of_hint(one) for name, one in hints.items()})
    raise ProgramError(f"The hint {hint!r} has no data type. Declare the type with DataTypes, or as SQL text.")


def _row(of: Sequence[LogicalType], names: Sequence[str] | None = None) -> logical.RowType:
    names = names or [f"_{position}" for position in range(1, len(of) + 1)]
    return logical.RowType(tuple(map(logical.RowField, names, of)))


def type_of_value(value: Any) -> LogicalType:
    """Return the type of a Python value."""
    known = _OF_CLASS.get(type(value))
    if known is not None:
        return logical.LocalZonedTimestampType(6) if getattr(value, "tzinfo", None) is not None else known
    if isinstance(value, Row | tuple):
        return _row([type_of_value(one) for one in value], getattr(value, "_fields", None))
    if isinstance(value, list):
        return logical.ArrayType(merged_types([type_of_value(one) for one in value]) if value else logical.NULL)
    if isinstance(value, dict):
        key = merged_types([type_of_value(one) for one in value])
        return logical.MapType(key.as_nullable(False), merged_types([type_of_value(one) for one in value.values()]))
    for kind, of in _OF_CLASS.items():
        if isinstance(value, kind):
            return of
    raise ProgramError(f"The value {value!r} of type {type(value).__name__} has no SQL type. Convert it first.")


def merged_types(of: Sequence[LogicalType]) -> LogicalType:
    """Return the type that holds values of all types; raise ``ProgramError`` if there is none."""
    nothing: LogicalType = logical.NULL
    return reduce(_merged, of, nothing)


def _merged(one: LogicalType, other: LogicalType) -> LogicalType:
    if one == other or isinstance(other, logical.NullType):
        return one
    if isinstance(one, logical.NullType):
        return other
    match one, other:
        case logical.ArrayType(), logical.ArrayType():
            return logical.ArrayType(_merged(one.element, other.element))
        case logical.MapType(), logical.MapType():
            return logical.MapType(_merged(one.key, other.key), _merged(one.value, other.value))
        case logical.RowType(), logical.RowType() if len(one.fields) == len(other.fields):
            return _row([_merged(a, b) for a, b in zip(one.types, other.types, strict=True)], one.names)
        case logical.RowType(), logical.RowType():
            raise ProgramError(
                f"Rows of {len(one.fields)} and of {len(other.fields)} values are in one table: {one} and {other}."
                " Give all rows the same number of values."
            )
        case logical.BigIntType() | logical.DoubleType(), logical.BigIntType() | logical.DoubleType():
            return logical.DOUBLE
        case logical.DecimalType(), logical.BigIntType():
            return one
        case logical.BigIntType(), logical.DecimalType():
            return other
        case logical.DecimalType() | logical.DoubleType(), logical.DecimalType() | logical.DoubleType():
            return logical.DOUBLE
    raise ProgramError(f"Values of the types {one} and {other} are in one column. Give the column a data type.")


def type_of_rows(rows: Sequence[Any], names: Sequence[str] | None = None) -> logical.RowType:
    """Return the row type of Python rows: tuples, lists, Rows, or single values."""
    if not rows:
        raise ProgramError("There are no rows to take the types of columns from. Give the columns data types.")
    found = [type_of_value(tuple(row) if isinstance(row, list) else row) for row in rows]
    whole = merged_types([one if isinstance(one, logical.RowType) else _row([one]) for one in found])
    assert isinstance(whole, logical.RowType)
    if names is not None and len(names) != len(whole.fields):
        raise ProgramError(f"{len(names)} names are given for rows of {len(whole.fields)} values.")
    return _row(whole.types, names or whole.names)


def without_nulls(of: LogicalType) -> LogicalType:
    """Return a type with STRING where nothing but NULL was found: a column cannot have the type NULL."""
    match of:
        case logical.NullType():
            return logical.STRING.as_nullable(of.nullable)
        case logical.ArrayType():
            return replace(of, element=without_nulls(of.element))
        case logical.MapType():
            return replace(of, key=without_nulls(of.key), value=without_nulls(of.value))
        case logical.RowType():
            return _row([without_nulls(one) for one in of.types], of.names).as_nullable(of.nullable)
    return of
