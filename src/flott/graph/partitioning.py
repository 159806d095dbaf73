"""How the records of an edge find their subtask: the choices as values. ``runtime.epoch`` carries them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flott.graph.specs import KeySpec


@dataclass(frozen=True)
class Partitioning:
    """Common root. ``label`` is what plans print; ``pointwise`` edges connect equal subtasks only."""

    label = "?"
    #: A pointwise edge can stay inside a task: subtask i feeds subtask i and no other.
    pointwise = False


@dataclass(frozen=True)
class Forward(Partitioning):
    """Subtask i to subtask i; both sides have the same parallelism."""

    asked_by: str = "forward()"  #: the call that asks for it, for errors
    label = "FORWARD"
    pointwise = True


@dataclass(frozen=True)
class Rebalance(Partitioning):
    """Round robin over all subtasks."""

    label = "REBALANCE"


@dataclass(frozen=True)
class Rescale(Partitioning):
    """Round robin over the subtasks nearest to the sender."""

    label = "RESCALE"


@dataclass(frozen=True)
class Shuffle(Partitioning):
    """A random subtask for each record (seeded, so that a repeated epoch draws the same)."""

    label = "SHUFFLE"


@dataclass(frozen=True)
class Broadcast(Partitioning):
    """Every record to every subtask."""

    label = "BROADCAST"


@dataclass(frozen=True)
class Global(Partitioning):
    """Everything to the first subtask."""

    label = "GLOBAL"


@dataclass(frozen=True)
class Hash(Partitioning):
    """By key: key -> key group -> subtask."""

    key: KeySpec
    label = "HASH"


@dataclass(frozen=True)
class Custom(Partitioning):
    """By the user's partitioner over the user's key."""

    partitioner: Any
    selector: Callable[[Any], Any]
    label = "CUSTOM"
