"""Columns of values by slot. Task side.

A column of fixed width is a numpy array with validity. Texts and nested values stay in Arrow chunks, and a slot holds
the number of its row: a new value is a new row, and rows that no slot refers to are dropped when they are the half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import (
    Flags,
    Ints,
    fixed_dtype,
    is_wide,
    to_arrow,
    to_numpy,
    validity,
    whole,
)
from flott.runtime.managed_state.columns.slot_index import grown

_FIRST_ROOM = 64
#: Chunks are not joined beyond this size: the offsets of texts have 31 bits.
_MAX_CHUNK_BYTES = 1 << 29
#: So many rows may be dead whatever the size of the table.
_DEAD_ROWS = 4096


class FixedColumn:
    """Values of fixed width by slot."""

    def __init__(self, field: pa.Field):
        self.type = field.type
        dtype = fixed_dtype(field.type)
        assert dtype is not None
        self.values: Ints = np.zeros((_FIRST_ROOM, 2) if is_wide(field.type) else _FIRST_ROOM, dtype)
        #: None if the field cannot be null.
        self.valid: Flags | None = np.zeros(_FIRST_ROOM, np.bool_) if field.nullable else None

    def reserve(self, room: int) -> None:
        """Make room for so many slots."""
        if room > len(self.values):
            room = max(room, 2 * len(self.values))
            self.values = grown(self.values, room)
            self.valid = None if self.valid is None else grown(self.valid, room)

    def clear(self, slots: Ints) -> None:
        """Make slots zero and null."""
        self.values[slots] = 0
        if self.valid is not None:
            self.valid[slots] = False

    def put(self, slots: Ints, array: pa.Array) -> None:
        """Put a value to every slot; the last one counts if a slot comes repeatedly."""
        self.values[slots] = to_numpy(array)
        if self.valid is not None:
            present = validity(array)
            self.valid[slots] = True if present is None else present

    def take(self, slots: Ints) -> pa.Array:
        """Return the values of slots."""
        return to_arrow(self.values[slots], None if self.valid is None else self.valid[slots], self.type)

    def tidy(self, slots: Ints) -> None:
        """Nothing is left behind."""

    @property
    def nbytes(self) -> int:
        """Return how many bytes the column takes."""
        return int(self.values.nbytes + (0 if self.valid is None else self.valid.nbytes))


class ArrowColumn:
    """Values of any type by slot."""

    def __init__(self, field: pa.Field):
        self.type = field.type
        self.rows = np.full(_FIRST_ROOM, -1, np.int64)  #: by slot; -1 is null
        self._chunks = ArrowChunks(field.type)

    def reserve(self, room: int) -> None:
        """Make room for so many slots."""
        if room > len(self.rows):
            rows = np.full(max(room, 2 * len(self.rows)), -1, np.int64)
            rows[: len(self.rows)] = self.rows
            self.rows = rows

    def clear(self, slots: Ints) -> None:
        """Make slots null."""
        self.rows[slots] = -1

    def put(self, slots: Ints, array: pa.Array) -> None:
        """Put a value to every slot; the last one counts if a slot comes repeatedly."""
        start = len(self._chunks)
        rows = np.arange(start, start + len(array), dtype=np.int64)
        if (present := validity(array)) is not None:
            rows[~present] = -1
        self._chunks.append(array)
        self.rows[slots] = rows

    def take(self, slots: Ints) -> pa.Array:
        """Return the values of slots."""
        return self._chunks.gather(self.rows[slots])

    def tidy(self, slots: Ints) -> None:
        """Drop dead rows if they are the half. ``slots`` are all that are in use."""
        if len(self._chunks) <= 2 * len(slots) + _DEAD_ROWS:
            return
        rows = self.rows[slots]
        there = np.flatnonzero(rows >= 0)
        living = self._chunks.gather(rows[there])
        self._chunks = ArrowChunks(self.type)
        self._chunks.append(living)
        self.rows[slots[there]] = np.arange(len(there), dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Return how many bytes the column takes."""
        return int(self.rows.nbytes) + self._chunks.nbytes


class ArrowChunks:
    """Rows of one type that only grow. Chunks are joined as they come, so there are few, and a row is seldom copied."""

    def __init__(self, arrow_type: pa.DataType):
        self.type = arrow_type
        self._chunks: list[pa.Array] = []
        self._starts: list[int] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Return how many bytes the rows take."""
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, array: pa.Array) -> None:
        """Append rows."""
        if not len(array):
            return
        self._chunks.append(whole(array))
        self._starts.append(self._length)
        self._length += len(array)
        while len(self._chunks) > 1 and 2 * len(self._chunks[-1]) >= len(self._chunks[-2]):
            if self._chunks[-1].nbytes + self._chunks[-2].nbytes > _MAX_CHUNK_BYTES:
                break
            last = self._chunks.pop()
            self._starts.pop()
            self._chunks[-1] = pa.concat_arrays([self._chunks[-1], last])

    def gather(self, rows: Ints) -> pa.Array:
        """Return rows by number; -1 gives null."""
        chunks = self._chunks
        if not chunks or not len(rows):
            return pa.nulls(len(rows), self.type)
        if len(chunks) == 1:
            return chunks[0].take(_indices(rows))
        starts = np.array(self._starts, np.int64)
        homes: Ints = np.searchsorted(starts, rows, "right") - 1
        homes[rows < 0] = 0
        only = int(homes[0])
        if (homes == only).all():
            return chunks[only].take(_indices(np.where(rows < 0, -1, rows - starts[only])))
        order = np.argsort(homes, kind="stable")
        parts = []
        bounds = np.searchsorted(homes[order], np.arange(len(chunks) + 1))
        for number, chunk in enumerate(chunks):
            chosen = order[bounds[number] : bounds[number + 1]]
            if len(chosen):
                asked = rows[chosen]
                parts.append(chunk.take(_indices(np.where(asked < 0, -1, asked - starts[number]))))
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(back))


def _indices(rows: Ints) -> Any:
    absent = rows < 0
    return pa.array(rows, mask=absent) if absent.any() else pa.array(rows)


def make_column(field: pa.Field) -> FixedColumn | ArrowColumn:
    """Return an empty column."""
    return ArrowColumn(field) if fixed_dtype(field.type) is None else FixedColumn(field)
