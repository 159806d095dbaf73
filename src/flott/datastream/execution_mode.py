"""Whether a program runs as a stream or as a batch."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program is executed.

    ``STREAMING`` emits every intermediate result and moves event time along with the input. ``BATCH`` needs bounded
    sources and emits final results. ``AUTOMATIC`` means ``BATCH`` if all sources are bounded, ``STREAMING`` otherwise.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
