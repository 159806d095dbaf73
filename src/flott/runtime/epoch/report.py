"""Reports of tasks to the driver at the end of an epoch, and the result of an epoch that they add up to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from flott.common._ids import SubtaskIndex
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.connectors.base import Json
from flott.graph.job_graph import JobGraph, VertexId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.epoch.topology import Topology
from flott.runtime.managed_state.files.channel_file import ChannelFile
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.operator.operator_shares import OperatorStateFile
from flott.runtime.operators.lateness import LateCount
from flott.runtime.operators.source import SplitReport
from flott.runtime.operators.watermarks import TimeProgress


@dataclass(frozen=True)
class TaskPlace:
    """Where a task ran."""

    host: str = "localhost"
    executor: str = "in-process"  #: Spark's id of it, which is "driver" in local mode


@dataclass(frozen=True)
class CheckpointTimes:
    """How a subtask of a continuous task has taken part in a checkpoint."""

    barrier_ms: int  #: when the first barrier came, by the clock of its host
    alignment_ms: float  #: from the first barrier to the last
    sync_ms: float  #: its state was taken aside, and it processed nothing
    async_ms: float = 0.0  #: its files were made durable, beside processing
    unaligned: bool = False  #: barriers have overtaken buffers, or might have
    persisted_bytes: int = 0  #: of buffers that were overtaken

    @property
    def aligned_ms(self) -> float:
        """Return when the last barrier came."""
        return self.barrier_ms + self.alignment_ms

    @property
    def saved_ms(self) -> float:
        """Return when its state had been taken aside."""
        return self.aligned_ms + self.sync_ms

    @property
    def durable_ms(self) -> float:
        """Return when its files were durable."""
        return self.saved_ms + self.async_ms


@dataclass(frozen=True)
class OperatorReport:
    """The report of one operator subtask."""

    watermark: int = MIN_WATERMARK
    sequence: FileSequence | None = None  #: its keyed state; None if it has none
    operator_state: OperatorStateFile | None = None
    progress: TimeProgress | None = None  #: of a watermark generator in the middle of a stream
    splits: dict[str, SplitReport] = field(default_factory=dict)
    committables: list[Json] = field(default_factory=list)
    results: bytes | None = None  #: records for the driver, of a driver sink, encoded
    records_in: int = 0
    records_out: int = 0
    next_event_time_ms: int | None = None  #: its earliest event-time timer
    late: LateCount = field(default_factory=LateCount)  #: records that were refused because they were late
    measures: Mapping[str, int | float] = field(default_factory=dict)  #: of the engine's metrics in the epoch, by name
    metrics: dict[str, tuple[str, int | float]] = field(default_factory=dict)  #: what the epoch added to the user's
    accumulators: bytes | None = None  #: what the epoch added to the user's accumulators, encoded
    written_bytes: int = 0  #: the size of the state files that the epoch added


@dataclass(frozen=True)
class SubtaskReport:
    """The acknowledgement of one vertex subtask."""

    vertex: VertexId
    subtask: SubtaskIndex
    attempt_id: str
    consumed: dict[tuple[int, SubtaskIndex], str]  #: the attempts whose output it read: (stage, subtask) -> attempt id
    operators: dict[OperatorId, OperatorReport]
    wakeup_ms: int | None  #: when it needs another epoch, with input or without
    busy_seconds: float
    worker: int  #: process id
    place: TaskPlace = field(default_factory=TaskPlace)
    started_ms: int = 0  #: when it began to receive input, by the clock of its host
    ended_ms: int = 0
    measures: Mapping[str, int | float] = field(default_factory=dict)  #: of the engine's metrics in the epoch, by name
    checkpoint: CheckpointTimes | None = None  #: None: it ran in an epoch, which has no barriers
    edges: Mapping[int, tuple[int, int]] = field(default_factory=dict)  #: records and bytes that came in, by edge
    latencies: Mapping[LatencyPath, MarkerAges] = field(default_factory=dict)  #: of markers since the last report


@dataclass(frozen=True)
class EpochResult:
    """The result of one epoch."""

    reports: tuple[SubtaskReport, ...] = ()
    failures: tuple[FailureCard, ...] = ()
    channels: tuple[ChannelFile, ...] = ()  #: what was on its way between tasks, if the checkpoint is unaligned
    #: Of a pipelined job: what tasks have reported for checkpoints that failed since the last completed one, by
    #: checkpoint, oldest first. What they did then belongs to this one.
    earlier: tuple[EpochResult, ...] = ()

    @property
    def parts(self) -> tuple[EpochResult, ...]:
        """Return the results of the failed checkpoints before, and this one."""
        return (*self.earlier, self)

    def missing(self, graph: JobGraph) -> list[str]:
        """Return the subtasks that should have reported and did not."""
        have = {(report.vertex, report.subtask) for report in self.reports}
        return [
            f"{vertex.name} ({subtask + 1}/{vertex.parallelism})"
            for vertex in graph.vertices
            for subtask in range(vertex.parallelism)
            if (vertex.id, subtask) not in have
        ]

    def mixed(self, topology: Topology) -> list[str]:
        """Return the subtasks that consumed output of an attempt other than the one that counts.

        It happens if Spark loses published shuffle output and computes it again while a consumer has already read the
        first version. Functions may be non-deterministic, so such an epoch must be run again as a whole.
        """
        counted = {(topology.stage_of[r.vertex], r.subtask): r.attempt_id for r in self.reports}
        return [
            f"subtask {report.subtask} of {report.vertex[:8]}"
            for report in self.reports
            if any(counted.get(sender) != attempt for sender, attempt in report.consumed.items())
        ]

    def busy_seconds(self, topology: Topology) -> float:
        """Return the time in tasks, stage after stage. The rest of the epoch's duration is overhead."""
        tasks: dict[tuple[int, int], float] = {}
        for report in self.reports:
            place = (topology.stage_of[report.vertex], report.subtask)
            tasks[place] = tasks.get(place, 0.0) + report.busy_seconds
        slowest: dict[int, float] = {}
        for (stage, _), seconds in tasks.items():
            slowest[stage] = max(seconds, slowest.get(stage, 0.0))
        return sum(slowest.values())

    def of_operator(self, operator: OperatorId) -> Iterable[tuple[SubtaskReport, OperatorReport]]:
        """Return the reports of one operator, ordered by subtask."""
        found = [(report, report.operators[operator]) for report in self.reports if operator in report.operators]
        return sorted(found, key=lambda pair: pair[0].subtask)
