"""upsert-kafka: a topic as a table with a key, of which the last message of each key counts. Tombstones delete."""

from __future__ import annotations

from flott.datastream.connectors.kafka._offsets import KafkaOffsetsInitializer
from flott.errors import ProgramError
from flott.table._connectors.kafka import (
    COMMON_OPTIONS,
    KEY_FORMAT,
    SERVERS,
    TOPIC,
    VALUE_FORMAT,
    MessageParts,
    message_parts,
    sink_of,
    source_of,
)
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink, TableSource

_FLUSH_ROWS = (
    key("sink.buffer-flush.max-rows").int_type().default_value(0)
    .with_description("Accepted and ignored: rows are sent when an epoch ends at the latest.")
)  # fmt: skip
_FLUSH_INTERVAL = (
    key("sink.buffer-flush.interval").duration_type().default_value(0)
    .with_description("Accepted and ignored: rows are sent when an epoch ends at the latest.")
)  # fmt: skip


def _parts(table: ConnectorTable) -> MessageParts:
    options = TableOptions(str(table.identifier), table.options)
    primary_key = table.table.schema.primary_key
    if not primary_key:
        raise ProgramError(f"Table {table.identifier}: 'upsert-kafka' needs a PRIMARY KEY (…) NOT ENFORCED.")
    parts = message_parts(table, options, primary_key, upsert=True)
    if parts.value.changelog is not ChangelogMode.INSERT_ONLY:
        raise ProgramError(
            f"Table {table.identifier}: the values of 'upsert-kafka' are rows, found a format of changes. Use the"
            " connector 'kafka' for it."
        )
    return parts


def _source(table: ConnectorTable) -> TableSource:
    return source_of(table, _parts(table), KafkaOffsetsInitializer.earliest(), upsert=True)


def _sink(table: ConnectorTable) -> TableSink:
    return sink_of(table, _parts(table), upsert=True)


CONNECTOR = TableConnector(
    "upsert-kafka",
    _source,
    _sink,
    options=described((*COMMON_OPTIONS, _FLUSH_ROWS, _FLUSH_INTERVAL)),
    required=(TOPIC.key, SERVERS.key, KEY_FORMAT.key, VALUE_FORMAT.key),
)
