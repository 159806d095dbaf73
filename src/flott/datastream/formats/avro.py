"""Avro: messages of a schema as rows or dicts, and files of them. Values only: the runtime imports fastavro.

    AvroRowDeserializationSchema, AvroRowSerializationSchema        Row          PyFlink's classes
    AvroDeserializationSchema, AvroSerializationSchema              dict         Flink's generic records
    AvroBulkWriters                                                 files of them, for FileSink

Files are read with ``StreamFormat.avro_format``. For messages that name their schema by the id of a registry see
``flott.datastream.formats.confluent_avro``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flott._absent import names_of
from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.common.types import Row
from flott.datastream.connectors.file_system._bulk_writers import AvroWriterFactory, BulkWriterFactory
from flott.datastream.formats._avro_types import avro_of_type, type_of_avro
from flott.datastream.formats._compiled import CompiledSchema
from flott.errors import FlottError, ProgramError, StorageError

__all__ = [
    "AvroBulkWriters",
    "AvroDeserializationSchema",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "AvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
]


@dataclass(frozen=True)
class AvroSchema:
    """The schema of records.

    >>> schema = AvroSchema.parse_string('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')
    >>> schema.row_type()
    RowTypeInfo(id: Long)
    """

    text: str  #: JSON

    def __str__(self) -> str:
        return self.text

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """Return the schema of a JSON text."""
        from flott.runtime.connectors.formats.avro import parsed_schema

        if not isinstance(json_schema, str):
            raise ProgramError(f"Expected the JSON text of an Avro schema, found {json_schema!r}.")
        parsed_schema(json_schema)
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """Return the schema of a file, usually ``*.avsc``."""
        try:
            text = Path(file_path).read_text("utf-8")
        except OSError as error:
            raise StorageError(f"Cannot read the Avro schema {file_path}: {error}.") from error
        return AvroSchema.parse_string(text)

    @staticmethod
    def of_type(type_info: TypeHint, name: str = "record") -> AvroSchema:
        """Return a schema for rows of a type: every field may be null, decimals have 18 of 38 digits. Flott only."""
        return AvroSchema(avro_of_type(type_of(type_info), name))

    def row_type(self) -> TypeInformation:
        """Return the type of the rows. Flott only."""
        return type_of_avro(json.loads(self.text))


class GenericRecordAvroTypeInfo(TypeInformation):
    """Records of an Avro schema as dicts. A row with names becomes one."""

    __slots__ = ("_schema",)

    _schema: AvroSchema

    def __init__(self, schema: AvroSchema):
        object.__setattr__(self, "_schema", schema)

    def _python_type(self) -> type:
        return dict

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, Row) and value._fields is not None:
            return value.as_dict(True)
        raise Rejected(value, self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A type is immutable: cannot set {name!r}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GenericRecordAvroTypeInfo) and self._schema == other._schema

    def __hash__(self) -> int:
        return hash((GenericRecordAvroTypeInfo, self._schema))

    def __reduce__(self) -> tuple[Any, ...]:
        return GenericRecordAvroTypeInfo, (self._schema,)

    def __repr__(self) -> str:
        return f"GenericRecordAvroTypeInfo({self._schema.text!r})"


@dataclass(frozen=True)
class AvroDeserializationSchema(CompiledSchema, DeserializationSchema):
    """Reads the binary form of a record of a schema, as a dict. Flink's class of this name; not in PyFlink."""

    schema: AvroSchema  #: what records look like here
    writer_schema: AvroSchema | None = None  #: what they were written with, if that differs
    as_rows: bool = False

    @staticmethod
    def for_generic(schema: AvroSchema, writer_schema: AvroSchema | None = None) -> AvroDeserializationSchema:
        """Return the schema that gives dicts."""
        return AvroDeserializationSchema(schema, writer_schema)

    def deserialize(self, message: bytes) -> Any:
        from flott.runtime.connectors.formats.avro import unreadable_avro

        try:
            return self._decode(message)
        except FlottError:
            raise
        except Exception as error:  # fastavro raises whatever the bytes run into
            raise unreadable_avro(message, error) from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return list(map(self._decode, messages))

    def get_produced_type(self) -> TypeInformation:
        return self.schema.row_type() if self.as_rows else GenericRecordAvroTypeInfo(self.schema)

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        from flott.runtime.connectors.formats.avro import message_reader, parsed_schema, stream_reader

        writer = parsed_schema((self.writer_schema or self.schema).text)
        return message_reader(stream_reader(writer, parsed_schema(self.schema.text), self.as_rows))


@dataclass(frozen=True)
class AvroSerializationSchema(CompiledSchema, SerializationSchema):
    """Writes the binary form of a record of a schema, from a dict or a row. Flink's class; not in PyFlink."""

    schema: AvroSchema
    as_rows: bool = False

    @staticmethod
    def for_generic(schema: AvroSchema) -> AvroSerializationSchema:
        """Return the schema that writes dicts."""
        return AvroSerializationSchema(schema)

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        return self._encode(self._conformed(elements), b"")

    def _conformed(self, elements: Sequence[Any]) -> Sequence[Any]:
        """Return the records of the declared type: the library does not look whether a number is in its range."""
        return elements if self._row_type is None else self._row_type.conform(list(elements))

    @cached_property
    def _row_type(self) -> TypeInformation | None:
        return self.schema.row_type() if self.as_rows else None

    @cached_property
    def _encode(self) -> Callable[[Sequence[Any], bytes], list[bytes]]:
        from flott.runtime.connectors.formats.avro import batch_writer, parsed_schema

        return batch_writer(parsed_schema(self.schema.text), self.as_rows)


class AvroRowDeserializationSchema(AvroDeserializationSchema):
    """Reads the binary form of a record of a schema, as a row."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None):
        super().__init__(_schema_of(record_class, avro_schema_string), None, as_rows=True)


class AvroRowSerializationSchema(AvroSerializationSchema):
    """Writes the binary form of a record of a schema, from a row."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None):
        super().__init__(_schema_of(record_class, avro_schema_string), as_rows=True)


def _schema_of(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise ProgramError(
            f"record_class={record_class!r} names a Java class. Pass avro_schema_string, the JSON text of its schema."
        )
    if avro_schema_string is None:
        raise ProgramError("An Avro schema is needed: pass avro_schema_string.")
    return AvroSchema.parse_string(avro_schema_string)


class AvroBulkWriters:
    """Writes records as Avro files, for ``FileSink.for_bulk_format``."""

    @staticmethod
    def for_generic_record(schema: AvroSchema, codec: str = "deflate") -> BulkWriterFactory:
        """Return the factory for files of dicts or rows. ``codec``: null, deflate, bzip2, xz, snappy or zstandard."""
        return AvroWriterFactory(schema.text, codec)

if not TYPE_CHECKING:  # otherwise a type checker accepts any name of this module
    __getattr__ = names_of(__name__)
