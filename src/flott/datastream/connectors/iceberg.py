"""Iceberg tables: append and upsert, each record exactly once; read a snapshot, or snapshots as they appear.

Specifications; what reads and writes is in ``flott.runtime.connectors.iceberg``. The runtime calls ``validate`` and the
``create_...`` methods; their imports stand inside, so that the API does not load the runtime. Needs ``flott[iceberg]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flott.common._secrets import Properties
from flott.common.time import Duration
from flott.datastream.connectors._checked_columns import checked_columns
from flott.datastream.connectors.base import (
    Boundedness,
    Committer,
    Guarantee,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.errors import ProgramError

__all__ = ["IcebergCatalog", "IcebergSink", "IcebergSinkBuilder", "IcebergSource", "IcebergSourceBuilder"]

#: A data file is closed, and another begun, when its rows have so many bytes in memory.
TARGET_FILE_BYTES = 128 << 20


@dataclass(frozen=True)
class IcebergCatalog:
    """Where tables are found: a name and the properties that pyiceberg opens the catalog with."""

    name: str = "default"
    properties: Properties = field(default_factory=Properties)


@dataclass(frozen=True)
class IcebergSink(Sink[Any]):
    """Writes rows into an Iceberg table: one commit for each checkpoint.

    >>> catalog = {"type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "file:///data/warehouse"}
    >>> sink = IcebergSink.for_row_data("shop.orders", {"id": "int64"}).with_catalog(catalog).build()
    >>> sink.table
    'shop.orders'
    """

    table: str
    schema: Any = None  #: of a table that is not there yet: pyarrow.Schema, mapping, or Types.ROW_NAMED(...)
    catalog: IcebergCatalog = field(default_factory=IcebergCatalog)
    partition_by: tuple[str, ...] = ()  #: of a table that is not there yet
    upsert_keys: tuple[str, ...] = ()  #: a row replaces the one with the same values in these columns
    target_file_bytes: int = TARGET_FILE_BYTES
    table_properties: Properties = field(default_factory=Properties)  #: of a table that is not there yet

    @staticmethod
    def for_row_data(table: str, schema: Any = None) -> IcebergSinkBuilder:
        """Start building a sink. With a schema the table is created if it is not there."""
        return IcebergSinkBuilder(IcebergSink(_table_name(table), schema))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.iceberg.tables import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.iceberg.writer import IcebergChangeWriter, IcebergWriter

        return IcebergChangeWriter(self, context) if self.upsert_keys else IcebergWriter(self, context)

    def create_committer(self) -> Committer:
        from flott.runtime.connectors.iceberg.committer import IcebergCommitter

        return IcebergCommitter(self)


class IcebergSinkBuilder:
    """Collects the settings of an :class:`IcebergSink`."""

    def __init__(self, sink: IcebergSink):
        self._sink = sink

    def with_catalog(self, properties: Mapping[str, str], name: str = "default") -> IcebergSinkBuilder:
        """Set the catalog by pyiceberg's properties, such as ``{"type": "rest", "uri": "http://catalog:19120"}``."""
        return self._with(catalog=IcebergCatalog(name, Properties(properties)))

    def with_partition_columns(self, *columns: str) -> IcebergSinkBuilder:
        """Set what a new table is partitioned by: columns, or ``day(at)``, ``bucket(16, id)`` and the like."""
        return self._with(partition_by=checked_columns(columns, "with_partition_columns"))

    def with_upsert_keys(self, *columns: str) -> IcebergSinkBuilder:
        """Replace rows by key instead of appending; a row of kind DELETE removes the row with its key.

        Key the stream by the same columns, so that the rows of one key keep their order.
        """
        return self._with(upsert_keys=checked_columns(columns, "with_upsert_keys"))

    def with_target_file_size(self, size_bytes: int) -> IcebergSinkBuilder:
        """Set how many bytes of rows, as they are in memory, become one file; compressed it is smaller."""
        if size_bytes < 1:
            raise ProgramError(f"The target size of a file is positive, found {size_bytes}.")
        return self._with(target_file_bytes=size_bytes)

    def with_table_properties(self, properties: Mapping[str, str]) -> IcebergSinkBuilder:
        """Set properties of a new table."""
        return self._with(table_properties=Properties(properties))

    def build(self) -> IcebergSink:
        """Return the sink."""
        return self._sink

    def _with(self, **changes: Any) -> IcebergSinkBuilder:
        self._sink = replace(self._sink, **changes)
        return self


@dataclass(frozen=True)
class IcebergSource(Source[Any]):
    """Reads an Iceberg table as rows: one snapshot of it, or that and then what later snapshots append.

    >>> IcebergSource.for_row_data("shop.orders").build().table
    'shop.orders'
    """

    table: str
    catalog: IcebergCatalog = field(default_factory=IcebergCatalog)
    interval_ms: int | None = None  #: look for new snapshots so often; None: bounded
    columns: tuple[str, ...] | None = None
    snapshot_id: int | None = None  #: the snapshot to begin with; None: the current one
    start_after: int | str | None = None  #: read what is appended after this snapshot, without its content
    end_at: int | None = None  #: the last snapshot to read
    ignore_changes: bool = False  #: snapshots that remove or replace rows: only their added files are read

    @staticmethod
    def for_row_data(table: str) -> IcebergSourceBuilder:
        """Start building a source. It is bounded unless it monitors the table."""
        return IcebergSourceBuilder(IcebergSource(_table_name(table)))

    @property
    def boundedness(self) -> Boundedness:
        bounded = self.interval_ms is None or self.end_at is not None
        return Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.iceberg.log import IcebergLog
        from flott.runtime.connectors.tables.enumerator import TableEnumerator

        return TableEnumerator(IcebergLog(self), self.interval_ms)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.iceberg.reader import IcebergReader

        return IcebergReader(self)


class IcebergSourceBuilder:
    """Collects the settings of an :class:`IcebergSource`."""

    def __init__(self, source: IcebergSource):
        self._source = source

    def with_catalog(self, properties: Mapping[str, str], name: str = "default") -> IcebergSourceBuilder:
        """Set the catalog by pyiceberg's properties."""
        return self._with(catalog=IcebergCatalog(name, Properties(properties)))

    def streaming(self, enabled: bool = True) -> IcebergSourceBuilder:
        """Read the table and then, without an end, what later snapshots append."""
        return self._with(interval_ms=(self._source.interval_ms or 1000) if enabled else None)

    def monitor_interval(self, interval: Duration) -> IcebergSourceBuilder:
        """Look for new snapshots so often; the default is a second."""
        if interval.to_millis() < 1:
            raise ProgramError(f"New snapshots are looked for every millisecond at most, found {interval}.")
        return self._with(interval_ms=interval.to_millis())

    def project(self, *columns: str) -> IcebergSourceBuilder:
        """Read only these columns, in this order."""
        return self._with(columns=checked_columns(columns, "project"))

    def use_snapshot_id(self, snapshot_id: int) -> IcebergSourceBuilder:
        """Begin with the content of this snapshot."""
        return self._with(snapshot_id=snapshot_id)

    def start_snapshot_id(self, snapshot_id: int | str) -> IcebergSourceBuilder:
        """Read what is appended after this snapshot, not its content. ``"latest"``: what comes from now on."""
        if snapshot_id != "latest" and not isinstance(snapshot_id, int):
            raise ProgramError(f"start_snapshot_id() takes the id of a snapshot or 'latest', found {snapshot_id!r}.")
        return self._with(start_after=snapshot_id)

    def end_snapshot_id(self, snapshot_id: int) -> IcebergSourceBuilder:
        """End after this snapshot."""
        return self._with(end_at=snapshot_id)

    def ignore_changes(self) -> IcebergSourceBuilder:
        """Read the files that a delete or overwrite adds, instead of failing: unchanged rows come again."""
        return self._with(ignore_changes=True)

    def build(self) -> IcebergSource:
        """Return the source."""
        source = self._source
        if source.snapshot_id is not None and source.start_after is not None:
            raise ProgramError("A source begins with a snapshot's content or after it: set one of the two.")
        if source.interval_ms is None and source.start_after is not None and source.end_at is None:
            raise ProgramError("A bounded source of changes needs end_snapshot_id(...), or use streaming().")
        return source

    def _with(self, **changes: Any) -> IcebergSourceBuilder:
        self._source = replace(self._source, **changes)
        return self


def _table_name(table: str) -> str:
    if "." not in table.strip("."):
        raise ProgramError(f"The name of a table has a namespace, such as 'shop.orders', found {table!r}.")
    return table
