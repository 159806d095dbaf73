"""Avro messages that begin with the id of their schema in a registry, as Confluent's serializers write them.

    byte 0       0
    bytes 1-4    the id of the schema that the message was written with, big-endian
    then         the record in Avro's binary form

The names are Flink's (``org.apache.flink.formats.avro.registry.confluent``); PyFlink does not have them. Values only:
the runtime imports fastavro and asks the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.common.typeinfo._type_information import TypeInformation
from flott.datastream.formats._compiled import CompiledSchema
from flott.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
from flott.datastream.formats.schema_registry import SchemaRegistry, as_registry
from flott.errors import FlottError, ProgramError

__all__ = ["ConfluentRegistryAvroDeserializationSchema", "ConfluentRegistryAvroSerializationSchema"]

#: The first byte, and the bytes before the record.
MAGIC, FRAME_BYTES = 0, 5


@dataclass(frozen=True)
class ConfluentRegistryAvroDeserializationSchema(CompiledSchema, DeserializationSchema):
    """Reads records that may each have been written with another schema, as of one schema."""

    schema: AvroSchema  #: what records look like here, whatever they were written with
    registry: SchemaRegistry
    as_rows: bool = False

    @staticmethod
    def for_generic(schema: AvroSchema, registry: SchemaRegistry | str) -> ConfluentRegistryAvroDeserializationSchema:
        """Return the schema that gives dicts."""
        return ConfluentRegistryAvroDeserializationSchema(schema, as_registry(registry))

    @staticmethod
    def for_row(schema: AvroSchema, registry: SchemaRegistry | str) -> ConfluentRegistryAvroDeserializationSchema:
        """Return the schema that gives rows."""
        return ConfluentRegistryAvroDeserializationSchema(schema, as_registry(registry), as_rows=True)

    def deserialize(self, message: bytes) -> Any:
        from flott.runtime.connectors.formats.avro import unreadable_avro

        try:
            return self._decode([message])[0]
        except FlottError:
            raise
        except Exception as error:  # fastavro raises whatever the bytes run into
            raise unreadable_avro(message, error) from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return self._decode(messages)

    def get_produced_type(self) -> TypeInformation:
        return self.schema.row_type() if self.as_rows else GenericRecordAvroTypeInfo(self.schema)

    @cached_property
    def _decode(self) -> Callable[[Sequence[bytes]], list[Any]]:
        from flott.runtime.connectors.formats.avro import parse_avro, parsed_schema, stream_reader
        from flott.runtime.connectors.formats.registry import registry_client

        readers: dict[int, Callable[[BytesIO], Any]] = {}

        def reader_of(schema_id: int) -> Callable[[BytesIO], Any]:
            found = registry_client(self.registry).schema(schema_id)
            writer = parse_avro(found.text, dict(found.references))
            readers[schema_id] = stream_reader(writer, parsed_schema(self.schema.text), self.as_rows)
            return readers[schema_id]

        def decode(messages: Sequence[bytes]) -> list[Any]:
            records: list[Any] = []
            append = records.append
            for message in messages:
                if message[:1] != b"\0" or len(message) < FRAME_BYTES:
                    raise ValueError("it does not begin with a zero byte and the id of a schema")
                stream = BytesIO(message)
                schema_id = int.from_bytes(stream.read(FRAME_BYTES)[1:])
                append((readers.get(schema_id) or reader_of(schema_id))(stream))
                if stream.tell() != len(message):
                    raise ValueError(f"{len(message) - stream.tell()} bytes follow the record")
            return records

        return decode


@dataclass(frozen=True)
class ConfluentRegistryAvroSerializationSchema(CompiledSchema, SerializationSchema):
    """Writes records of a schema, which is registered under a subject when the first one is written."""

    subject: str  #: see ``SubjectNames``
    schema: AvroSchema
    registry: SchemaRegistry
    auto_register: bool = True  #: False: the schema must be registered already
    as_rows: bool = False

    def __post_init__(self) -> None:
        if not self.subject:
            raise ProgramError("A schema is registered under a subject, such as SubjectNames.topic('orders').")

    @staticmethod
    def for_generic(
        subject: str, schema: AvroSchema, registry: SchemaRegistry | str, auto_register: bool = True
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Return the schema that writes dicts."""
        return ConfluentRegistryAvroSerializationSchema(subject, schema, as_registry(registry), auto_register)

    @staticmethod
    def for_row(
        subject: str, schema: AvroSchema, registry: SchemaRegistry | str, auto_register: bool = True
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Return the schema that writes rows."""
        return ConfluentRegistryAvroSerializationSchema(
            subject, schema, as_registry(registry), auto_register, as_rows=True
        )

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        if not elements:
            return []
        records = elements if self._row_type is None else self._row_type.conform(list(elements))
        return self._encode(records, self._prefix)

    @cached_property
    def _row_type(self) -> TypeInformation | None:
        return self.schema.row_type() if self.as_rows else None

    @cached_property
    def _encode(self) -> Callable[[Sequence[Any], bytes], list[bytes]]:
        from flott.runtime.connectors.formats.avro import batch_writer, parsed_schema

        return batch_writer(parsed_schema(self.schema.text), self.as_rows)

    @cached_property
    def _prefix(self) -> bytes:
        from flott.runtime.connectors.formats.registry import registry_client

        schema_id = registry_client(self.registry).id_of(self.subject, self.schema.text, self.auto_register)
        return bytes([MAGIC]) + schema_id.to_bytes(4)
