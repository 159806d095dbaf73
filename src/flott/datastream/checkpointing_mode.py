"""The guarantee of a recovery about state."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record counts in the state after a recovery.

    Flott's checkpoints are between epochs, when no record is in flight. They are always exactly once, also for
    ``AT_LEAST_ONCE``, which is a weaker guarantee.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
