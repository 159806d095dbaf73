"""Separated values: blocks of lines into records. Task side.

A record may span lines, so a position is only known to be the start of a record because the one before it ended there.
A block is read in one go; only if that fails (a record reaches beyond the block, or is unreadable) is it read again
record by record.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import Any

from flott.common.types import restore_row
from flott.datastream.connectors.base import OnError
from flott.datastream.connectors.file_system._formats import Converter, CsvFormat
from flott.errors import TypeMismatchError
from flott.runtime.connectors.files.bad_records import BadRecords
from flott.runtime.connectors.files.lines import CHUNK_BYTES, LineCursor, lines_with_offsets


def scan_csv(
    cursor: LineCursor,
    stop: int | None,
    decoder: CsvDecoder,
    bad: BadRecords,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[tuple[list[Any], int]]:
    """Batches of the records that start before ``stop``, each with the position after it."""
    yield [], cursor.position
    while True:
        offset = cursor.position
        block = cursor.take(stop, chunk_bytes)
        if not block:
            return
        try:
            records = decoder.decode(block)
        except (ValueError, csv.Error):
            records = decoder.decode_each(offset, block, cursor, bad)
        yield records, cursor.position


class CsvDecoder:
    """Reads the records of one file, whose header it may have to know."""

    def __init__(self, format: CsvFormat, charset_name: str):
        self._charset = charset_name
        self._dialect: dict[str, Any] = {
            "delimiter": format.delimiter,
            "quotechar": format.quote_char,
            "escapechar": format.escape_char,
            "quoting": csv.QUOTE_NONE if format.quote_char is None else csv.QUOTE_MINIMAL,
            "strict": True,
        }
        self._format = format
        self._build = record_builder(format, format.names) if format.names or not format.header else None

    def read_header(self, cursor: LineCursor, path: str) -> None:
        """Read the line that names the columns; the cursor stands at the start of the file."""
        rows = self._rows_with_ends(0, b"", cursor, BadRecords(path, OnError.fail()))
        _, header, _ = next(rows, (0, [], 0))
        if self._format.strict_header and header != list(self._format.names or header):
            raise TypeMismatchError(f"{path}: expected the header {self._format.names}, found {header}.")
        if self._build is None:
            self._build = record_builder(self._format, tuple(header))

    def decode(self, block: bytes) -> list[Any]:
        """Return the records of a block; raises if one is unreadable or goes on after the block."""
        text = io.StringIO(block.decode(self._charset), newline="\n")
        build = self._build
        assert build is not None, "the header is read first"
        return build([row for row in csv.reader(text, **self._dialect) if row])

    def decode_each(self, offset: int, block: bytes, cursor: LineCursor, bad: BadRecords) -> list[Any]:
        """Return the records that start in a block, one by one; the cursor moves to the end of the last."""
        records: list[Any] = []
        build = self._build
        assert build is not None, "the header is read first"
        for start, row, content in self._rows_with_ends(offset, block, cursor, bad):
            try:
                if row:
                    records += build([row])
            except ValueError as error:
                bad.report(start, content, str(error))
        return records

    def _rows_with_ends(
        self, offset: int, block: bytes, cursor: LineCursor, bad: BadRecords
    ) -> Iterator[tuple[int, list[str], Any]]:
        """Start, fields and bytes of each record that starts in the block; of the next one if the block is empty."""
        feed = _LineFeed(offset, block, cursor, self._charset)
        reader = csv.reader(feed, **self._dialect)
        stop = offset + max(1, len(block))
        while feed.position < stop:
            start = feed.position
            feed.record = b""
            try:
                row = next(reader)
            except StopIteration:
                return
            except (csv.Error, UnicodeDecodeError) as error:
                bad.report(start, feed.record, f"expected separated values: {error}")
            else:
                yield start, row, feed.record


class _LineFeed:
    """Hands lines to the csv module, which takes as many as a record needs, and keeps count of the bytes."""

    def __init__(self, offset: int, block: bytes, cursor: LineCursor, charset_name: str):
        self.position = offset
        self.record = b""  #: what the current record was read from
        self._lines = (line for _, line in lines_with_offsets(offset, block))
        self._cursor = cursor
        self._charset = charset_name

    def __iter__(self) -> _LineFeed:
        return self

    def __next__(self) -> str:
        line = next(self._lines, b"") or self._cursor.take_line()
        if not line:
            raise StopIteration
        self.position += len(line)
        self.record += line
        return line.decode(self._charset)


def record_builder(format: CsvFormat, names: tuple[str, ...] | None) -> Callable[[list[list[str]]], list[Any]]:
    """Return the function that makes records of the fields of lines, by columns; it raises ValueError if it cannot."""
    types = format.types
    if isinstance(types, dict):
        types = tuple(types.get(name, str) for name in names or ())
    width = len(names) if names is not None else len(types) if types is not None else None
    null = format.null_literal
    plain = null is None and all(column is str for column in types or ())

    def build(lines: list[list[str]]) -> list[Any]:
        widths = set(map(len, lines))
        if width is not None and widths - {width}:
            raise ValueError(f"expected {width} fields, found {min(widths - {width})}")
        rows: Iterable[Sequence[Any]] = lines
        if not plain and len(widths) == 1:
            columns = types or (str,) * widths.pop()
            rows = zip(*map(_column, zip(*lines, strict=True), columns, repeat(null)), strict=True)
        elif not plain:  # no types, and lines of different length
            rows = [[_value(text, str, null) for text in line] for line in lines]
        if format.record == "tuple":
            return list(map(tuple, rows))
        if format.record == "row":
            return [restore_row(names, row) for row in rows]
        return [dict(zip(names or (), row, strict=False)) for row in rows]  # the width was checked

    return build


def _column(texts: Sequence[str], column: Converter, null: str | None) -> Sequence[Any]:
    """Return the values of a column, at once if nothing in it needs care."""
    if null is None or null not in texts:
        if column is str:
            return texts
        if column in (int, float) and "" not in texts:
            with suppress(ValueError):  # the slower way says which one is at fault
                return list(map(column, texts))
    return [_value(text, column, null) for text in texts]


def _value(text: str, column: Converter, null: str | None) -> Any:
    if text == null:
        return None
    if column is str:
        return text
    if not text:
        return None
    try:
        return _BOOLEANS[text.lower()] if column is bool else column(text)
    except Exception as error:
        raise ValueError(f"{text!r} is no {getattr(column, '__name__', column)}: {error}") from error


_BOOLEANS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}
