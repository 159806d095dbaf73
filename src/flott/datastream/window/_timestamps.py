"""Records without a timestamp: how one is told, and what is said where event time needs one."""

from __future__ import annotations

from typing import TypeGuard

from flott.common.constants import MIN_LONG_VALUE
from flott.errors import ProgramError


def has_time(timestamp: int | None) -> TypeGuard[int]:
    """Whether it is the timestamp of a record; as in Flink, the least long stands for none."""
    return timestamp is not None and timestamp > MIN_LONG_VALUE


def no_timestamp_error(needed_by: object) -> ProgramError:
    """The error to raise; ``needed_by`` is the assigner or trigger that wants to know the time of the record."""
    return ProgramError(
        f"{needed_by!r} works with the timestamp of each record, found a record without one. Call"
        " assign_timestamps_and_watermarks() with a WatermarkStrategy that has a timestamp assigner, before key_by()"
        " or window_all(); or use windows of processing time."
    )
