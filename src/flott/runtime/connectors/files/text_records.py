"""Lines of text and lines of JSON: blocks of whole lines into records. Task side.

A block is read in one go; only if that fails is it read again line by line, to say which line is at fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flott.runtime.connectors.files.bad_records import BadRecords
from flott.runtime.connectors.files.lines import CHUNK_BYTES, LineCursor, lines_with_offsets, split_lines


class LineDecoder(Protocol):
    """What is in a line."""

    def decode(self, block: bytes) -> list[Any]:
        """Return the records of a block of whole lines; raises ValueError if any is unreadable."""

    def decode_each(self, offset: int, block: bytes, bad: BadRecords) -> list[Any]:
        """Return the same, decoded one by one, and report what is unreadable."""


class TextDecoder:
    """A line is a string."""

    def __init__(self, charset_name: str):
        self._charset = charset_name

    def decode(self, block: bytes) -> list[Any]:
        return split_lines(block.decode(self._charset))

    def decode_each(self, offset: int, block: bytes, bad: BadRecords) -> list[Any]:
        records: list[Any] = []
        for start, line in lines_with_offsets(offset, block):
            try:
                records += split_lines(line.decode(self._charset))
            except UnicodeDecodeError as error:
                bad.report(start + error.start, line, f"expected text in {self._charset}: {error.reason}")
        return records


# What json.loads calls after looking at its arguments; it is not in the type stubs.
_scan_json: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


class JsonDecoder:
    """A line is a JSON value, or blank."""

    def decode(self, block: bytes) -> list[Any]:
        scan = _scan_json
        records = []
        for line in split_lines(block.decode()):
            try:
                value, stop = scan(line, 0)
            except StopIteration:
                stop = -1
            if stop != len(line):  # spaces around it, blank, or no JSON: the slower way decides
                if not line or line.isspace():
                    continue
                value = json.loads(line)
            records.append(value)
        return records

    def decode_each(self, offset: int, block: bytes, bad: BadRecords) -> list[Any]:
        records = []
        for start, line in lines_with_offsets(offset, block):
            try:
                if line.strip():
                    records.append(json.loads(line.decode()))
            except (ValueError, RecursionError) as error:
                bad.report(start, line, f"expected a line of JSON: {error}")
        return records


def scan_lines(
    cursor: LineCursor, stop: int | None, decoder: LineDecoder, bad: BadRecords, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[list[Any], int]]:
    """Batches of the records that start before ``stop``, each with the position after it."""
    cursor.skip_partial_line()
    yield [], cursor.position
    while True:
        offset = cursor.position
        block = cursor.take(stop, chunk_bytes)
        if not block:
            return
        try:
            records = decoder.decode(block)
        except (ValueError, RecursionError):
            records = decoder.decode_each(offset, block, bad)
        yield records, cursor.position
