"""JSON: converts records to lines of a file, and messages to rows and back. Values only; runs in tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, NoReturn

from flott.common.serialization import DeserializationSchema, Encoder, SerializationSchema
from flott.common.typeinfo._composite import RowTypeInfo
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._records import RecordTypeInfo
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.datastream.formats._compiled import CompiledSchema
from flott.datastream.formats._json_decoding import ColumnDecoder, JsonReading, column_decoder, holds_decimals
from flott.datastream.formats._json_encoding import ColumnEncoder, column_encoder, dump
from flott.datastream.formats._json_schema import type_of_json_schema
from flott.datastream.formats._times_as_text import checked_timestamp_format
from flott.errors import ProgramError, TypeMismatchError

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema", "JsonLinesEncoder"]

#: What a parser or a conversion raises for input that is not as declared.
UNREADABLE = (ValueError, TypeError, RecursionError, Rejected)


@dataclass(frozen=True)
class JsonLinesEncoder(Encoder):
    """Writes one line of JSON per record, for ``FileSink.for_row_format``. A row with names is an object. Flott only.

    >>> JsonLinesEncoder().encode({"name": "Ada"})
    b'{"name":"Ada"}\\n'
    """

    def encode(self, element: Any) -> bytes:
        return dump(element).encode() + b"\n"


@dataclass(frozen=True)
class JsonRowDeserializationSchema(CompiledSchema, DeserializationSchema):
    """Reads a JSON object as a row of the given type.

    The type may also be a dataclass, a named tuple or a typed dict of the program (Flott only).

    >>> from flott.common import Types
    >>> schema = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["id"], [Types.INT()])).build()
    >>> schema.deserialize(b'{"id": 7, "more": true}')
    Row(id=7)
    """

    row_type: RowTypeInfo | RecordTypeInfo
    fails_on_missing_field: bool = False
    ignores_parse_errors: bool = False  #: unreadable messages are left out, unreadable fields are null

    def __post_init__(self) -> None:
        if self.fails_on_missing_field and self.ignores_parse_errors:
            raise ProgramError("A JSON schema either fails on missing fields or ignores errors: set one of the two.")
        _ = self._decode  # refuses a type without a form now, on the driver

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        try:
            [row] = self._decode([self._parse(message.decode())])
        except UNREADABLE as error:
            if self.ignores_parse_errors:
                return None
            raise unreadable("a JSON object", message, error) from error
        return row

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        parse = self._parse
        try:
            return self._decode([parse(message.decode()) for message in messages])
        except UNREADABLE:
            return list(map(self.deserialize, messages))

    def get_produced_type(self) -> TypeInformation:
        return self.row_type

    @cached_property
    def _parse(self) -> Callable[[str], Any]:
        return json_parser(exact=holds_decimals(self.row_type))

    @cached_property
    def _decode(self) -> ColumnDecoder:
        decode = column_decoder(self.row_type, JsonReading(self.fails_on_missing_field, self.ignores_parse_errors))

        def without_null(column: list[Any]) -> list[Any]:
            if None in column and not self.ignores_parse_errors:
                raise Rejected(None, self.row_type)
            return decode(column)

        return without_null

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._row_type: RowTypeInfo | RecordTypeInfo | None = None
            self._fails_on_missing_field = False
            self._ignores_parse_errors = False

        def type_info(self, type_info: TypeHint) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows: ``Types.ROW_NAMED(…)``, or a class with fields."""
            self._row_type = checked_row_type(type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Derive the type of the rows from a JSON schema: numbers are ``Decimal``, as in Flink."""
            if not isinstance(json_schema, str):
                raise ProgramError(f"Expected the text of a JSON schema, found {json_schema!r}.")
            self._row_type = checked_row_type(type_of_json_schema(json_schema))
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Treat a message that lacks a field as unreadable. By default the field is null."""
            self._fails_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Leave out unreadable messages, and set unreadable fields to null."""
            self._ignores_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._row_type is None:
                raise ProgramError("A JSON schema needs to know the type of its rows: call type_info(…) first.")
            return JsonRowDeserializationSchema(
                self._row_type, self._fails_on_missing_field, self._ignores_parse_errors
            )


@dataclass(frozen=True)
class JsonRowSerializationSchema(CompiledSchema, SerializationSchema):
    """Writes a row of the given type as a JSON object."""

    row_type: RowTypeInfo | RecordTypeInfo
    timestamp_format: str = "ISO-8601"  #: or "SQL"

    def __post_init__(self) -> None:
        _ = self._encode  # refuses a type without a form now, on the driver

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        rows = self.row_type.conform(elements if isinstance(elements, list) else list(elements))
        if None in rows:
            raise TypeMismatchError(f"Expected a record of the type {self.row_type!r}, found None: filter it out.")
        try:
            return [text.encode() for text in self._encode(rows)]
        except UnicodeEncodeError as error:
            raise TypeMismatchError(f"JSON is written in UTF-8, found text that is not Unicode: {error}.") from error

    @cached_property
    def _encode(self) -> ColumnEncoder:
        return column_encoder(self.row_type, self.timestamp_format)

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._row_type: RowTypeInfo | RecordTypeInfo | None = None
            self._timestamp_format = "ISO-8601"

        def with_type_info(self, type_info: TypeHint) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows: ``Types.ROW_NAMED(…)``, or a class with fields."""
            self._row_type = checked_row_type(type_info)
            return self

        def with_timestamp_format(self, timestamp_format: str) -> JsonRowSerializationSchema.Builder:
            """Set how timestamps are written: ``"ISO-8601"`` or ``"SQL"``. Both are read. Flott only."""
            self._timestamp_format = checked_timestamp_format(timestamp_format)
            return self

        def build(self) -> JsonRowSerializationSchema:
            if self._row_type is None:
                raise ProgramError("A JSON schema needs to know the type of its rows: call with_type_info(…) first.")
            return JsonRowSerializationSchema(self._row_type, self._timestamp_format)


def checked_row_type(type_info: TypeHint) -> RowTypeInfo | RecordTypeInfo:
    """Return the type if it has named fields, and refuse others."""
    declared = type_of(type_info)
    if not isinstance(declared, (RowTypeInfo, RecordTypeInfo)):
        raise ProgramError(f"Expected the type of a row, such as Types.ROW_NAMED(names, types), found {type_info!r}.")
    return declared


def json_parser(exact: bool = False) -> Callable[[str], Any]:
    """Return a function that parses a JSON text; ``exact`` parses fractions as ``Decimal``."""
    decoder = json.JSONDecoder(parse_float=Decimal if exact else None, parse_constant=_refuse_constant)
    scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once  # type: ignore[attr-defined]

    def parse(text: str) -> Any:
        try:
            value, stop = scan(text, 0)
        except StopIteration:
            stop = -1
        # Spaces around the value, or no JSON: the slower way decides.
        return value if stop == len(text) else decoder.decode(text)

    return parse


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def unreadable(expected: str, message: bytes, error: Exception) -> TypeMismatchError:
    """Return the error for a message that cannot be read: what was found in which field."""
    found = f"Expected {expected}, found {message[:120]!r}{'…' if len(message) > 120 else ''}"
    if isinstance(error, Rejected):
        place = f"at {error.path} " if error.path else ""
        reason = f" ({error.reason})" if error.reason else ""
        return TypeMismatchError(f"{found}: {place}found {_short(error.value)}, expected {error.declared!r}{reason}.")
    return TypeMismatchError(f"{found}: {error}.")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
