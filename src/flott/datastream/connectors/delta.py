"""Delta tables: append and upsert, each record exactly once; read a version, or versions as they appear.

Specifications; what reads and writes is in ``flott.runtime.connectors.delta``. The runtime calls ``validate`` and the
``create_...`` methods; their imports stand inside, so that the API does not load the runtime. Needs ``flott[delta]``.
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
from flott.datastream.connectors.file_system._paths import absolute_path
from flott.errors import ProgramError

__all__ = ["DeltaSink", "DeltaSinkBuilder", "DeltaSource", "DeltaSourceBuilder"]

#: A data file is closed, and another begun, when it has so many bytes.
TARGET_FILE_BYTES = 128 << 20


@dataclass(frozen=True)
class DeltaSink(Sink[Any]):
    """Writes rows into a Delta table: one transaction for each checkpoint.

    >>> sink = DeltaSink.for_row_data("/data/orders", {"id": "int64", "price": "double"}).build()
    >>> sink.table_path
    '/data/orders'
    """

    table_path: str
    schema: Any = None  #: of a table that is not there yet: pyarrow.Schema, mapping, or Types.ROW_NAMED(...)
    partition_columns: tuple[str, ...] = ()  #: of a table that is not there yet
    upsert_keys: tuple[str, ...] = ()  #: a row replaces the one with the same values in these columns
    target_file_bytes: int = TARGET_FILE_BYTES
    compact_every: int | None = None  #: commits after which small files are put together
    storage_options: Properties = field(default_factory=Properties)
    table_properties: Properties = field(default_factory=Properties)  #: of a table that is not there yet

    @staticmethod
    def for_row_data(table_path: str, schema: Any = None) -> DeltaSinkBuilder:
        """Start building a sink. With a schema the table is created if it is not there."""
        return DeltaSinkBuilder(DeltaSink(absolute_path(table_path), schema))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.delta.tables import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.delta.writer import DeltaChangeWriter, DeltaWriter

        return DeltaChangeWriter(self, context) if self.upsert_keys else DeltaWriter(self, context)

    def create_committer(self) -> Committer:
        from flott.runtime.connectors.delta.committer import DeltaCommitter

        return DeltaCommitter(self)


class DeltaSinkBuilder:
    """Collects the settings of a :class:`DeltaSink`."""

    def __init__(self, sink: DeltaSink):
        self._sink = sink

    def with_partition_columns(self, *columns: str) -> DeltaSinkBuilder:
        """Set the columns that a new table is partitioned by."""
        return self._with(partition_columns=checked_columns(columns, "with_partition_columns"))

    def with_upsert_keys(self, *columns: str) -> DeltaSinkBuilder:
        """Replace rows by key instead of appending; a row of kind DELETE removes the row with its key.

        Key the stream by the same columns, so that the rows of one key keep their order.
        """
        return self._with(upsert_keys=checked_columns(columns, "with_upsert_keys"))

    def with_target_file_size(self, size_bytes: int) -> DeltaSinkBuilder:
        """Set how large a data file becomes before another one is begun; compaction makes files of this size."""
        if size_bytes < 1:
            raise ProgramError(f"The target size of a file is positive, found {size_bytes}.")
        return self._with(target_file_bytes=size_bytes)

    def with_compaction(self, every_commits: int) -> DeltaSinkBuilder:
        """Put small files together after so many commits, on the driver, beside the job."""
        if every_commits < 1:
            raise ProgramError(f"Compaction follows at least one commit, found {every_commits}.")
        return self._with(compact_every=every_commits)

    def with_storage_options(self, options: Mapping[str, str]) -> DeltaSinkBuilder:
        """Set options of the Delta library's object store client; those of ``s3.*`` are set without it."""
        return self._with(storage_options=Properties(options))

    def with_table_properties(self, properties: Mapping[str, str]) -> DeltaSinkBuilder:
        """Set properties of a new table, such as ``{"delta.enableChangeDataFeed": "true"}``."""
        return self._with(table_properties=Properties(properties))

    def build(self) -> DeltaSink:
        """Return the sink."""
        return self._sink

    def _with(self, **changes: Any) -> DeltaSinkBuilder:
        self._sink = replace(self._sink, **changes)
        return self


@dataclass(frozen=True)
class DeltaSource(Source[Any]):
    """Reads a Delta table as rows: one version of it, or that and then what later versions add.

    >>> DeltaSource.for_bounded_row_data("/data/orders").version_as_of(3).build().version
    3
    """

    table_path: str
    interval_ms: int | None = None  #: look for new versions so often; None: bounded
    columns: tuple[str, ...] | None = None
    version: int | str | None = None  #: the version to begin with, or the time of one (ISO 8601); None: the latest
    starting_version: int | str | None = None  #: read changes from this version on, without the content before it
    ending_version: int | None = None  #: the last version to read
    ignore_deletes: bool = False  #: versions that only remove rows are passed over
    ignore_changes: bool = False  #: of versions that rewrite files, all rows of the new files are read
    change_feed: bool = False  #: read what was inserted, updated and deleted, with row kinds
    storage_options: Properties = field(default_factory=Properties)

    @staticmethod
    def for_bounded_row_data(table_path: str) -> DeltaSourceBuilder:
        """Start building a source that reads the table as it is when the job starts, and ends."""
        return DeltaSourceBuilder(DeltaSource(absolute_path(table_path)))

    @staticmethod
    def for_continuous_row_data(table_path: str) -> DeltaSourceBuilder:
        """Start building a source that reads the table and then, without an end, what later versions add."""
        return DeltaSourceBuilder(DeltaSource(absolute_path(table_path), interval_ms=1000))

    @property
    def boundedness(self) -> Boundedness:
        bounded = self.interval_ms is None or self.ending_version is not None
        return Boundedness.BOUNDED if bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.delta.log import DeltaLog
        from flott.runtime.connectors.tables.enumerator import TableEnumerator

        return TableEnumerator(DeltaLog(self), self.interval_ms)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.delta.log import VACUUM_ADVICE
        from flott.runtime.connectors.files.compression import file_or_path
        from flott.runtime.connectors.tables.reader import TableReader

        return TableReader(file_or_path, VACUUM_ADVICE)


class DeltaSourceBuilder:
    """Collects the settings of a :class:`DeltaSource`."""

    def __init__(self, source: DeltaSource):
        self._source = source

    def column_names(self, *columns: str) -> DeltaSourceBuilder:
        """Read only these columns, in this order."""
        return self._with(columns=checked_columns(columns, "column_names"))

    def version_as_of(self, version: int) -> DeltaSourceBuilder:
        """Begin with the table as it was at a version."""
        return self._with(version=_version(version, "version_as_of"))

    def timestamp_as_of(self, timestamp: str) -> DeltaSourceBuilder:
        """Begin with the table as it was at a time, such as ``2026-11-18T03:00:00Z``."""
        return self._with(version=timestamp)

    def starting_version(self, version: int | str) -> DeltaSourceBuilder:
        """Read what this and later versions add, not what was there before. ``"latest"``: what comes from now on."""
        if version != "latest":
            version = _version(version, "starting_version")
        return self._with(starting_version=version)

    def ending_version(self, version: int) -> DeltaSourceBuilder:
        """End after this version."""
        return self._with(ending_version=_version(version, "ending_version"))

    def update_check_interval_millis(self, interval: int) -> DeltaSourceBuilder:
        """Look for new versions so often; the default is a second."""
        if interval < 1:
            raise ProgramError(f"New versions are looked for every millisecond at most, found {interval}.")
        if self._source.interval_ms is None:
            raise ProgramError("A bounded source does not look for new versions: use for_continuous_row_data().")
        return self._with(interval_ms=interval)

    def monitor_continuously(self, discovery_interval: Duration) -> DeltaSourceBuilder:
        """Look for new versions so often, as a file source does for files."""
        return self._with(interval_ms=max(1, discovery_interval.to_millis()))

    def ignore_deletes(self) -> DeltaSourceBuilder:
        """Pass over versions that only remove rows, instead of failing."""
        return self._with(ignore_deletes=True)

    def ignore_changes(self) -> DeltaSourceBuilder:
        """Read all rows of files that an update or a merge wrote, instead of failing: unchanged ones come again."""
        return self._with(ignore_deletes=True, ignore_changes=True)

    def read_change_feed(self) -> DeltaSourceBuilder:
        """Read changes with their row kinds. Updates need a table with ``delta.enableChangeDataFeed``."""
        return self._with(change_feed=True)

    def with_storage_options(self, options: Mapping[str, str]) -> DeltaSourceBuilder:
        """Set options of the Delta library's object store client; those of ``s3.*`` are set without it."""
        return self._with(storage_options=Properties(options))

    def build(self) -> DeltaSource:
        """Return the source."""
        source = self._source
        if source.version is not None and source.starting_version is not None:
            raise ProgramError("A source begins with a version's content or with its changes: set one of the two.")
        if source.interval_ms is None and source.starting_version is not None and source.ending_version is None:
            raise ProgramError(
                "A bounded source of changes needs ending_version(...), or use for_continuous_row_data()."
            )
        return source

    def _with(self, **changes: Any) -> DeltaSourceBuilder:
        self._source = replace(self._source, **changes)
        return self


def _version(version: Any, method: str) -> int:
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise ProgramError(f"{method}() takes the number of a version, found {version!r}.")
    return version
