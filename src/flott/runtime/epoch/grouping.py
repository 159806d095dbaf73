"""Groups the input of a keyed vertex by key: an external sort. Task side, in batch jobs.

Records are collected by key in memory. What exceeds the allowance goes to a temporary file as *runs*, each of them
sorted, and the runs are merged when the records are given out again; a piece of each run is in memory then.

The order is total, and the same however much memory there was: by the canonical bytes of the key; within a key by
timestamp, records without one first; then by input; then as they came. Timestamp and input of a record are one number,
its *rank*, so that a record waits as a pair ``(rank, value)``.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import IO, Any

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.runtime.epoch.wire import decode_batch, encode_batch
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.operators.batch import RowBatch

#: The index of an input, and records of it that have one key.
KeyedBatch = tuple[int, RowBatch]

#: The most records given out, or written to disk, at once.
MAX_RECORDS = 1024
#: A block of a run is read as a whole, and one of every run is in memory at the same time.
BLOCK_BYTES = 128 * 1024
#: What it costs to hold a record beside its own bytes, which are about twice as many as they were on the wire; and what
#: a key costs. Rough figures for CPython: they decide when to spill, nothing else.
RECORD_BYTES = 120
KEY_BYTES = 250
WIRE_FACTOR = 2

#: The rank of records without a timestamp (of the first input) is below all others.
_UNSTAMPED = 2 * (MIN_WATERMARK - 1)
_STAMPED = 2 * MIN_WATERMARK

_first = itemgetter(0)
_value = itemgetter(-1)
_rank_and_run = itemgetter(0, 1)

#: A part of a key's records: the key's bytes, and rows that begin with the rank and end with the value.
_Piece = tuple[bytes, list[Any]]


class KeyGrouping:
    """Takes batches in any order and gives them out key by key."""

    def __init__(self, memory_bytes: int):
        self._memory_bytes = memory_bytes
        self._groups: defaultdict[Any, list[tuple[int, Any]]] = defaultdict(list)
        self._records = 0  #: in memory
        self._wire_bytes = 0  #: of the buffers they came in
        self._stamped = False  #: whether there are records with timestamps
        self._second = False  #: whether there are records of the second input
        self._file: IO[bytes] | None = None
        self._runs: list[list[tuple[int, int]]] = []  #: per run, offset and length of its blocks

    # --- taking in ---------------------------------------------------------------------------------------------------

    def add(
        self,
        input_index: int,
        values: Iterable[Any],
        timestamps: list[int] | None,
        select: Callable[[Any], Any],
    ) -> None:
        """Take a batch. Raises what the key selector raises."""
        groups = self._groups
        if timestamps is None:
            rank = _UNSTAMPED + input_index
            for value in values:
                groups[select(value)].append((rank, value))
        else:
            for value, timestamp in zip(values, timestamps, strict=True):
                groups[select(value)].append((2 * timestamp + input_index, value))
            self._stamped = True
        if input_index:
            self._second = True

    def settle(self, records: int, wire_bytes: int) -> None:
        """Count a buffer with so many records that was added, and go to disk if memory is used up."""
        self._records += records
        self._wire_bytes += wire_bytes
        held = WIRE_FACTOR * self._wire_bytes + RECORD_BYTES * self._records + KEY_BYTES * len(self._groups)
        if held > self._memory_bytes:
            self._spill()

    def _spill(self) -> None:
        """Write what is in memory as one more run."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="flott-grouping-")  # noqa: SIM115  # closed by close()
        limit = max(1, min(MAX_RECORDS, BLOCK_BYTES * self._records // max(self._wire_bytes, 1)))
        run: list[tuple[int, int]] = []
        block: list[_Piece] = []
        size = 0
        for piece in self._held(limit):
            block.append(piece)
            size += len(piece[1])
            if size >= limit:
                run.append(self._write(block))
                block, size = [], 0
        if block:
            run.append(self._write(block))
        self._runs.append(run)
        self._records = self._wire_bytes = 0

    def _write(self, block: list[_Piece]) -> tuple[int, int]:
        assert self._file is not None
        data = encode_batch(RowBatch(block))
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return offset, len(data)

    # --- giving out --------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[KeyedBatch | None]:
        """Return all records, key by key; None stands behind the last batch of every key."""
        current: bytes | None = None
        for key, rows in self._merged() if self._runs else self._held(MAX_RECORDS):
            if current is not None and key != current:
                yield None
            current = key
            yield from self._batches_of(rows)
        if current is not None:
            yield None

    def _batches_of(self, rows: list[Any]) -> Iterator[KeyedBatch]:
        """Return sorted rows of one key as batches, each of one input, all of their records with timestamps or none."""
        if not self._second and (rows[0][0] < _STAMPED) is (rows[-1][0] < _STAMPED):
            yield _batch(rows)
        else:
            for _, part in groupby(rows, key=_kind):
                yield _batch(list(part))

    def close(self) -> None:
        """Delete what is on disk."""
        if self._file is not None:
            self._file.close()

    def _held(self, limit: int) -> Iterator[_Piece]:
        """Return what is in memory, sorted. It is removed as it is given out."""
        groups = self._groups
        for key, selected in sorted([(encode_key(selected), selected) for selected in groups], key=_first):
            rows = groups.pop(selected)
            if self._stamped or self._second:
                rows.sort(key=_first)
            if len(rows) <= limit:
                yield key, rows
            else:
                yield from _cut(key, rows, limit)

    def _run(self, number: int, pieces: Iterable[_Piece]) -> Iterator[tuple[bytes, int, int, list[Any]]]:
        for key, rows in pieces:
            yield key, rows[0][0], number, rows

    def _read(self, blocks: list[tuple[int, int]]) -> Iterator[_Piece]:
        assert self._file is not None
        for offset, length in blocks:
            self._file.seek(offset)
            block, _ = decode_batch(self._file.read(length))
            yield from block.to_rows().values

    def _merged(self) -> Iterator[_Piece]:
        """Return all runs merged into one. Rows are held until no piece can come that would stand before them."""
        sources = [*map(self._read, self._runs), self._held(MAX_RECORDS)]
        runs = [self._run(number, pieces) for number, pieces in enumerate(sources)]
        current: bytes | None = None
        held: list[tuple[int, int, Any]] = []
        for key, first, number, rows in merge(*runs, key=itemgetter(0, 1, 2)):
            if current is not None and key != current:
                yield from _cut(current, held, MAX_RECORDS)
                held = []
            elif held:
                # What comes later of this run stands behind its own earlier rows, and no other run is as far back.
                ready = bisect_right(held, (first, number), key=_rank_and_run)
                yield from _cut(key, held[:ready], MAX_RECORDS)
                del held[:ready]
            current = key
            settled = not held
            held += [(rank, number, value) for rank, value in rows]
            if not settled:
                held.sort(key=_rank_and_run)
        if current is not None:
            yield from _cut(current, held, MAX_RECORDS)


def _cut(key: bytes, rows: list[Any], limit: int) -> Iterator[_Piece]:
    for start in range(0, len(rows), limit):
        yield key, rows[start : start + limit]


def _kind(row: Any) -> tuple[bool, int]:
    rank = row[0]
    return rank < _STAMPED, rank & 1


def _batch(rows: list[Any]) -> KeyedBatch:
    rank = rows[0][0]
    timestamps = None if rank < _STAMPED else [row[0] >> 1 for row in rows]
    return rank & 1, RowBatch(list(map(_value, rows)), timestamps)
