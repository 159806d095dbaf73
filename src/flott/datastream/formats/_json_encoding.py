"""Converts values of declared types to JSON, a column at a time. Runs in tasks.

A type is examined once, and becomes a function from a column of values to a column of JSON texts; an object is its
fields' texts in a template. The values are of the type already: ``conform`` has checked them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import chain
from json.encoder import encode_basestring
from typing import Any

from flott.common.typeinfo._basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import ExternalTypeInfo, ListTypeInfo, MapTypeInfo, PrimitiveArrayTypeInfo
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._float32 import shortest
from flott.common.typeinfo._records import RecordTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row
from flott.datastream.formats._times_as_text import SEPARATORS, instant_text, time_text, timestamp_text
from flott.errors import ProgramError, TypeMismatchError

ColumnEncoder = Callable[[Sequence[Any]], list[str]]
Format = Callable[[Any], str]


def column_encoder(declared: TypeInformation, timestamp_format: str = "ISO-8601") -> ColumnEncoder:
    """Return the function that formats a column of a type as JSON."""
    match declared:
        case ExternalTypeInfo():
            return column_encoder(declared._type_info, timestamp_format)
        case PickledBytesTypeInfo():
            return lambda column: list(map(dump, column))
        case BasicTypeInfo():
            return _floats if declared._basic_type is BasicType.DOUBLE else _column(_BASIC[declared._basic_type])
        case DateTypeInfo() | TimeTypeInfo() | TimestampTypeInfo() | LocalTimeTypeInfo():
            text = time_formatter(declared, timestamp_format)
            return _column(lambda value: f'"{text(value)}"')
        case RowTypeInfo() | RecordTypeInfo():
            return _objects(declared, timestamp_format)
        case TupleTypeInfo():
            return _tuples(declared, timestamp_format)
        case MapTypeInfo():
            return _maps(declared, timestamp_format)
        case PrimitiveArrayTypeInfo() if declared._holds_bytes():
            return _column(lambda value: f'"{base64.b64encode(value).decode("ascii")}"')
        case ListTypeInfo():
            return _lists(column_encoder(declared.elem_type, timestamp_format))
    raise ProgramError(f"JSON has no form for the type {declared!r}: declare another, or map it to text.")


def time_formatter(declared: TypeInformation, timestamp_format: str) -> Format:
    """Return the function that formats a date, a time or a timestamp."""
    kind = declared._time_type.name if isinstance(declared, LocalTimeTypeInfo) else ""
    if isinstance(declared, DateTypeInfo) or kind == "LOCAL_DATE":
        return lambda value: str(value.isoformat())
    if isinstance(declared, TimeTypeInfo) or kind == "LOCAL_TIME":
        return time_text
    separator = SEPARATORS[timestamp_format]
    return lambda value: timestamp_text(value, separator)


def _column(text: Format) -> ColumnEncoder:
    def encode(column: Sequence[Any]) -> list[str]:
        if None in column:
            return ["null" if value is None else text(value) for value in column]
        return list(map(text, column))

    return encode


def _floats(column: Sequence[Any]) -> list[str]:
    if None not in column and all(map(math.isfinite, column)):
        return list(map(repr, column))
    return ["null" if value is None else _float_text(value) for value in column]


def _float_text(value: float) -> str:
    """Format a number as Java does: what JSON has no number for is text."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise TypeMismatchError(f"JSON has no number for {value}: map it first.")
    return str(value)


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


_BASIC: dict[BasicType, Format] = {
    BasicType.STRING: encode_basestring,
    BasicType.CHAR: encode_basestring,
    BasicType.BOOLEAN: _bool_text,
    BasicType.BYTE: int.__repr__,
    BasicType.SHORT: int.__repr__,
    BasicType.INT: int.__repr__,
    BasicType.LONG: int.__repr__,
    BasicType.BIG_INT: int.__repr__,
    BasicType.FLOAT: lambda value: _float_text(shortest(value)),
    BasicType.BIG_DEC: _decimal_text,
    BasicType.INSTANT: lambda value: f'"{instant_text(value)}"',
}


# ---------------------------------------------------------------------------------------------------------------------
# Containers
# ---------------------------------------------------------------------------------------------------------------------


def _present(encode: ColumnEncoder) -> ColumnEncoder:
    """Return an encoder that writes null for None, and calls ``encode`` without them."""

    def encoded(column: Sequence[Any]) -> list[str]:
        if None not in column:
            return encode(column)
        texts = iter(encode([value for value in column if value is not None]))
        return ["null" if value is None else next(texts) for value in column]

    return encoded


def object_template(names: Iterable[str]) -> str:
    """Return the text of an object, with ``%s`` in place of the values."""
    return "{" + ",".join(encode_basestring(name).replace("%", "%%") + ":%s" for name in names) + "}"


def _objects(declared: RowTypeInfo | RecordTypeInfo, timestamp_format: str) -> ColumnEncoder:
    names = declared.get_field_names()
    encoders = [column_encoder(each, timestamp_format) for each in declared.get_field_types()]
    template = object_template(names)

    def encode(records: Sequence[Any]) -> list[str]:
        if not names:
            return [template for _ in records]
        if isinstance(declared, RowTypeInfo):
            columns: Iterable[Sequence[Any]] = zip(*[row._values for row in records], strict=True)
        elif records and isinstance(records[0], dict):
            columns = [[record.get(name) for record in records] for name in names]
        else:
            columns = [[getattr(record, name) for record in records] for name in names]
        texts = [encode(column) for encode, column in zip(encoders, columns, strict=False)]
        return [template % values for values in zip(*texts, strict=True)]

    return _present(encode)


def _lists(elements: ColumnEncoder) -> ColumnEncoder:
    def encode(arrays: Sequence[Any]) -> list[str]:
        texts = iter(elements(list(chain.from_iterable(arrays))))
        return [f"[{','.join([next(texts) for _ in array])}]" for array in arrays]

    return _present(encode)


def _tuples(declared: TupleTypeInfo, timestamp_format: str) -> ColumnEncoder:
    encoders = [column_encoder(each, timestamp_format) for each in declared.get_field_types()]

    def one(values: tuple[Any, ...]) -> str:
        return f"[{','.join([encode([value])[0] for encode, value in zip(encoders, values, strict=True)])}]"

    return _column(one)


def _maps(declared: MapTypeInfo, timestamp_format: str) -> ColumnEncoder:
    keys = column_encoder(declared._key_type_info, timestamp_format)
    values = column_encoder(declared._value_type_info, timestamp_format)

    def one(found: dict[Any, Any]) -> str:
        if None in found:
            raise TypeMismatchError(f"A key of a JSON object is not null, found {found!r}: map it first.")
        names = [key if key[:1] == '"' else encode_basestring(key) for key in keys(list(found))]
        return f"{{{','.join(map(':'.join, zip(names, values(list(found.values())), strict=True)))}}}"

    return _column(one)


# ---------------------------------------------------------------------------------------------------------------------
# Values without a declared type
# ---------------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Convert values that the json module does not support."""
    if isinstance(value, Row):
        return list(value) if value._fields is None else value.as_dict()
    raise TypeMismatchError(f"JSON has no form for {value!r} of type {type(value).__name__}: map it first.")


dump: Format = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode
