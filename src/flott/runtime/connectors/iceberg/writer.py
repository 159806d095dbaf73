"""Writes the data files of an epoch where the table keeps them; no reader sees them before the commit. Task side."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.iceberg import IcebergSink
from flott.errors import TypeMismatchError
from flott.runtime.connectors.files.durable import sync_file
from flott.runtime.connectors.files.names import writer_token
from flott.runtime.connectors.iceberg.data_file import to_json
from flott.runtime.connectors.iceberg.tables import TABLES, failure, open_table, table_key
from flott.runtime.connectors.tables.changes import LatestRows
from flott.runtime.connectors.tables.columns import kinds_of, rows_to_table
from flott.runtime.connectors.tables.names import DataFileName
from flott.runtime.storage import sync_folder

#: The folder, below the table's, of changes that are to be merged.
CHANGES = "_flott_changes"

_NO_UUID = UUID(int=0)


@dataclass
class _Waiting:
    """Rows of one partition that are not in a file yet."""

    key: Any  #: pyiceberg's PartitionKey; None: the table has no partitions
    tables: list[Any] = field(default_factory=list)
    size_bytes: int = 0


class _TableWriter(SinkWriter[Any]):
    """What both kinds of writers have: a table of the process's own, and names for files."""

    def __init__(self, sink: IcebergSink, context: WriterContext):
        self._sink = sink
        self._context = context
        self._writer = writer_token(context.job_id, context.operator_id)
        self._key = table_key(sink.catalog, sink.table, context.job_id)
        self._table = TABLES.take(self._key, lambda: open_table(sink))
        self._schema = self._table.schema().as_arrow()
        self._count = 0
        self._failed = False

    def _name(self) -> str:
        context = self._context
        name = DataFileName(context.epoch, context.subtask, context.attempt_id, self._count)
        self._count += 1
        return f"{self._writer}-{name.text}"

    def _committable(self, **fields: Json) -> Json:
        return {
            "version": 1,
            "job": self._context.job_id,
            "operator": self._context.operator_id,
            "epoch": self._context.epoch,
            "subtask": self._context.subtask,
            "table": str(self._table.metadata.table_uuid),
            **fields,
        }

    def _sync(self, location: str) -> None:
        if (path := local_path(location)) is not None:
            sync_file(path)
            sync_folder(os.path.dirname(path))

    def close(self) -> None:
        if not self._failed:
            TABLES.give_back(self._key, self._table, lambda table: None)
            self._failed = True


class IcebergWriter(_TableWriter):
    """Writes the rows that one subtask appends in one epoch."""

    def __init__(self, sink: IcebergSink, context: WriterContext):
        super().__init__(sink, context)
        self._waiting: dict[tuple[Any, ...], _Waiting] = {}
        self._done: list[Json] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if not values:
            return
        if kinds_of(values) is not None:
            raise TypeMismatchError(
                "A sink that appends takes rows of kind INSERT, found updates or deletes. Use with_upsert_keys(...)."
            )
        for partition, key, rows in self._parts(rows_to_table(values, self._schema)):
            waiting = self._waiting.setdefault(partition, _Waiting(key))
            waiting.tables.append(rows)
            waiting.size_bytes += rows.nbytes
            if waiting.size_bytes >= self._sink.target_file_bytes:
                self._finish(partition)

    def prepare_commit(self) -> list[Json]:
        for partition in list(self._waiting):
            self._finish(partition)
        done, self._done = self._done, []
        return done

    def _finish(self, partition: tuple[Any, ...]) -> None:
        from pyiceberg.io.pyarrow import write_file
        from pyiceberg.table import WriteTask

        waiting, name = self._waiting.pop(partition), self._name()

        class NamedTask(WriteTask):  # type: ignore[misc, unused-ignore]
            """Gives the file the name of its attempt."""

            def generate_data_file_filename(self, extension: str) -> str:
                return name

        batches = pa.concat_tables(waiting.tables).combine_chunks().to_batches()
        task = NamedTask(_NO_UUID, 0, self._table.metadata.schema(), batches, partition_key=waiting.key)
        try:
            (file,) = write_file(self._table.io, self._table.metadata, iter([task]))
            self._sync(file.file_path)
        except Exception as error:
            self._failed = True
            raise failure(self._sink.catalog, "write a data file of", self._sink.table, error) from error
        self._done.append(self._committable(file=to_json(file, self._table.spec().spec_id)))

    def _parts(self, table: Any) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
        """Yield the rows of each partition, with its values and its key."""
        from pyiceberg.partitioning import PartitionFieldValue, PartitionKey

        spec, schema = self._table.spec(), self._table.schema()
        if spec.is_unpartitioned():
            yield (), None, table
            return
        names = [f"__partition_{field.field_id}" for field in spec.fields]
        for name, partition in zip(names, spec.fields, strict=True):
            source = schema.find_field(partition.source_id)
            values = transformed(partition.transform, source.field_type, table[source.name].combine_chunks())
            table = table.append_column(name, values)
        for value in table.select(names).group_by(names, use_threads=False).aggregate([]).to_pylist():
            mask = None
            for name in names:
                column, wanted = table[name], pa.scalar(value[name], table[name].type)
                same = pc.is_null(column) if value[name] is None else pc.equal(column, wanted)
                mask = same if mask is None else pc.and_(mask, same)
            pairs = zip(spec.fields, names, strict=True)
            key = PartitionKey([PartitionFieldValue(field, value[name]) for field, name in pairs], spec, schema)
            yield tuple(value.values()), key, table.filter(mask).drop_columns(names)


class IcebergChangeWriter(_TableWriter):
    """Keeps the last row of each key that one subtask sees in one epoch, and writes them as one file."""

    def __init__(self, sink: IcebergSink, context: WriterContext):
        super().__init__(sink, context)
        self._rows = LatestRows(self._schema, sink.upsert_keys)

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._rows.add(values)

    def prepare_commit(self) -> list[Json]:
        if not len(self._rows):
            return []
        table = self._rows.to_table()
        location = f"{self._table.location().rstrip('/')}/{CHANGES}/{self._name()}"
        try:
            if (path := local_path(location)) is not None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            with self._table.io.new_output(location).create() as stream:
                pq.write_table(table, stream)
            self._sync(location)
        except Exception as error:
            self._failed = True
            raise failure(self._sink.catalog, "write changes of", self._sink.table, error) from error
        return [self._committable(changes=location, rows=table.num_rows)]


def transformed(transform: Any, field_type: Any, column: Any) -> Any:
    """Return the values of a partition for the values of a column."""
    from pyiceberg.exceptions import NotInstalledError

    try:
        return transform.pyarrow_transform(field_type)(column)
    except NotInstalledError:  # it would use an optional package for speed
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
        function = transform.transform(field_type)
        return pa.array([None if value is None else function(value) for value in column.to_pylist()])


def local_path(location: str) -> str | None:
    """Return the path of a location of the local file system; None: it is elsewhere.

    >>> local_path("file:///data/a"), local_path("/data/a"), local_path("s3://bucket/a")
    ('/data/a', '/data/a', None)
    """
    if location.startswith("file://"):
        return location.removeprefix("file://")
    return location if "://" not in location else None
