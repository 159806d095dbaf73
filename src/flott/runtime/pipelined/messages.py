"""What travels through a channel between two tasks, in order: records, event time, barriers, latency markers. Values.

A channel connects one task of a stage with one task of another. Everything that the subtasks of the first send to those
of the second, along any edge, goes through it in the order in which it was sent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from flott.common._ids import EpochId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.wire import Origin, encode_batch
from flott.runtime.operators.batch import Batch


class TaskAddress(NamedTuple):
    """A task: the subtasks with one index of all vertices of a stage."""

    stage: int
    partition: int

    def __str__(self) -> str:
        return f"task {self.partition} of stage {self.stage}"


class Channel(NamedTuple):
    """The way from one task to another."""

    sender: TaskAddress
    receiver: TaskAddress


@dataclass(frozen=True, slots=True)
class Buffer:
    """Records of one edge: encoded, or as they are if both tasks are in one process."""

    edge: int
    payload: bytes | tuple[Batch, Origin]


@dataclass(frozen=True, slots=True)
class EventTimes:
    """How far event time has come on the edges of a channel: (edge, watermark, idle, ended)."""

    entries: tuple[tuple[int, int, bool, bool], ...]


class Overtaking(Enum):
    """Whether a barrier leaves buffers behind that were sent before it. They become part of the checkpoint then."""

    NEVER = "never: the checkpoint is aligned"
    LATER = "as soon as the driver says so: the checkpoint is aligned unless that takes too long"
    NOW = "at once: the checkpoint is unaligned"


@dataclass(frozen=True, slots=True)
class Barrier:
    """Everything before it belongs to the checkpoint, everything behind it does not."""

    checkpoint: EpochId
    final: bool = False  #: nothing comes behind it
    overtaking: Overtaking = Overtaking.NEVER


@dataclass(frozen=True, slots=True)
class LatencyMarker:
    """Shows how long a record needs from its source to where the marker comes. It is not part of checkpoints."""

    edge: int
    made_ms: int  #: by the clock of the source's host
    source: OperatorId
    subtask: int  #: of the source


Message = Buffer | EventTimes | Barrier | LatencyMarker

#: More messages are in a queue only if receivers take nothing.
LONG_QUEUE = 128


def enqueue(queue: deque[Message], message: Message) -> None:
    """Append a message to a queue.

    Event time needs no credits. If it moves on and on while a receiver takes nothing, the last one is replaced.
    """
    if len(queue) >= LONG_QUEUE and _replaces(message, queue[-1]):
        queue[-1] = message
    else:
        queue.append(message)


def _replaces(message: Message, before: Message) -> bool:
    """Return whether both messages say how far event time has come on the same edges."""
    return (
        message.__class__ is EventTimes
        and before.__class__ is EventTimes
        and len(message.entries) == len(before.entries)
        and all(new[0] == old[0] for new, old in zip(message.entries, before.entries, strict=True))
    )


def encoded(message: Message) -> Message:
    """Return a message; a buffer in bytes."""
    if message.__class__ is Buffer and not isinstance(message.payload, bytes):
        return Buffer(message.edge, encode_batch(*message.payload))
    return message
