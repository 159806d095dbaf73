"""Plans (driver) and reads (task) a tuple of elements: one split, whose offset is the index."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from flott.datastream.connectors.base import (
    READ_BATCH_RECORDS,
    Json,
    Pending,
    Records,
    Slice,
    SlicePlan,
    SliceRequest,
    SourceReader,
    SplitEnumerator,
)
from flott.errors import StateError

T = TypeVar("T")
_SPLIT = "0"


class CollectionEnumerator(SplitEnumerator):
    """Counts through the elements."""

    def __init__(self, size: int, max_records_per_epoch: int | None):
        self._size = size
        self._limit = max_records_per_epoch
        self._next = 0

    def restore(self, state: Json) -> None:
        self._next = state["next"]
        if self._next > self._size:
            raise StateError(
                f"The checkpoint has read {self._next} elements of a collection that now has {self._size}: the program"
                " must keep the elements it had, or give the source another uid."
            )

    def plan(self, request: SliceRequest) -> SlicePlan:
        if self._next == self._size:
            return SlicePlan(finished=True)
        if _SPLIT in request.paused:
            return SlicePlan(backlog=True)
        limit = None if request.everything else self._limit
        budget = request.max_records if limit is None else min(limit, request.max_records)
        stop = min(self._size, self._next + max(1, budget))
        ends = stop == self._size
        part = Slice(_SPLIT, self._next, stop, records=stop - self._next, ends_split=ends)
        return SlicePlan((part,), finished=ends, backlog=not ends)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        self._next = reached.get(_SPLIT, self._next)

    def pending(self, now_ms: int) -> Pending:
        return Pending(records=self._size - self._next)

    def snapshot(self) -> Json:
        return {"version": 1, "next": self._next}


class CollectionReader(SourceReader[T]):
    """A slice is a slice."""

    def __init__(self, elements: tuple[T, ...]):
        self._elements = elements

    def read(self, part: Slice) -> Iterator[T]:
        return islice(self._elements, part.start, part.stop)

    def read_batches(self, part: Slice) -> Iterator[Records[T]]:
        for start in range(part.start, part.stop, READ_BATCH_RECORDS):
            yield Records(list(self._elements[start : min(start + READ_BATCH_RECORDS, part.stop)]))

    def locate(self, part: Slice, index: int) -> str:
        return f"element {part.start + index} of the collection"
