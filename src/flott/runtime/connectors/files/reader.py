"""Reads slices of files. Task side: a file is open only while a slice of it is read."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from flott.datastream.connectors.base import Json, OnError, Records, Slice, SourceReader
from flott.datastream.connectors.file_system._formats import (
    AvroFormat,
    BulkFormat,
    CsvFormat,
    JsonLinesFormat,
    ParquetFormat,
    StreamFormat,
    TextLineFormat,
    on_error_of,
)
from flott.errors import BadRecordError, ProgramError, StorageError, TypeMismatchError
from flott.runtime.connectors.files.bad_records import BadRecords
from flott.runtime.connectors.files.compression import has_byte_lines, open_as_utf8, open_bytes
from flott.runtime.connectors.files.csv_records import CsvDecoder, scan_csv
from flott.runtime.connectors.files.layout import is_read_whole
from flott.runtime.connectors.files.lines import CHUNK_BYTES, LineCursor
from flott.runtime.connectors.files.text_records import JsonDecoder, LineDecoder, TextDecoder, scan_lines

#: Batches of records, each with the position after it.
Batches = Iterator[tuple[list[Any], int]]


class FileReader(SourceReader[Any]):
    """Turns slices of files into records, whatever the format.

    The position after a slice is ``[offset, records read]``: the enumerator learns from it how large records are.
    """

    def __init__(self, format: StreamFormat | BulkFormat, on_error: OnError | None = None):
        self.skipped = 0  #: records left out because they were unreadable and the format says so
        self._format = format
        self._on_error = on_error_of(format) if on_error is None else on_error
        self._reached: dict[str, list[int]] = {}

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any]]:
        position, count = part.start, 0
        if part.start < part.stop:
            bad = BadRecords(part.detail["path"], self._on_error)
            for values, after in self._batches(part, bad, CHUNK_BYTES):
                position, count = after, count + len(values)
                yield Records(values, rejected=bad.take())
            bad.log()
            self.skipped += bad.count
        self._reached[part.split] = [part.stop if self._is_whole(part) else position, count]

    def reached(self, part: Slice) -> Json:
        return self._reached[part.split]

    def locate(self, part: Slice, index: int) -> str:
        path = part.detail["path"]
        if isinstance(self._format, ParquetFormat):
            return f"{path}, row {part.start + index}"
        block = "record {} of the block after byte {}" if isinstance(self._format, AvroFormat) else "byte {1}"
        try:  # one byte at a time is one record at a time, so the position before the record is where it starts
            seen, position = 0, part.start
            for values, after in self._batches(part, BadRecords(path, OnError.skip()), chunk_bytes=1):
                if seen + len(values) > index:
                    return f"{path}, {block.format(index - seen, position)}"
                seen, position = seen + len(values), after
        except (StorageError, TypeMismatchError, BadRecordError):
            pass
        return self.roughly(part, index)

    def roughly(self, part: Slice, index: int) -> str:
        unit = "row" if isinstance(self._format, ParquetFormat) else "byte"
        return f"{part.detail['path']}, record {index} after {unit} {part.start}"

    def _batches(self, part: Slice, bad: BadRecords, chunk_bytes: int) -> Batches:
        path = part.detail["path"]
        try:
            if isinstance(self._format, ParquetFormat):
                from flott.runtime.connectors.files.parquet import scan_parquet  # only such a program needs pyarrow

                yield from scan_parquet(path, part.start, part.stop, self._format)
            else:
                yield from self._scan_avro(part, bad) if isinstance(self._format, AvroFormat) else self._scan(
                    part, bad, chunk_bytes
                )
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise StorageError(f"Cannot read {path}: {error}. Check that it is still there and complete.") from error
        except UnicodeDecodeError as error:  # only where the whole file is decoded: otherwise the line is known
            raise TypeMismatchError(f"{path} is not text in {error.encoding}: {error}. Name the charset.") from error

    def _is_whole(self, part: Slice) -> bool:
        return isinstance(self._format, StreamFormat) and is_read_whole(self._format, part.detail["path"])

    def _scan_avro(self, part: Slice, bad: BadRecords) -> Batches:
        from flott.runtime.connectors.files.avro import scan_avro  # only such a program needs fastavro

        assert isinstance(self._format, AvroFormat)
        path = part.detail["path"]
        stop, end = (None, None) if self._is_whole(part) else (part.stop, part.detail["file_end"])
        with closing(open_bytes(path)) as file:
            yield from scan_avro(file, path, part.start, stop, end, self._format, bad)

    def _scan(self, part: Slice, bad: BadRecords, chunk_bytes: int) -> Batches:
        format, path = self._format, part.detail["path"]
        charset_name = format.charset_name if isinstance(format, (TextLineFormat, CsvFormat)) else "UTF-8"
        stop, file_end = (None, None) if self._is_whole(part) else (part.stop, part.detail["file_end"])
        transcode = not has_byte_lines(charset_name)
        with closing(open_as_utf8(path, charset_name) if transcode else open_bytes(path)) as file:
            cursor = LineCursor(file, path, part.start, file_end)
            charset_name = "UTF-8" if transcode else charset_name
            if isinstance(format, CsvFormat):
                decoder = CsvDecoder(format, charset_name)
                self._read_header(decoder, cursor, format, part)
                yield from scan_csv(cursor, stop, decoder, bad, chunk_bytes)
            else:
                yield from scan_lines(cursor, stop, _line_decoder(format, charset_name), bad, chunk_bytes)

    @staticmethod
    def _read_header(decoder: CsvDecoder, cursor: LineCursor, format: CsvFormat, part: Slice) -> None:
        if not format.header:
            return
        if part.start == 0:
            decoder.read_header(cursor, part.detail["path"])
            return
        path = part.detail["path"]
        with closing(open_bytes(path)) as file:
            decoder.read_header(LineCursor(file, path, 0, part.detail["file_end"]), path)


def _line_decoder(format: StreamFormat | BulkFormat, charset_name: str) -> LineDecoder:
    if isinstance(format, TextLineFormat):
        return TextDecoder(charset_name)
    if isinstance(format, JsonLinesFormat):
        return JsonDecoder()
    raise ProgramError(f"Flott cannot read the format {format!r}: use one that StreamFormat or BulkFormat makes.")
