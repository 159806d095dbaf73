"""What the job master and the slots tell each other while a job runs pipelined. Values.

    driver -> slot    ReadRound, EndRound, InjectBarrier, OvertakeBuffers, CheckpointCommitted, CheckpointGivenUp,
                      EndTasks
    slot -> driver    InputFound, OutputFound, RoundRead, CheckpointSaved, CheckpointDeclined, TaskFailed, SlotLogged,
                      SlotLost, SlotAlive

Before that, slots find each other (``meeting``): SlotListens, SlotAddresses, SlotReady.

A source is read in **rounds**: the enumerator, on the driver, proposes slices; the readers read them and say how far
they got; then the enumerator proposes the next ones. Between two rounds of a source the driver may inject a barrier.
Slices may be open: such a round lasts until the driver ends it, for a barrier or because there may be other splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flott.common._durations import rounded_millis
from flott.common._ids import EpochId, SubtaskIndex
from flott.graph.job_graph import VertexId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.report import SubtaskReport, TaskPlace
from flott.runtime.logs.line import TaskLog
from flott.runtime.managed_state.files.channel_file import ChannelFile
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.operators.source import SourceAssignment, SplitReport
from flott.runtime.pipelined.connection import SlotEndpoint
from flott.runtime.pipelined.messages import Overtaking

# --- while slots find each other --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SlotListens:
    """A slot tells the driver where it listens."""

    endpoint: SlotEndpoint
    place: TaskPlace


@dataclass(frozen=True)
class SlotAddresses:
    """The driver tells a slot where all slots listen, and where they run."""

    endpoints: tuple[SlotEndpoint, ...]
    places: tuple[TaskPlace, ...]


@dataclass(frozen=True)
class SlotReady:
    """A slot is connected with all others: it takes commands now, and sends heartbeats."""


# --- driver -> slot --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadRound:
    """Let a source subtask read slices, then tell event time on."""

    source: OperatorId
    round: int
    assignment: SourceAssignment


@dataclass(frozen=True)
class EndRound:
    """Let a source subtask end the open slices of a round where they are. Rounds that it has read are not concerned."""

    source: OperatorId
    round: int


@dataclass(frozen=True)
class InjectBarrier:
    """Let a source subtask send a barrier behind everything that it has read."""

    source: OperatorId
    checkpoint: EpochId
    final: bool = False
    overtaking: Overtaking = Overtaking.NEVER


@dataclass(frozen=True)
class OvertakeBuffers:
    """From now on a checkpoint is unaligned: its barriers overtake buffers, and rounds before it are read at once."""

    checkpoint: EpochId


@dataclass(frozen=True)
class CheckpointCommitted:
    """A checkpoint is complete. Sequences of files that were compacted in it are replaced."""

    checkpoint: EpochId
    replaced: Mapping[OperatorId, tuple[FileSequence, FileSequence]] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckpointGivenUp:
    """A checkpoint has failed. Nothing waits for its barriers any more; what was saved for it is part of the next."""

    checkpoint: EpochId


@dataclass(frozen=True)
class EndTasks:
    """End the slot: its tasks are closed, what they have not saved is void."""


Command = ReadRound | EndRound | InjectBarrier | OvertakeBuffers | CheckpointCommitted | CheckpointGivenUp | EndTasks

# --- slot -> driver --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InputFound:
    """Open slices of a round have brought their first records: there is something for a checkpoint to save."""

    source: OperatorId
    round: int


@dataclass(frozen=True)
class OutputFound:
    """A task has produced something although nothing came in: a source has become idle, or the clock has moved on.

    It is sent once per epoch, so that a checkpoint commits the output although there is no further input.
    """

    epoch: EpochId


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
    channels: ChannelFile | None = None  #: what was on its way to and from the task, if the checkpoint is unaligned


@dataclass(frozen=True)
class CheckpointDeclined:
    """The state of a task could not be written. The task runs on, and writes the files again before the next ones."""

    checkpoint: EpochId
    reports: tuple[SubtaskReport, ...]  #: what the subtasks did up to the barrier
    card: FailureCard
    channels: ChannelFile | None = None


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
    """A slot has ended without being told to, or was not started."""

    reason: str
    is_missing: bool = False  #: Spark has not started it


@dataclass(frozen=True)
class TaskWait:
    """What one task has been waiting for."""

    vertices: tuple[VertexId, ...]
    subtask: SubtaskIndex
    name: str  #: of the subtasks
    reason: str
    waited_ms: int = 0

    def __str__(self) -> str:
        return f"{self.name} has made no progress for {rounded_millis(self.waited_ms)}: {self.reason}"


@dataclass(frozen=True)
class SubtaskLoad:
    """What a subtask has done since its tasks were started."""

    vertex: VertexId
    subtask: SubtaskIndex
    busy_ms: float
    back_pressured_ms: float
    records_in: int
    records_out: int


@dataclass(frozen=True)
class SlotAlive:
    """A slot lives: its heartbeat, what its tasks wait for, and their load."""

    slot: int
    waits: tuple[TaskWait, ...]
    loads: tuple[SubtaskLoad, ...] = ()


SlotEvent = (
    InputFound
    | OutputFound
    | RoundRead
    | CheckpointSaved
    | CheckpointDeclined
    | TaskFailed
    | SlotLogged
    | SlotLost
    | SlotAlive
)
