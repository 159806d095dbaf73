"""Which clock a timer listens to."""

from __future__ import annotations

from enum import Enum

__all__ = ["TimeDomain"]


class TimeDomain(Enum):
    """Which clock made a timer fire: the watermark, or the clock on the wall."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
