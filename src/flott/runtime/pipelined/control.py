"""What the job master and the slots tell each other while a job runs pipelined. Values.

    driver -> slot    ReadRound, InjectBarrier, CheckpointCommitted, EndTasks
    slot -> driver    RoundRead, CheckpointSaved, TaskFailed, SlotLogged, SlotLost

A source is read in **rounds**: the enumerator, on the driver, proposes slices; the readers read them and say how far
they got; then the enumerator proposes the next ones. Between two rounds of a source the driver may inject a barrier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flott.common._ids import EpochId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.report import SubtaskReport
from flott.runtime.logs.line import TaskLog
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.operators.source import SourceAssignment, SplitReport

# --- driver -> slot --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadRound:
    """Let a source subtask read slices, then tell event time on."""

    source: OperatorId
    round: int
    assignment: SourceAssignment


@dataclass(frozen=True)
class InjectBarrier:
    """Let a source subtask send a barrier behind everything that it has read."""

    source: OperatorId
    checkpoint: EpochId
    final: bool = False


@dataclass(frozen=True)
class CheckpointCommitted:
    """A checkpoint is complete. Sequences of files that were compacted in it are replaced."""

    checkpoint: EpochId
    replaced: Mapping[OperatorId, tuple[FileSequence, FileSequence]] = field(default_factory=dict)


@dataclass(frozen=True)
class EndTasks:
    """End the slot: its tasks are closed, what they have not saved is void."""


Command = ReadRound | InjectBarrier | CheckpointCommitted | EndTasks

# --- slot -> driver --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundRead:
    """A source subtask has read its slices of a round."""

    source: OperatorId
    subtask: int
    round: int
    splits: Mapping[str, SplitReport]


@dataclass(frozen=True)
class CheckpointSaved:
    """The state of all subtasks of a task is durable."""

    checkpoint: EpochId
    reports: tuple[SubtaskReport, ...]


@dataclass(frozen=True)
class TaskFailed:
    """A task has failed. The slot does nothing any more."""

    card: FailureCard


@dataclass(frozen=True)
class SlotLogged:
    """Tasks have printed or logged something."""

    log: TaskLog


@dataclass(frozen=True)
class SlotLost:
    """A slot has ended without being told to."""

    reason: str


SlotEvent = RoundRead | CheckpointSaved | TaskFailed | SlotLogged | SlotLost
