"""What a stream record becomes in Kafka: topic, key, value, headers, partition, timestamp. A specification."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flott.common.serialization import SerializationSchema
from flott.errors import ProgramError

#: Headers of a record: pairs of a name and a value. A name may occur several times.
Headers = Sequence[tuple[str, bytes | None]] | Mapping[str, bytes | None]


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the topic of a record."""


class KafkaPartitioner(ABC):
    """Chooses the partition of each record."""

    def open(self, subtask: int, parallelism: int) -> None:
        """Called once before the first record, in every writer."""

    @abstractmethod
    def partition(
        self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: Sequence[int]
    ) -> int:
        """Return the partition of a record, one of ``partitions``."""


@dataclass(frozen=True)
class KafkaRecordSerializationSchema:
    """How records are written to Kafka. Built with :meth:`builder`.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> schema = (
    ...     KafkaRecordSerializationSchema.builder()
    ...     .set_topic("words")
    ...     .set_value_serialization_schema(SimpleStringSchema())
    ...     .build()
    ... )
    >>> schema.topic
    'words'
    """

    topic: str | None = None  #: of all records, if it is fixed
    topic_selector: Callable[[Any], str] | None = None
    key_schema: SerializationSchema | None = None
    value_schema: SerializationSchema | None = None
    partitioner: KafkaPartitioner | Callable[..., int] | None = None
    header_provider: Callable[[Any], Headers | None] | None = None
    timestamp_provider: Callable[[Any], int | None] | None = None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Start building a schema."""
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    """Collects how records are written. A topic and the schema of the value are required."""

    def __init__(self) -> None:
        self._schema = KafkaRecordSerializationSchema()

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records to this topic."""
        if not topic:
            raise ProgramError(f"set_topic() takes the name of a topic, found {topic!r}.")
        self._schema = replace(self._schema, topic=topic, topic_selector=None)
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each record by a :class:`KafkaTopicSelector` or a function of the record."""
        self._schema = replace(
            self._schema, topic=None, topic_selector=_function(topic_selector, KafkaTopicSelector, "topic_selector")
        )
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how the key is made of a record. Without it the key is null."""
        self._schema = replace(self._schema, key_schema=_schema(key_serialization_schema, "key"))
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how the value is made of a record."""
        self._schema = replace(self._schema, value_schema=_schema(value_serialization_schema, "value"))
        return self

    def set_partitioner(
        self, partitioner: KafkaPartitioner | Callable[..., int]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the partition of each record by a :class:`KafkaPartitioner`, or by a function of
        ``(record, key, value, topic, partitions)``. Without it, records go where a Java producer would put them:
        by the key (murmur2), those without a key at random."""
        if not isinstance(partitioner, KafkaPartitioner) and not callable(partitioner):
            raise ProgramError(f"set_partitioner() takes a KafkaPartitioner or a function, found {partitioner!r}.")
        self._schema = replace(self._schema, partitioner=partitioner)
        return self

    def set_header_provider(
        self, header_provider: Callable[[Any], Headers | None]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the headers of each record by a function of the record."""
        if not callable(header_provider):
            raise ProgramError(f"set_header_provider() takes a function of a record, found {header_provider!r}.")
        self._schema = replace(self._schema, header_provider=header_provider)
        return self

    def set_timestamp_provider(
        self, timestamp_provider: Callable[[Any], int | None]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set the Kafka timestamp of each record by a function of the record. Without it, it is the timestamp that
        the record has in the stream, or the present time if it has none."""
        if not callable(timestamp_provider):
            raise ProgramError(f"set_timestamp_provider() takes a function of a record, found {timestamp_provider!r}.")
        self._schema = replace(self._schema, timestamp_provider=timestamp_provider)
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema."""
        if self._schema.topic is None and self._schema.topic_selector is None:
            raise ProgramError("The schema of Kafka records has no topic: call set_topic() or set_topic_selector().")
        if self._schema.value_schema is None:
            raise ProgramError("The schema of Kafka records has no value: call set_value_serialization_schema().")
        return self._schema


def _function(given: Any, kind: type[Any], name: str) -> Any:
    if isinstance(given, kind):
        return given.apply
    if not callable(given):
        # Both: PyFlink raises TypeError here.
        raise ProgramError(f"{name} must be a {kind.__name__} or a function of a record, found {given!r}.")
    return given


def _schema(given: Any, part: str) -> SerializationSchema:
    if not isinstance(given, SerializationSchema):
        raise ProgramError(f"The schema of the {part} must be a SerializationSchema, found {given!r}.")
    return given
