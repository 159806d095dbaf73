"""Records without a timestamp: how they are recognized, and the error if event time needs one."""

from __future__ import annotations

from typing import TypeGuard

from flott.common.constants import MIN_LONG_VALUE
from flott.errors import ProgramError


def has_time(timestamp: int | None) -> TypeGuard[int]:
    """Return whether it is a timestamp. As in Flink, the smallest long means none."""
    return timestamp is not None and timestamp > MIN_LONG_VALUE


def no_timestamp_error(needed_by: object) -> ProgramError:
    """Return the error to raise. ``needed_by`` is the assigner or trigger that needs the timestamp."""
    return ProgramError(
        f"{needed_by!r} works with the timestamp of each record, found a record without one. Call"
        " assign_timestamps_and_watermarks() with a WatermarkStrategy that has a timestamp assigner, before key_by()"
        " or window_all(); or use windows of processing time."
    )
