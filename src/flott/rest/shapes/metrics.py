"""Metrics by name: of subtasks, vertices, jobs, task managers and the JobManager; as they are, or aggregated. Pure.

A query without names lists the names there are; one with names answers those that exist and is silent about the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from flott.common.job_status import JobStatus
from flott.metrics._engine_metrics import TASK_WATERMARK
from flott.reporters.metric_table import cluster_row, task_metrics
from flott.rest.shapes.values.numbers import as_float, finite, metric_text, reached
from flott.rest.shapes.vertex.states import all_subtasks
from flott.runtime.jobmanager.views.job_view import (
    JobView,
    LatencyView,
    SubtaskView,
    TaskManagerView,
    VertexView,
)

Aggregation = Literal["min", "max", "avg", "sum", "skew"]
AGGREGATIONS: tuple[Aggregation, ...] = ("min", "max", "avg", "sum", "skew")

#: The names of quantiles in the names of metrics.
_QUANTILE_NAMES = {
    "0.5": "median", "0.75": "p75", "0.9": "p90", "0.95": "p95", "0.98": "p98", "0.99": "p99", "0.999": "p999",
}  # fmt: skip

#: Values by name.
Metrics = Mapping[str, int | float]


class MetricValue(TypedDict):
    id: str
    value: NotRequired[str]


class AggregatedMetric(TypedDict):
    id: str
    min: NotRequired[float]
    max: NotRequired[float]
    avg: NotRequired[float]
    sum: NotRequired[float]
    skew: NotRequired[float]


def metric_values(metrics: Metrics, names: Sequence[str]) -> list[MetricValue]:
    """The answer to a query of one thing's metrics."""
    if not names:
        return [{"id": name} for name in metrics]
    return [{"id": name, "value": metric_text(metrics[name])} for name in dict.fromkeys(names) if name in metrics]


def aggregated_metrics(
    parts: Sequence[Metrics], names: Sequence[str], aggregations: Sequence[Aggregation]
) -> list[AggregatedMetric]:
    """The answer to a query of several things' metrics together. What is no number does not count."""
    if not names:
        known = dict.fromkeys(name for part in parts for name in part)
        return [{"id": name} for name in known]
    wanted = aggregations or AGGREGATIONS
    replies = []
    for name in dict.fromkeys(names):
        found = [as_float(part[name]) for part in parts if name in part]
        if found:
            replies.append(_aggregate(name, [value for value in found if math.isfinite(value)], wanted))
    return replies


def subtask_metrics(vertex: VertexView, subtask: SubtaskView) -> dict[str, int | float]:
    """Of one subtask: its own, then those of its operators behind their names."""
    metrics = task_metrics(subtask)
    if not vertex.has_event_time:
        metrics.pop(TASK_WATERMARK.name, None)
    for operator, own in subtask.metrics.items():
        for name, value in own.items():
            metrics[f"{operator}.{name}"] = value
    return metrics


def vertex_metrics(vertex: VertexView) -> dict[str, int | float]:
    """Of all subtasks, each name behind the number of its subtask."""
    return {
        f"{subtask.index}.{name}": value
        for subtask in all_subtasks(vertex)
        for name, value in subtask_metrics(vertex, subtask).items()
    }


def watermarks(vertex: VertexView) -> list[MetricValue]:
    """How far event time has come in each subtask; none where there is no event time."""
    if not vertex.has_event_time:
        return []
    return [
        {"id": f"{subtask.index}.currentInputWatermark", "value": str(subtask.watermark)}
        for subtask in all_subtasks(vertex)
    ]


def job_metrics(job: JobView, now_ms: int) -> dict[str, int | float]:
    """Of a job as a whole: what its view tells, and what the job itself reports under the same or other names."""
    view = job.checkpoints
    last = view.latest_completed
    metrics: dict[str, int | float] = {
        "uptime": _uptime_ms(job, now_ms),
        "numRestarts": job.restarts,
        "fullRestarts": job.restarts,
        "totalNumberOfCheckpoints": view.completed + view.failed + view.in_progress,
        "numberOfInProgressCheckpoints": view.in_progress,
        "numberOfCompletedCheckpoints": view.completed,
        "numberOfFailedCheckpoints": view.failed,
        "lastCheckpointDuration": -1 if last is None else last.duration_ms,
        "lastCheckpointSize": -1 if last is None else last.written_bytes,
        "lastCheckpointFullSize": -1 if last is None else last.state_bytes,
        "lastCompletedCheckpointId": -1 if last is None else last.id,
        "lastCheckpointRestoreTimestamp": -1 if view.restored is None else view.restored.restored_ms,
        "numRecordsInPerSecond": job.records_per_second,
    }
    return {**metrics, **job.metrics, **latency_metrics(job.latencies)}


def latency_metrics(latencies: Iterable[LatencyView]) -> dict[str, int | float]:
    """The latency of a job, each number behind the names and ids of what it describes, as in Flink."""
    metrics: dict[str, int | float] = {}
    for one in latencies:
        name = ".".join(("latency", *(part for label in one.labels.items() for part in label), "latency"))
        metrics |= {
            f"{name}_count": one.count,
            f"{name}_min": one.minimum,
            f"{name}_max": one.maximum,
            f"{name}_mean": one.mean,
            f"{name}_stddev": one.stddev,
        }
        metrics |= {f"{name}_{_QUANTILE_NAMES[quantile]}": value for quantile, value in one.percentiles.items()}
    return metrics


def task_manager_metrics(task_manager: TaskManagerView) -> dict[str, int | float]:
    """Of a task manager: what Spark reports, under Flink's names."""
    managed: dict[str, int | float] = {"Status.Flink.Memory.Managed.Total": task_manager.managed_bytes}
    return {**managed, **task_manager.metrics}


def job_manager_metrics(
    jobs: Sequence[JobView], task_managers: Sequence[TaskManagerView], process: Metrics
) -> dict[str, int | float]:
    """Of the JobManager: the cluster in numbers, its JVM, and its Python process."""
    metrics = dict(cluster_row(jobs, task_managers).numbers)
    for one in task_managers:
        if one.id == "driver":
            metrics.update((name, value) for name, value in one.metrics.items() if name.startswith("Status.JVM."))
    return {**metrics, **process}


def choose(ranges: Iterable[str], indexes: Iterable[int]) -> list[int]:
    """The indexes that ranges like ``0`` or ``2-4`` name; all of them without any. ``ValueError`` for other texts."""
    bounds = [(int(low), int(high or low)) for low, _, high in (text.partition("-") for text in ranges)]
    return [index for index in indexes if not bounds or any(low <= index <= high for low, high in bounds)]


def _aggregate(name: str, values: Sequence[float], wanted: Sequence[Aggregation]) -> AggregatedMetric:
    reply: AggregatedMetric = {"id": name}
    total = finite(sum(values))
    average = total / len(values) if values else 0.0
    if "min" in wanted:
        reply["min"] = min(values, default=0.0)
    if "max" in wanted:
        reply["max"] = max(values, default=0.0)
    if "avg" in wanted:
        reply["avg"] = average
    if "sum" in wanted:
        reply["sum"] = total
    if "skew" in wanted:
        reply["skew"] = _skew(values, average)
    return reply


def _skew(values: Sequence[float], average: float) -> float:
    """How far the values lie from their average, in percent of it, at most 100."""
    if not values or not average:
        return 0.0
    deviation = sum(abs(value - average) for value in values) / len(values)
    return min(100.0, deviation / abs(average) * 100)


def _uptime_ms(job: JobView, now_ms: int) -> int:
    if job.status.is_terminal_state():
        return -1
    since_ms = reached(job.timestamps.get(JobStatus.RUNNING))
    return max(0, now_ms - since_ms) if job.status is JobStatus.RUNNING and since_ms else 0
