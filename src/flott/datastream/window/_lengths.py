"""Converts durations of windows, triggers and evictors, of Flink's two types, to milliseconds."""

from __future__ import annotations

from typing import TypeAlias

from flott.common.time import Duration, Time
from flott.errors import ProgramError

#: The accepted types of a duration.
Length: TypeAlias = Time | Duration

_NANOS_PER_MILLI = 1_000_000


def to_ms(length: object, what: str) -> int:
    """Return the duration in milliseconds. ``what`` names it in the error message.

    >>> to_ms(Duration.of_seconds(5), "The size of a window")
    5000
    """
    if isinstance(length, Time):
        return length.to_milliseconds()
    if isinstance(length, Duration) and length.nanos % _NANOS_PER_MILLI == 0:
        return length.to_millis()
    if isinstance(length, Duration):
        raise ProgramError(f"{what} is {length}, expected whole milliseconds: time has no finer steps in a stream.")
    raise ProgramError(
        f"{what} is a Time such as Time.seconds(5) or a Duration such as Duration.of_seconds(5), found {length!r} of"
        f" type {type(length).__name__}."
    )


def positive_ms(length: Length, what: str) -> int:
    """Return the duration in milliseconds, which must be at least one."""
    return check_positive(to_ms(length, what), f"{what} in milliseconds")


def check_positive(number: object, what: str) -> int:
    """Refuse a value that is not an integer of at least one."""
    if isinstance(number, int) and not isinstance(number, bool) and number > 0:
        return number
    raise ProgramError(f"{what} is a whole number of at least 1, found {number!r}.")
