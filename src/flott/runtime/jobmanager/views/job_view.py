"""The view of a job: a value that the job's process makes, and REST, the command line and reporters read. Data.

A view is replaced as a whole, never changed, so any thread may read the one it has. It is small (numbers of the last
epochs, not of all) because a running job sends a new one a few times a second.

Names and meanings are Flink's where it has the thing. Times are epoch milliseconds; ``NEVER`` is a time that has not
come. A vertex is a chain of operators, an epoch is a checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from flott.common._late_records import LedgerEntry
from flott.common.job_status import JobStatus
from flott.common.watermark_strategy import MIN_WATERMARK

NEVER = -1
#: How many characters of a failure are kept, because a message may have any length.
MAX_TEXT = 64 * 1024


class TaskState(Enum):
    """Flink's states of a subtask, and of a vertex as a whole."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"
    INITIALIZING = "INITIALIZING"


@dataclass(frozen=True)
class ChainedOperatorView:
    """One operator of a chain."""

    id: str  #: 32 hex digits
    name: str
    uid: str | None
    kind: str  #: "Data Source", "Operator" or "Data Sink"
    description: str
    parallelism: int
    source_line: str = ""  #: where the program made it
    metric_scope: str = ""  #: what its metrics are found under in ``SubtaskView.metrics``; unique in its chain
    guarantee: str = ""  #: what a source or sink promises, such as "exactly-once"; empty: nothing that counts


@dataclass(frozen=True)
class InputView:
    """An edge into a vertex."""

    source: str  #: the vertex it comes from
    ship_strategy: str  #: FORWARD, HASH, REBALANCE, BROADCAST, ...
    number: int  #: which input of the vertex's head
    #: Totals of what came in on it since the job's process has started, over all subtasks. None: archived by an
    #: earlier version, which did not count them.
    records: int | None = None
    bytes: int | None = None
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0


@dataclass(frozen=True)
class Traffic:
    """Totals of a subtask since the job's process has started. Flink calls them I/O metrics."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    back_pressured_ms: float = 0.0

    def plus(self, other: Traffic) -> Traffic:
        """Return the sum of both."""
        return Traffic(
            self.records_in + other.records_in,
            self.records_out + other.records_out,
            self.bytes_in + other.bytes_in,
            self.bytes_out + other.bytes_out,
            self.busy_ms + other.busy_ms,
            self.idle_ms + other.idle_ms,
            self.back_pressured_ms + other.back_pressured_ms,
        )


@dataclass(frozen=True)
class SubtaskView:
    """One subtask of a vertex."""

    index: int
    state: TaskState
    attempt: int = 0
    host: str = ""  #: where it ran last
    task_manager: str = ""  #: the id of the executor it ran on last: "driver" in local mode
    worker: int = 0  #: process id
    start_ms: int = NEVER
    end_ms: int = NEVER
    timestamps: Mapping[TaskState, int] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    #: Shares of the last ten seconds in which it worked or waited, from 0 to 1.
    busy_ratio: float = 0.0
    idle_ratio: float = 1.0
    watermark: int = MIN_WATERMARK  #: of its input at the end of the last epoch; of a source: of its output
    state_bytes: int = 0
    #: The engine's metrics of the subtask as a whole, by name. None: it was archived by an earlier version.
    own_metrics: Mapping[str, int | float] | None = None
    #: Metrics by operator: of the engine (numRecordsIn, numRecordsOut, numLateRecordsDropped, currentOutputWatermark,
    #: ...) and the user's own. The key is the operator's name as Flink writes it in metric names.
    metrics: Mapping[str, Mapping[str, int | float]] = field(default_factory=dict)
    waits_for: str = ""  #: in a pipelined job: why it has not worked for a second although it has something to do


@dataclass(frozen=True)
class VertexView:
    """A chain of operators and its subtasks."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int
    state: TaskState
    operators: tuple[ChainedOperatorView, ...]
    inputs: tuple[InputView, ...]
    subtasks: tuple[SubtaskView, ...]
    slot_sharing_group: str = "0" * 32
    start_ms: int = NEVER
    end_ms: int = NEVER
    has_event_time: bool = False  #: whether watermarks reach it
    former: Traffic = field(default_factory=Traffic)  #: of subtasks that a change of parallelism has removed

    @property
    def traffic(self) -> Traffic:
        """Return the totals of all subtasks, including removed ones."""
        total = self.former
        for subtask in self.subtasks:
            total = total.plus(subtask.traffic)
        return total


@dataclass(frozen=True)
class CheckpointTask:
    """The part of one subtask in a checkpoint."""

    vertex: str
    subtask: int
    state_bytes: int  #: all its state
    written_bytes: int  #: what this checkpoint added
    duration_ms: int  #: of its part in the epoch; of a pipelined job: from the trigger until its files were durable
    start_delay_ms: int = 0  #: from the trigger to the first barrier
    alignment_ms: int = 0  #: from the first barrier to the last
    sync_ms: int | None = None  #: while it processed nothing; None: all of its duration, because it ran in an epoch
    async_ms: int = 0  #: while files were written beside processing
    unaligned: bool = False  #: barriers have overtaken buffers, or might have
    persisted_bytes: int = 0  #: of buffers that were overtaken


@dataclass(frozen=True)
class CheckpointView:
    """One checkpoint (an epoch) or savepoint."""

    #: The number of the epoch. A savepoint has that of the checkpoint it was taken of. It cannot have one of its own,
    #: because the next number belongs to the next epoch, and tools take the largest number as the latest state.
    id: int
    status: str  #: IN_PROGRESS, COMPLETED or FAILED
    triggered_ms: int
    acknowledged_ms: int = NEVER
    state_bytes: int = 0
    written_bytes: int = 0
    records: int = 0
    path: str | None = None
    savepoint_format: str | None = None  #: CANONICAL or NATIVE; None for a checkpoint
    stops_the_job: bool = False
    discarded: bool = False
    failure: str | None = None
    tasks: tuple[CheckpointTask, ...] = ()
    #: Durations in ms by phase: plan, schedule, run, ack, commit of an epoch; align, sync, files, ack, commit of the
    #: checkpoint of a pipelined job.
    phases: Mapping[str, float] = field(default_factory=dict)
    pipelined: bool = False  #: tasks ran continuously, and barriers went through them

    @property
    def duration_ms(self) -> int:
        """Return the time from the plan, or from the barriers, to the last acknowledgement."""
        return max(0, self.acknowledged_ms - self.triggered_ms) if self.acknowledged_ms != NEVER else 0


@dataclass(frozen=True)
class RestoredView:
    """The checkpoint or savepoint that the job was restored from."""

    id: int
    restored_ms: int
    is_savepoint: bool
    path: str | None


@dataclass(frozen=True)
class Spread:
    """The distribution of a number over the completed checkpoints of this run that are remembered."""

    minimum: float = 0
    maximum: float = 0
    average: float = 0
    p50: float = 0
    p90: float = 0
    p95: float = 0
    p99: float = 0
    p999: float = 0
    count: int = 0


@dataclass(frozen=True)
class LatencyView:
    """The ages of the last latency markers that have come to an operator, in milliseconds."""

    operator: str  #: its id
    subtask: int
    source: str | None = None  #: its id; None: markers of all sources
    source_subtask: int | None = None  #: None: markers of all its subtasks
    count: int = 0  #: of all markers so far
    minimum: float = 0
    maximum: float = 0
    mean: float = 0
    stddev: float = 0
    percentiles: Mapping[str, float] = field(default_factory=dict)  #: by the quantile, as text: 0.5, 0.75, ...

    @property
    def labels(self) -> dict[str, str]:
        """Return what it describes, by the names and in the order of Flink's metric groups."""
        parts = {
            "source_id": self.source,
            "source_subtask_index": self.source_subtask,
            "operator_id": self.operator,
            "operator_subtask_index": self.subtask,
        }
        return {name: str(part) for name, part in parts.items() if part is not None}


@dataclass(frozen=True)
class CheckpointsView:
    """Statistics of a job's checkpoints."""

    completed: int = 0
    failed: int = 0
    in_progress: int = 0
    restored_count: int = 0
    history: tuple[CheckpointView, ...] = ()  #: the ten newest, newest first, including savepoints
    latest_completed: CheckpointView | None = None
    latest_savepoint: CheckpointView | None = None
    latest_failed: CheckpointView | None = None
    restored: RestoredView | None = None
    durations: Spread = field(default_factory=Spread)
    state_bytes: Spread = field(default_factory=Spread)
    written_bytes: Spread = field(default_factory=Spread)
    records: Spread = field(default_factory=Spread)
    savepoints: tuple[CheckpointView, ...] = ()  #: the completed ones, newest first, of former processes as well


@dataclass(frozen=True)
class FailureCardView:
    """The parts of a failure card. None: the part does not apply."""

    blame: str
    error: str
    traceback: str
    epoch: int
    attempt: int
    subtask: int
    vertex: str
    parallelism: int | None = None
    operator: str | None = None
    uid: str | None = None
    user_line: str | None = None  #: where the program made the operator
    activity: str | None = None
    key: str | None = None
    record: str | None = None
    timestamp: int | None = None
    origin: tuple[str, str] | None = None  #: the first and the last place in the input that it may come from


@dataclass(frozen=True)
class FailureView:
    """One failure of the job."""

    name: str  #: the class of the exception
    text: str  #: the whole card or stack trace
    at_ms: int
    task: str | None = None  #: the subtask, as "name (1/4)"; None if it was the job as a whole
    endpoint: str | None = None
    task_manager: str | None = None
    card: FailureCardView | None = None  #: None: no task failed, or an earlier version archived it


@dataclass(frozen=True)
class RescaleView:
    """A change of parallelism."""

    epoch: int  #: the first with the new parallelism
    at_ms: int
    changes: tuple[str, ...]  #: one text per operator, as "Map: 2 -> 4"


@dataclass(frozen=True)
class ModeChangeView:
    """An adaptive job has continued in the other mode."""

    mode: str  #: epochs or pipelined
    checkpoint: int  #: the last one of the former mode; 0: there was none
    at_ms: int
    reason: str


@dataclass(frozen=True)
class EpochView:
    """One completed epoch."""

    epoch: int
    attempt: int
    completed_ms: int
    records_in: int
    records_out: int
    watermark: int
    phases: Mapping[str, float]  #: ms
    state_bytes: int
    parallelism: int
    backlog: bool
    started_ms: int = NEVER
    written_bytes: int = 0
    pipelined: bool = False  #: it is the checkpoint of continuous tasks

    @property
    def began_ms(self) -> int:
        """Return when its first phase began. An earlier version did not store it."""
        return self.completed_ms - self._took_ms if self.started_ms == NEVER else self.started_ms

    @property
    def ended_ms(self) -> int:
        """Return when its last phase ended."""
        return self.completed_ms if self.started_ms == NEVER else self.started_ms + self._took_ms

    @property
    def _took_ms(self) -> int:
        took = sum(self.phases.values())
        return round(took) if math.isfinite(took) else 0


@dataclass(frozen=True)
class JobView:
    """A job, running or ended."""

    job_id: str
    name: str
    status: JobStatus
    start_ms: int
    end_ms: int = NEVER
    timestamps: Mapping[JobStatus, int] = field(default_factory=dict)  #: when each status was reached last
    last_modified_ms: int = 0
    batch: bool = False
    vertices: tuple[VertexView, ...] = ()  #: inputs before consumers
    checkpoints: CheckpointsView = field(default_factory=CheckpointsView)
    failures: tuple[FailureView, ...] = ()  #: newest first, sixteen of them
    failures_truncated: bool = False
    configuration: Mapping[str, str] = field(default_factory=dict)
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    accumulators: Mapping[str, tuple[str, str]] = field(default_factory=dict)  #: name -> (type, value)
    #: Of the job as a whole, by Flink's names where it has them: numRestarts, lastCheckpointDuration, ...
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    epochs: tuple[EpochView, ...] = ()  #: the last twenty, oldest first
    restarts: int = 0
    records_per_second: float = 0.0  #: read by sources in the last ten seconds
    waiting_for: str | None = None  #: a description, if the job waits for slots
    checkpoint_directory: str = ""
    scheduler: str = "Default"  #: Default or Adaptive
    restart_strategy: str = ""  #: as a description
    process: int = 0  #: the id of the job's process
    rescales: tuple[RescaleView, ...] = ()  #: the last eight of this run, oldest first
    ledger: Mapping[str, LedgerEntry] = field(default_factory=dict)  #: the late-data ledger, by the operator's id
    configured_mode: str = "epochs"  #: epochs, pipelined or adaptive
    mode: str = "epochs"  #: the present one: epochs or pipelined
    mode_changes: tuple[ModeChangeView, ...] = ()  #: the last twenty of this run, oldest first
    latencies: tuple[LatencyView, ...] = ()  #: as latency markers show them, if there are any

    @property
    def parallelism(self) -> int:
        """Return the parallelism of the widest vertex."""
        return max((vertex.parallelism for vertex in self.vertices), default=1)

    def vertex(self, ident: str) -> VertexView | None:
        """Return the vertex with this id, or None."""
        return next((vertex for vertex in self.vertices if vertex.id == ident), None)


@dataclass(frozen=True)
class JobResultView:
    """How a job ended, kept after it."""

    job_id: str
    status: JobStatus
    net_runtime_ms: int
    accumulators: Mapping[str, bytes] = field(default_factory=dict)  #: results, pickled
    failure: FailureView | None = None
    ledger: bytes = b""  #: pickled, for clients of Flott
    metrics: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskManagerView:
    """A Spark executor as Flink's tools see it. In local mode there is one, the driver."""

    id: str
    host: str
    port: int
    slots: int
    free_slots: int
    cores: int
    memory_bytes: int  #: the maximum of the JVM's heap
    free_bytes: int
    managed_bytes: int  #: for state, outside the JVM
    heartbeat_ms: int  #: when Spark last got a message from it
    started_ms: int = NEVER
    running_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    metrics: Mapping[str, int | float] = field(default_factory=dict)  #: Status.JVM.Memory.Heap.Used, ...
    log_urls: Mapping[str, str] = field(default_factory=dict)  #: those of Spark, if it has them
    memory_is_peak: bool = False  #: what is not free is the most that was used so far


def bounded(text: str) -> str:
    """Return the text, shortened in the middle if it is too long."""
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters are left out …\n{text[-half:]}"
