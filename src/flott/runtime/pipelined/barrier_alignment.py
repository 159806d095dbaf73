"""What a barrier means for the inputs of a task: wait, hold a channel back, or take the snapshot. Pure. Task side.

    exactly once     an input whose barrier has come is held back until those of all others have come
    at least once    no input is held back: records behind a barrier may become part of the snapshot

Checkpoints come one at a time and none is given up while tasks run, so a barrier is always that of the next checkpoint.
Inputs that have ended still pass barriers on.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum

from flott.common._ids import EpochId
from flott.errors import WorkerLostError


class Reaction(Enum):
    """What a task does about a barrier."""

    CONTINUE = "read on from all inputs"
    HOLD_BACK = "do not read from this input for now"
    TAKE_SNAPSHOT = "take the snapshot, then read from all inputs"


@dataclass(frozen=True)
class BarrierAlignment:
    """The barriers that a task has seen of the checkpoint in progress."""

    inputs: frozenset[Hashable]
    exactly_once: bool = True
    checkpoint: EpochId | None = None  #: None: no barrier has come since the last snapshot
    arrived: frozenset[Hashable] = frozenset()

    @property
    def held_back(self) -> frozenset[Hashable]:
        """Return the inputs that must not be read."""
        return self.arrived if self.exactly_once else frozenset()

    @property
    def awaited(self) -> frozenset[Hashable]:
        """Return the inputs whose barrier has not come, while others have."""
        return self.inputs - self.arrived if self.arrived else frozenset()


def on_barrier(alignment: BarrierAlignment, source: Hashable, checkpoint: EpochId) -> tuple[BarrierAlignment, Reaction]:
    """Return the alignment after a barrier came on an input, and what the task does."""
    if alignment.checkpoint not in (None, checkpoint) or source in alignment.arrived:
        raise WorkerLostError(
            f"A barrier of checkpoint {checkpoint} came from {source} while the task was waiting for barriers of"
            f" checkpoint {alignment.checkpoint}: a channel has lost its order."
        )
    arrived = alignment.arrived | {source}
    if arrived >= alignment.inputs:
        return replace(alignment, checkpoint=None, arrived=frozenset()), Reaction.TAKE_SNAPSHOT
    reaction = Reaction.HOLD_BACK if alignment.exactly_once else Reaction.CONTINUE
    return replace(alignment, checkpoint=checkpoint, arrived=arrived), reaction
