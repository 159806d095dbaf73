"""How a batch program exchanges data: kept for programs that name it. Flott has one way, the epoch."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExecutionMode"]


class ExecutionMode(Enum):
    """Flink's modes of the DataSet API. None of them changes what Flott does."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
