"""How windows that are cut alike for every key divide time: into slices whose records belong to the same windows. Task
side.

A window is named by its end. Arithmetic only.
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
        """The first timestamp of the slice that holds a timestamp."""
        return timestamp - (timestamp - self.offset_ms) % self.length_ms


@dataclass(frozen=True)
class OverlappingWindows(_Slices):
    """Windows of one size that start at regular times.

    >>> slicing_of(SlidingEventTimeWindows(10, 4, 0)).first(7)
    6
    >>> list(slicing_of(SlidingEventTimeWindows(10, 4, 0)).ends(6))
    [14, 10]
    """

    size_ms: int
    slide_ms: int

    def ends(self, first: int) -> range:
        """The ends of the windows that hold the slice with this first timestamp."""
        latest = first - (first - self.offset_ms) % self.slide_ms
        return range(latest + self.size_ms, first, -self.slide_ms)

    def start(self, end: int) -> int:
        """The start of the window with this end."""
        return end - self.size_ms


@dataclass(frozen=True)
class GrowingWindows(_Slices):
    """Windows that share a start and end one step after the other.

    >>> list(slicing_of(CumulativeEventTimeWindows(12, 4)).ends(4))
    [8, 12]
    """

    max_size_ms: int

    def ends(self, first: int) -> range:
        """The ends of the windows that hold the slice with this first timestamp."""
        return range(first + self.length_ms, self.start(first + 1) + self.max_size_ms + 1, self.length_ms)

    def start(self, end: int) -> int:
        """The start of the window with this end."""
        last = end - 1
        return last - (last - self.offset_ms) % self.max_size_ms


def slicing_of(assigner: WindowAssigner[Any, Any]) -> OverlappingWindows | GrowingWindows | None:
    """How an assigner's windows divide time; None if they are not cut alike for every key."""
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
