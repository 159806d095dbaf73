"""Turns whole Kafka records into records of the stream: key, headers, partition, offset and timestamp included."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from flott.common.serialization import DeserializationSchema, SimpleStringSchema
from flott.common.typeinfo._type_information import TypeInformation


class ConsumerRecord(NamedTuple):
    """A record as it is in Kafka."""

    topic: str
    partition: int
    offset: int
    timestamp: int  #: in milliseconds; by the producer or by the broker, as the topic is set up
    key: bytes | None
    value: bytes | None  #: ``None``: a tombstone, which deletes the key in a compacted topic
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaRecordDeserializationSchema(ABC):
    """Converts a Kafka record to a record of the stream. Extend it to use more than the value.

    >>> class KeyAndValue(KafkaRecordDeserializationSchema):
    ...     def deserialize(self, record):
    ...         return record.key, record.value
    >>> KeyAndValue().deserialize(ConsumerRecord("orders", 0, 17, 1000, b"k", b"v", ()))
    (b'k', b'v')
    """

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Any:
        """Return the record of the stream, or ``None`` to leave it out. What it raises follows ``on_error``."""

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the records; ``None``: they are pickled."""
        return None

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Return a schema that converts the value and ignores the rest. Tombstones are left out."""
        return ValueOnlyDeserializationSchema(deserialization_schema)


@dataclass(frozen=True)
class ValueOnlyDeserializationSchema(KafkaRecordDeserializationSchema):
    """Converts the value of a record. The reader does not make ``ConsumerRecord`` objects for it."""

    schema: DeserializationSchema

    def deserialize(self, record: ConsumerRecord) -> Any:
        return None if record.value is None else self.schema.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()


class SimpleStringValueKafkaRecordDeserializationSchema(ValueOnlyDeserializationSchema):
    """Converts the value of a record to text."""

    def __init__(self, charset: str = "UTF-8"):
        super().__init__(SimpleStringSchema(charset))
