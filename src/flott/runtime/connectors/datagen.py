"""Plans (driver) and reads (task) generated records.

With n splits, split k holds the indices k, k + n, k + 2n, …: all splits grow together, so none holds event time back
for long, however slow the rate is. An epoch reads every index below a common limit. The number of splits is the
parallelism of the first plan; it may grow later, whenever the splits are level (no split was paused half way).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, floor
from typing import TypeVar

from flott.datastream.connectors.base import (
    Json,
    Pending,
    Slice,
    SlicePlan,
    SliceRequest,
    SourceReader,
    SplitEnumerator,
)

T = TypeVar("T")

#: A slow epoch is better than a busy loop: the next records are asked for after this time at the earliest.
WAKE_INTERVAL_MS = 50


class DataGeneratorEnumerator(SplitEnumerator):
    """Says which indices are due."""

    def __init__(self, count: int | None, records_per_second: float | None):
        self._count = count
        self._rate = records_per_second
        #: When record 0 was due: the clock of the first epoch that read something.
        self._origin_ms: int | None = None
        #: Per split, the next index to read; modulo the number of splits it is the split's own number.
        self._positions: list[int] = []

    def restore(self, state: Json) -> None:
        self._origin_ms = state["origin_ms"]
        self._positions = list(state["positions"])

    def plan(self, request: SliceRequest) -> SlicePlan:
        origin_ms = request.now_ms if self._origin_ms is None else self._origin_ms
        positions = self._positions if request.paused and self._positions else self._widened(request.parallelism)
        free = [k for k in range(len(positions)) if str(k) not in request.paused]
        due = self._count if request.everything else self._due(origin_ms, request.now_ms)
        limit = _lowest(due, min((positions[k] for k in free), default=0) + max(1, request.max_records))
        slices = tuple(
            self._slice(k, positions, max(limit, positions[k]), origin_ms)
            for k in free
            if positions[k] < limit or self._ends_by_dealing(k, positions)
        )
        end = self._count
        finished = end is not None and limit == end and all(positions[k] >= end for k in self._held(positions, free))
        backlog = not finished and (due is None or limit < due)
        return SlicePlan(slices, finished, backlog, None if finished else self._wake_at_ms(origin_ms, request, limit))

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        # Nothing but the plan is needed: after a crash it may have been made by an enumerator that is gone.
        for part in plan.slices:
            self._origin_ms = part.detail["origin_ms"]
            if part.detail["stride"] != len(self._positions):
                self._positions = _level(min(self._positions, default=0), part.detail["stride"])
        for part in plan.slices:
            stride, position = part.detail["stride"], reached[part.split]
            self._positions[int(part.split)] = part.start + -(-(position - part.start) // stride) * stride

    def pending(self, now_ms: int) -> Pending:
        """Return how many are due; without a rate and an end there are always more, which is no lag."""
        due = self._due(now_ms if self._origin_ms is None else self._origin_ms, now_ms)
        if due is None:
            return Pending()
        stride = max(1, len(self._positions))
        return Pending(records=sum(len(range(position, due, stride)) for position in self._positions or [0]))

    def snapshot(self) -> Json:
        return {"version": 1, "origin_ms": self._origin_ms, "positions": list(self._positions)}

    def _widened(self, parallelism: int) -> list[int]:
        """Return the positions, distributed again if there are more subtasks than splits and all allow it."""
        lowest = min(self._positions, default=0)
        stride = len(self._positions)
        ended = self._count is not None and any(position >= self._count for position in self._positions)
        level = not ended and all(position < lowest + stride for position in self._positions)
        return _level(lowest, parallelism) if parallelism > stride and level else self._positions

    def _ends_by_dealing(self, split: int, positions: list[int]) -> bool:
        """Return whether a split that is distributed again has nothing left: an empty slice must say that it ended."""
        if self._count is None or split >= len(self._positions):
            return False
        return self._positions[split] < self._count <= positions[split]

    def _due(self, origin_ms: int, now_ms: int) -> int | None:
        """Return the index below which all are due; ``None``: every one is."""
        if self._rate is None:
            return self._count
        by_rate = floor(max(0, now_ms - origin_ms) * self._rate / 1000) + 1
        return by_rate if self._count is None else min(by_rate, self._count)

    def _slice(self, split: int, positions: list[int], limit: int, origin_ms: int) -> Slice:
        start, stride = positions[split], len(positions)
        records = len(range(start, limit, stride))
        ends = self._count is not None and start + records * stride >= self._count
        detail = {"stride": stride, "origin_ms": origin_ms}
        return Slice(str(split), start, limit, records=records, ends_split=ends, detail=detail)

    def _wake_at_ms(self, origin_ms: int, request: SliceRequest, limit: int) -> int | None:
        if self._rate is None:
            return None
        return max(request.now_ms + WAKE_INTERVAL_MS, origin_ms + ceil(limit * 1000 / self._rate))

    @staticmethod
    def _held(positions: list[int], free: list[int]) -> list[int]:
        return sorted(set(range(len(positions))).difference(free))


def _lowest(due: int | None, affordable: int) -> int:
    return affordable if due is None else min(due, affordable)


def _level(lowest: int, stride: int) -> list[int]:
    """Return where each split goes on if everything below ``lowest`` has been read and nothing else.

    >>> _level(10, 4)
    [12, 13, 10, 11]
    """
    return [lowest + (split - lowest) % stride for split in range(stride)]


class DataGeneratorReader(SourceReader[T]):
    """Calls the function once for each index."""

    def __init__(self, generator_function: Callable[[int], T]):
        self._function = generator_function

    def read(self, part: Slice) -> Iterator[T]:
        return map(self._function, range(part.start, part.stop, part.detail["stride"]))

    def locate(self, part: Slice, index: int) -> str:
        return f"generated record {part.start + index * part.detail['stride']}"
