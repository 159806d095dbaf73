"""kafka: tables over topics of Kafka, with keys, metadata and any format of messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flott.common._secrets import Properties
from flott.datastream.connectors.base import DeliveryGuarantee, Source
from flott.datastream.connectors.kafka._offsets import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)
from flott.errors import ProgramError
from flott.table._connectors.format_registry import format_factory
from flott.table._connectors.formats import MessageFormat
from flott.table._connectors.kafka_tables import TableKafkaSink, TableKafkaSource, kafka_sink, kafka_source
from flott.table._connectors.metadata import metadata_names, sink_columns, source_columns
from flott.table._connectors.options import TableOptions, described, key, missing_option
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink, TableSource
from flott.table._sql.errors import nearest
from flott.table._types.logical import (
    BIGINT,
    BYTES,
    INT,
    STRING,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
)

TOPIC = key("topic").list_type().default_value([]).with_description("The topic, or several with ; between them.")
_PATTERN = (
    key("topic-pattern").string_type().no_default_value()
    .with_description("A regular expression: all topics whose whole name matches are read.")
)  # fmt: skip
SERVERS = (
    key("properties.bootstrap.servers").string_type().no_default_value()
    .with_description("The brokers to ask first, host:port with commas between them.")
)  # fmt: skip
_GROUP = (
    key("properties.group.id").string_type().no_default_value()
    .with_description("The group whose offsets are committed after each checkpoint.")
)  # fmt: skip
_FORMAT = key("format").string_type().no_default_value().with_description("The format of the values.")
VALUE_FORMAT = key("value.format").string_type().no_default_value().with_description("The format of the values.")
KEY_FORMAT = key("key.format").string_type().no_default_value().with_description("The format of the keys.")
_KEY_FIELDS = (
    key("key.fields").string_type().default_value("")
    .with_description("The columns that are in the key, with ; between them.")
)  # fmt: skip
KEY_PREFIX = (
    key("key.fields-prefix").string_type().default_value("")
    .with_description("What the names of the key's columns begin with in the table and not in the key.")
)  # fmt: skip
VALUE_INCLUDE = (
    key("value.fields-include").string_type().default_value("ALL")
    .with_description("Whether the value holds the key's columns: ALL or EXCEPT_KEY.")
)  # fmt: skip
_STARTUP = (
    key("scan.startup.mode").string_type().default_value("group-offsets")
    .with_description(
        "Where a job without a checkpoint begins: earliest-offset, latest-offset, group-offsets, timestamp or"
        " specific-offsets."
    )
)  # fmt: skip
_STARTUP_OFFSETS = (
    key("scan.startup.specific-offsets").string_type().no_default_value()
    .with_description("Offsets by partition: partition:0,offset:42;partition:1,offset:300.")
)  # fmt: skip
_STARTUP_TIMESTAMP = (
    key("scan.startup.timestamp-millis").long_type().no_default_value()
    .with_description("The time at which to begin, in milliseconds since 1970.")
)  # fmt: skip
_BOUNDED = (
    key("scan.bounded.mode").string_type().default_value("unbounded")
    .with_description("Where the table ends: unbounded, latest-offset, group-offsets, timestamp or specific-offsets.")
)  # fmt: skip
_BOUNDED_OFFSETS = (
    key("scan.bounded.specific-offsets").string_type().no_default_value()
    .with_description("Offsets by partition at which the table ends.")
)  # fmt: skip
_BOUNDED_TIMESTAMP = (
    key("scan.bounded.timestamp-millis").long_type().no_default_value()
    .with_description("The time at which the table ends, in milliseconds since 1970.")
)  # fmt: skip
_DISCOVERY = (
    key("scan.topic-partition-discovery.interval").duration_type().no_default_value()
    .with_description("How often new partitions and topics are looked for; 30 s if not set, 0: never.")
)  # fmt: skip
_PARTITIONER = (
    key("sink.partitioner").string_type().default_value("default")
    .with_description(
        "Which partition a row goes to: default (by key), fixed (one for each subtask), round-robin, or module:name of"
        " a KafkaPartitioner."
    )
)  # fmt: skip
_GUARANTEE = (
    key("sink.delivery-guarantee").string_type().default_value("at-least-once").with_fallback_keys("sink.semantic")
    .with_description("exactly-once, at-least-once or none.")
)  # fmt: skip
_TRANSACTIONS = (
    key("sink.transactional-id-prefix").string_type().no_default_value()
    .with_description("What the ids of transactions begin with; needed for exactly-once.")
)  # fmt: skip
PARALLELISM = key("sink.parallelism").int_type().no_default_value().at_least(1).with_description("Subtasks that write.")
_SCAN_PARALLELISM = (
    key("scan.parallelism").int_type().no_default_value().at_least(1).with_description("How many subtasks read.")
)  # fmt: skip
_ANY_PROPERTY = (
    key("properties.*").string_type().no_default_value().with_description("A property of Kafka's client.")
)  # fmt: skip

COMMON_OPTIONS = (
    TOPIC, SERVERS, _ANY_PROPERTY, KEY_FORMAT, KEY_PREFIX, VALUE_FORMAT, VALUE_INCLUDE, _GUARANTEE, _TRANSACTIONS,
    PARALLELISM, _SCAN_PARALLELISM, _BOUNDED, _BOUNDED_OFFSETS, _BOUNDED_TIMESTAMP, _DISCOVERY,
)  # fmt: skip
OPTIONS = (
    *COMMON_OPTIONS, _PATTERN, _GROUP, _FORMAT, _KEY_FIELDS, _STARTUP, _STARTUP_OFFSETS, _STARTUP_TIMESTAMP,
    _PARTITIONER,
)  # fmt: skip

METADATA: dict[str, LogicalType] = {
    "topic": STRING.as_nullable(False),
    "partition": INT.as_nullable(False),
    "headers": MapType(STRING.as_nullable(False), BYTES.as_nullable(False), nullable=False),
    "leader-epoch": INT,
    "offset": BIGINT.as_nullable(False),
    "timestamp": LocalZonedTimestampType(3, nullable=False),
    "timestamp-type": STRING.as_nullable(False),
}
WRITABLE: dict[str, LogicalType] = {name: METADATA[name] for name in ("headers", "timestamp")}


# --- keys and values -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MessageParts:
    """What is in the key and in the value of a message."""

    key: MessageFormat | None
    value: MessageFormat
    key_columns: tuple[str, ...]  #: names in the table
    value_columns: tuple[str, ...]


def message_parts(
    table: ConnectorTable, options: TableOptions, key_fields: tuple[str, ...], upsert: bool
) -> MessageParts:
    """Return the formats of key and value, with the fields of each."""
    value_name = options.get(VALUE_FORMAT) or options.get(_FORMAT)
    if value_name is None:
        raise missing_option(options.table, "value.format" if upsert else "format", VALUE_FORMAT.description)
    types = dict(zip(table.names, table.types, strict=True))
    prefix = options.get(KEY_PREFIX)
    for name in key_fields:
        if name not in types:
            raise ProgramError(
                f"Table {options.table}: '{KEY_PREFIX.key.removesuffix('-prefix')}' names no column of the table, found"
                f" '{name}'.{nearest(name, types)}"
            )
        if not name.startswith(prefix):
            raise ProgramError(
                f"Table {options.table}: the column '{name}' of the key does not begin with the prefix '{prefix}'."
            )
    include = options.chosen(VALUE_INCLUDE, ("ALL", "EXCEPT_KEY"))
    if prefix and include == "ALL":
        raise ProgramError(f"Table {options.table}: 'key.fields-prefix' needs 'value.fields-include' = EXCEPT_KEY.")
    columns = tuple(name for name in table.names if include == "ALL" or name not in key_fields)
    value_prefix = "value." if options.get(VALUE_FORMAT) is not None else ""
    value = format_factory(options.table, value_name, f"{value_prefix}format", files=False)
    value_format = value.make(columns, tuple(types[n] for n in columns), options.under(f"{value_prefix}{value.name}."))
    key_format = None
    key_name = options.get(KEY_FORMAT)
    if key_name is not None:
        if not key_fields:
            raise ProgramError(f"Table {options.table}: 'key.format' needs the columns of the key: set 'key.fields'.")
        factory = format_factory(options.table, key_name, "key.format", files=False)
        bare = tuple(name.removeprefix(prefix) for name in key_fields)
        key_types = tuple(types[name] for name in key_fields)
        key_format = factory.make(bare, key_types, options.under(f"key.{factory.name}."))
        if key_format.changelog is not ChangelogMode.INSERT_ONLY:
            raise ProgramError(f"Table {options.table}: '{key_name}' is a format of changes, so no format of keys.")
    elif key_fields:
        raise ProgramError(f"Table {options.table}: 'key.fields' needs a format: set 'key.format'.")
    return MessageParts(key_format, value_format, key_fields, columns)


def client_properties(options: TableOptions) -> Properties:
    """Return the properties of Kafka's client."""
    given = options.options.items()
    properties = {name.removeprefix("properties."): text for name, text in given if name.startswith("properties.")}
    discovery = options.get(_DISCOVERY)
    if discovery is not None:
        properties["partition.discovery.interval.ms"] = str(discovery)
    return Properties(properties)


# --- offsets ---------------------------------------------------------------------------------------------------------


def _specific(options: TableOptions, option: Any, topics: list[str]) -> Mapping[KafkaTopicPartition, int]:
    text = options.required(option)
    if len(topics) != 1:
        raise ProgramError(f"Table {options.table}: '{option.key}' is for one topic, found {len(topics)}.")
    found = {}
    for entry in filter(None, text.split(";")):
        pairs = dict(part.split(":", 1) for part in entry.split(",") if ":" in part)
        try:
            found[KafkaTopicPartition(topics[0], int(pairs["partition"]))] = int(pairs["offset"])
        except (KeyError, ValueError):
            raise ProgramError(
                f"Table {options.table}: '{option.key}' is written as partition:0,offset:42;partition:1,offset:300,"
                f" found {text!r}."
            ) from None
    return found


def _reset(options: TableOptions) -> KafkaOffsetResetStrategy:
    chosen = options.options.get("properties.auto.offset.reset", "none").upper()
    if chosen not in KafkaOffsetResetStrategy.__members__:
        raise ProgramError(
            f"Table {options.table}: 'properties.auto.offset.reset' is earliest, latest or none, found {chosen!r}."
        )
    return KafkaOffsetResetStrategy[chosen]


def starting_offsets(options: TableOptions, topics: list[str]) -> KafkaOffsetsInitializer:
    """Return where a table begins."""
    modes = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
    match options.chosen(_STARTUP, modes):
        case "earliest-offset":
            return KafkaOffsetsInitializer.earliest()
        case "latest-offset":
            return KafkaOffsetsInitializer.latest()
        case "timestamp":
            return KafkaOffsetsInitializer.timestamp(options.required(_STARTUP_TIMESTAMP))
        case "specific-offsets":
            return KafkaOffsetsInitializer.offsets(_specific(options, _STARTUP_OFFSETS, topics))
    if options.get(_GROUP) is None:
        raise missing_option(
            options.table, _GROUP.key, "Offsets of a group are read unless 'scan.startup.mode' says otherwise."
        )
    return KafkaOffsetsInitializer.committed_offsets(_reset(options))


def stopping_offsets(options: TableOptions, topics: list[str]) -> KafkaOffsetsInitializer | None:
    """Return where a table ends; None: it does not."""
    modes = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
    match options.chosen(_BOUNDED, modes):
        case "latest-offset":
            return KafkaOffsetsInitializer.latest()
        case "group-offsets":
            return KafkaOffsetsInitializer.committed_offsets(_reset(options))
        case "timestamp":
            return KafkaOffsetsInitializer.timestamp(options.required(_BOUNDED_TIMESTAMP))
        case "specific-offsets":
            return KafkaOffsetsInitializer.offsets(_specific(options, _BOUNDED_OFFSETS, topics))
    return None


# --- the connector ---------------------------------------------------------------------------------------------------


def source_of(table: ConnectorTable, parts: MessageParts, start: KafkaOffsetsInitializer, upsert: bool) -> TableSource:
    """Return the table of some topics."""
    options = TableOptions(str(table.identifier), table.options)
    topics, pattern = topics_of(options)
    names, types = source_columns(table, METADATA)
    stop = stopping_offsets(options, topics)

    def make(source: TableSource) -> Source[Any]:
        return kafka_source(
            TableKafkaSource.settings(
                source.names, source.types, parts.key, parts.value, parts.key_columns, parts.value_columns,
                tuple(pair for pair in metadata_names(table) if pair[0] in source.names), upsert,
            ),
            client_properties(options),
            topics,
            pattern,
            start,
            stop,
        )  # fmt: skip

    changelog = ChangelogMode.UPSERT if upsert else parts.value.changelog
    return TableSource(
        tuple(names), tuple(types), make, changelog=changelog, bounded=stop is not None, metadata=METADATA
    )


def topics_of(options: TableOptions) -> tuple[list[str], str | None]:
    """Return the topics of a table, or the pattern of their names."""
    topics, pattern = [topic for topic in options.get(TOPIC) if topic], options.get(_PATTERN)
    if bool(topics) is (pattern is not None):
        raise ProgramError(f"Table {options.table} needs one of the options 'topic' and 'topic-pattern'.")
    return topics, pattern


def sink_of(table: ConnectorTable, parts: MessageParts, upsert: bool) -> TableSink:
    """Return the table of a topic, to be written."""
    options = TableOptions(str(table.identifier), table.options)
    topics, _ = topics_of(options)
    if len(topics) != 1:
        raise ProgramError(f"Table {options.table} is written to one topic, found {', '.join(topics) or 'a pattern'}.")
    names, types, metadata = sink_columns(table, WRITABLE)
    guarantee = DeliveryGuarantee(options.chosen(_GUARANTEE, [each.value for each in DeliveryGuarantee]))
    prefix = options.get(_TRANSACTIONS)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE and prefix is None:
        raise missing_option(options.table, _TRANSACTIONS.key, _TRANSACTIONS.description)
    partitioner = "default" if upsert else options.get(_PARTITIONER)
    if partitioner == "fixed" and parts.key is None and upsert:
        raise ProgramError(f"Table {options.table}: rows of one key must go to one partition.")
    sink = kafka_sink(
        TableKafkaSink.settings(
            tuple(names), parts.key, parts.value, parts.key_columns, parts.value_columns, metadata, upsert
        ),
        client_properties(options),
        topics[0],
        partitioner,
        guarantee,
        prefix or "",
    )
    return TableSink(
        tuple(names),
        tuple(types),
        lambda: sink,
        accepts=ChangelogMode.UPSERT if upsert else parts.value.changelog,
        key=table.table.schema.primary_key if upsert else (),
        parallelism=options.get(PARALLELISM),
        metadata=WRITABLE,
    )


def _parts(table: ConnectorTable) -> MessageParts:
    options = TableOptions(str(table.identifier), table.options)
    fields = tuple(filter(None, (name.strip() for name in options.get(_KEY_FIELDS).split(";"))))
    return message_parts(table, options, fields, upsert=False)


def _source(table: ConnectorTable) -> TableSource:
    options = TableOptions(str(table.identifier), table.options)
    return source_of(table, _parts(table), starting_offsets(options, topics_of(options)[0]), upsert=False)


def _sink(table: ConnectorTable) -> TableSink:
    return sink_of(table, _parts(table), upsert=False)


CONNECTOR = TableConnector("kafka", _source, _sink, options=described(OPTIONS), required=(SERVERS.key,))
