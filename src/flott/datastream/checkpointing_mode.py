"""What recovery promises about state."""

from __future__ import annotations

from enum import Enum

__all__ = ["CheckpointingMode"]


class CheckpointingMode(Enum):
    """How often a record counts in the state after a recovery.

    Flott's checkpoints lie between epochs, where no record is under way. They are exactly-once at no extra cost, so
    ``AT_LEAST_ONCE`` is accepted as the weaker promise that it is and kept just the same.
    """

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
