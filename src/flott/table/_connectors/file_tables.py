"""Tables of files: the source and the sink that the connector 'filesystem' makes. Values that travel to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flott.datastream.connectors.base import (
    Boundedness,
    Committer,
    OnError,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.datastream.connectors.file_system._formats import (
    AvroFormat,
    BulkFormat,
    CsvFormat,
    JsonLinesFormat,
    ParquetFormat,
    StreamFormat,
)
from flott.datastream.connectors.file_system._sink import FileSink
from flott.datastream.connectors.file_system._source import BLOCK_BYTES, FileSource
from flott.table._expressions.expression import Expression
from flott.table._types.logical import LogicalType

#: How files are cut, by the layout of their format. Only positions matter here: columns are read by other means.
_LAYOUTS: dict[str, StreamFormat | BulkFormat] = {
    "lines": JsonLinesFormat(),
    "records": CsvFormat(header=False, record="tuple"),
    "blocks": AvroFormat(),
    "rows": ParquetFormat(),
}


@dataclass(frozen=True)
class TableFileSource(Source[Any]):
    """Reads files as columns."""

    path: str
    format: Any  #: a ``MessageFormat`` or ``ParquetFiles``: all the fields that files have
    names: tuple[str, ...]  #: the columns to read: fields of files, partition columns, metadata
    types: tuple[LogicalType, ...]
    partition_keys: tuple[str, ...] = ()
    partition_types: tuple[LogicalType, ...] = ()
    default_partition: str = "__DEFAULT_PARTITION__"
    partition_filters: tuple[Expression, ...] = ()  #: over the partition columns, in their order
    filters: tuple[tuple[str, str, Any], ...] = ()  #: column, operator, value: row groups without such rows are skipped
    metadata: tuple[tuple[str, str], ...] = ()  #: name and key of metadata columns
    pattern: str | None = None  #: a regular expression that the whole path matches
    monitor_interval_ms: int | None = None
    block_bytes: int | None = BLOCK_BYTES

    @property
    def on_error(self) -> OnError:  # type: ignore[override]
        """Return what becomes of records that cannot be decoded."""
        return OnError.skip() if self.format.skips_bad_messages else OnError.fail()

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.monitor_interval_ms is None else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def files(self) -> FileSource:
        """Return the source that says how the files are found and cut."""
        layout = _LAYOUTS[self.format.layout]
        return FileSource(layout, (self.path,), self.monitor_interval_ms, self.block_bytes)

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.columns.file_splits import TableFileEnumerator

        return TableFileEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.columns.file_reader import TableFileReader

        return TableFileReader(self)


@dataclass(frozen=True)
class TableFileSink(FileSink):
    """Writes columns into files, each row exactly once; partitions are folders such as ``day=2026-01-31``."""

    success_file: str | None = None  #: marks a partition that is complete; None: none is written
    commit_delay_ms: int = 0  #: how long after its first rows a partition counts as complete

    overwrites: bool = False  #: files that are there are replaced
    replaced_folder: str | None = None  #: all files below it; an empty text: the table. None: partitions that get rows

    takes_columns: ClassVar[bool] = True

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        writer = super().create_writer(context)
        if not self.overwrites:
            return writer
        from flott.runtime.connectors.columns.overwritten_files import OverwritingWriter

        return OverwritingWriter(self, writer, context)

    def create_committer(self) -> Committer:
        committer = super().create_committer()
        if self.overwrites:
            from flott.runtime.connectors.columns.overwritten_files import OverwritingCommitter

            committer = OverwritingCommitter(self, committer)
        if self.success_file is None:
            return committer
        from flott.runtime.connectors.columns.partition_commits import PartitionCommitter

        return PartitionCommitter(self, committer)


@dataclass(frozen=True)
class ColumnFiles:
    """How rows become files: the encoder of a :class:`TableFileSink`."""

    format: Any  #: a ``MessageFormat`` or ``ParquetFiles``, of all columns but those of the partition
    names: tuple[str, ...]  #: the columns of the rows, in their order
    partition_keys: tuple[str, ...] = ()
    default_partition: str = "__DEFAULT_PARTITION__"

    def by_bucket(self, columns: Any, kinds: Any) -> Any:
        """Return the rows of each partition: its folder, the columns that its files hold, and the row kinds."""
        from flott.runtime.connectors.columns.file_writer import rows_by_partition

        return rows_by_partition(self, columns, kinds)

    def folder(self, values: Mapping[str, Any]) -> str | None:
        """Return the folder that the rows with these values (arrays of one) are in; None if they are in several."""
        from flott.runtime.connectors.columns.file_writer import constant_folder

        return constant_folder(self, values)

    def staged_file(self, path: str) -> Any:
        """Return the writer of a file."""
        from flott.runtime.connectors.columns.file_writer import staged_columns

        return staged_columns(self, path)
