"""Plans (driver) and reads (task) a sequence of numbers.

A split is a contiguous range, named by its first number. There are as many as subtasks; when a job continues with more
subtasks, what is left of the ranges is cut again: the front part keeps its name, the rest becomes a new split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass
class _Range:
    """What is left of a split: ``next`` … ``stop - 1``. The split's name is its first number."""

    first: int
    next: int
    stop: int

    @property
    def left(self) -> int:
        return self.stop - self.next


class NumberSequenceEnumerator(SplitEnumerator):
    """Cuts the sequence into ranges and hands each epoch an equal share of every one."""

    def __init__(self, start: int, end: int):
        self._ranges = [_Range(start, start, end + 1)]

    def restore(self, state: Json) -> None:
        self._ranges = [_Range(*fields) for fields in state["ranges"]]

    def plan(self, request: SliceRequest) -> SlicePlan:
        held = [part for part in self._ranges if str(part.first) in request.paused]
        free = [part for part in self._ranges if str(part.first) not in request.paused]
        parts = cut(free, request.parallelism - len(held))
        shares = divide(request.max_records, [part.left for part in parts])
        slices = tuple(
            Slice(str(part.first), part.next, part.next + share, records=share, ends_split=share == part.left)
            for part, share in zip(parts, shares, strict=True)
        )
        finished = not held and all(part.ends_split for part in slices)
        return SlicePlan(slices, finished=finished, backlog=not finished)

    def advance(self, plan: SlicePlan, reached: dict[str, Json]) -> None:
        # Nothing but the plan is needed: after a crash it may have been made by an enumerator that is gone.
        for part in plan.slices:
            self._carve(int(part.split))
        for held in self._ranges:
            held.next = reached.get(str(held.first), held.next)
        self._ranges = [held for held in self._ranges if held.left > 0]

    def pending(self, now_ms: int) -> Pending:
        return Pending(records=sum(part.left for part in self._ranges))

    def snapshot(self) -> Json:
        return {"version": 1, "ranges": [[part.first, part.next, part.stop] for part in self._ranges]}

    def _carve(self, first: int) -> None:
        """Make the split that begins at ``first``, unless it is there: it takes the rear of the range it lies in."""
        if any(part.first == first for part in self._ranges):
            return
        index, whole = next((i, part) for i, part in enumerate(self._ranges) if part.next <= first < part.stop)
        self._ranges.insert(index + 1, _Range(first, first, whole.stop))
        whole.stop = first


def cut(ranges: list[_Range], count: int) -> list[_Range]:
    """Copies of the ranges, the long ones cut evenly until there are ``count``, if they hold that many numbers."""
    pieces = [1] * len(ranges)
    while ranges and sum(pieces) < count:
        longest = max(range(len(ranges)), key=lambda i: ranges[i].left / pieces[i])
        if ranges[longest].left < pieces[longest] + 1:
            break
        pieces[longest] += 1
    return [piece for whole, number in zip(ranges, pieces, strict=True) for piece in _evenly(whole, number)]


def _evenly(whole: _Range, number: int) -> Iterator[_Range]:
    edges = [whole.next + whole.left * i // number for i in range(number + 1)]
    yield _Range(whole.first, whole.next, edges[1])
    for start, stop in pairwise(edges[1:]):
        yield _Range(start, start, stop)


def divide(budget: int, amounts: list[int]) -> list[int]:
    """Share a budget out as evenly as the amounts allow; everybody gets at least one of what they have.

    >>> divide(10, [2, 100, 100])
    [2, 4, 4]
    """
    shares = [0] * len(amounts)
    smallest_first = sorted(range(len(amounts)), key=lambda i: amounts[i])
    for served, index in enumerate(smallest_first):
        share = min(amounts[index], max(1, budget // (len(amounts) - served)))
        shares[index] = share
        budget -= share
    return shares


class NumberSequenceReader(SourceReader[int]):
    """A slice is a range."""

    def read(self, part: Slice) -> Iterator[int]:
        return iter(range(part.start, part.stop))

    def read_batches(self, part: Slice) -> Iterator[Records[int]]:
        for start in range(part.start, part.stop, READ_BATCH_RECORDS):
            yield Records(list(range(start, min(start + READ_BATCH_RECORDS, part.stop))))
