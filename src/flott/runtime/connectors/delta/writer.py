"""Writes the data files of an epoch into a Delta table's folder. Task side.

No reader sees them before a commit refers to them:

    data/<writer>/<file>              rows to append, one file or more for each partition
    _flott_changes/<writer>/<file>    the last row of each key, for an upsert; the committer merges and removes it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flott.common._object_store_settings import is_object_location
from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.delta import DeltaSink
from flott.errors import TypeMismatchError
from flott.runtime.connectors.delta.stats import stats_json
from flott.runtime.connectors.delta.tables import facts_for
from flott.runtime.connectors.files.names import writer_token
from flott.runtime.connectors.tables.changes import LatestRows, changes_schema
from flott.runtime.connectors.tables.columns import kinds_of, rows_to_table
from flott.runtime.connectors.tables.names import DataFileName
from flott.runtime.connectors.tables.parts import PartFile
from flott.runtime.storage import open_storage
from flott.runtime.storage.locations import join

DATA = "data"
CHANGES = "_flott_changes"
_CHUNK_BYTES = 1 << 20

Partition = tuple[str | None, ...]


class _FilesOfAttempt:
    """Names and creates the files of one attempt."""

    def __init__(self, sink: DeltaSink, context: WriterContext, folder: str):
        self._sink = sink
        self._context = context
        self._folder = join(folder, writer_token(context.job_id, context.operator_id))
        self._count = 0

    def create(self, schema: Any) -> tuple[str, PartFile]:
        """Return a new file, and its path below the table."""
        name = DataFileName(self._context.epoch, self._context.subtask, self._context.attempt_id, self._count)
        self._count += 1
        path = join(self._folder, name.text)
        if not is_object_location(self._sink.table_path):
            return path, PartFile(join(self._sink.table_path, path), schema)
        return path, PartFile(None, schema, upload=lambda local: self._upload(local, path))

    def _upload(self, local: str, path: str) -> None:
        with open(local, "rb") as content, open_storage(self._sink.table_path).create(path) as target:
            while data := content.read(_CHUNK_BYTES):
                target.write(data)


def _committable(context: WriterContext, ident: str, **fields: Json) -> Json:
    return {
        "version": 1,
        "job": context.job_id,
        "operator": context.operator_id,
        "epoch": context.epoch,
        "subtask": context.subtask,
        "table": ident,
        **fields,
    }


class DeltaWriter(SinkWriter[Any]):
    """Writes the rows that one subtask appends in one epoch."""

    def __init__(self, sink: DeltaSink, context: WriterContext):
        self._sink = sink
        self._context = context
        self._facts = facts_for(sink, context.job_id, context.operator_id)
        self._file_schema = self._facts.file_schema
        self._files = _FilesOfAttempt(sink, context, DATA)
        self._open: dict[Partition, tuple[str, PartFile]] = {}
        self._done: list[Json] = []

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if not values:
            return
        if kinds_of(values) is not None:
            raise TypeMismatchError(
                "A sink that appends takes rows of kind INSERT, found updates or deletes. Use with_upsert_keys(...)."
            )
        table = rows_to_table(values, self._facts.schema)
        for partition, rows in self._parts(table):
            if partition not in self._open:
                self._open[partition] = self._files.create(self._file_schema)
            _, file = self._open[partition]
            file.write(rows)
            if file.size_bytes >= self._sink.target_file_bytes:
                self._finish(partition)

    def prepare_commit(self) -> list[Json]:
        for partition in list(self._open):
            self._finish(partition)
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        for _, file in self._open.values():
            file.abandon()
        self._open = {}

    def _finish(self, partition: Partition) -> None:
        path, file = self._open.pop(partition)
        size_bytes, metadata = file.finish()
        self._done.append(
            _committable(
                self._context, self._facts.ident,
                path=path, size=size_bytes, rows=file.rows, stats=stats_json(metadata), time_ms=self._context.now_ms,
                partition=dict(zip(self._facts.partition_columns, partition, strict=True)),
            )
        )  # fmt: skip

    def _parts(self, table: Any) -> Iterator[tuple[Partition, Any]]:
        columns = list(self._facts.partition_columns)
        if not columns:
            yield (), table
            return
        for value in table.select(columns).group_by(columns, use_threads=False).aggregate([]).to_pylist():
            mask = None
            for column in columns:
                found = table[column]
                same = (
                    pc.is_null(found)
                    if value[column] is None
                    else pc.equal(found, pa.scalar(value[column], found.type))
                )
                mask = same if mask is None else pc.and_(mask, same)
            yield tuple(_partition_text(value[column]) for column in columns), table.filter(mask).drop_columns(columns)


class DeltaChangeWriter(SinkWriter[Any]):
    """Keeps the last row of each key that one subtask sees in one epoch, and writes them as one file."""

    def __init__(self, sink: DeltaSink, context: WriterContext):
        self._context = context
        self._facts = facts_for(sink, context.job_id, context.operator_id)
        self._files = _FilesOfAttempt(sink, context, CHANGES)
        self._rows = LatestRows(self._facts.schema, sink.upsert_keys)

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        self._rows.add(values)

    def prepare_commit(self) -> list[Json]:
        if not len(self._rows):
            return []
        table = self._rows.to_table()
        path, file = self._files.create(changes_schema(self._facts.schema))
        file.write(table)
        size_bytes, _ = file.finish()
        fields = {"changes": path, "size": size_bytes, "rows": table.num_rows, "time_ms": self._context.now_ms}
        return [_committable(self._context, self._facts.ident, **fields)]


def _partition_text(value: Any) -> str | None:
    """Return the value of a partition as the log spells it.

    >>> _partition_text(True), _partition_text(date(2026, 11, 18)), _partition_text(None)
    ('true', '2026-11-18', None)
    """
    if value is None or value == "":  # the log does not tell an empty text from null
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        return text if value.tzinfo is None else text.replace(" ", "T") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (str, int, float, Decimal)):
        return str(value)
    raise TypeMismatchError(f"A value of type {type(value).__name__} cannot name a partition, found {value!r}.")
