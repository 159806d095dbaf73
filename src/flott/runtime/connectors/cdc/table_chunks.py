"""Plans the chunks in which tables are read, and keeps what the chunks contain. Pure; driver side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from flott.datastream.connectors.base import Json, Slice, SliceRequest
from flott.runtime.connectors.cdc.visibility import Chunk, merged

#: Chunks in one plan, per subtask: a plan is written durably before the epoch runs.
CHUNKS_PER_SUBTASK = 16


class Chunkable(Protocol):
    """A table, to this module."""

    @property
    def full_name(self) -> str: ...

    @property
    def key(self) -> str | None:
        """The column by which it is cut, if there is one."""


C = TypeVar("C", bound=Chunkable)

#: Gives the keys at which chunks of a size begin, from a key on: at most so many (None: all).
Edges = Callable[[C, int | None, int, int | None], list[int]]


@dataclass
class TableProgress:
    """How far the reading of a table has come."""

    key: str | None  #: the column by which it is cut
    chunks: list[Chunk] = field(default_factory=list)
    next: int | None = None  #: the first key of the next chunk
    done: bool = False


class TableChunks:
    """The progress of all tables. It is part of the enumerator's state."""

    def __init__(self, state: Json = None):
        self.tables = {
            name: TableProgress(key, [Chunk(*chunk) for chunk in chunks], following, done)
            for name, (key, chunks, following, done) in (state or {}).items()
        }

    def to_json(self) -> Json:
        return {
            name: [table.key, [chunk.to_json() for chunk in table.chunks], table.next, table.done]
            for name, table in self.tables.items()
        }

    def plan(
        self,
        tables: Sequence[C],
        request: SliceRequest,
        split_size: int,
        edges: Edges[C],
        make: Callable[[C, str | None, int | None, int | None, int], Slice],
    ) -> tuple[tuple[Slice, ...], bool]:
        """Return chunks for an epoch, and whether there are more afterwards."""
        slices: list[Slice] = []
        size = max(1, min(split_size, request.max_records))
        budget, most = request.max_records, CHUNKS_PER_SUBTASK * request.parallelism
        for table in tables:
            progress = self.tables.get(table.full_name, TableProgress(table.key))
            if progress.done:
                continue
            if slices and not request.everything and (budget <= 0 or len(slices) >= most):
                return tuple(slices), True
            count = None if request.everything else max(1, min(most - len(slices), -(-budget // size)))
            found = [] if progress.key is None else edges(table, progress.next, size, count)
            ends = progress.key is None or count is None or len(found) < count
            bounds: list[int | None] = [progress.next, *found, *((None,) if ends else ())]
            slices += [make(table, progress.key, low, high, size) for low, high in pairwise(bounds)]
            budget -= size * (len(bounds) - 1)
            if not ends:
                return tuple(slices), True
        return tuple(slices), False

    def advance(self, name: str, key: str | None, part: Slice, snapshot: str, horizon: int) -> None:
        """Keep what a chunk that was read contains."""
        table = self.tables.setdefault(name, TableProgress(key))
        table.chunks = merged(table.chunks, Chunk(part.start, part.stop, snapshot, horizon))
        table.next, table.done = part.stop, part.stop is None

    def forget(self, position: int) -> None:
        """Forget what the tables contain, once the log is beyond it."""
        for table in self.tables.values():
            if table.done and all(chunk.horizon <= position for chunk in table.chunks):
                table.chunks = []

    def for_log(self) -> dict[str, Json]:
        """Return what the reader of the log must know: the tables that the log is not beyond yet."""
        return {
            name: {"key": table.key, "chunks": [chunk.to_json() for chunk in table.chunks]}
            for name, table in self.tables.items()
            if table.chunks
        }


def edges_query(key: str, table: str, low: int | None, size: int, count: int | None) -> str:
    """Return the query for the keys at which chunks begin. It reads keys from the index only. The names are quoted."""
    since = "" if low is None else f" WHERE {key} >= {int(low)}"
    limit = "" if count is None else f" LIMIT {size * count + 1}"
    return (
        f"SELECT k FROM (SELECT k, row_number() OVER (ORDER BY k) AS n FROM (SELECT {key} AS k FROM {table}{since}"
        f" ORDER BY {key}{limit}) AS listed) AS numbered WHERE n > 1 AND n % {size} = {1 % size} ORDER BY k"
    )


def rows_condition(key: Any, low: int | None, high: int | None) -> str:
    """Return the WHERE clause of a chunk. The key is quoted.

    >>> rows_condition('"id"', 10, 20)
    ' WHERE "id" >= 10 AND "id" < 20'
    """
    bounds = [] if low is None else [f"{key} >= {int(low)}"]
    bounds += [] if high is None else [f"{key} < {int(high)}"]
    return f" WHERE {' AND '.join(bounds)}" if bounds else ""
