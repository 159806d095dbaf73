"""The data exchange modes of batch programs, for programs that use the names. Flott has only epochs."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """Flink's modes of the DataSet API. They have no effect."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
