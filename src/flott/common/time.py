"""Durations and points in time as frozen values.

Nothing here reads a clock. ``Duration`` has nanoseconds, the older ``Time`` milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from flott.common._durations import format_nanos

__all__ = ["Duration", "Instant", "Time"]

_NANOS_PER_MILLI = 1_000_000
_NANOS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Duration:
    """A duration.

    >>> Duration.of_seconds(2).to_millis()
    2000
    >>> Duration.of_minutes(1) > Duration.of_seconds(59)
    True
    """

    nanos: int

    @staticmethod
    def of_days(days: int) -> Duration:
        return Duration.of_hours(days * 24)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        return Duration.of_minutes(hours * 60)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        return Duration.of_seconds(minutes * 60)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        return Duration(seconds * _NANOS_PER_SECOND)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        return Duration(millis * _NANOS_PER_MILLI)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        return Duration(nanos)

    @staticmethod
    def of_timedelta(delta: timedelta) -> Duration:
        return Duration(delta // timedelta(microseconds=1) * 1000)

    def to_nanos(self) -> int:
        return self.nanos

    def to_millis(self) -> int:
        return self.nanos // _NANOS_PER_MILLI

    def to_seconds(self) -> int:
        return self.nanos // _NANOS_PER_SECOND

    def to_minutes(self) -> int:
        return self.to_seconds() // 60

    def to_hours(self) -> int:
        return self.to_minutes() // 60

    def to_days(self) -> int:
        return self.to_hours() // 24

    def to_timedelta(self) -> timedelta:
        return timedelta(microseconds=self.nanos // 1000)

    def __str__(self) -> str:
        """Return the form of configuration files: ``10 s``."""
        return format_nanos(self.nanos)

    def __repr__(self) -> str:
        return f"Duration<{self}>"


@dataclass(frozen=True, slots=True, order=True, repr=False)
class Instant:
    """A point in time: seconds since 1970-01-01T00:00:00Z, and nanoseconds within that second."""

    seconds: int
    nanos: int

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * _NANOS_PER_MILLI)

    def to_epoch_milli(self) -> int:
        return self.seconds * 1000 + self.nanos // _NANOS_PER_MILLI

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


class Time:
    """A duration in milliseconds, as window assigners take it.

    >>> Time.seconds(5).to_milliseconds()
    5000
    """

    # This is not a dataclass, because Flink's constructor names (milliseconds, seconds …) occupy the field names.
    __slots__ = ("_milliseconds",)

    _milliseconds: int

    def __init__(self, milliseconds: int):
        object.__setattr__(self, "_milliseconds", milliseconds)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Time is immutable: cannot set {name!r}.")

    def to_milliseconds(self) -> int:
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        return Time.seconds(minutes * 60)

    @staticmethod
    def hours(hours: int) -> Time:
        return Time.minutes(hours * 60)

    @staticmethod
    def days(days: int) -> Time:
        return Time.hours(days * 24)

    def __eq__(self, other: object) -> bool:
        return self._milliseconds == other._milliseconds if isinstance(other, Time) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __reduce__(self) -> tuple[object, ...]:
        return Time, (self._milliseconds,)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"

    def __repr__(self) -> str:
        return f"Time<{self}>"
