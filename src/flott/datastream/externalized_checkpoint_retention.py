"""The retention of checkpoints when a job is cancelled."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExternalizedCheckpointRetention"]


class ExternalizedCheckpointRetention(Enum):
    """Whether checkpoints outlive the job.

    ``DELETE_ON_CANCELLATION`` keeps them only if the job fails, ``RETAIN_ON_CANCELLATION`` also if it is cancelled.
    ``NO_EXTERNALIZED_CHECKPOINTS`` deletes them in both cases.
    """

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2
