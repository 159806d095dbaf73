"""iceberg: Iceberg tables of a catalog: read at a snapshot or as snapshots appear, appended to or changed by key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flott.common._secrets import Properties
from flott.datastream.connectors.base import Source
from flott.datastream.connectors.iceberg import IcebergCatalog, IcebergSink, IcebergSource
from flott.errors import ProgramError
from flott.table._connectors.options import TableOptions, described, key
from flott.table._connectors.row_tables import ColumnsAsRows, RowsAsColumns
from flott.table._connectors.table_source import ChangelogMode, ConnectorTable, TableConnector, TableSink, TableSource

_CATALOG = key("catalog-name").string_type().default_value("default").with_description("The name of the catalog.")
_TYPE = (
    key("catalog-type").string_type().no_default_value()
    .with_description("The kind of catalog, as pyiceberg calls it: rest, sql, hive, glue, …")
)  # fmt: skip
_URI = key("uri").string_type().no_default_value().with_description("The address of the catalog.")
_WAREHOUSE = key("warehouse").string_type().no_default_value().with_description("Where tables are stored.")
_DATABASE = (
    key("catalog-database").string_type().no_default_value()
    .with_description("The namespace of the table; the table's database if not set.")
)  # fmt: skip
_TABLE = (
    key("catalog-table").string_type().no_default_value()
    .with_description("The name of the table in the catalog; the table's own if not set.")
)  # fmt: skip
_PROPERTY = (
    key("catalog.*").string_type().no_default_value().with_description("A further property of the catalog.")
)  # fmt: skip
_STREAMING = (
    key("streaming").boolean_type().default_value(False)
    .with_description("Whether to read what later snapshots append, without an end.")
)  # fmt: skip
_INTERVAL = (
    key("monitor-interval").duration_type().default_value(60_000).at_least(1)
    .with_description("How often new snapshots are looked for.")
)  # fmt: skip
_SNAPSHOT = key("snapshot-id").long_type().no_default_value().with_description("The snapshot to read.")
_START = (
    key("start-snapshot-id").long_type().no_default_value()
    .with_description("Read what is appended after this snapshot.")
)  # fmt: skip
_PARALLELISM = (
    key("sink.parallelism").int_type().no_default_value().at_least(1).with_description("How many subtasks write.")
)  # fmt: skip
_UPSERT = (
    key("write.upsert.enabled").boolean_type().default_value(True)
    .with_description("Whether rows replace those with their primary key, if the table declares one.")
)  # fmt: skip

OPTIONS = (
    _CATALOG, _TYPE, _URI, _WAREHOUSE, _DATABASE, _TABLE, _PROPERTY, _STREAMING, _INTERVAL, _SNAPSHOT, _START,
    _PARALLELISM, _UPSERT,
)  # fmt: skip


def _place(table: ConnectorTable, options: TableOptions) -> tuple[str, IcebergCatalog]:
    """Return the table's name in its catalog, and the catalog."""
    given = table.options.items()
    properties = {name.removeprefix("catalog."): text for name, text in given if name.startswith("catalog.")}
    for name, option in (("type", _TYPE), ("uri", _URI), ("warehouse", _WAREHOUSE)):
        value = options.get(option)
        if value is not None:
            properties[name] = value
    database = options.get(_DATABASE) or table.identifier.database
    name = options.get(_TABLE) or table.identifier.name
    return f"{database}.{name}", IcebergCatalog(options.get(_CATALOG), Properties(properties))


def _source(table: ConnectorTable) -> TableSource:
    options = TableOptions(str(table.identifier), table.options)
    name, catalog = _place(table, options)
    streaming = options.get(_STREAMING) and not table.batch
    snapshot, start = options.get(_SNAPSHOT), options.get(_START)
    if snapshot is not None and start is not None:
        raise ProgramError(f"Table {options.table}: set one of 'snapshot-id' and 'start-snapshot-id'.")
    if start is not None and not streaming:
        raise ProgramError(f"Table {options.table}: 'start-snapshot-id' needs 'streaming' = 'true'.")
    source = IcebergSource(
        name, catalog, options.get(_INTERVAL) if streaming else None, snapshot_id=snapshot, start_after=start
    )

    def make(chosen: TableSource) -> Source[Any]:
        columns = chosen.names or table.names[:1]
        return RowsAsColumns(replace(source, columns=columns), chosen.names, chosen.types)

    return TableSource(table.names, table.types, make, bounded=not streaming)


def _sink(table: ConnectorTable) -> TableSink:
    from flott.table._types.arrow import arrow_schema

    options = TableOptions(str(table.identifier), table.options)
    name, catalog = _place(table, options)
    primary_key = table.table.schema.primary_key if options.get(_UPSERT) else ()
    sink = ColumnsAsRows(
        IcebergSink(
            name,
            arrow_schema(table.names, table.types),
            catalog,
            partition_by=table.table.partitioned_by,
            upsert_keys=primary_key,
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


CONNECTOR = TableConnector("iceberg", _source, _sink, options=described(OPTIONS))
