"""Where a file may be cut: into splits that subtasks read side by side, and slices that epochs read. Driver side."""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

from flott.datastream.connectors.file_system._formats import (
    BulkFormat,
    CsvFormat,
    ParquetFormat,
    StreamFormat,
    TextLineFormat,
)
from flott.errors import ProgramError
from flott.runtime.connectors.files.compression import has_byte_lines, is_compressed
from flott.runtime.connectors.files.discovery import FoundFile


class Layout(Protocol):
    """Knows the positions of a format: bytes or rows."""

    in_bytes: bool  #: which of the two
    units_per_record: float  #: how far a record moves the position, as long as nothing was read

    def measure(self, file: FoundFile) -> int:
        """Return the position after the last record."""

    def block_end(self, path: str, start: int, end: int) -> int:
        """Return where the split that starts here ends."""

    def slice_stop(self, path: str, position: int, share: int, stop: int) -> int:
        """Return where a slice of about this size ends, at ``stop`` at the latest."""


def layout_of(format: StreamFormat | BulkFormat, block_bytes: int | None) -> Layout:
    """Return the layout of a format's files."""
    if isinstance(format, ParquetFormat):
        return RowLayout(block_bytes)
    if isinstance(format, StreamFormat):
        return ByteLayout(format, block_bytes)
    raise ProgramError(f"Flott cannot read the format {format!r}: use one that StreamFormat or BulkFormat makes.")


def is_read_whole(format: StreamFormat, path: str) -> bool:
    """Return whether a file has no positions to enter it at, so that one slice is all of it."""
    charset_name = format.charset_name if isinstance(format, (TextLineFormat, CsvFormat)) else "UTF-8"
    return is_compressed(path) or not has_byte_lines(charset_name)


class ByteLayout:
    """Positions are byte offsets. Lines may be cut anywhere, CSV only where a record was seen to end."""

    in_bytes = True
    units_per_record = 128.0

    def __init__(self, format: StreamFormat, block_bytes: int | None):
        self._format = format
        self._block_bytes = None if isinstance(format, CsvFormat) else block_bytes

    def measure(self, file: FoundFile) -> int:
        return file.size_bytes

    def block_end(self, path: str, start: int, end: int) -> int:
        if self._block_bytes is None or is_read_whole(self._format, path):
            return end
        stop = start + self._block_bytes
        return end if end - stop < self._block_bytes // 4 else stop  # no crumb at the end

    def slice_stop(self, path: str, position: int, share: int, stop: int) -> int:
        return stop if is_read_whole(self._format, path) else min(position + share, stop)


class RowLayout:
    """Positions are row numbers of Parquet files; cuts fall between row groups where that is not far."""

    in_bytes = False
    units_per_record = 1.0

    def __init__(self, block_bytes: int | None):
        self._block_bytes = block_bytes
        self._groups: dict[str, tuple[list[int], list[int]]] = {}

    def measure(self, file: FoundFile) -> int:
        ends, _ = self._row_groups(file.path)
        return ends[-1] if ends else 0

    def block_end(self, path: str, start: int, end: int) -> int:
        if self._block_bytes is None:
            return end
        size_bytes = 0
        for group_end, group_bytes in zip(*self._row_groups(path), strict=True):
            size_bytes += group_bytes if group_end > start else 0
            if size_bytes >= self._block_bytes:
                return min(group_end, end)
        return end

    def slice_stop(self, path: str, position: int, share: int, stop: int) -> int:
        target = min(position + share, stop)
        ends, _ = self._row_groups(path)
        index = bisect_right(ends, target) - 1
        return ends[index] if index >= 0 and ends[index] > position + share // 2 else target

    def _row_groups(self, path: str) -> tuple[list[int], list[int]]:
        from flott.runtime.connectors.files.parquet import row_groups  # only a program with Parquet needs pyarrow

        if path not in self._groups:
            if len(self._groups) >= 1024:
                self._groups.clear()
            self._groups[path] = row_groups(path)
        return self._groups[path]
