"""What travels through a channel between two tasks, in order: records, event time, barriers. Values.

A channel connects one task of a stage with one task of another. Everything that the subtasks of the first send to those
of the second, along any edge, goes through it in the order in which it was sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flott.common._ids import EpochId
from flott.runtime.epoch.wire import Origin
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


@dataclass(frozen=True, slots=True)
class Barrier:
    """Everything before it belongs to the checkpoint, everything behind it does not."""

    checkpoint: EpochId
    final: bool = False  #: nothing comes behind it


Message = Buffer | EventTimes | Barrier
