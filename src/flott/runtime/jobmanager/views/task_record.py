"""The subtasks of a job, as they are told: their states, what they did, how busy they are. Driver side.

A subtask keeps its totals through restarts; those of subtasks that are gone after a change of parallelism stay with
their vertex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.datastream.connectors.base import Pending
from flott.graph.job_graph import JobGraph, VertexId
from flott.graph.operator_ids import OperatorId
from flott.metrics.metricbase import combine
from flott.runtime.jobmanager.views.graph_view import VertexOutline, outline
from flott.runtime.jobmanager.views.job_view import NEVER, SubtaskView, TaskState, Traffic, VertexView
from flott.runtime.jobmanager.views.recent import RecentGrowth
from flott.runtime.jobmaster.ledger import DROPPED_METRIC, LATE_METRIC
from flott.runtime.jobmaster.listener import OperatorStatistics, SubtaskStatistics

#: How many parts the totals of a subtask have before those of its operators: records in and out, bytes in and out,
#: busy milliseconds. Of every operator of its chain follow records in and out.
_OWN_PARTS = 5

#: A subtask of a vertex, or of an operator.
Place = tuple[str, int]


@dataclass(frozen=True)
class Moment:
    """When something happened, by both clocks."""

    ms: int
    seconds: float  #: never goes back


@dataclass
class OperatorTotals:
    """What one operator subtask has done so far."""

    records_in: int = 0
    records_out: int = 0
    late: int = 0
    dropped: int = 0
    metrics: dict[str, int | float] = field(default_factory=dict)  #: the user's
    last: OperatorStatistics = field(default_factory=OperatorStatistics)

    def add(self, epoch: OperatorStatistics) -> None:
        """Take an epoch into account."""
        self.records_in += epoch.records_in
        self.records_out += epoch.records_out
        self.late += epoch.late
        self.dropped += epoch.dropped
        if epoch.metrics:
            combine(self.metrics, epoch.metrics)
        self.last = epoch


@dataclass
class SubtaskRecord:
    """What is known of one vertex subtask."""

    since: float  #: up to when its time is accounted for, as busy or idle
    timestamps: Mapping[TaskState, int]  #: never changed: views hold it
    state: TaskState = TaskState.SCHEDULED
    attempt: int = 0
    start_ms: int = NEVER
    end_ms: int = NEVER
    traffic: Traffic = field(default_factory=Traffic)
    state_bytes: int = 0
    last: SubtaskStatistics | None = None
    in_epoch: bool = False  #: nobody knows yet whether it works or waits

    def move(self, state: TaskState, now_ms: int) -> None:
        """It is in another state."""
        self.state = state
        self.timestamps = {**self.timestamps, state: now_ms}

    def traffic_at(self, now: Moment) -> Traffic:
        """The totals. What was not spent at work was spent waiting; of an epoch that runs it is not known yet, and
        what was told once is not taken back."""
        waited_ms = 0.0 if self.in_epoch else max(0.0, (now.seconds - self.since) * 1000)
        return replace(self.traffic, idle_ms=self.traffic.idle_ms + waited_ms)

    def begin_epoch(self, now: Moment) -> None:
        """An epoch begins; before that it waited."""
        self.in_epoch = False
        self.traffic, self.since, self.in_epoch = self.traffic_at(now), now.seconds, True

    def add(self, epoch: SubtaskStatistics, now: Moment) -> None:
        """An epoch is complete."""
        idle_ms = max(0.0, (now.seconds - self.since) * 1000 - epoch.busy_ms)
        done = Traffic(epoch.records_in, epoch.records_out, epoch.bytes_in, epoch.bytes_out, epoch.busy_ms, idle_ms)
        self.traffic, self.since, self.in_epoch = self.traffic.plus(done), now.seconds, False
        self.last = epoch
        self.state_bytes = epoch.state_bytes


class TaskRecord:
    """All subtasks of a job."""

    def __init__(self, now: Moment) -> None:
        self._vertices: tuple[VertexOutline, ...] = ()
        self._subtasks: dict[Place, SubtaskRecord] = {}
        self._operators: dict[Place, OperatorTotals] = {}
        self._former: dict[VertexId, Traffic] = {}
        self._pending: Mapping[OperatorId, Pending] = {}
        self._totals: dict[Place, Sequence[float]] = {}
        self._growth: RecentGrowth[Place] = RecentGrowth(now.seconds)

    # --- what the job tells ------------------------------------------------------------------------------------------

    def lay_out(self, now: Moment, graph: JobGraph, attempt: int) -> None:
        """The job has this graph."""
        chains = {vertex.id: vertex.scopes for vertex in self._vertices}
        self._vertices = outline(graph)
        places = {(vertex.id, index) for vertex in graph.vertices for index in range(vertex.parallelism)}
        operators = {(op.id, index) for v in graph.vertices for op in v.operators for index in range(v.parallelism)}
        gone = [place for place in self._subtasks if place not in places]
        for vertex, index in gone:
            traffic = self._subtasks.pop((vertex, index)).traffic_at(now)
            self._former[VertexId(vertex)] = self._former.get(VertexId(vertex), Traffic()).plus(traffic)
        self._operators = {place: totals for place, totals in self._operators.items() if place in operators}
        same = {vertex.id for vertex in self._vertices if chains.get(vertex.id) == vertex.scopes}
        self._totals = {at: totals for at, totals in self._totals.items() if at in places and at[0] in same}
        for place in sorted(places - self._subtasks.keys()):
            stamps = {TaskState.CREATED: now.ms, TaskState.SCHEDULED: now.ms}
            self._subtasks[place] = SubtaskRecord(now.seconds, stamps, attempt=attempt)
        self._former = {v: t for v, t in self._former.items() if any(v == outlined.id for outlined in self._vertices)}
        for outlined in self._vertices:
            for index in range(outlined.parallelism):
                if (outlined.id, index) not in self._totals:
                    totals = self._totals[outlined.id, index] = self._count(outlined.id, index, outlined.scopes)
                    self._growth.begin((outlined.id, index), totals)

    def run(self, now: Moment) -> None:
        """An epoch begins: all subtasks are at work from now on."""
        for subtask in self._subtasks.values():
            subtask.begin_epoch(now)
            if subtask.state is not TaskState.RUNNING:
                subtask.start_ms = now.ms
                subtask.move(TaskState.RUNNING, now.ms)

    def add(
        self,
        began: Moment,
        now: Moment,
        epochs: Iterable[SubtaskStatistics],
        pending: Mapping[OperatorId, Pending],
    ) -> None:
        """An epoch is complete that began at some time."""
        self._growth.about_to_grow(began.seconds, now.seconds, self._totals)
        self._pending = pending
        for epoch in epochs:
            self._add(epoch, now)
        for subtask in self._subtasks.values():
            subtask.in_epoch = False  # whoever had no part in it waited

    def _add(self, epoch: SubtaskStatistics, now: Moment) -> None:
        place = (epoch.vertex, epoch.subtask)
        subtask = self._subtasks.get(place)
        if subtask is None:
            subtask = self._subtasks[place] = SubtaskRecord(now.seconds, {TaskState.RUNNING: now.ms})
        subtask.add(epoch, now)
        for ident, statistics in epoch.operators.items():
            at = (ident, epoch.subtask)
            operator = self._operators.get(at)
            if operator is None:
                operator = self._operators[at] = OperatorTotals()
            operator.add(statistics)
        self._totals[place] = self._count(epoch.vertex, epoch.subtask, epoch.operators)

    def _count(self, vertex: VertexId, index: int, operators: Iterable[OperatorId]) -> list[float]:
        """The totals of a subtask, in the order that rates have."""
        own = self._subtasks[vertex, index].traffic
        totals = [own.records_in, own.records_out, own.bytes_in, own.bytes_out, own.busy_ms]
        for ident in operators:
            operator = self._operators.get((ident, index))
            totals += (operator.records_in, operator.records_out) if operator is not None else (0, 0)
        return totals

    def restart(self, now: Moment, attempt: int) -> None:
        """The job is to be tried again."""
        for subtask in self._subtasks.values():
            subtask.in_epoch = False
            subtask.attempt = attempt
            subtask.start_ms = subtask.end_ms = NEVER
            subtask.timestamps = {TaskState.CREATED: now.ms}
            subtask.move(TaskState.SCHEDULED, now.ms)

    def end(self, now: Moment, state_of: Callable[[str, int], TaskState]) -> None:
        """The job has ended, and its subtasks, by the name of their vertex and their index, each in some state."""
        names = {vertex.id: vertex.name for vertex in self._vertices}
        for (vertex, index), subtask in self._subtasks.items():
            subtask.in_epoch = False
            subtask.move(state_of(names[VertexId(vertex)], index), now.ms)
            subtask.end_ms = now.ms

    # --- what is known -----------------------------------------------------------------------------------------------

    def view(self, now: Moment, ended: bool) -> tuple[VertexView, ...]:
        """All vertices. Those of a job that has ended have no rates any more."""
        rates = {} if ended else self._growth.rates(now.seconds, self._totals)
        return tuple(self._vertex(vertex, now, rates) for vertex in self._vertices)

    def _vertex(self, vertex: VertexOutline, now: Moment, rates: Mapping[Place, list[float]]) -> VertexView:
        records = [self._subtasks[vertex.id, index] for index in range(vertex.parallelism)]
        none = [0.0] * (_OWN_PARTS + 2 * len(vertex.scopes))
        subtasks = tuple(
            self._subtask(vertex, index, record, now, rates.get((vertex.id, index), none))
            for index, record in enumerate(records)
        )
        begun = [record.start_ms for record in records if record.start_ms != NEVER]
        ended = [record.end_ms for record in records]
        return VertexView(
            id=vertex.id,
            name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            state=state_of_all([record.state for record in records]),
            operators=vertex.operators,
            inputs=vertex.inputs,
            subtasks=subtasks,
            slot_sharing_group=vertex.slot_sharing_group,
            start_ms=min(begun, default=NEVER),
            end_ms=NEVER if NEVER in ended else max(ended),
            has_event_time=vertex.has_event_time,
            former=self._former.get(vertex.id, Traffic()),
        )

    def _subtask(
        self, vertex: VertexOutline, index: int, record: SubtaskRecord, now: Moment, rates: list[float]
    ) -> SubtaskView:
        last = record.last
        read, written, bytes_in, bytes_out, busy_ms = rates[:_OWN_PARTS]
        busy = min(1.0, busy_ms / 1000)
        return SubtaskView(
            index=index,
            state=record.state,
            attempt=record.attempt,
            host=last.place.host if last is not None else "",
            task_manager=last.place.executor if last is not None else "",
            worker=last.worker if last is not None else 0,
            start_ms=record.start_ms,
            end_ms=record.end_ms,
            timestamps=record.timestamps,
            traffic=record.traffic_at(now),
            busy_ratio=busy,
            idle_ratio=1.0 - busy,
            records_in_per_second=read,
            records_out_per_second=written,
            bytes_in_per_second=bytes_in,
            bytes_out_per_second=bytes_out,
            watermark=_watermark(vertex, last),
            state_bytes=record.state_bytes,
            metrics={
                scope: self._operator_metrics(ident, index, now, rates[at], rates[at + 1])
                for (ident, scope), at in zip(vertex.scopes.items(), range(_OWN_PARTS, len(rates), 2), strict=True)
            },
        )

    def _operator_metrics(
        self, ident: OperatorId, index: int, now: Moment, read: float, written: float
    ) -> dict[str, int | float]:
        totals = self._operators.get((ident, index))
        if totals is None:
            return {}
        last = totals.last
        metrics = {
            **totals.metrics,  # first: the engine's own names are the engine's
            "numRecordsIn": totals.records_in,
            "numRecordsOut": totals.records_out,
            "numRecordsInPerSecond": read,
            "numRecordsOutPerSecond": written,
            DROPPED_METRIC: totals.dropped,
            LATE_METRIC: totals.late + totals.dropped,
            "currentInputWatermark": last.watermark_in,
            "currentOutputWatermark": last.watermark_out,
            "stateBytes": last.state_bytes,
            "stateEntries": last.state_entries,
        }
        pending = self._pending.get(ident)
        if pending is not None:  # a source
            if MIN_WATERMARK < last.watermark_out < MAX_WATERMARK:
                metrics["watermarkLag"] = now.ms - last.watermark_out
            if index == 0:  # of the source as a whole: sums over subtasks are right
                metrics |= pending_metrics(pending)
        return metrics


def state_of_all(states: list[TaskState]) -> TaskState:
    """The state of a vertex by those of its subtasks, as Flink decides it."""
    for decisive in (TaskState.FAILED, TaskState.CANCELING, TaskState.CANCELED):
        if decisive in states:
            return decisive
    for common in (TaskState.RUNNING, TaskState.SCHEDULED):
        if common in states:
            return common
    return states[0] if states else TaskState.CREATED


def _watermark(vertex: VertexOutline, last: SubtaskStatistics | None) -> int:
    head = last.operators.get(vertex.head) if last is not None else None
    if head is None:
        return MIN_WATERMARK
    return head.watermark_out if vertex.is_source else head.watermark_in


def pending_metrics(pending: Pending) -> dict[str, int | float]:
    found: dict[str, int | float] = {}
    if pending.records is not None:
        found["pendingRecords"] = pending.records
    if pending.bytes is not None:
        found["pendingBytes"] = pending.bytes
    return found
