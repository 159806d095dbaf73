"""Avro through fastavro: the functions that read and write messages of a schema. Driver and task side."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any

from flott._extras import require
from flott.errors import FlottError, ProgramError, TypeMismatchError
from flott.runtime.connectors.formats.avro_rows import ValueConverters

fastavro = require("fastavro", extra="avro")

#: Reads the record that begins at the position of a stream.
StreamReader = Callable[[BytesIO], Any]


def parse_avro(text: str, references: Mapping[str, str] | None = None) -> Any:
    """Return a schema as fastavro uses it. ``references`` are the schemas of types that it names but lacks."""
    try:
        named: dict[str, Any] = {}
        for referred in (references or {}).values():
            fastavro.parse_schema(json.loads(referred), named_schemas=named)
        return fastavro.parse_schema(json.loads(text), named_schemas=named)
    except Exception as error:  # fastavro raises whatever comes first for something that is no schema
        raise ProgramError(f"Expected an Avro schema, found {text[:200]!r}: {error!r}.") from error


@lru_cache(maxsize=256)
def parsed_schema(text: str) -> Any:
    """Return a schema without references, parsed once."""
    return parse_avro(text)


def stream_reader(writer: Any, reader: Any, as_rows: bool) -> StreamReader:
    """Return the function that reads a record which was written with one schema as one of another."""
    convert = ValueConverters(as_rows).reading(_plain(reader))
    resolved = with_default_values(reader)
    read = fastavro.schemaless_reader
    if writer == reader:  # nothing to resolve
        if convert is None:
            return lambda stream: read(stream, writer, None)
        return lambda stream: convert(read(stream, writer, None))
    if convert is None:
        return lambda stream: read(stream, writer, resolved)
    return lambda stream: convert(read(stream, writer, resolved))


def with_default_values(schema: Any) -> Any:
    """Return a parsed schema whose defaults are values: in JSON bytes are text, and fastavro takes that as it is."""
    if isinstance(schema, list):
        return list(map(with_default_values, schema))
    if not isinstance(schema, dict):
        return schema
    nested = ("type", "items", "values")
    changed = {key: with_default_values(value) if key in nested else value for key, value in schema.items()}
    if "fields" in schema:
        changed["fields"] = [
            {**field, "type": with_default_values(field["type"])}
            | ({"default": _default_value(field["type"], field["default"])} if "default" in field else {})
            for field in schema["fields"]
        ]
    return changed


def _default_value(schema: Any, default: Any) -> Any:
    if isinstance(schema, list):
        return _default_value(schema[0], default) if schema and default is not None else default
    kind, logical = (schema["type"], schema.get("logicalType")) if isinstance(schema, dict) else (schema, None)
    if kind in ("bytes", "fixed") and isinstance(default, str):
        default = default.encode("latin-1")
    if logical is None or kind not in ("int", "long", "string", "bytes", "fixed"):
        return default
    bare = {key: value for key, value in schema.items() if key != "logicalType"}
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(_plain(bare)), default)
    stream.seek(0)
    return fastavro.schemaless_reader(stream, fastavro.parse_schema(_plain(schema)), None)


def message_reader(read: StreamReader) -> Callable[[bytes], Any]:
    """Return the function that reads a message, which must hold one record and nothing more."""

    def decode(message: bytes) -> Any:
        stream = BytesIO(message)
        record = read(stream)
        if stream.tell() != len(message):
            raise ValueError(f"{len(message) - stream.tell()} bytes follow the record")
        return record

    return decode


def batch_writer(schema: Any, as_rows: bool) -> Callable[[Sequence[Any], bytes], list[bytes]]:
    """Return the function that writes records, each after a prefix."""
    convert = ValueConverters(as_rows).writing(_plain(schema))
    write = fastavro.schemaless_writer

    def encode(records: Sequence[Any], prefix: bytes) -> list[bytes]:
        messages = []
        stream = BytesIO()
        for record in records:
            stream.seek(0)
            stream.truncate()
            if prefix:
                stream.write(prefix)
            try:
                write(stream, schema, record if convert is None else convert(record))
            except FlottError:
                raise
            except Exception as error:  # fastavro raises whatever the value runs into
                raise TypeMismatchError(f"{_short(record)} does not fit the Avro schema: {_reason(error)}.") from error
            messages.append(stream.getvalue())
        return messages

    return encode


def unreadable_avro(message: bytes, error: Exception) -> TypeMismatchError:
    """Return the error for a message that is no record of its schema."""
    return TypeMismatchError(
        f"Expected an Avro record, found {message[:60]!r}{'…' if len(message) > 60 else ''} ({len(message)} bytes):"
        f" {_reason(error)}. Was it written with the schema that is declared?"
    )


def _plain(schema: Any) -> Any:
    """Return a parsed schema without what fastavro adds to it."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if not key.startswith("__")}
    return list(map(_plain, schema)) if isinstance(schema, list) else schema


def _reason(error: Exception) -> str:
    if isinstance(error, (EOFError, IndexError)):
        return "it ends before the record does"
    return str(error).rstrip(".") or type(error).__name__


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"
