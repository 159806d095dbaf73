"""The late-data ledger as a program sees it: for every windowed or timed operator, in = processed + late + dropped."""

from __future__ import annotations

from dataclasses import dataclass

#: So many late records are kept to look at, per operator.
MAX_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class LateSample:
    """One record that came too late."""

    record: str  #: in words, shortened
    timestamp: int
    watermark: int  #: how far event time was when it came

    @property
    def behind_ms(self) -> int:
        """How late it was: with so much more out-of-orderness it would have come in time."""
        return self.watermark - self.timestamp


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What became of the records that one operator was given.

    >>> entry = LedgerEntry("Window", records_in=10, late=1, dropped=2)
    >>> entry.processed, entry.refused
    (7, 3)
    """

    operator: str
    records_in: int = 0
    late: int = 0  #: too late, and sent to a side output
    dropped: int = 0  #: too late, and lost
    samples: tuple[LateSample, ...] = ()

    @property
    def processed(self) -> int:
        """Records that came in time."""
        return self.records_in - self.late - self.dropped

    @property
    def refused(self) -> int:
        """All records that came too late."""
        return self.late + self.dropped

    def plus(self, other: LedgerEntry) -> LedgerEntry:
        """Both together. The first samples stay."""
        return LedgerEntry(
            self.operator,
            self.records_in + other.records_in,
            self.late + other.late,
            self.dropped + other.dropped,
            (self.samples + other.samples)[:MAX_SAMPLES],
        )
