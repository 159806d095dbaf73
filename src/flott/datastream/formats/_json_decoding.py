"""Converts parsed JSON to values of declared types, a column at a time. Runs in tasks.

A type is examined once, and becomes a function from a column of parsed values to a column of the type. A column that is
of its type already, as most are, is returned unchanged after one pass at C speed. ``Rejected`` holds the path to a
value that cannot be converted.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import chain
from operator import itemgetter
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
from flott.common.typeinfo._collections import (
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    VariadicTupleTypeInfo,
)
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._float32 import rounded
from flott.common.typeinfo._records import NamedTupleTypeInfo, RecordTypeInfo, TypedDictTypeInfo
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.common.types import restore_row
from flott.datastream.formats._times_as_text import parse_date, parse_instant, parse_time, parse_timestamp
from flott.errors import ProgramError

Column = list[Any]
ColumnDecoder = Callable[[Column], Column]
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class JsonReading:
    """How strictly JSON is read."""

    fail_on_missing_field: bool = False
    lenient: bool = False  #: a value that cannot be converted is null


def column_decoder(declared: TypeInformation, reading: JsonReading) -> ColumnDecoder:
    """Return the function that converts a column of parsed JSON to a type."""
    match declared:
        case ExternalTypeInfo():
            return column_decoder(declared._type_info, reading)
        case PickledBytesTypeInfo():
            return list
        case BasicTypeInfo():
            return _values(declared, _BASIC[declared._basic_type], reading)
        case DateTypeInfo() | TimeTypeInfo() | TimestampTypeInfo() | LocalTimeTypeInfo():
            return _values(declared, _from_text(parser_of(declared)), reading)
        case RowTypeInfo():
            names = tuple(declared.get_field_names())
            return _objects(declared, names, declared.get_field_types(), lambda row: restore_row(names, row), reading)
        case RecordTypeInfo():
            return _records(declared, reading)
        case TupleTypeInfo():
            return _tuples(declared, reading)
        case MapTypeInfo():
            return _maps(declared, reading)
        case PrimitiveArrayTypeInfo() if declared._holds_bytes():
            return _values(declared, _from_text(_from_base64), reading)
        case ListTypeInfo():
            return _lists(declared, reading)
    raise ProgramError(f"JSON has no form for the type {declared!r}: declare another, or read it as text and map it.")


def parser_of(declared: TypeInformation) -> Callable[[str], Any]:
    """Return the function that parses a date, a time or a timestamp."""
    if isinstance(declared, LocalTimeTypeInfo):
        return {"LOCAL_DATE": parse_date, "LOCAL_TIME": parse_time}.get(declared._time_type.name, parse_timestamp)
    if isinstance(declared, DateTypeInfo):
        return parse_date
    return parse_time if isinstance(declared, TimeTypeInfo) else parse_timestamp


# ---------------------------------------------------------------------------------------------------------------------
# Single values
# ---------------------------------------------------------------------------------------------------------------------


def _values(declared: TypeInformation, convert: Convert, reading: JsonReading) -> ColumnDecoder:
    matches = declared._matches

    def one(value: Any) -> Any:
        if value is None:
            return None
        try:
            converted = convert(value)
            if converted != converted or matches((converted,)):  # NaN equals nothing, and so does not match
                return converted
            reason = ""
        except (ValueError, TypeError, OverflowError, InvalidOperation, struct.error) as error:
            reason = str(error) if isinstance(error, ValueError) else ""
        if reading.lenient:
            return None
        raise Rejected(value, declared, reason)

    return lambda column: column if matches(column) else list(map(one, column))


def _from_text(parse: Callable[[str], Any]) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError
        return parse(value)

    return convert


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _to_text(value: Any) -> str:
    """Return a value that is no text as JSON, as Flink does."""
    if isinstance(value, (str, Decimal)):
        return str(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _to_bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}[value.strip().lower()] if isinstance(value, str) else _refuse()


def _to_int(value: Any) -> Any:
    if isinstance(value, bool):
        return _refuse()
    if isinstance(value, (float, Decimal)):
        return int(value) if value == int(value) else _refuse("a fraction would be lost")
    return int(value) if isinstance(value, str) and "_" not in value else _kept(value, int)


def _to_float(value: Any) -> Any:
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        return _refuse()
    return float(value)


def _to_decimal(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        return _refuse()
    number = Decimal(repr(value) if isinstance(value, float) else value)
    return number if number.is_finite() else _refuse()


def _kept(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else _refuse()


def _refuse(reason: str = "") -> Any:
    raise ValueError(reason)


def _known(convert: Convert) -> Convert:
    """Return the conversion with ``ValueError`` for words that it does not know."""

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except KeyError:
            raise ValueError from None

    return converted


_BASIC: dict[BasicType, Convert] = {
    BasicType.STRING: _to_text,
    BasicType.CHAR: _to_text,
    BasicType.BOOLEAN: _known(_to_bool),
    BasicType.BYTE: _to_int,
    BasicType.SHORT: _to_int,
    BasicType.INT: _to_int,
    BasicType.LONG: _to_int,
    BasicType.BIG_INT: _to_int,
    BasicType.FLOAT: lambda value: rounded((_to_float(value),))[0],
    BasicType.DOUBLE: _to_float,
    BasicType.BIG_DEC: _to_decimal,
    BasicType.INSTANT: _from_text(parse_instant),
}


# ---------------------------------------------------------------------------------------------------------------------
# Containers
# ---------------------------------------------------------------------------------------------------------------------


def _present(decode: ColumnDecoder, declared: TypeInformation, kind: type, reading: JsonReading) -> ColumnDecoder:
    """Return a decoder that leaves nulls alone, and calls ``decode`` with values of one class only."""

    def decoded(column: Column) -> Column:
        kinds = set(map(type, column))
        if kinds == {kind}:
            return decode(column)
        if not reading.lenient:
            for value in column:
                if value is not None and type(value) is not kind:
                    raise Rejected(value, declared, f"expected a JSON {_JSON_NAMES[kind]}")
        values = iter(decode([value for value in column if type(value) is kind]))
        return [next(values) if type(value) is kind else None for value in column]

    return decoded


_JSON_NAMES: dict[type, str] = {dict: "object", list: "array"}


def _fields_of(
    names: tuple[str, ...], types: list[TypeInformation], reading: JsonReading
) -> Callable[[Column], list[Column]]:
    """Return the function from objects to the decoded columns of their fields."""
    decoders = [column_decoder(each, reading) for each in types]
    getters = [itemgetter(name) for name in names]

    def columns(objects: Column) -> list[Column]:
        decoded: list[Column] = []
        for name, get, decode in zip(names, getters, decoders, strict=True):
            try:
                column = list(map(get, objects))
            except KeyError:
                if reading.fail_on_missing_field:
                    lacking = next(each for each in objects if name not in each)
                    raise Rejected(lacking, types[len(decoded)], "the field is missing", f".{name}") from None
                column = [each.get(name) for each in objects]
            try:
                decoded.append(decode(column))
            except Rejected as rejected:
                raise rejected.under(f".{name}") from None
        return decoded

    return columns


def _objects(
    declared: TypeInformation,
    names: tuple[str, ...],
    types: list[TypeInformation],
    make: Callable[[tuple[Any, ...]], Any],
    reading: JsonReading,
) -> ColumnDecoder:
    columns = _fields_of(names, types, reading)

    def decode(objects: Column) -> Column:
        if not names:
            return [make(()) for _ in objects]
        return list(map(make, zip(*columns(objects), strict=True)))

    return _present(decode, declared, dict, reading)


def _records(declared: RecordTypeInfo, reading: JsonReading) -> ColumnDecoder:
    """Return the decoder of the program's own classes. A field that is missing takes the default of the class."""
    names, types = tuple(declared.get_field_names()), declared.get_field_types()
    kind = declared.get_record_class()
    if isinstance(declared, NamedTupleTypeInfo):
        make: Callable[[tuple[Any, ...]], Any] = kind._make  # type: ignore[attr-defined]
    elif isinstance(declared, TypedDictTypeInfo):
        make = lambda values: dict(zip(names, values, strict=True))  # noqa: E731
    else:
        make = lambda values: kind(**dict(zip(names, values, strict=True)))  # noqa: E731
    complete = _objects(declared, names, types, _guarded(make, declared, reading), reading)
    fields = {name: column_decoder(each, reading) for name, each in zip(names, types, strict=True)}

    def incomplete(found: dict[str, Any]) -> Any:
        values = {}
        for name in names:
            if name in found:
                try:
                    values[name] = fields[name]([found[name]])[0]
                except Rejected as rejected:
                    raise rejected.under(f".{name}") from None
        build = dict if isinstance(declared, TypedDictTypeInfo) else kind
        return _guarded(lambda _: build(**values), declared, reading)(())

    def decode(objects: Column) -> Column:
        if reading.fail_on_missing_field or all(map(frozenset(names).issubset, objects)):
            return complete(objects)
        return [incomplete(each) for each in objects]

    return _present(decode, declared, dict, reading)


def _guarded(make: Callable[[tuple[Any, ...]], Any], declared: TypeInformation, reading: JsonReading) -> Any:
    """Return the constructor; what it refuses is a value that cannot be converted."""

    def made(values: tuple[Any, ...]) -> Any:
        try:
            return make(values)
        except Exception as error:
            if reading.lenient:
                return None
            raise Rejected(values, declared, f"{type(error).__name__}: {error}") from None

    return made


def _elements(decode: ColumnDecoder) -> Callable[[Column], list[Column]]:
    """Return the function that decodes the elements of all arrays at once."""

    def elements(arrays: Column) -> list[Column]:
        try:
            decoded = iter(decode(list(chain.from_iterable(arrays))))
        except Rejected:
            for array in arrays:
                for position, value in enumerate(array):
                    try:
                        decode([value])
                    except Rejected as rejected:
                        raise rejected.under(f"[{position}]") from None
            raise
        return [[next(decoded) for _ in array] for array in arrays]

    return elements


def _lists(declared: ListTypeInfo, reading: JsonReading) -> ColumnDecoder:
    elements = _elements(column_decoder(declared.elem_type, reading))
    if isinstance(declared, VariadicTupleTypeInfo):
        return _present(lambda arrays: list(map(tuple, elements(arrays))), declared, list, reading)
    return _present(elements, declared, list, reading)


def _tuples(declared: TupleTypeInfo, reading: JsonReading) -> ColumnDecoder:
    decoders = [column_decoder(each, reading) for each in declared.get_field_types()]

    def one(array: Column) -> Any:
        if len(array) != len(decoders):
            if reading.lenient:
                return None
            raise Rejected(array, declared, f"it has {len(array)} elements instead of {len(decoders)}")
        values = []
        for position, (decode, value) in enumerate(zip(decoders, array, strict=True)):
            try:
                values += decode([value])
            except Rejected as rejected:
                raise rejected.under(f"[{position}]") from None
        return tuple(values)

    return _present(lambda arrays: list(map(one, arrays)), declared, list, reading)


def _maps(declared: MapTypeInfo, reading: JsonReading) -> ColumnDecoder:
    keys = column_decoder(declared._key_type_info, reading)
    values = column_decoder(declared._value_type_info, reading)

    def one(found: dict[str, Any]) -> Any:
        try:
            decoded = keys(list(found))
        except Rejected as rejected:
            raise rejected.under(".key") from None
        try:
            return dict(zip(decoded, values(list(found.values())), strict=True))
        except Rejected:
            for key, value in found.items():
                try:
                    values([value])
                except Rejected as rejected:
                    raise rejected.under(f"[{key!r}]") from None
            raise

    return _present(lambda objects: list(map(one, objects)), declared, dict, reading)


def holds_decimals(declared: TypeInformation) -> bool:
    """Return whether a type has decimals somewhere: only then do numbers need to be parsed exactly."""
    match declared:
        case BasicTypeInfo():
            return declared._basic_type is BasicType.BIG_DEC
        case ExternalTypeInfo():
            return holds_decimals(declared._type_info)
        case ListTypeInfo():
            return holds_decimals(declared.elem_type)
        case MapTypeInfo():
            return holds_decimals(declared._key_type_info) or holds_decimals(declared._value_type_info)
        case RowTypeInfo() | TupleTypeInfo() | RecordTypeInfo():
            return any(map(holds_decimals, declared.get_field_types()))
    return False
