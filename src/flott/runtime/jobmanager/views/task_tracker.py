"""Tracks the subtasks of a job: their states, their metrics, how busy they are. Driver side.

Numbers come with completed epochs. Subtasks of pipelined jobs also tell, about once a second, how busy they are and how
many records they have had since their start: the views have whichever of the two knows more.

A subtask keeps its totals through restarts. Totals of subtasks that a change of parallelism has removed stay with their
vertex.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.datastream.connectors.base import Pending
from flott.graph.job_graph import JobGraph, VertexId
from flott.graph.operator_ids import OperatorId
from flott.metrics._engine_metrics import (
    PENDING_BYTES,
    PENDING_RECORDS,
    STATE_BYTES,
    TASK_BACK_PRESSURED_MS,
    TASK_BACK_PRESSURED_RATE,
    TASK_BUSY_MS,
    TASK_BUSY_RATE,
    TASK_BYTES_IN,
    TASK_BYTES_OUT,
    TASK_IDLE_MS,
    TASK_IDLE_RATE,
    TASK_MOVES,
    TASK_RECORDS_IN,
    TASK_RECORDS_OUT,
    TASK_WATERMARK,
    WATERMARK_IN,
    WATERMARK_LAG,
    WATERMARK_OUT,
    Combine,
    EngineMetric,
    Kind,
    Scope,
    meters_of,
    metrics_of,
    widened_to,
)
from flott.metrics.metricbase import combine
from flott.runtime.jobmanager.views.graph_view import VertexOutline, outline
from flott.runtime.jobmanager.views.job_view import NEVER, InputView, SubtaskView, TaskState, Traffic, VertexView
from flott.runtime.jobmanager.views.rates import RecentGrowth
from flott.runtime.jobmaster.listener import OperatorStatistics, SubtaskStatistics
from flott.runtime.pipelined.control import SubtaskLoad, TaskWait

#: Counters of subtasks that are also told between checkpoints.
LIVE = (TASK_RECORDS_IN.name, TASK_RECORDS_OUT.name, TASK_BUSY_MS.name, TASK_BACK_PRESSURED_MS.name)

#: A subtask of a vertex, or of an operator.
Place = tuple[str, int]


@dataclass(frozen=True)
class Moment:
    """The time of an event, by both clocks."""

    ms: int
    seconds: float  #: monotonic


#: How the engine's metrics of a scope are combined over epochs, by name.
Modes = Mapping[str, Combine]


def modes_of(scope: Scope) -> Modes:
    """Return how the metrics of a scope are combined over epochs."""
    return {metric.name: metric.epochs for metric in metrics_of(scope)}


def _add(totals: dict[str, int | float], epoch: Mapping[str, int | float], modes: Modes) -> None:
    combine(totals, {name: (modes[name].value, value) for name, value in epoch.items() if name in modes})


@dataclass
class OperatorTotals:
    """The totals of one operator subtask."""

    measures: dict[str, int | float] = field(default_factory=dict)  #: of the engine's metrics
    metrics: dict[str, int | float] = field(default_factory=dict)  #: the user's

    def add(self, epoch: OperatorStatistics, modes: Modes) -> None:
        """Add an epoch."""
        _add(self.measures, epoch.measures, modes)
        if epoch.metrics:
            combine(self.metrics, epoch.metrics)


@dataclass
class LiveCounts:
    """What a subtask has done since the start of its tasks: as completed epochs say, and as it has told itself."""

    reported: dict[str, int | float] = field(default_factory=dict)
    told: Mapping[str, int | float] = field(default_factory=dict)
    counted: dict[str, int | float] = field(default_factory=dict)  #: the larger of the two so far

    def report(self, epoch: Mapping[str, int | float]) -> dict[str, int | float]:
        """Add an epoch, and return what was not counted before."""
        for name in LIVE:
            self.reported[name] = self.reported.get(name, 0) + epoch.get(name, 0)
        return self._growth()

    def tell(self, load: SubtaskLoad) -> dict[str, int | float]:
        """Take what the subtask tells, and return what was not counted before."""
        self.told = dict(
            zip(LIVE, (load.records_in, load.records_out, load.busy_ms, load.back_pressured_ms), strict=True)
        )
        return self._growth()

    def _growth(self) -> dict[str, int | float]:
        grown = {}
        for name in LIVE:
            before = self.counted.get(name, 0)
            self.counted[name] = max(before, self.reported.get(name, 0), self.told.get(name, 0))
            grown[name] = self.counted[name] - before
        return grown


@dataclass
class SubtaskTracker:
    """The state and the totals of one vertex subtask."""

    since: float  #: its time before this is accounted for, as busy or idle
    timestamps: Mapping[TaskState, int]  #: replaced, never changed, because views hold it
    state: TaskState = TaskState.SCHEDULED
    attempt: int = 0
    start_ms: int = NEVER
    end_ms: int = NEVER
    measures: dict[str, int | float] = field(default_factory=dict)  #: of the engine's metrics
    last: SubtaskStatistics | None = None
    in_epoch: bool = False  #: whether it works or waits is not known until the epoch ends
    live: LiveCounts = field(default_factory=LiveCounts)  #: replaced when its tasks are started again

    def move(self, state: TaskState, now_ms: int) -> None:
        """Change the state."""
        self.state = state
        self.timestamps = {**self.timestamps, state: now_ms}

    def measures_at(self, now: Moment) -> dict[str, int | float]:
        """Return the totals. Time that was not spent working was spent waiting.

        Of an epoch that runs it is not known yet which of the two it was, and a total never decreases.
        """
        waited_ms = 0.0 if self.in_epoch else max(0.0, (now.seconds - self.since) * 1000)
        return {**self.measures, TASK_IDLE_MS.name: self.measures.get(TASK_IDLE_MS.name, 0.0) + waited_ms}

    def traffic_at(self, now: Moment) -> Traffic:
        """Return the totals that REST shows as I/O metrics."""
        measures = self.measures_at(now)
        return Traffic(
            int(measures.get(TASK_RECORDS_IN.name, 0)),
            int(measures.get(TASK_RECORDS_OUT.name, 0)),
            int(measures.get(TASK_BYTES_IN.name, 0)),
            int(measures.get(TASK_BYTES_OUT.name, 0)),
            measures.get(TASK_BUSY_MS.name, 0.0),
            measures[TASK_IDLE_MS.name],
            measures.get(TASK_BACK_PRESSURED_MS.name, 0.0),
        )

    def begin_epoch(self, now: Moment) -> None:
        """Start an epoch. The time before it was spent waiting."""
        self.in_epoch = False
        self.measures, self.since, self.in_epoch = self.measures_at(now), now.seconds, True

    def add(self, epoch: SubtaskStatistics, now: Moment, modes: Modes) -> None:
        """Add a completed epoch."""
        moved = self.last is not None and self.last.place.executor != epoch.place.executor
        known = {name: value for name, value in epoch.measures.items() if name not in LIVE}
        _add(self.measures, {**known, TASK_MOVES.name: int(moved)}, modes)
        self._grow(self.live.report(epoch.measures), now, modes)
        self.in_epoch = False
        self.last = epoch

    def load(self, load: SubtaskLoad, now: Moment, modes: Modes) -> None:
        """Add what it tells before its epoch is complete."""
        self._grow(self.live.tell(load), now, modes)

    def _grow(self, grown: Mapping[str, int | float], now: Moment, modes: Modes) -> None:
        """Add to the counters. The time since they grew last in which it did not work was spent waiting."""
        used_ms = grown[TASK_BUSY_MS.name] + grown[TASK_BACK_PRESSURED_MS.name]
        idle_ms = max(0.0, (now.seconds - self.since) * 1000 - used_ms)
        _add(self.measures, {**grown, TASK_IDLE_MS.name: idle_ms}, modes)
        self.since = now.seconds


class TaskTracker:
    """Tracks all subtasks of a job."""

    def __init__(self, now: Moment) -> None:
        self._vertices: tuple[VertexOutline, ...] = ()
        self._subtasks: dict[Place, SubtaskTracker] = {}
        self._operators: dict[Place, OperatorTotals] = {}
        self._former: dict[VertexId, Traffic] = {}
        self._former_measures: list[Mapping[str, int | float]] = []  #: of removed operator subtasks
        self._live_rows = [row for row in meters_of(Scope.TASK) if row.rate_of in LIVE]
        self._task_rows = [row for row in meters_of(Scope.TASK) if row.rate_of not in LIVE]
        self._operator_rated = [row.rate_of or "" for row in meters_of(Scope.OPERATOR)]
        self._pending: Mapping[OperatorId, Pending] = {}
        self._waits: dict[Place, str] = {}
        self._totals: dict[Place, Sequence[float]] = {}
        self._growth: RecentGrowth[Place] = RecentGrowth(now.seconds)
        #: The same of what is also told between checkpoints. What grows with checkpoints only has grown all the while.
        self._live_totals: dict[Place, Sequence[float]] = {}
        self._live_growth: RecentGrowth[Place] = RecentGrowth(now.seconds)
        self._edges = EdgeTracker(now)

    # --- what the job reports ----------------------------------------------------------------------------------------

    def waiting(self, waits: Iterable[TaskWait]) -> None:
        """Note what tasks wait for; the others do not."""
        self._waits = {(vertex, wait.subtask): wait.reason for wait in waits for vertex in wait.vertices}

    def lay_out(self, now: Moment, graph: JobGraph, attempt: int) -> None:
        """Track the graph of the job, the first one or a changed one."""
        chains = {vertex.id: vertex.scopes for vertex in self._vertices}
        self._vertices = outline(graph)
        self._edges.lay_out(self._vertices)
        places = {(vertex.id, index) for vertex in graph.vertices for index in range(vertex.parallelism)}
        operators = {(op.id, index) for v in graph.vertices for op in v.operators for index in range(v.parallelism)}
        gone = [place for place in self._subtasks if place not in places]
        for vertex, index in gone:
            traffic = self._subtasks.pop((vertex, index)).traffic_at(now)
            self._former[VertexId(vertex)] = self._former.get(VertexId(vertex), Traffic()).plus(traffic)
        self._former_measures += [t.measures for place, t in self._operators.items() if place not in operators]
        self._operators = {place: totals for place, totals in self._operators.items() if place in operators}
        same = {vertex.id for vertex in self._vertices if chains.get(vertex.id) == vertex.scopes}
        self._totals = {at: totals for at, totals in self._totals.items() if at in places and at[0] in same}
        self._live_totals = {at: totals for at, totals in self._live_totals.items() if at in self._totals}
        for place in sorted(places - self._subtasks.keys()):
            stamps = {TaskState.CREATED: now.ms, TaskState.SCHEDULED: now.ms}
            self._subtasks[place] = SubtaskTracker(now.seconds, stamps, attempt=attempt)
        self._former = {v: t for v, t in self._former.items() if any(v == outlined.id for outlined in self._vertices)}
        for outlined in self._vertices:
            for index in range(outlined.parallelism):
                if (outlined.id, index) not in self._totals:
                    totals = self._totals[outlined.id, index] = self._count(outlined.id, index, outlined.scopes)
                    self._growth.begin((outlined.id, index), totals)
                    live = self._live_totals[outlined.id, index] = self._count_live((outlined.id, index))
                    self._live_growth.begin((outlined.id, index), live)

    def run(self, now: Moment) -> None:
        """Start an epoch: all subtasks run."""
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
        """Add an epoch that has completed now."""
        self._growth.about_to_grow(began.seconds, now.seconds, self._totals)
        self._live_growth.about_to_grow(began.seconds, now.seconds, self._live_totals)
        epochs = tuple(epochs)
        self._edges.add(began, now, epochs)
        self._pending = pending
        task_modes, operator_modes = modes_of(Scope.TASK), modes_of(Scope.OPERATOR)
        for epoch in epochs:
            self._add(epoch, now, task_modes, operator_modes)
        for subtask in self._subtasks.values():
            subtask.in_epoch = False  # subtasks without a part in the epoch waited

    def loaded(self, began: Moment, now: Moment, loads: Iterable[SubtaskLoad]) -> None:
        """Add what subtasks tell while the checkpoint of an interval is not complete."""
        self._live_growth.about_to_grow(began.seconds, now.seconds, self._live_totals)
        modes = modes_of(Scope.TASK)
        for load in loads:
            place = (load.vertex, load.subtask)
            if (subtask := self._subtasks.get(place)) is not None:
                subtask.load(load, now, modes)
                self._live_totals[place] = self._count_live(place)

    def started_again(self) -> None:
        """Note that tasks have started again: the loads that they send count from now on."""
        for subtask in self._subtasks.values():
            subtask.live = LiveCounts()

    def _add(self, epoch: SubtaskStatistics, now: Moment, task_modes: Modes, operator_modes: Modes) -> None:
        place = (epoch.vertex, epoch.subtask)
        subtask = self._subtasks.get(place)
        if subtask is None:
            subtask = self._subtasks[place] = SubtaskTracker(now.seconds, {TaskState.RUNNING: now.ms})
        subtask.add(epoch, now, task_modes)
        for ident, statistics in epoch.operators.items():
            at = (ident, epoch.subtask)
            operator = self._operators.get(at)
            if operator is None:
                operator = self._operators[at] = OperatorTotals()
            operator.add(statistics, operator_modes)
        self._totals[place] = self._count(epoch.vertex, epoch.subtask, epoch.operators)
        self._live_totals[place] = self._count_live(place)

    def _count(self, vertex: VertexId, index: int, operators: Iterable[OperatorId]) -> list[float]:
        """Return the totals of a subtask whose rates are computed, in the order of the meters."""
        own = self._subtasks[vertex, index].measures
        totals = [own.get(row.rate_of or "", 0) for row in self._task_rows]
        for ident in operators:
            operator = self._operators.get((ident, index))
            measures = operator.measures if operator is not None else {}
            totals += (measures.get(name, 0) for name in self._operator_rated)
        return totals

    def _count_live(self, place: Place) -> list[float]:
        own = self._subtasks[place].measures
        return [own.get(row.rate_of or "", 0) for row in self._live_rows]

    def restart(self, now: Moment, attempt: int) -> None:
        """Track a restart."""
        self.started_again()
        for subtask in self._subtasks.values():
            subtask.in_epoch = False
            subtask.attempt = attempt
            subtask.start_ms = subtask.end_ms = NEVER
            subtask.timestamps = {TaskState.CREATED: now.ms}
            subtask.move(TaskState.SCHEDULED, now.ms)

    def end(self, now: Moment, state_of: Callable[[str, int], TaskState]) -> None:
        """Track the end of the job. ``state_of`` gets the name of a vertex and the index of a subtask."""
        names = {vertex.id: vertex.name for vertex in self._vertices}
        for (vertex, index), subtask in self._subtasks.items():
            subtask.in_epoch = False
            subtask.move(state_of(names[VertexId(vertex)], index), now.ms)
            subtask.end_ms = now.ms

    # --- the view ----------------------------------------------------------------------------------------------------

    def view(self, now: Moment, ended: bool) -> tuple[VertexView, ...]:
        """Return all vertices. Those of a job that has ended have no rates."""
        rates = {} if ended else self._growth.rates(now.seconds, self._totals)
        live = {} if ended else self._live_growth.rates(now.seconds, self._live_totals)
        inputs = self._edges.inputs(now, ended)
        return tuple(self._vertex(vertex, inputs[vertex.id], now, rates, live) for vertex in self._vertices)

    def _vertex(
        self,
        vertex: VertexOutline,
        inputs: tuple[InputView, ...],
        now: Moment,
        rates: Mapping[Place, list[float]],
        live: Mapping[Place, list[float]],
    ) -> VertexView:
        records = [self._subtasks[vertex.id, index] for index in range(vertex.parallelism)]
        none = [0.0] * (len(self._task_rows) + len(self._operator_rated) * len(vertex.scopes))
        no_live = [0.0] * len(self._live_rows)
        subtasks = tuple(
            self._subtask(vertex, index, record, now, rates.get(place, none), live.get(place, no_live))
            for index, record in enumerate(records)
            for place in ((vertex.id, index),)
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
            inputs=inputs,
            subtasks=subtasks,
            slot_sharing_group=vertex.slot_sharing_group,
            start_ms=min(begun, default=NEVER),
            end_ms=NEVER if NEVER in ended else max(ended),
            has_event_time=vertex.has_event_time,
            former=self._former.get(vertex.id, Traffic()),
        )

    def _subtask(
        self,
        vertex: VertexOutline,
        index: int,
        record: SubtaskTracker,
        now: Moment,
        rates: list[float],
        live: list[float],
    ) -> SubtaskView:
        last, own_rates = record.last, len(self._task_rows)
        rates_of_task = dict(zip(self._task_rows, rates[:own_rates], strict=True))
        rates_of_task |= zip(self._live_rows, live, strict=True)
        busy = min(1.0, rates_of_task[TASK_BUSY_RATE] / 1000)
        back_pressured = min(1.0 - busy, rates_of_task[TASK_BACK_PRESSURED_RATE] / 1000)
        watermark = _watermark(vertex, last)
        values: dict[str, int | float] = {
            **record.measures_at(now),
            **{row.name: rate for row, rate in rates_of_task.items()},
            TASK_BUSY_RATE.name: busy * 1000,
            TASK_BACK_PRESSURED_RATE.name: back_pressured * 1000,
            TASK_IDLE_RATE.name: (1.0 - busy - back_pressured) * 1000,
            TASK_WATERMARK.name: watermark,
        }
        own = {row.name: values.get(row.name, 0) for row in metrics_of(Scope.TASK)}
        own |= {row.name: self._combined(row, vertex, index) for row in widened_to(Scope.TASK)}
        step = len(self._operator_rated)
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
            idle_ratio=1.0 - busy - back_pressured,
            watermark=watermark,
            state_bytes=int(own[STATE_BYTES.name]),
            own_metrics=own,
            waits_for=self._waits.get((vertex.id, index), ""),
            metrics={
                scope: self._operator_metrics(ident, index, now, rates[at : at + step])
                for (ident, scope), at in zip(
                    vertex.scopes.items(), range(own_rates, len(rates), step), strict=True
                )
            },
        )

    def _combined(self, row: EngineMetric, vertex: VertexOutline, index: int) -> int | float:
        """Return a metric of a subtask that is the combination of those of its operators."""
        totals = (self._operators.get((ident, index)) for ident in vertex.scopes)
        found = [each.measures[row.name] for each in totals if each is not None and row.name in each.measures]
        return row.subtasks.of(found) if found and row.subtasks is not None else 0

    def job_metrics(self, now: Moment) -> dict[str, int | float]:
        """Return the metrics of the job that are combinations of those of its operators."""
        parts = [self._operator_values(OperatorId(ident), index, now) for ident, index in self._operators]
        combined: dict[str, int | float] = {}
        for row in widened_to(Scope.JOB):
            known = [*parts, *(self._former_measures if row.kind is Kind.COUNTER else ())]
            found = [values[row.name] for values in known if row.name in values]
            if found and row.subtasks is not None:
                combined[row.name] = row.subtasks.of(found)
        return combined

    def _operator_metrics(
        self, ident: OperatorId, index: int, now: Moment, rates: Sequence[float]
    ) -> dict[str, int | float]:
        totals = self._operators.get((ident, index))
        if totals is None:
            return {}
        values = self._operator_values(ident, index, now)
        values |= {row.name: rate for row, rate in zip(meters_of(Scope.OPERATOR), rates, strict=True)}
        # The user's are first: a name of the engine always means the engine's metric. What the connector of a source
        # tells is about the source as a whole, as its lag is.
        told = self._pending[ident].gauges if index == 0 and ident in self._pending else {}
        engine = {r.name: values[r.name] for r in metrics_of(Scope.OPERATOR) if r.name in values}
        return {**totals.metrics, **told, **engine}

    def _operator_values(self, ident: OperatorId, index: int, now: Moment) -> dict[str, int | float]:
        """Return the values of the engine's metrics of an operator subtask, without rates."""
        values = dict(self._operators[ident, index].measures)
        pending = self._pending.get(ident)
        if pending is not None:  # a source
            watermark = values.get(WATERMARK_OUT.name, MIN_WATERMARK)
            if MIN_WATERMARK < watermark < MAX_WATERMARK:
                values[WATERMARK_LAG.name] = now.ms - watermark
            if index == 0:  # these describe the source as a whole, and sums over subtasks must be right
                if pending.records is not None:
                    values[PENDING_RECORDS.name] = pending.records
                if pending.bytes is not None:
                    values[PENDING_BYTES.name] = pending.bytes
        return values


class EdgeTracker:
    """Tracks how many records and bytes have come in on every edge."""

    def __init__(self, now: Moment) -> None:
        self._vertices: tuple[VertexOutline, ...] = ()
        #: Records and bytes of each edge into a vertex, one after the other. Replaced, never changed.
        self._totals: dict[VertexId, list[float]] = {}
        self._growth: RecentGrowth[VertexId] = RecentGrowth(now.seconds)

    def lay_out(self, vertices: tuple[VertexOutline, ...]) -> None:
        """Track the edges of a graph. Those of a vertex that has the same inputs as before are counted on."""
        known = {vertex.id: vertex.inputs for vertex in self._vertices}
        self._vertices = vertices
        former = self._totals
        self._totals = {vertex.id: former.get(vertex.id, [0.0] * 2 * len(vertex.inputs)) for vertex in vertices}
        for vertex in vertices:
            if known.get(vertex.id) != vertex.inputs:
                totals = self._totals[vertex.id] = [0.0] * 2 * len(vertex.inputs)
                self._growth.begin(vertex.id, totals)

    def add(self, began: Moment, now: Moment, epochs: Sequence[SubtaskStatistics]) -> None:
        """Add an epoch that has completed now."""
        self._growth.about_to_grow(began.seconds, now.seconds, self._totals)
        by_vertex: dict[VertexId, list[Mapping[int, tuple[int, int]]]] = {}
        for epoch in epochs:
            by_vertex.setdefault(epoch.vertex, []).append(epoch.edges)
        for vertex in self._vertices:
            counted = by_vertex.get(vertex.id, [])
            grown = [sum(one[edge][part] for one in counted if edge in one) for edge in vertex.edges for part in (0, 1)]
            self._totals[vertex.id] = [a + b for a, b in zip(self._totals[vertex.id], grown, strict=True)]

    def inputs(self, now: Moment, ended: bool) -> dict[VertexId, tuple[InputView, ...]]:
        """Return the inputs of all vertices with their numbers. Those of a job that has ended have no rates."""
        rates = {} if ended else self._growth.rates(now.seconds, self._totals)
        return {
            vertex.id: tuple(
                replace(
                    one,
                    records=int(totals[2 * at]),
                    bytes=int(totals[2 * at + 1]),
                    records_per_second=rate[2 * at],
                    bytes_per_second=rate[2 * at + 1],
                )
                for at, one in enumerate(vertex.inputs)
            )
            for vertex in self._vertices
            for totals in (self._totals[vertex.id],)
            for rate in (rates.get(vertex.id, [0.0] * len(totals)),)
        }


def state_of_all(states: list[TaskState]) -> TaskState:
    """Return the state of a vertex, which follows from the states of its subtasks as in Flink."""
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
    return int(head.measures.get((WATERMARK_OUT if vertex.is_source else WATERMARK_IN).name, MIN_WATERMARK))
