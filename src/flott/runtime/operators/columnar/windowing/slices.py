"""Aligned windows as slices: each row belongs to one slice, and each slice to the windows that cover it. Task side.

Aggregates are kept by slice, so a row is added once however many windows it belongs to. All times are milliseconds of
the clock that the windows are aligned with. A slice and a window are named by their ends.

    TUMBLE      a slice is a window
    HOP         a slice is the greatest common divisor of size and slide
    CUMULATE    a slice is a step; behind its window's first firing it is merged into the first slice of the window
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._plan.logical import Window, WindowKind


@dataclass(frozen=True)
class Slices:
    """How aligned windows are made of slices."""

    width: int  #: of a slice
    size: int  #: of a window, the largest of CUMULATE
    slide: int  #: from one window's end to the next
    offset: int
    cumulates: bool = False

    @property
    def shared(self) -> bool:
        """Return whether a slice may belong to several windows."""
        return self.size != self.width or self.slide != self.width

    def slice_ends(self, times: Longs) -> Longs:
        """Return the slices of rows."""
        return (times - self.offset) // self.width * self.width + (self.offset + self.width)

    def window_starts(self, ends: Longs) -> Longs:
        """Return where windows begin."""
        if self.cumulates:
            return self._cumulation_starts(ends)
        return ends - self.size

    def _cumulation_starts(self, ends: Longs) -> Longs:
        return (ends - 1 - self.offset) // self.size * self.size + self.offset

    def first_windows(self, slices: Longs) -> Longs:
        """Return the end of the first window that a slice belongs to; one that is too early if it belongs to none."""
        if self.cumulates:
            return slices
        # The latest start at or before the slice's start, then as many slides back as the window still covers it.
        latest = (slices - self.width - self.offset) // self.slide * self.slide + self.offset
        return latest - (latest + self.size - slices) // self.slide * self.slide + self.size

    def last_windows(self, slices: Longs) -> Longs:
        """Return the end of the last window that a slice belongs to."""
        if self.cumulates:
            return self._cumulation_starts(slices) + self.size
        return (slices - self.width - self.offset) // self.slide * self.slide + (self.offset + self.size)

    def first_slices(self, slices: Longs) -> Longs:
        """Return the slice that slices of the same CUMULATE window are merged into."""
        return self._cumulation_starts(slices) + self.width

    def windows(self, slices: Longs) -> tuple[Longs, Longs]:
        """Return pairs: a position in ``slices``, and the end of a window that covers the slice there."""
        first, last = self.first_windows(slices), self.last_windows(slices)
        counts = np.maximum((last - first) // self.slide + 1, 0)
        places: Longs = np.repeat(np.arange(len(slices)), counts)
        steps = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, first[places] + steps * self.slide


def slices_of(window: Window) -> Slices:
    """Return the slices of an aligned window."""
    size, slide, offset = window.size_ms, window.slide_ms, window.offset_ms
    match window.kind:
        case WindowKind.TUMBLE:
            return Slices(size, size, size, offset)
        case WindowKind.HOP:
            return Slices(gcd(size, slide), size, slide, offset)
        case WindowKind.CUMULATE:
            return Slices(slide, size, slide, offset, cumulates=True)
    raise AssertionError(f"{window.kind} has no slices")
