"""Protobuf: messages as rows, or as messages of a generated class. Values only: the runtime imports it. Flott only.

| Protobuf | type |
|---|---|
| ``bool``, ``string``, ``bytes`` | ``BOOLEAN``, ``STRING``, ``PRIMITIVE_ARRAY(BYTE)`` |
| ``float``, ``double`` | ``FLOAT``, ``DOUBLE`` |
| ``int32``, ``sint32``, ``sfixed32`` | ``INT`` |
| ``int64``, ``sint64``, ``sfixed64``, ``uint32``, ``fixed32`` | ``LONG`` |
| ``uint64``, ``fixed64`` | ``BIG_INT`` |
| ``enum`` | ``STRING`` |
| message, ``repeated``, ``map`` | ``ROW_NAMED``, ``LIST``, ``MAP`` |

A schema holds the descriptors of its message, so it can be sent to workers that do not have the generated module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.datastream.formats._compiled import CompiledSchema
from flott.errors import ProgramError, StorageError, TypeMismatchError

__all__ = ["ProtobufDeserializationSchema", "ProtobufSerializationSchema"]


@dataclass(frozen=True)
class ProtobufMessage(CompiledSchema):
    """What a message looks like."""

    descriptor_set: bytes  #: a serialized FileDescriptorSet, with everything that it imports
    message_name: str  #: with its package
    message_class: Any = None  #: the generated class, if records are its instances and not rows

    @classmethod
    def for_message(cls, message_class: Any, as_rows: bool = True, **settings: Any) -> Self:
        """Return the schema of a generated class. ``as_rows=False``: records are its instances."""
        from flott.runtime.connectors.formats.protobuf import descriptor_set_of

        descriptors, name = descriptor_set_of(message_class)
        return cls(descriptors, name, None if as_rows else message_class, **settings)

    @classmethod
    def for_descriptor_set(cls, descriptor_set: bytes | str | Path, message_name: str, **settings: Any) -> Self:
        """Return the schema of a message of a descriptor set, or of a file with one.

        ``protoc --include_imports --descriptor_set_out=orders.desc orders.proto`` writes such a file.
        """
        from flott.runtime.connectors.formats.protobuf import message_class_of

        try:
            content = descriptor_set if isinstance(descriptor_set, bytes) else Path(descriptor_set).read_bytes()
        except OSError as error:
            raise StorageError(f"Cannot read the descriptor set {descriptor_set!r}: {error}.") from error
        message_class_of(content, message_name)
        return cls(content, message_name, **settings)

    @cached_property
    def _class(self) -> Any:
        from flott.runtime.connectors.formats.protobuf import message_class_of

        return self.message_class or message_class_of(self.descriptor_set, self.message_name)

    @cached_property
    def _row_type(self) -> TypeInformation:
        from flott.runtime.connectors.formats.protobuf import row_type_of

        return row_type_of(self._class.DESCRIPTOR)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message_name!r})"


@dataclass(frozen=True, repr=False)
class ProtobufDeserializationSchema(ProtobufMessage, DeserializationSchema):
    """Reads messages."""

    ignores_parse_errors: bool = False  #: unreadable messages are left out
    read_default_values: bool = False  #: a field that is not set has its default value; otherwise it is null
    framed: bool = False  #: a message begins with the id of its schema in a registry, as Confluent's serializer has it

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._decode(message)
        except Exception as error:  # protobuf has errors of its own for each version
            if self.ignores_parse_errors:
                return None
            raise TypeMismatchError(
                f"Expected a message {self.message_name}, found {message[:60]!r} ({len(message)} bytes): {error}."
            ) from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return list(map(self.deserialize if self.ignores_parse_errors else self._decode, messages))

    def get_produced_type(self) -> TypeInformation:
        return self._row_type if self.message_class is None else Types.PICKLED_BYTE_ARRAY()

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        from flott.runtime.connectors.formats.protobuf import after_frame, to_row

        parse: Callable[[bytes], Any] = self._class.FromString
        if self.framed:
            plain = parse
            parse = lambda message: plain(after_frame(message))  # noqa: E731
        if self.message_class is not None:
            return parse
        convert = to_row(self._class.DESCRIPTOR, self.read_default_values)
        return lambda message: convert(parse(message))


@dataclass(frozen=True, repr=False)
class ProtobufSerializationSchema(ProtobufMessage, SerializationSchema):
    """Writes messages."""

    schema_id: int | None = None  #: the id in a registry to begin each message with; its file has this message first

    def __post_init__(self) -> None:
        if self.schema_id is not None and not 0 <= self.schema_id < 2**32:
            raise ProgramError(f"The id of a schema has 4 bytes, found {self.schema_id}.")

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        records = list(elements)
        if self.message_class is None:
            records = self._row_type.conform(records)
        if None in records:
            raise TypeMismatchError(f"Expected a message {self.message_name}, found None: filter it out.")
        messages = self._encode(records)
        if self.schema_id is None:
            return messages
        frame = b"\0" + self.schema_id.to_bytes(4) + b"\0"
        return [frame + message for message in messages]

    @cached_property
    def _encode(self) -> Callable[[Sequence[Any]], list[bytes]]:
        from flott.runtime.connectors.formats.protobuf import batch_encoder, from_row

        return batch_encoder(self._class, None if self.message_class else from_row(self._class.DESCRIPTOR))
