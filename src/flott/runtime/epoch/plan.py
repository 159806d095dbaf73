"""The plan of one epoch: everything that tasks need to know and that changes from epoch to epoch. A value.

Together with the job image (constant) and the state files it names, it determines what the epoch computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flott.common._ids import EpochId
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.connectors.base import Slice
from flott.graph.operator_ids import OperatorId
from flott.runtime.managed_state.files.channel_file import ChannelSection
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.operator.operator_shares import OperatorStart
from flott.runtime.operators.source import SourceAssignment
from flott.runtime.operators.watermarks import TimeProgress


@dataclass(frozen=True)
class SubtaskState:
    """The state that an operator subtask begins with."""

    watermark: int = MIN_WATERMARK
    sequence: FileSequence = ()
    progress: TimeProgress = field(default_factory=TimeProgress)
    operator_state: OperatorStart = field(default_factory=OperatorStart)


@dataclass(frozen=True)
class ChannelPart:
    """Buffers that a checkpoint has saved, for one subtask that receives them."""

    file: str
    section: ChannelSection
    whole: bool  #: all its records are for this subtask; if not, those that the partitioning of the edge gives it
    timed: bool  #: whether event time that was told between them still holds: no subtask may be behind it


ChannelStarts = Mapping[int, tuple[tuple[ChannelPart, ...], ...]]


@dataclass(frozen=True)
class EpochPlan:
    """One attempt at one epoch."""

    run_id: str  #: of the process that runs the job; part of the names of files
    epoch: EpochId
    attempt: int
    now_ms: int
    seed: int
    sources: Mapping[OperatorId, tuple[SourceAssignment, ...]] = field(default_factory=dict)
    states: Mapping[OperatorId, tuple[SubtaskState, ...]] = field(default_factory=dict)
    final: bool = False  #: the input of all sources ends with it, so operators finish and close
    #: What was on its way when the checkpoint to begin with was taken: by edge, then by receiving subtask.
    channels: ChannelStarts = field(default_factory=dict)


def assign_slices(slices: Sequence[Slice], parallelism: int, readers: Mapping[str, int]) -> list[list[Slice]]:
    """Distribute slices over subtasks: known splits to their reader, others to the least loaded, the largest first.

    A split stays with its reader, because the watermark of a subtask never goes back: a split that came from a slower
    subtask would find its records late. Pure and stable.
    """
    load = [0] * parallelism
    owned = Counter(readers.values())
    assigned: list[list[Slice]] = [[] for _ in range(parallelism)]
    order = sorted(range(len(slices)), key=lambda i: (slices[i].split not in readers, -(slices[i].records or 1), i))
    for index in order:
        subtask = readers.get(slices[index].split)
        if subtask is None:
            subtask = min(range(parallelism), key=lambda s: (load[s], owned[s], s))
        load[subtask] += slices[index].records or 1
        assigned[subtask].append(slices[index])
    for own in assigned:
        own.sort(key=lambda part: part.split)
    return assigned
