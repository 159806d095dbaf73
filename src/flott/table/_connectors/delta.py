"""delta: Delta tables: read at a version or as versions appear, appended to or changed by key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.common._secrets import Properties
from flott.datastream.connectors.base import Source
from flott.datastream.connectors.delta import DeltaSink, DeltaSource
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.errors import ProgramError
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.row_tables import ColumnsAsRows, RowsAsColumns
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink, TableSource

_PATH = key("table-path").string_type().no_default_value().with_description("The folder of the Delta table.")
_MODE = (
    key("mode").string_type().default_value("batch")
    .with_description("batch: read the table and end; streaming: then read what later versions add.")
)  # fmt: skip
_INTERVAL = (
    key("updateCheckIntervalMillis").long_type().default_value(1000).at_least(1)
    .with_description("How often new versions are looked for, in streaming mode.")
)  # fmt: skip
_VERSION = (
    key("versionAsOf").long_type().no_default_value().at_least(0).with_description("The version to read.")
)  # fmt: skip
_TIMESTAMP = (
    key("timestampAsOf").string_type().no_default_value()
    .with_description("Read the version of this time, such as 2026-01-31T12:00:00Z.")
)  # fmt: skip
_START = (
    key("startingVersion").string_type().no_default_value()
    .with_description("Read what this and later versions add: a number, or latest.")
)  # fmt: skip
_IGNORE_DELETES = (
    key("ignoreDeletes").boolean_type().default_value(False)
    .with_description("Pass over versions that only remove rows, instead of failing.")
)  # fmt: skip
_IGNORE_CHANGES = (
    key("ignoreChanges").boolean_type().default_value(False)
    .with_description("Read all rows of files that an update wrote, instead of failing.")
)  # fmt: skip
_FEED = (
    key("readChangeFeed").boolean_type().default_value(False)
    .with_description("Read inserts, updates and deletes; updates need a table with delta.enableChangeDataFeed.")
)  # fmt: skip
_PARALLELISM = (
    key("sink.parallelism").int_type().no_default_value().at_least(1).with_description("How many subtasks write.")
)  # fmt: skip
_STORAGE = (
    key("storage.*").string_type().no_default_value().with_description("An option of Delta's object store client.")
)  # fmt: skip
_PROPERTY = (
    key("delta.*").string_type().no_default_value().with_description("A property of a table that is created.")
)  # fmt: skip

OPTIONS = (
    _PATH, _MODE, _INTERVAL, _VERSION, _TIMESTAMP, _START, _IGNORE_DELETES, _IGNORE_CHANGES, _FEED, _PARALLELISM,
    _STORAGE, _PROPERTY,
)  # fmt: skip


def _source(table: ConnectorTable) -> TableSource:
    options = TableOptions(str(table.identifier), table.options)
    streaming = options.chosen(_MODE, ("batch", "streaming")) == "streaming" and not table.batch
    version, timestamp, start = options.get(_VERSION), options.get(_TIMESTAMP), options.get(_START)
    if sum(each is not None for each in (version, timestamp, start)) > 1:
        raise ProgramError(
            f"Table {options.table}: set one of 'versionAsOf', 'timestampAsOf' and 'startingVersion'."
        )
    if start is not None and not streaming:
        raise ProgramError(f"Table {options.table}: 'startingVersion' is for the mode 'streaming'.")
    if start is not None and start != "latest" and not start.isdigit():
        raise ProgramError(f"Table {options.table}: 'startingVersion' is a number or latest, found {start!r}.")
    feed = options.get(_FEED)
    source = DeltaSource(
        absolute_path(options.required(_PATH)),
        options.get(_INTERVAL) if streaming else None,
        None,
        version if version is not None else timestamp,
        None if start is None else start if start == "latest" else int(start),
        None,
        options.get(_IGNORE_DELETES) or options.get(_IGNORE_CHANGES),
        options.get(_IGNORE_CHANGES),
        feed,
        _storage(table),
    )

    def make(chosen: TableSource) -> Source[Any]:
        # Rows without a column cannot be counted, so one is read.
        columns = chosen.names or table.names[:1]
        return RowsAsColumns(replace(source, columns=columns), chosen.names, chosen.types)

    changelog = ChangelogMode.ALL if feed else ChangelogMode.INSERT_ONLY
    return TableSource(table.names, table.types, make, changelog=changelog, bounded=not streaming)


def _storage(table: ConnectorTable) -> Properties:
    given = table.options.items()
    return Properties({name.removeprefix("storage."): text for name, text in given if name.startswith("storage.")})


def _sink(table: ConnectorTable) -> TableSink:
    from flott.table._types.arrow import arrow_schema

    options = TableOptions(str(table.identifier), table.options)
    primary_key = table.table.schema.primary_key
    properties = {name: text for name, text in table.options.items() if name.startswith("delta.")}
    sink = ColumnsAsRows(
        DeltaSink(
            absolute_path(options.required(_PATH)),
            arrow_schema(table.names, table.types),
            table.table.partitioned_by,
            primary_key,
            storage_options=_storage(table),
            table_properties=Properties(properties),
        ),
        table.names,
    )
    return TableSink(
        table.names,
        table.types,
        lambda: sink,
        accepts=ChangelogMode.UPSERT if primary_key else ChangelogMode.INSERT_ONLY,
        key=primary_key,
        parallelism=options.get(_PARALLELISM),
    )


CONNECTOR = TableConnector("delta", _source, _sink, options=described(OPTIONS), required=(_PATH.key,))
