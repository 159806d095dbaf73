"""The clocks by which state ages. Task side.

Processing time stands still within an epoch. Event time is that of the record or timer at hand, so that what a function
finds in state does not depend on where epochs end; but it never falls behind the watermark, and only what the watermark
has passed is removed. So a record that comes after another of a later time still finds what the other found expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.runtime.managed_state.ttl.time_to_live import UNSTAMPED, TimeToLive


class StateClock(Protocol):
    """A clock, as the handles of state read it."""

    @property
    def now(self) -> int:
        """Return what has lived until then has expired."""

    @property
    def floor(self) -> int:
        """No later access is at an earlier time."""

    @property
    def stamp(self) -> int:
        """Return what is written now is stamped with it."""


class ProcessingClock:
    """Processing time: that of the epoch."""

    __slots__ = ("floor", "now", "stamp")

    def __init__(self) -> None:
        self.turn(MIN_WATERMARK)

    def turn(self, now_ms: int) -> None:
        """An epoch begins."""
        self.now = self.floor = self.stamp = now_ms


class EventClock:
    """Event time: that of the record or timer at hand, which is looked up when it is asked for."""

    __slots__ = ("_records", "_timestamps", "floor", "time")

    def __init__(self) -> None:
        self.turn(MIN_WATERMARK)

    def turn(self, watermark: int) -> None:
        """An epoch begins; this watermark has closed the one before."""
        self.floor = watermark
        self.follow(None, None)

    def follow(self, records: Iterator[Any] | None, timestamps: list[int] | None) -> None:
        """Until told otherwise, the record at hand is the one that an iterator over the list of them gave out last."""
        self._records = records
        self._timestamps = timestamps
        self.time = MIN_WATERMARK  #: of what is at hand, if it is no record

    @property
    def now(self) -> int:
        """Return the time of what is at hand, or the watermark if that is later."""
        time, timestamps = self.time, self._timestamps
        if timestamps is not None:
            left: int = self._records.__length_hint__()  # type: ignore[union-attr]
            time = timestamps[len(timestamps) - left - 1]
        return time if time > self.floor else self.floor

    @property
    def stamp(self) -> int:
        """Return the same, where there is one."""
        now = self.now
        return UNSTAMPED if now == MIN_WATERMARK else now


class StateClocks:
    """Both clocks of an operator."""

    __slots__ = ("event", "processing")

    def __init__(self) -> None:
        self.processing = ProcessingClock()
        self.event = EventClock()

    def turn(self, now_ms: int, watermark: int) -> None:
        """An epoch begins."""
        self.processing.turn(now_ms)
        self.event.turn(watermark)

    def of(self, ttl: TimeToLive) -> StateClock:
        """Return the clock that a time to live is measured by."""
        return self.event if ttl.in_event_time else self.processing
