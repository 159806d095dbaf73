"""Counts of late records as a program sees them.

For every windowed or timed operator: in = processed + late + dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The number of late records per operator that are kept as samples.
MAX_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class LateSample:
    """One late record."""

    record: str  #: its text, shortened
    timestamp: int
    watermark: int  #: the watermark when it arrived

    @property
    def behind_ms(self) -> int:
        """Return how late it was, which is the additional out-of-orderness that it would have needed."""
        return self.watermark - self.timestamp


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The counts of one operator's records.

    >>> entry = LedgerEntry("Window", records_in=10, late=1, dropped=2)
    >>> entry.processed, entry.refused
    (7, 3)
    """

    operator: str
    records_in: int = 0
    late: int = 0  #: late, and sent to a side output
    dropped: int = 0  #: late, and dropped
    samples: tuple[LateSample, ...] = ()

    @property
    def processed(self) -> int:
        """Return the number of records that were not late."""
        return self.records_in - self.late - self.dropped

    @property
    def refused(self) -> int:
        """Return the number of all late records."""
        return self.late + self.dropped

    def plus(self, other: LedgerEntry) -> LedgerEntry:
        """Return the sum of both. The first samples are kept."""
        return LedgerEntry(
            self.operator,
            self.records_in + other.records_in,
            self.late + other.late,
            self.dropped + other.dropped,
            (self.samples + other.samples)[:MAX_SAMPLES],
        )
