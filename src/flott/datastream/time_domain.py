"""The clocks of timers."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """The clock that made a timer fire: the watermark, or the wall clock."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
