"""The execution mode of a program: streaming or batch."""

from __future__ import annotations

from enum import Enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(Enum):
    """How a program is executed.

    ``STREAMING`` emits every intermediate result and advances event time with the input. ``BATCH`` needs bounded
    sources
    and emits final results. ``AUTOMATIC`` means ``BATCH`` if all sources are bounded, ``STREAMING`` otherwise.
    """

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
