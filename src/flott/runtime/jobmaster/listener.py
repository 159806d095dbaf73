"""What a job reports to its listeners. Driver side."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flott.common._ids import EpochId, SubtaskIndex
from flott.common._late_records import LedgerEntry
from flott.common._savepoint_format import SavepointFormatType
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.connectors.base import Pending
from flott.graph.job_graph import JobGraph, VertexId
from flott.graph.operator_ids import OperatorId
from flott.metrics._engine_metrics import STATE_BYTES
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.epoch.report import CheckpointTimes, TaskPlace
from flott.runtime.epoch.runner import TaskProgress
from flott.runtime.jobmaster.rescaling import ParallelismChange
from flott.runtime.logs.line import TaskLog
from flott.runtime.pipelined.control import SubtaskLoad, TaskWait

log = logging.getLogger("flott.job")


@dataclass(frozen=True)
class OperatorStatistics:
    """What one operator subtask did in an epoch, and where it stands after it."""

    measures: Mapping[str, int | float] = field(default_factory=dict)  #: values of the engine's metrics, by name
    written_bytes: int = 0  #: the size of the state files that the epoch added
    metrics: Mapping[str, tuple[str, int | float]] = field(default_factory=dict)  #: what the epoch added to the user's


@dataclass(frozen=True)
class SubtaskStatistics:
    """The same of one vertex subtask: a chain of operators."""

    vertex: VertexId
    subtask: SubtaskIndex
    place: TaskPlace = field(default_factory=TaskPlace)
    worker: int = 0  #: process id
    started_ms: int = 0  #: by the clock of its host
    ended_ms: int = 0
    measures: Mapping[str, int | float] = field(default_factory=dict)  #: values of the engine's metrics, by name
    operators: Mapping[OperatorId, OperatorStatistics] = field(default_factory=dict)
    checkpoint: CheckpointTimes | None = None  #: None: it ran in an epoch, which has no barriers
    edges: Mapping[int, tuple[int, int]] = field(default_factory=dict)  #: records and bytes that came in, by edge
    latencies: Mapping[LatencyPath, MarkerAges] = field(default_factory=dict)  #: of the markers that came

    @property
    def state_bytes(self) -> int:
        """Return the size of all its state files."""
        state = sum(int(operator.measures.get(STATE_BYTES.name, 0)) for operator in self.operators.values())
        return state + self.persisted_bytes

    @property
    def persisted_bytes(self) -> int:
        """Return the size of the buffers that an unaligned checkpoint has saved."""
        return 0 if self.checkpoint is None else self.checkpoint.persisted_bytes

    @property
    def written_bytes(self) -> int:
        """Return the size of the state files that the epoch added."""
        return sum(operator.written_bytes for operator in self.operators.values()) + self.persisted_bytes


@dataclass(frozen=True)
class EpochStatistics:
    """One completed epoch in numbers."""

    epoch: EpochId
    attempt: int
    records_in: int
    records_out: int  #: records that reached a sink
    watermark: int
    completed_at_ms: int
    backlog: bool
    state_bytes: int
    state_entries: int
    plan_ms: float
    run_ms: float
    complete_ms: float
    commit_ms: float
    operators: Mapping[OperatorId, tuple[int, int]] = field(default_factory=dict)  #: records in and out
    #: What windowed and timed operators did with the records they got.
    ledger: Mapping[OperatorId, LedgerEntry] = field(default_factory=dict)
    parallelism: int = 1  #: of the widest operator
    started_at_ms: int = 0  #: when its plan was taken up; of a pipelined job: when the barriers were sent
    schedule_ms: float = 0.0  #: the part of ``run_ms`` before the first task began
    subtasks: tuple[SubtaskStatistics, ...] = ()
    pending: Mapping[OperatorId, Pending] = field(default_factory=dict)  #: what the sources have left, if they know
    accumulators: bytes | None = None  #: the user's over all epochs, pickled by name
    pipelined: bool = False  #: tasks ran continuously since the checkpoint before, and ``plan_ms`` is that time
    align_ms: float = 0.0  #: the part of ``run_ms`` until barriers had come through to all subtasks
    sync_ms: float = 0.0  #: the part after it until all state was taken aside

    @property
    def total_ms(self) -> float:
        """Return the time from the plan to the last commit."""
        return self.plan_ms + self.run_ms + self.complete_ms + self.commit_ms

    @property
    def phases(self) -> dict[str, float]:
        """Return the duration of each phase of the epoch in milliseconds, in their order.

        Of a pipelined job, these are the phases of its checkpoint. Tasks process records meanwhile.
        """
        if self.pipelined:
            return {
                "align": self.align_ms,
                "sync": self.sync_ms,
                "files": max(0.0, self.run_ms - self.align_ms - self.sync_ms),
                "ack": self.complete_ms,
                "commit": self.commit_ms,
            }
        return {
            "plan": self.plan_ms,
            "schedule": self.schedule_ms,
            "run": max(0.0, self.run_ms - self.schedule_ms),
            "ack": self.complete_ms,
            "commit": self.commit_ms,
        }

    @property
    def written_bytes(self) -> int:
        """Return the size of the state files that the epoch added."""
        return sum(subtask.written_bytes for subtask in self.subtasks)

    @property
    def has_watermark(self) -> bool:
        """Return whether event time has begun."""
        return self.watermark > MIN_WATERMARK


@dataclass(frozen=True)
class JobFailure:
    """What failed, and where, as far as it is known."""

    name: str  #: the class of what was raised
    text: str  #: the failure card, or the message
    operator: str | None = None
    vertex: str | None = None  #: the name of the chain
    subtask: SubtaskIndex | None = None
    parallelism: int | None = None
    host: str | None = None
    executor: str | None = None
    card: FailureCard | None = None  #: None: no task made one

    @property
    def task(self) -> str | None:
        """Return the subtask's name, as in ``Map -> Sink (1/4)``; None if the job as a whole failed."""
        if self.vertex is None or self.subtask is None:
            return None
        return f"{self.vertex} ({self.subtask + 1}{f'/{self.parallelism}' if self.parallelism else ''})"


class SavepointStage(Enum):
    """How far a savepoint has come."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True)
class SavepointNews:
    """A savepoint was begun, or has ended well or badly."""

    number: int  #: counts the savepoints of this run: begin and end have the same
    stage: SavepointStage
    checkpoint_id: EpochId  #: the checkpoint it is taken of
    format: SavepointFormatType
    stops_the_job: bool = False
    path: str | None = None
    state_bytes: int = 0
    failure: str | None = None


@dataclass(frozen=True)
class ModeChange:
    """An adaptive job continues in the other mode."""

    mode: str  #: epochs or pipelined
    checkpoint_id: EpochId  #: the last checkpoint of the former mode; 0: there was none
    reason: str

    def __str__(self) -> str:
        now = "pipelined" if self.mode == "pipelined" else "in epochs"
        return f"{now} after checkpoint {self.checkpoint_id}: {self.reason}."


@dataclass(frozen=True)
class RestoredFrom:
    """The checkpoint that the job continues from, after a start or a restart."""

    checkpoint_id: EpochId
    path: str
    is_savepoint: bool = False


class JobListener:
    """Called by the job's thread: override what is of interest, return quickly and do not raise.

    Only ``on_savepoint`` may be called by another thread, because savepoints are written beside the epochs.
    """

    def on_graph(self, graph: JobGraph) -> None:
        """Called with the job's graph before the first epoch, and before the first with another parallelism."""

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        """Called when the job has reached a status."""

    def on_start(self, epoch: EpochId, progress: Callable[[], TaskProgress | None]) -> None:
        """Called when an epoch begins. ``progress`` returns how far it is, if the runner knows, from any thread."""

    def on_interval(self, epoch: EpochId) -> None:
        """Called when tasks of a pipelined job run on towards this checkpoint."""

    def on_checkpoint(self, epoch: EpochId) -> None:
        """Called when the barriers of a pipelined job's checkpoint are sent."""

    def on_waits(self, waits: Sequence[TaskWait]) -> None:
        """Called when it has changed what the tasks of a pipelined job wait for."""

    def on_loads(self, loads: Sequence[SubtaskLoad]) -> None:
        """Called about once a second with what subtasks of a pipelined job have done since the start of the tasks."""

    def on_logs(self, logs: Sequence[TaskLog]) -> None:
        """Called with the log records of an epoch's tasks when they have ended, whether they succeeded or failed."""

    def on_epoch(self, statistics: EpochStatistics) -> None:
        """Called when an epoch is complete and committed."""

    def on_rescale(self, epoch: EpochId, changes: Sequence[ParallelismChange]) -> None:
        """Called when operators have another parallelism from this epoch on."""

    def on_mode(self, change: ModeChange) -> None:
        """Called when an adaptive job continues in the other mode."""

    def on_epoch_failed(self, epoch: EpochId, failure: JobFailure, tolerated: bool) -> None:
        """Called when an epoch, and so a checkpoint, failed; ``tolerated``: it is tried again without a restart."""

    def on_failure(self, failure: JobFailure) -> None:
        """Called when the job failed. It restarts, and ``on_restart`` is called then, or it ends."""

    def on_savepoint(self, news: SavepointNews) -> None:
        """Called when a savepoint was begun, completed or failed, perhaps by another thread."""

    def on_restored(self, restored: RestoredFrom) -> None:
        """Called when the job continues from a checkpoint."""

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        """Called when the job failed and restarts after a delay."""


class Listeners(JobListener):
    """Forwards every call to all listeners of a job. An error of one is logged; the others and the job go on."""

    def __init__(self, listeners: Iterable[JobListener]):
        self._listeners = tuple(listeners)

    def _each(self, tell: Callable[[JobListener], None]) -> None:
        for listener in self._listeners:
            try:
                tell(listener)
            except Exception:
                log.exception("A listener of the job failed: %s.", type(listener).__name__)

    def on_graph(self, graph: JobGraph) -> None:
        self._each(lambda listener: listener.on_graph(graph))

    def on_status(self, status: JobStatus, reason: str = "") -> None:
        self._each(lambda listener: listener.on_status(status, reason))

    def on_start(self, epoch: EpochId, progress: Callable[[], TaskProgress | None]) -> None:
        self._each(lambda listener: listener.on_start(epoch, progress))

    def on_interval(self, epoch: EpochId) -> None:
        self._each(lambda listener: listener.on_interval(epoch))

    def on_checkpoint(self, epoch: EpochId) -> None:
        self._each(lambda listener: listener.on_checkpoint(epoch))

    def on_waits(self, waits: Sequence[TaskWait]) -> None:
        self._each(lambda listener: listener.on_waits(waits))

    def on_loads(self, loads: Sequence[SubtaskLoad]) -> None:
        self._each(lambda listener: listener.on_loads(loads))

    def on_logs(self, logs: Sequence[TaskLog]) -> None:
        self._each(lambda listener: listener.on_logs(logs))

    def on_epoch(self, statistics: EpochStatistics) -> None:
        self._each(lambda listener: listener.on_epoch(statistics))

    def on_rescale(self, epoch: EpochId, changes: Sequence[ParallelismChange]) -> None:
        self._each(lambda listener: listener.on_rescale(epoch, changes))

    def on_mode(self, change: ModeChange) -> None:
        self._each(lambda listener: listener.on_mode(change))

    def on_epoch_failed(self, epoch: EpochId, failure: JobFailure, tolerated: bool) -> None:
        self._each(lambda listener: listener.on_epoch_failed(epoch, failure, tolerated))

    def on_failure(self, failure: JobFailure) -> None:
        self._each(lambda listener: listener.on_failure(failure))

    def on_savepoint(self, news: SavepointNews) -> None:
        self._each(lambda listener: listener.on_savepoint(news))

    def on_restored(self, restored: RestoredFrom) -> None:
        self._each(lambda listener: listener.on_restored(restored))

    def on_restart(self, card: str, delay_ms: int, failures: int) -> None:
        self._each(lambda listener: listener.on_restart(card, delay_ms, failures))
