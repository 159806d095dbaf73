"""Stages an epoch's output in hidden files, one for each bucket. Task side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from flott.common.serialization import Encoder, SimpleStringEncoder
from flott.common.typeinfo import TypeInformation
from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.file_system._bulk_writers import (
    AvroWriterFactory,
    BulkWriterFactory,
    ParquetWriterFactory,
)
from flott.datastream.connectors.file_system._sink import FileSink
from flott.errors import ProgramError, StorageError
from flott.runtime.connectors.files.durable import make_folder, remove, sync_file
from flott.runtime.connectors.files.names import FileNames, StagedName, writer_token
from flott.runtime.storage import sync_folder

#: So much of a bucket is kept before it is written: no file stays open, so there may be any number of buckets.
BUFFER_BYTES = 1024 * 1024


class StagedFile(Protocol):
    """A file being written."""

    def add(self, values: list[Any]) -> None:
        """Take some records."""

    def finish(self) -> None:
        """Write everything that was taken."""

    def close(self) -> None:
        """Let go of the file, complete or not."""


class FileWriter(SinkWriter[Any]):
    """Writes the records of one subtask in one epoch."""

    def __init__(self, sink: FileSink, context: WriterContext):
        self._sink = sink
        self._context = context
        self._writer = writer_token(context.job_id, context.operator_id)
        staged = StagedName(self._writer, context.subtask, context.epoch, context.attempt_id)
        self._name = FileNames(sink.output_file_config).staged(staged)
        self._files: dict[str, StagedFile] = {}
        self._counts: dict[str, int] = {}
        self._prepared = False

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        records = values if isinstance(values, list) else list(values)
        if not records:
            return
        buckets = self._sink.bucket_assigner.buckets(records, self._context.now_ms)
        if isinstance(buckets, str):
            self._add(checked_bucket(buckets), records)
            return
        by_bucket: dict[str, list[Any]] = {}
        for bucket, record in zip(buckets, records, strict=True):
            by_bucket.setdefault(bucket, []).append(record)
        for bucket, members in by_bucket.items():
            self._add(checked_bucket(bucket), members)

    def prepare_commit(self) -> list[Json]:
        try:
            committables = [self._finish(bucket, file) for bucket, file in self._files.items()]
        except OSError as error:
            raise self._failure(error) from error
        self._prepared = True
        return committables

    def close(self) -> None:
        for bucket, file in self._files.items():
            file.close()
            if not self._prepared:
                remove(self._path(bucket))

    def write_columns(self, columns: Any, kinds: Any) -> None:
        """Stage rows in columns, if the sink's encoder takes them."""
        for bucket, rows, changes in self._sink.encoder.by_bucket(columns, kinds):  # type: ignore[union-attr]
            self._add(checked_bucket(bucket), [(rows, changes)], rows.num_rows)

    def _add(self, bucket: str, records: list[Any], count: int | None = None) -> None:
        try:
            if bucket not in self._files:
                self._make_folder(bucket)
                self._files[bucket] = staged_file(self._sink, self._path(bucket), self._context.record_type)
            self._files[bucket].add(records)
        except OSError as error:
            raise self._failure(error) from error
        self._counts[bucket] = self._counts.get(bucket, 0) + (len(records) if count is None else count)

    def _make_folder(self, bucket: str) -> None:
        make_folder(os.path.dirname(self._path(bucket)), self._sink.base_path)

    def _finish(self, bucket: str, file: StagedFile) -> Json:
        file.finish()
        size_bytes = sync_file(self._path(bucket))
        sync_folder(os.path.dirname(self._path(bucket)))
        return self._committable(bucket, size_bytes)

    def _committable(self, bucket: str, size_bytes: int) -> Json:
        return {
            "version": 1,
            "bucket": bucket,
            "staged": self._name,
            "writer": self._writer,
            "subtask": self._context.subtask,
            "epoch": self._context.epoch,
            "time_ms": self._context.now_ms,
            "records": self._counts[bucket],
            "bytes": size_bytes,
        }

    def _path(self, bucket: str) -> str:
        return os.path.join(self._sink.base_path, bucket, self._name)

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(
            f"Cannot write below {self._sink.base_path}: {error}. Check that it has room and is writable on every"
            " executor."
        )


def checked_bucket(bucket: object) -> str:
    """Return the bucket in its one spelling; refuses one that would lie outside the base path.

    >>> checked_bucket("a//b/"), checked_bucket("")
    ('a/b', '')
    """
    if not isinstance(bucket, str) or os.path.isabs(bucket) or ".." in bucket.split("/") or "\0" in bucket:
        raise ProgramError(
            f"A bucket is a path below the sink's base path, such as 'country=de/day=1', found {bucket!r}."
        )
    return os.path.normpath(bucket) if bucket.strip("./") else ""


def staged_file(sink: FileSink, path: str, record_type: TypeInformation | None = None) -> StagedFile:
    """Return the writer of the sink's format."""
    if isinstance(sink.encoder, SimpleStringEncoder):
        return EncodedFile(path, sink.encoder.for_records_of(record_type), b"")
    if isinstance(sink.encoder, Encoder):
        return EncodedFile(path, sink.encoder, encoder_header(sink.encoder) if sink.bulk else b"")
    if isinstance(sink.encoder, ParquetWriterFactory):
        from flott.runtime.connectors.files.parquet import ParquetFileWriter  # only such a program needs pyarrow

        return ParquetFileWriter(path, sink.encoder)
    if isinstance(sink.encoder, AvroWriterFactory):
        from flott.runtime.connectors.files.avro import AvroFileWriter  # only such a program needs fastavro

        return AvroFileWriter(path, sink.encoder)
    if hasattr(sink.encoder, "staged_file"):
        return sink.encoder.staged_file(path)  # type: ignore[no-any-return]
    raise ProgramError(f"A file sink writes with an Encoder or a BulkWriterFactory, found {sink.encoder!r}.")


def encoder_header(encoder: Encoder | BulkWriterFactory) -> bytes:
    """Return what stands at the beginning of every part: the encoder's attribute ``header``, if it has one."""
    header = getattr(encoder, "header", b"")
    return header if isinstance(header, bytes) else b""


class EncodedFile:
    """Records as the encoder spells them, one after the other."""

    def __init__(self, path: str, encoder: Encoder, header: bytes):
        self._path = path
        self._encode = encoder.encode
        self._buffer = [header]
        self._buffered_bytes = 0

    def add(self, values: list[Any]) -> None:
        data = b"".join(map(self._encode, values))
        self._buffer.append(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes >= BUFFER_BYTES:
            self.finish()

    def finish(self) -> None:
        with open(self._path, "ab") as file:  # the name is this attempt's own, so no other process appends
            file.writelines(self._buffer)
        self._buffer.clear()
        self._buffered_bytes = 0

    def close(self) -> None:
        self._buffer.clear()
