"""Finds lines in files by byte offset. Task side.

The rule that lets a file be cut anywhere: **a position is the start of a line if it is 0 or follows a newline byte; a
slice [start, stop) holds the lines that start in it.** A reader that enters at a position which is no line start skips
to the next one, because the line it is in belongs to the reader of its start. A reader reads its last line to the end,
beyond ``stop`` if need be. So any cutting gives every line exactly once, and no slice needs to know its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from flott.errors import StorageError

#: How much is read at once: some thousand lines.
CHUNK_BYTES = 256 * 1024


class LineCursor:
    """A position in a file from which whole lines are taken."""

    def __init__(self, file: BinaryIO, path: str, start: int, end: int | None):
        """``end``: where the file ends for us, whatever was appended since; ``None``: where it really ends."""
        self.position = start
        self._file = file
        self._path = path
        self._end = end
        if start:
            file.seek(start)

    def skip_partial_line(self) -> None:
        """Go to the first line start at or after the position."""
        if self.position == 0:
            return
        self._file.seek(self.position - 1)
        if self._file.read(1) != b"\n":
            self.position += len(self._line())

    def take(self, stop: int | None, chunk_bytes: int = CHUNK_BYTES) -> bytes:
        """Return some whole lines that start before ``stop``; nothing if there are no more."""
        if stop is not None and self.position >= stop:
            return b""
        data = self._file.read(chunk_bytes if stop is None else min(chunk_bytes, stop - self.position))
        if not data:
            return self._at_end(b"")
        self.position += len(data)
        if data[-1] != 10:
            rest = self._line()
            self.position += len(rest)
            data += rest
        return data

    def take_line(self) -> bytes:
        """Return the next line, wherever it starts; nothing at the end of the file."""
        line = self._line()
        self.position += len(line)
        return line

    def _line(self) -> bytes:
        """Return what there is up to the next newline, or to the end."""
        limit = -1 if self._end is None else self._end - self.position
        if limit == 0:
            return b""
        line = self._file.readline(limit)
        return line if line[-1:] == b"\n" or len(line) == limit else self._at_end(line)

    def _at_end(self, line: bytes) -> bytes:
        if self._end is not None and self.position + len(line) < self._end:
            raise StorageError(
                f"{self._path} has only {self.position + len(line)} bytes, but had {self._end} when it was found: files"
                " must not be shortened or rewritten while they are read."
            )
        return line


def split_lines(text: str) -> list[str]:
    """Return the lines of a block of whole lines, without their ends.

    >>> split_lines("a\\r\\nb\\n\\n")
    ['a', 'b', '']
    """
    if not text:
        return []
    lines = (text[:-1] if text[-1] == "\n" else text).split("\n")
    if "\r" in text:
        lines = [line[:-1] if line[-1:] == "\r" else line for line in lines]
    return lines


def lines_with_offsets(offset: int, block: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a block, with its end, and where it starts."""
    start = 0
    while start < len(block):
        stop = block.find(b"\n", start) + 1 or len(block)
        yield offset + start, block[start:stop]
        start = stop
