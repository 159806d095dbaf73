"""Reads slices of files as columns, whatever the format. Task side.

Positions are those of the file source: byte offsets cut at line ends, or row numbers of Parquet files.
"""

from __future__ import annotations

import datetime
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common._object_store_settings import is_hdfs_location
from flott.datastream.connectors.base import ColumnRecords, Json, Slice, SourceReader
from flott.errors import StorageError
from flott.runtime.connectors.columns.csv_columns import ends_in_quotes, records_of
from flott.runtime.connectors.columns.decoded import DecodedColumns
from flott.runtime.connectors.columns.parquet_columns import scan_columns
from flott.runtime.connectors.columns.partitions import partition_columns, partition_texts
from flott.runtime.connectors.columns.rows import batch_of
from flott.runtime.connectors.files.bad_records import BadRecords
from flott.runtime.connectors.files.compression import is_compressed, open_bytes
from flott.runtime.connectors.files.lines import LineCursor, lines_with_offsets
from flott.runtime.storage.locations import is_object_location
from flott.table._connectors.file_tables import TableFileSource
from flott.table._types.arrow import arrow_schema, arrow_type
from flott.table._types.record_types import TableRowTypeInfo

#: How much text is decoded at once: some ten thousand rows.
BLOCK_BYTES = 4 * 1024 * 1024

#: Rows in columns and their kinds, and the position after them.
Scanned = Iterator[tuple[pa.RecordBatch, Any, int]]


class TableFileReader(SourceReader[Any]):
    """Turns slices of files into columns. The position after a slice is ``[offset, rows read]``."""

    def __init__(self, source: TableFileSource):
        self._source = source
        self._record_type = TableRowTypeInfo(source.names, source.types)
        self._schema = arrow_schema(source.names, source.types)
        fields = [(n, t) for n, t in zip(source.names, source.types, strict=True) if n in source.format.names]
        self._fields = tuple(name for name, _ in fields)
        self._types = tuple(of for _, of in fields)
        self._decoder = None if source.format.layout == "rows" else source.format.decoder(self._fields, self._types)
        self._reached: dict[str, list[int]] = {}

    def read(self, part: Slice) -> Iterator[Any]:
        raise NotImplementedError("Rows of a table are read as columns.")

    def read_batches(self, part: Slice) -> Iterator[ColumnRecords]:
        path = part.detail["path"]
        position, count = part.start, 0
        if part.start < part.stop:
            bad = BadRecords(path, self._source.on_error)
            constants = self._constants(path)
            try:
                for columns, kinds, after in self._scan(part, bad):
                    position, count = after, count + columns.num_rows
                    rejected = bad.take()
                    if columns.num_columns or columns.num_rows or rejected:  # the first only says where it begins
                        complete = self._complete(columns, constants)
                        yield ColumnRecords(complete, self._record_type, kinds, rejected)
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                raise StorageError(f"Cannot read {path}: {error}. Check that it is there and complete.") from error
            bad.log()
        self._reached[part.split] = [part.stop if self._is_whole(path) else position, count]

    def reached(self, part: Slice) -> Json:
        return self._reached[part.split]

    def locate(self, part: Slice, index: int) -> str:
        unit = "row" if self._source.format.layout == "rows" else "byte"
        return f"{part.detail['path']}, record {index} after {unit} {part.start}"

    def _is_whole(self, path: str) -> bool:
        return self._source.format.layout != "rows" and is_compressed(path)

    # --- scanning ----------------------------------------------------------------------------------------------------

    def _scan(self, part: Slice, bad: BadRecords) -> Scanned:
        layout, path = self._source.format.layout, part.detail["path"]
        if layout == "rows":
            yield from scan_columns(path, part.start, part.stop, self._fields, self._types, self._source.filters)
            return
        stop, end = (None, None) if self._is_whole(path) else (part.stop, part.detail["file_end"])
        with closing(open_bytes(path)) as file:
            if layout == "blocks":
                yield from self._source.format.scan_blocks(file, path, part.start, stop, end, self._decoder, bad)
                return
            cursor = LineCursor(file, path, part.start, end)
            yield from self._scan_text(cursor, stop, bad, records=layout == "records")

    def _scan_text(self, cursor: LineCursor, stop: int | None, bad: BadRecords, records: bool) -> Scanned:
        assert self._decoder is not None
        quote = self._source.format.quote if records else None
        if not records:
            cursor.skip_partial_line()
        yield batch_of([], pa.schema([]), 0), None, cursor.position
        while True:
            offset = cursor.position
            block = cursor.take(stop, BLOCK_BYTES)
            if not block:
                return
            while records and ends_in_quotes(block, quote) and (line := cursor.take_line()):
                block += line
            columns = self._decoder.block(block)
            if columns is not None:
                yield columns, None, cursor.position
                continue
            lines = records_of(block, quote) if records else lines_with_offsets(0, block)
            decoded = self._one_by_one(offset, list(lines), bad)
            yield decoded.columns, decoded.kinds, cursor.position

    def _one_by_one(self, offset: int, lines: list[tuple[int, bytes]], bad: BadRecords) -> DecodedColumns:
        """Decode lines that come with their places in the block, and report those that cannot be."""
        assert self._decoder is not None
        decoded: DecodedColumns = self._decoder.decode([line.rstrip(b"\r\n") for _, line in lines])
        for index, reason in decoded.bad:
            bad.report(offset + lines[index][0], lines[index][1], reason)
        return decoded

    # --- columns that are not in the file ----------------------------------------------------------------------------

    def _constants(self, path: str) -> dict[str, pa.Array]:
        """Return the columns of the partition and of metadata, one row each."""
        source = self._source
        constants: dict[str, pa.Array] = {}
        if any(key in source.names for key in source.partition_keys):
            texts = partition_texts(path, source.partition_keys)
            row = partition_columns([texts], source.partition_keys, source.partition_types, source.default_partition)
            constants.update(zip(source.partition_keys, row.columns, strict=True))
        types = dict(zip(source.names, source.types, strict=True))
        for name, key in source.metadata:
            constants[name] = pa.array([_metadata(path, key)]).cast(arrow_type(types[name]))
        return constants

    def _complete(self, columns: pa.RecordBatch, constants: dict[str, pa.Array]) -> pa.RecordBatch:
        if not constants:
            return columns
        size = columns.num_rows
        nothing = np.zeros(size, dtype=np.int64)
        read = dict(zip(self._fields, columns.columns, strict=False))
        arrays = [
            read[name] if name in read else constants[name].take(pa.array(nothing)) for name in self._schema.names
        ]
        return batch_of(arrays, self._schema, size)


def _metadata(path: str, key: str) -> Any:
    if key == "file.path":
        return path
    if key == "file.name":
        return os.path.basename(path)
    if is_object_location(path) or is_hdfs_location(path):
        raise StorageError(f"The metadata '{key}' is that of local files, found {path}.")
    found = os.stat(path)
    if key == "file.size":
        return found.st_size
    return datetime.datetime.fromtimestamp(found.st_mtime, datetime.UTC)
