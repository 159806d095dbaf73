"""The late-data ledger of one operator and epoch: in = processed + late + dropped. Task side.

An operator that may refuse a record for being late counts it here, with the first few as samples, so that nothing
disappears unseen.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flott.common._late_records import MAX_SAMPLES, LateSample

_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 120
_shortened.maxtuple = _shortened.maxlist = 10


@dataclass(frozen=True)
class LateCount:
    """What became of the records that came too late."""

    late: int = 0  #: sent to a side output
    dropped: int = 0
    samples: tuple[LateSample, ...] = ()

    def plus(self, other: LateCount) -> LateCount:
        """Return the sum of both."""
        samples = (self.samples + other.samples)[:MAX_SAMPLES]
        return LateCount(self.late + other.late, self.dropped + other.dropped, samples)


class LateLedger:
    """Counts during an epoch; the subtask reads it at the end of the epoch and resets it."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = LateCount()

    def begin(self) -> None:
        """Begin an epoch."""
        self._count = LateCount()

    def enter(self, values: Sequence[Any], timestamps: Sequence[int], watermark: int, *, kept: bool) -> None:
        """Take note of records that came too late; ``kept``: they went to a side output."""
        samples = tuple(
            LateSample(_shortened.repr(value), timestamp, watermark)
            for value, timestamp in zip(values[:MAX_SAMPLES], timestamps, strict=False)
        )
        number = len(values)
        self._count = self._count.plus(LateCount(number if kept else 0, 0 if kept else number, samples))

    def read(self) -> LateCount:
        """Return the counts of the epoch so far."""
        return self._count
