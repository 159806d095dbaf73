"""One job while it runs: its vertices and edges with their numbers, and the subtasks of a vertex. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from flott.rest.shapes.job.job_detail import ModeChangeOfJob, WeakestLinkOfJob, mode_changes, weakest_link
from flott.rest.shapes.live.jobs import JobSeries, LiveJobLine, live_job_line, series_of
from flott.rest.shapes.live.numbers import Share, Skew, event_time, mean, share, skew_of
from flott.rest.shapes.values.numbers import finite
from flott.rest.shapes.vertex.backpressure import shares
from flott.rest.shapes.vertex.states import TaskStateName, all_subtasks, task_state
from flott.runtime.jobmanager.views.job_history import STEP_MS, JobPoint, VertexPoint, vertex_point
from flott.runtime.jobmanager.views.job_view import (
    ChainedOperatorView,
    InputView,
    JobView,
    LatencyView,
    SubtaskView,
    VertexView,
)

LiveOperator = TypedDict(
    "LiveOperator",
    {
        "id": str,
        "name": str,
        "uid": str | None,
        "kind": str,
        "description": str,
        "parallelism": int,
        "source-line": str,
        "guarantee": str,
        "metric-scope": str,
    },
)


class SkewRatios(TypedDict):
    records: float | None
    busy: float | None
    state: float | None


LiveVertex = TypedDict(
    "LiveVertex",
    {
        "id": str,
        "name": str,
        "parallelism": int,
        "max-parallelism": int,
        "status": TaskStateName,
        "start": int,
        "end": int,
        "busy": Share,
        "idle": Share,
        "backpressured": Share,
        "busiest": Share,
        "records-in": int,
        "records-out": int,
        "bytes-in": int,
        "bytes-out": int,
        "records-in-per-second": float,
        "records-out-per-second": float,
        "watermark": int | None,
        "state-size": int,
        "late": int,
        "skew": SkewRatios,
        "operators": list[LiveOperator],
    },
)
LiveEdge = TypedDict(
    "LiveEdge",
    {
        "source": str,
        "target": str,
        "input": int,
        "ship-strategy": str,
        "records": int | None,
        "bytes": int | None,
        "records-per-second": float | None,
        "bytes-per-second": float | None,
    },
)
LiveJob = TypedDict(
    "LiveJob",
    {
        "job": LiveJobLine,
        "checkpoint-directory": str,
        "restart-strategy": str,
        "scheduler": str,
        "process": int,
        "guarantee": WeakestLinkOfJob | None,
        "configured-execution-mode": str,
        "execution-mode": str,
        "execution-mode-changes": list[ModeChangeOfJob],
        "vertices": list[LiveVertex],
        "edges": list[LiveEdge],
    },
)
VertexSeries = TypedDict(
    "VertexSeries",
    {"records-in-per-second": list[float], "records-out-per-second": list[float], "busy": list[Share]},
)


class LiveSeries(TypedDict):
    step: int
    series: JobSeries
    vertices: dict[str, VertexSeries]


LiveSubtask = TypedDict(
    "LiveSubtask",
    {
        "subtask": int,
        "status": TaskStateName,
        "attempt": int,
        "host": str,
        "executor": str,
        "worker": int,
        "start": int,
        "end": int,
        "records-in": int,
        "records-out": int,
        "bytes-in": int,
        "bytes-out": int,
        "records-in-per-second": float,
        "records-out-per-second": float,
        "busy": Share,
        "idle": Share,
        "backpressured": Share,
        "busy-time": int,
        "watermark": int | None,
        "state-size": int,
    },
)


class SubtaskSkew(TypedDict):
    records: Skew
    busy: Skew
    state: Skew


LiveLatency = TypedDict(
    "LiveLatency",
    {
        "operator": str,
        "subtask": int,
        "source": str | None,
        "source-subtask": int | None,
        "count": int,
        "min": float,
        "mean": float,
        "p50": float,
        "p95": float,
        "p99": float,
        "max": float,
    },
)


class LiveVertexDetail(TypedDict):
    vertex: LiveVertex
    subtasks: list[LiveSubtask]
    skew: SubtaskSkew
    latencies: list[LiveLatency]


def live_job(job: JobView) -> LiveJob:
    """Return a job with its vertices and edges."""
    points = {vertex.id: vertex_point(vertex) for vertex in job.vertices}
    return {
        "job": live_job_line(job),
        "checkpoint-directory": job.checkpoint_directory,
        "restart-strategy": job.restart_strategy,
        "scheduler": job.scheduler,
        "process": job.process,
        "guarantee": weakest_link(job),
        "configured-execution-mode": job.configured_mode,
        "execution-mode": job.mode,
        "execution-mode-changes": mode_changes(job),
        "vertices": [live_vertex(job, vertex, points[vertex.id]) for vertex in job.vertices],
        "edges": live_edges(job),
    }


def live_vertex(job: JobView, vertex: VertexView, point: VertexPoint) -> LiveVertex:
    """Return a vertex. Shares are means over its subtasks; none works in a job that has ended."""
    parts = [shares(subtask) for subtask in vertex.subtasks] if not job.status.is_terminal_state() else []
    traffic, skew = vertex.traffic, vertex_skew(vertex.subtasks)
    late = [job.ledger[one.id].refused for one in vertex.operators if one.id in job.ledger]
    return {
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "max-parallelism": vertex.max_parallelism,
        "status": task_state(vertex.state),
        "start": vertex.start_ms,
        "end": vertex.end_ms,
        "busy": share(mean([part[0] for part in parts])),
        "idle": share(mean([part[1] for part in parts])),
        "backpressured": share(mean([part[2] for part in parts])),
        "busiest": share(max((part[0] for part in parts), default=0.0)),
        "records-in": traffic.records_in,
        "records-out": traffic.records_out,
        "bytes-in": traffic.bytes_in,
        "bytes-out": traffic.bytes_out,
        "records-in-per-second": round(finite(point.records_in_per_second), 1),
        "records-out-per-second": round(finite(point.records_out_per_second), 1),
        "watermark": event_time(min((one.watermark for one in vertex.subtasks), default=0))
        if vertex.has_event_time
        else None,
        "state-size": sum(subtask.state_bytes for subtask in vertex.subtasks),
        "late": sum(late),
        "skew": {
            "records": skew["records"]["ratio"],
            "busy": skew["busy"]["ratio"],
            "state": skew["state"]["ratio"],
        },
        "operators": [_operator(operator) for operator in vertex.operators],
    }


def live_edges(job: JobView) -> list[LiveEdge]:
    """Return the edges with how records are distributed, and how many have come in on them."""
    known = {vertex.id for vertex in job.vertices}
    return [_edge(vertex, one) for vertex in job.vertices for one in vertex.inputs if one.source in known]


def live_series(points: Sequence[JobPoint]) -> LiveSeries:
    """Return the numbers of the last minutes of a job, and of its present vertices."""
    present = list(points[-1].vertices) if points else []
    return {
        "step": STEP_MS,
        "series": series_of(points),
        "vertices": {ident: _series_of_vertex([point.vertices.get(ident) for point in points]) for ident in present},
    }


def live_vertex_detail(job: JobView, vertex: VertexView) -> LiveVertexDetail:
    """Return a vertex with its subtasks."""
    return {
        "vertex": live_vertex(job, vertex, vertex_point(vertex)),
        "subtasks": [_subtask(vertex, subtask) for subtask in all_subtasks(vertex)],
        "skew": vertex_skew(vertex.subtasks),
        "latencies": vertex_latencies(job, vertex),
    }


def vertex_latencies(job: JobView, vertex: VertexView) -> list[LiveLatency]:
    """Return the ages of latency markers at the operators of a vertex, in the order of its chain."""
    place = {operator.id: index for index, operator in enumerate(vertex.operators)}
    found = [one for one in job.latencies if one.operator in place]
    found.sort(key=lambda one: (place[one.operator], one.subtask, one.source or "", one.source_subtask or 0))
    return [_latency(one) for one in found]


def vertex_skew(subtasks: Sequence[SubtaskView]) -> SubtaskSkew:
    """Return how uneven the subtasks are: in records, in the time they were busy, in the size of their state.

    A source reads no records of other vertices, so the records that it emits are compared.
    """
    read = [subtask.traffic.records_in for subtask in subtasks]
    return {
        "records": skew_of(read if any(read) else [subtask.traffic.records_out for subtask in subtasks]),
        "busy": skew_of([subtask.traffic.busy_ms for subtask in subtasks]),
        "state": skew_of([subtask.state_bytes for subtask in subtasks]),
    }


def _latency(one: LatencyView) -> LiveLatency:
    def percentile(quantile: str) -> float:
        return finite(one.percentiles.get(quantile, 0.0))

    return {
        "operator": one.operator,
        "subtask": one.subtask,
        "source": one.source,
        "source-subtask": one.source_subtask,
        "count": one.count,
        "min": finite(one.minimum),
        "mean": round(finite(one.mean), 1),
        "p50": percentile("0.5"),
        "p95": percentile("0.95"),
        "p99": percentile("0.99"),
        "max": finite(one.maximum),
    }


def _edge(vertex: VertexView, one: InputView) -> LiveEdge:
    known = one.records is not None
    return {
        "source": one.source,
        "target": vertex.id,
        "input": one.number,
        "ship-strategy": one.ship_strategy,
        "records": one.records,
        "bytes": one.bytes,
        "records-per-second": round(finite(one.records_per_second), 1) if known else None,
        "bytes-per-second": round(finite(one.bytes_per_second), 1) if known else None,
    }


def _series_of_vertex(points: Sequence[VertexPoint | None]) -> VertexSeries:
    found = [point or VertexPoint(0.0, 0.0, 0.0) for point in points]
    return {
        "records-in-per-second": [round(finite(point.records_in_per_second), 1) for point in found],
        "records-out-per-second": [round(finite(point.records_out_per_second), 1) for point in found],
        "busy": [share(point.busy) for point in found],
    }


def _subtask(vertex: VertexView, subtask: SubtaskView) -> LiveSubtask:
    busy, idle, backpressured = shares(subtask)
    own, traffic = subtask.own_metrics or {}, subtask.traffic
    return {
        "subtask": subtask.index,
        "status": task_state(subtask.state),
        "attempt": subtask.attempt,
        "host": subtask.host,
        "executor": subtask.task_manager,
        "worker": subtask.worker,
        "start": subtask.start_ms,
        "end": subtask.end_ms,
        "records-in": traffic.records_in,
        "records-out": traffic.records_out,
        "bytes-in": traffic.bytes_in,
        "bytes-out": traffic.bytes_out,
        "records-in-per-second": round(finite(own.get("numRecordsInPerSecond", 0.0)), 1),
        "records-out-per-second": round(finite(own.get("numRecordsOutPerSecond", 0.0)), 1),
        "busy": share(busy),
        "idle": share(idle),
        "backpressured": share(backpressured),
        "busy-time": round(finite(traffic.busy_ms)),
        "watermark": event_time(subtask.watermark) if vertex.has_event_time else None,
        "state-size": subtask.state_bytes,
    }


def _operator(operator: ChainedOperatorView) -> LiveOperator:
    return {
        "id": operator.id,
        "name": operator.name,
        "uid": operator.uid,
        "kind": operator.kind,
        "description": operator.description,
        "parallelism": operator.parallelism,
        "source-line": operator.source_line,
        "guarantee": operator.guarantee,
        "metric-scope": operator.metric_scope,
    }
