"""Writes columns into staged files: lines of text, or Parquet. Task side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flott.runtime.connectors.columns.partitions import partition_folder
from flott.runtime.connectors.files.writer import BUFFER_BYTES
from flott.table._connectors.file_tables import ColumnFiles
from flott.table._connectors.formats import ParquetFiles
from flott.table._types.arrow import arrow_schema

_ROW_GROUP_ROWS = 128 * 1024


def rows_by_partition(
    files: ColumnFiles, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None
) -> Iterator[tuple[str, pa.RecordBatch, np.ndarray[Any, Any] | None]]:
    """Yield the rows of each partition: its folder, the columns that its files hold, and the row kinds."""
    keys = files.partition_keys
    if not keys:
        yield "", columns, kinds
        return
    kept = [position for position, name in enumerate(files.names) if name not in keys]
    rest = columns.select(kept)
    texts = [_texts(columns.column(files.names.index(key))) for key in keys]
    codes = np.zeros(columns.num_rows, dtype=np.int64)
    for text in texts:
        encoded = text.dictionary_encode(null_encoding="encode")
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    _, firsts, groups = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups))
    start = 0
    for first, end in zip(firsts.tolist(), ends.tolist(), strict=True):
        folder = partition_folder(keys, [text[first].as_py() for text in texts], files.default_partition)
        some = order[start:end]
        yield folder, rest.take(pa.array(some)), None if kinds is None else kinds[some]
        start = end


def constant_folder(files: ColumnFiles, values: Mapping[str, pa.Array]) -> str | None:
    """Return the folder of the rows with constant partition columns; None if not all of these columns are constant."""
    keys = files.partition_keys
    if any(key not in values for key in keys):
        return None
    return partition_folder(keys, [_texts(values[key])[0].as_py() for key in keys], files.default_partition)


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        text = pc.replace_substring_regex(column.cast(pa.timestamp(column.type.unit)).cast(pa.string()), r"\.0+$", "")
        return text
    return column.cast(pa.string())


def staged_columns(files: ColumnFiles, path: str) -> Any:
    """Return the writer of a file."""
    if isinstance(files.format, ParquetFiles):
        return _ParquetColumns(path, files.format)
    if hasattr(files.format, "staged_file"):
        return files.format.staged_file(path)
    return _EncodedLines(path, files.format.encoder())


class _EncodedLines:
    """Rows as the lines of the format."""

    def __init__(self, path: str, encoder: Any):
        self._path = path
        self._encoder = encoder
        self._buffer: list[bytes] = []
        self._buffered_bytes = 0

    def add(self, values: list[Any]) -> None:
        for columns, kinds in values:
            data = self._encoder.lines(columns, kinds)
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


class _ParquetColumns:
    """Rows as a Parquet file."""

    def __init__(self, path: str, format: ParquetFiles):
        self._schema = arrow_schema(format.names, format.types)
        self._path = path
        self._compression = format.compression
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, values: list[Any]) -> None:
        for columns, _ in values:
            self._waiting.append(columns.rename_columns(self._schema.names))
            self._rows += columns.num_rows
        if self._rows >= _ROW_GROUP_ROWS:
            self._flush()

    def finish(self) -> None:
        self._flush()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def close(self) -> None:
        self._waiting.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, self._schema, compression=self._compression)
        self._writer.write_table(pa.Table.from_batches(self._waiting, schema=self._schema))
        self._waiting = []
        self._rows = 0
