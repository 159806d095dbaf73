"""Stages rows for a table of Spark as Parquet files. Task side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flott.common._object_store_settings import is_object_location
from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.spark import SparkTableSink
from flott.errors import TypeMismatchError
from flott.runtime.connectors.files.names import writer_token
from flott.runtime.connectors.tables.columns import arrow_schema, kinds_of, rows_to_table
from flott.runtime.connectors.tables.names import DataFileName
from flott.runtime.connectors.tables.parts import PartFile
from flott.runtime.storage import open_storage
from flott.runtime.storage.locations import join

_CHUNK_BYTES = 1 << 20


class SparkTableWriter(SinkWriter[Any]):
    """Writes the rows of one subtask in one epoch."""

    def __init__(self, sink: SparkTableSink, context: WriterContext):
        self._context = context
        self._folder = join(sink.staging_folder, writer_token(context.job_id, context.operator_id))
        self._schema = arrow_schema(sink.schema)
        self._name = DataFileName(context.epoch, context.subtask, context.attempt_id, 0).text
        self._file: PartFile | None = None

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if not values:
            return
        if kinds_of(values) is not None:
            raise TypeMismatchError("A table of Spark takes rows of kind INSERT, found updates or deletes.")
        if self._file is None:
            remote = is_object_location(self._folder)
            path = None if remote else join(self._folder, self._name)
            self._file = PartFile(path, self._schema, upload=self._upload if remote else None)
        self._file.write(rows_to_table(values, self._schema))

    def _upload(self, local: str) -> None:
        with open(local, "rb") as content, open_storage(self._folder).create(self._name) as target:
            while data := content.read(_CHUNK_BYTES):
                target.write(data)

    def prepare_commit(self) -> list[Json]:
        if self._file is None:
            return []
        file, self._file = self._file, None
        file.finish()
        return [{"version": 1, "file": self._name, "rows": file.rows, "epoch": self._context.epoch}]

    def close(self) -> None:
        if self._file is not None:
            self._file.abandon()
