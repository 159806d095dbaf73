"""How windows that are cut alike for every key divide time: into slices whose records belong to the same windows. Task
side.

A window is named by its start and its end. Arithmetic only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from flott.datastream.window._assigners import (
    CumulativeEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)


@dataclass(frozen=True)
class _Slices:
    length_ms: int
    offset_ms: int  #: where one of the slices starts

    def first(self, timestamp: int) -> int:
        """Return the first timestamp of the slice that holds a timestamp."""
        return timestamp - (timestamp - self.offset_ms) % self.length_ms


@dataclass(frozen=True)
class OverlappingWindows(_Slices):
    """Windows of one size that start at regular times.

    >>> slicing_of(SlidingEventTimeWindows(10, 4, 0)).first(7)
    6
    >>> slicing_of(SlidingEventTimeWindows(10, 4, 0)).windows(6)
    [(4, 14), (0, 10)]
    """

    size_ms: int
    slide_ms: int

    def windows(self, first: int) -> list[tuple[int, int]]:
        """Return the windows that hold the slice with this first timestamp."""
        latest, size = first - (first - self.offset_ms) % self.slide_ms, self.size_ms
        return [(start, start + size) for start in range(latest, first - size, -self.slide_ms)]


@dataclass(frozen=True)
class GrowingWindows(_Slices):
    """Windows that share a start and end one step after the other.

    >>> slicing_of(CumulativeEventTimeWindows(12, 4)).windows(4)
    [(0, 8), (0, 12)]
    """

    max_size_ms: int

    def windows(self, first: int) -> list[tuple[int, int]]:
        """Return the windows that hold the slice with this first timestamp."""
        start = first - (first - self.offset_ms) % self.max_size_ms
        return [(start, end) for end in range(first + self.length_ms, start + self.max_size_ms + 1, self.length_ms)]


def slicing_of(assigner: WindowAssigner[Any, Any]) -> OverlappingWindows | GrowingWindows | None:
    """Return how an assigner's windows divide time; None if they are not cut alike for every key."""
    if type(assigner) not in (TumblingEventTimeWindows, SlidingEventTimeWindows, CumulativeEventTimeWindows):
        return None  # a subclass may assign windows differently
    match assigner:
        case TumblingEventTimeWindows(size_ms=size, offset_ms=offset):
            return OverlappingWindows(size, offset, size, size)
        case SlidingEventTimeWindows(size_ms=size, slide_ms=slide, offset_ms=offset):
            return OverlappingWindows(gcd(size, slide), offset, size, slide)
        case CumulativeEventTimeWindows(max_size_ms=max_size, step_ms=step, offset_ms=offset):
            return GrowingWindows(step, offset, max_size)
    return None
