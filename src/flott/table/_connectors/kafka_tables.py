"""Source and sink of tables over Kafka: values that travel to tasks, over the connector of the DataStream API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from flott.common._secrets import Properties
from flott.common.serialization import SerializationSchema, SimpleStringSchema
from flott.datastream.connectors.base import DeliveryGuarantee, OnError, SinkWriter, SourceReader, WriterContext
from flott.datastream.connectors.kafka._deserializers import ValueOnlyDeserializationSchema
from flott.datastream.connectors.kafka._offsets import KafkaOffsetsInitializer
from flott.datastream.connectors.kafka._serializers import KafkaPartitioner, KafkaRecordSerializationSchema
from flott.datastream.connectors.kafka._sink import KafkaSink, KafkaSinkBuilder
from flott.datastream.connectors.kafka._source import KafkaSource, KafkaSourceBuilder
from flott.errors import ProgramError
from flott.table._connectors.formats import MessageFormat
from flott.table._types.logical import LogicalType


@dataclass(frozen=True)
class KafkaTableSettings:
    """What a table makes of messages."""

    names: tuple[str, ...]  #: the columns to read, or those that are written
    types: tuple[LogicalType, ...]
    key: MessageFormat | None
    value: MessageFormat
    key_columns: tuple[str, ...]  #: the names of the key's fields in the table
    value_columns: tuple[str, ...]
    metadata: tuple[tuple[str, str], ...] = ()  #: name and key
    upsert: bool = False


@dataclass(frozen=True, repr=False)
class TableKafkaSource(KafkaSource):
    """Reads messages as columns."""

    table: KafkaTableSettings | None = None

    @staticmethod
    def settings(*fields: Any) -> KafkaTableSettings:
        """Return what the table makes of messages."""
        return KafkaTableSettings(*fields)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.columns.kafka_reader import TableKafkaReader

        return TableKafkaReader(self)


def kafka_source(
    settings: KafkaTableSettings,
    properties: Properties,
    topics: Sequence[str],
    pattern: str | None,
    start: KafkaOffsetsInitializer,
    stop: KafkaOffsetsInitializer | None,
) -> TableKafkaSource:
    """Return the source of a table."""
    builder = KafkaSourceBuilder().set_properties(properties).set_starting_offsets(start)
    builder = builder.set_topics(*topics) if pattern is None else builder.set_topic_pattern(pattern)
    if stop is not None:
        builder = builder.set_bounded(stop)
    skips = settings.value.skips_bad_messages or (settings.key is not None and settings.key.skips_bad_messages)
    built = (
        builder.set_deserializer(ValueOnlyDeserializationSchema(SimpleStringSchema()))  # columns are made instead
        .set_on_error(OnError.skip() if skips else OnError.fail())
        .build()
    )
    return TableKafkaSource(
        built.properties,
        built.subscription,
        built.deserializer,
        built.starting_offsets,
        built.stopping_offsets,
        built.is_bounded,
        built.on_error,
        settings,
    )


# --- sink ------------------------------------------------------------------------------------------------------------

#: A message before it is sent: key, value, timestamp, headers.
OutgoingMessage = tuple[bytes | None, bytes | None, int | None, Any]


class _KeyBytes(SerializationSchema):
    def serialize(self, element: Any) -> Any:
        return element[0]


class _ValueBytes(SerializationSchema):
    def serialize(self, element: Any) -> Any:
        return element[1]


def _timestamp_of(message: OutgoingMessage) -> int | None:
    return message[2]


def _headers_of(message: OutgoingMessage) -> Any:
    return message[3]


class FixedPartitioner(KafkaPartitioner):
    """Writes all rows of a subtask to one partition."""

    subtask = 0

    def open(self, subtask: int, parallelism: int) -> None:
        self.subtask = subtask

    def partition(self, record: Any, key: Any, value: Any, topic: str, partitions: Any) -> int:
        chosen: int = partitions[self.subtask % len(partitions)]
        return chosen


class RoundRobinPartitioner(KafkaPartitioner):
    """Writes each row to the next partition."""

    def __init__(self) -> None:
        self._next = 0

    def partition(self, record: Any, key: Any, value: Any, topic: str, partitions: Any) -> int:
        self._next += 1
        chosen: int = partitions[self._next % len(partitions)]
        return chosen


@dataclass(frozen=True)
class TableKafkaSink(KafkaSink):
    """Writes columns as messages."""

    table: KafkaTableSettings | None = field(default=None)

    takes_columns: ClassVar[bool] = True

    @staticmethod
    def settings(
        names: tuple[str, ...],
        key: MessageFormat | None,
        value: MessageFormat,
        key_columns: tuple[str, ...],
        value_columns: tuple[str, ...],
        metadata: Mapping[str, str],
        upsert: bool,
    ) -> KafkaTableSettings:
        """Return what the table makes of rows."""
        pairs = tuple((name, kind) for kind, name in metadata.items())
        return KafkaTableSettings(names, (), key, value, key_columns, value_columns, pairs, upsert)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.columns.kafka_writer import TableKafkaWriter

        return TableKafkaWriter(self, super().create_writer(context))


def kafka_sink(
    settings: KafkaTableSettings,
    properties: Properties,
    topic: str,
    partitioner: str,
    guarantee: DeliveryGuarantee,
    prefix: str,
) -> TableKafkaSink:
    """Return the sink of a table."""
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    serializer.set_key_serialization_schema(_KeyBytes()).set_value_serialization_schema(_ValueBytes())
    keys = {kind for _, kind in settings.metadata}
    serializer.set_timestamp_provider(_timestamp_of)
    if "headers" in keys:
        serializer.set_header_provider(_headers_of)
    if (chosen := _partitioner(partitioner)) is not None:
        serializer.set_partitioner(chosen)
    builder = KafkaSinkBuilder().set_record_serializer(serializer.build()).set_delivery_guarantee(guarantee)
    if prefix:
        builder.set_transactional_id_prefix(prefix)
    for name, text in properties.items():
        builder.set_property(name, text)
    built = builder.build()
    return TableKafkaSink(
        built.properties, built.serializer, built.delivery_guarantee, built.transactional_id_prefix, table=settings
    )


def _partitioner(name: str) -> KafkaPartitioner | None:
    match name:
        case "default":
            return None
        case "fixed":
            return FixedPartitioner()
        case "round-robin":
            return RoundRobinPartitioner()
    module, _, attribute = name.partition(":")
    try:
        made = getattr(import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError) as error:
        raise ProgramError(
            "The option 'sink.partitioner' is default, fixed, round-robin, or module:name of a KafkaPartitioner, found"
            f" {name!r}: {error}."
        ) from error
    if not isinstance(made, KafkaPartitioner):
        raise ProgramError(f"The option 'sink.partitioner' names a KafkaPartitioner, found {name!r}.")
    return made
