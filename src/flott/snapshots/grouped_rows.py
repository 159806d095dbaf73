"""Rows sorted into key groups, on disk: what comes in any order goes out group by group. Driver side.

Memory is bounded by the rows that are collected before they are written; the rest is in one temporary file, which has
no name and is gone with the process.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import Any

from flott.common._ids import KeyGroup

#: So many rows are collected before they are written.
COLLECTED_ROWS = 100_000


class GroupedRows:
    """Takes rows with their key groups; gives back each group's rows in the order in which they came."""

    def __init__(self, collected_rows: int = COLLECTED_ROWS):
        self._limit = collected_rows
        self._collected: dict[KeyGroup, list[Any]] = {}
        self._count = 0
        self._file = TemporaryFile(prefix="flott-rows-")  # noqa: SIM115  # closed by close()
        self._chunks: dict[KeyGroup, list[tuple[int, int]]] = {}  #: group -> where its rows stand: offset, length

    def add(self, group: KeyGroup, row: Any) -> None:
        """Take in a row."""
        self._collected.setdefault(group, []).append(row)
        self._count += 1
        if self._count >= self._limit:
            self._write()

    @property
    def groups(self) -> set[KeyGroup]:
        """Return the groups that have rows."""
        return {*self._chunks, *self._collected}

    def rows(self, group: KeyGroup) -> Iterator[Any]:
        """Return the rows of a group."""
        for offset, length in self._chunks.get(group, ()):
            self._file.seek(offset)
            yield from pickle.loads(self._file.read(length))
        yield from self._collected.get(group, ())

    def close(self) -> None:
        """Let go of everything."""
        self._file.close()
        self._collected.clear()

    def _write(self) -> None:
        self._file.seek(0, 2)
        for group, rows in self._collected.items():
            data = pickle.dumps(rows, protocol=5)
            self._chunks.setdefault(group, []).append((self._file.tell(), len(data)))
            self._file.write(data)
        self._collected = {}
        self._count = 0

    def __enter__(self) -> GroupedRows:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
