"""What a barrier means for the inputs of a task: wait, hold an input back, or take the snapshot. Pure. Task side.

    exactly once     an input whose barrier was reached is held back until those of all others were reached
    at least once    no input is held back: records behind a barrier may become part of the snapshot
    unaligned        the snapshot is taken as soon as one barrier has come, wherever it stands in its channel. What is
                     ahead of barriers becomes part of the snapshot. Inputs that barriers must not overtake in (sources,
                     broadcast and pointwise edges) are aligned before.

A barrier **has come** when it is in the queue of its input, and is **reached** when its turn comes. A checkpoint can
become unaligned at any time before the snapshot.

Checkpoints come one at a time, but the driver may give one up and begin the next while barriers of the first are under
way. A newer barrier therefore ends an older alignment, and so does the driver's word that a checkpoint is given up.
Barriers of that checkpoint that come later are passed over. Inputs that have ended still pass barriers on.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum

from flott.common._ids import EpochId
from flott.errors import WorkerLostError

#: Before the first checkpoint.
NONE = EpochId(0)


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
    overtakable: frozenset[Hashable] = frozenset()  #: inputs in which barriers may overtake buffers
    checkpoint: EpochId | None = None  #: None: no barrier has come since the last snapshot
    come: frozenset[Hashable] = frozenset()
    arrived: frozenset[Hashable] = frozenset()  #: those that were reached
    unaligned: EpochId = NONE  #: the last checkpoint that is known to be unaligned
    taken: EpochId = NONE  #: the last checkpoint that the task has taken a snapshot for
    given_up: EpochId = NONE  #: the last checkpoint that the driver gave up

    @property
    def held_back(self) -> frozenset[Hashable]:
        """Return the inputs that must not be read."""
        return self.arrived if self.exactly_once else frozenset()

    @property
    def awaited(self) -> frozenset[Hashable]:
        """Return the inputs whose barrier was not reached, while others were."""
        return self.inputs - self.arrived if self.arrived else frozenset()

    @property
    def is_due(self) -> bool:
        """Return whether the snapshot is to be taken before anything else is read."""
        if self.checkpoint is None:
            return False
        if self.arrived >= self.inputs:
            return True
        return self.unaligned == self.checkpoint and self.arrived >= self.inputs - self.overtakable


def on_come(
    alignment: BarrierAlignment, source: Hashable, checkpoint: EpochId, unaligned: bool = False
) -> BarrierAlignment:
    """Return the alignment after a barrier came into the queue of an input."""
    current, come, arrived = alignment.checkpoint, alignment.come, alignment.arrived
    if checkpoint <= alignment.given_up or checkpoint < max(alignment.taken, current or NONE):
        return alignment
    if checkpoint == alignment.taken or (checkpoint == current and source in come):
        raise WorkerLostError(
            f"A barrier of checkpoint {checkpoint} came from {source} after one of checkpoint {checkpoint}: a channel"
            " has lost its order."
        )
    if checkpoint != current:
        come, arrived = frozenset(), frozenset()
    after = replace(alignment, checkpoint=checkpoint, come=come | {source}, arrived=arrived)
    return on_unaligned(after, checkpoint) if unaligned else after


def on_reached(alignment: BarrierAlignment, source: Hashable, checkpoint: EpochId) -> tuple[BarrierAlignment, Reaction]:
    """Return the alignment after the turn of a barrier came, and what the task does."""
    if checkpoint != alignment.checkpoint:
        return alignment, Reaction.CONTINUE  # that checkpoint was given up
    reached = replace(alignment, arrived=alignment.arrived | {source})
    if reached.is_due:
        return reached, Reaction.TAKE_SNAPSHOT
    return reached, Reaction.HOLD_BACK if alignment.exactly_once else Reaction.CONTINUE


def on_unaligned(alignment: BarrierAlignment, checkpoint: EpochId) -> BarrierAlignment:
    """Return the alignment after a checkpoint was found to be unaligned. At least once there is no such thing."""
    return replace(alignment, unaligned=max(checkpoint, alignment.unaligned)) if alignment.exactly_once else alignment


def on_taken(alignment: BarrierAlignment, checkpoint: EpochId) -> BarrierAlignment:
    """Return the alignment after the snapshot for a checkpoint."""
    return replace(alignment, checkpoint=None, come=frozenset(), arrived=frozenset(), taken=checkpoint)


def on_given_up(alignment: BarrierAlignment, checkpoint: EpochId) -> BarrierAlignment:
    """Return the alignment after the driver gave a checkpoint up: no input is held back for it."""
    after = replace(alignment, given_up=max(checkpoint, alignment.given_up))
    if alignment.checkpoint is None or alignment.checkpoint > checkpoint:
        return after
    return replace(after, checkpoint=None, come=frozenset(), arrived=frozenset())
