"""Makes samples from views: all metrics, with the names and labels that Flink's reporters give them. Pure.

Prometheus joins the parts of a name by ``_``, OpenTelemetry by dots:

    flink_jobmanager_numRunningJobs                   the JobManager as a whole
    flink_jobmanager_job_numRestarts                  a job
    flink_taskmanager_Status_JVM_Memory_Heap_Used     an executor
    flink_taskmanager_job_task_numRecordsIn           a subtask of a vertex
    flink_taskmanager_job_task_operator_numRecordsIn  a subtask of an operator, the user's metrics among them
    flink_taskmanager_job_latency_..._latency         the age of latency markers, with the label quantile as in Flink

A job that has ended has no metrics, as in Flink.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flott.common.job_status import JobStatus
from flott.metrics._engine_metrics import LATENCY as LATENCY_AGE
from flott.metrics._engine_metrics import LATENCY_COUNT, EngineMetric, Kind, Scope, describe, find
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.views.graph_view import metric_scope
from flott.runtime.jobmanager.views.job_view import JobView, SubtaskView, TaskManagerView


@dataclass(frozen=True, slots=True)
class MetricRow:
    """Metrics that have the same labels: those of one job, subtask, operator or executor."""

    scope: tuple[str, ...]  #: of their names: ("jobmanager", "job")
    labels: Mapping[str, str]
    numbers: Mapping[str, int | float]


@dataclass(frozen=True)
class MetricSample:
    """One number of a row."""

    scope: tuple[str, ...]
    metric: str
    labels: Mapping[str, str]
    value: int | float
    kind: Kind
    help: str


CLUSTER = ("jobmanager",)
JOB = ("jobmanager", "job")
EXECUTOR = ("taskmanager",)
TASK = ("taskmanager", "job", "task")
OPERATOR = ("taskmanager", "job", "task", "operator")
#: The beginning: the names of the labels follow, as in Flink.
LATENCY = ("taskmanager", "job", "latency")

#: The scope of the engine's table that each of these stands for. Spark names the metrics of executors.
_SCOPES = {CLUSTER: Scope.JOB_MANAGER, JOB: Scope.JOB, TASK: Scope.TASK, OPERATOR: Scope.OPERATOR}


def rows_of(gateway: ClusterGateway) -> list[MetricRow]:
    """Return all metrics, in rows."""
    jobs, task_managers = gateway.jobs(), gateway.task_managers()
    rows = [cluster_row(jobs, task_managers)]
    rows += map(task_manager_row, task_managers)
    for job in jobs:
        rows += job_rows(job)
    return rows


def samples_of(gateway: ClusterGateway) -> list[MetricSample]:
    """Return all metrics, one by one."""
    return [
        MetricSample(row.scope, metric, row.labels, value, kind_of(row.scope, metric), help_of(row.scope, metric))
        for row in rows_of(gateway)
        for metric, value in row.numbers.items()
    ]


def kind_of(scope: tuple[str, ...], metric: str) -> Kind:
    """Return whether a number only grows. The user's metrics may do anything: a counter has ``dec``."""
    row = _row_of(scope, metric)
    return Kind.COUNTER if row is not None and row.kind is Kind.COUNTER else Kind.GAUGE


def _row_of(scope: tuple[str, ...], metric: str) -> EngineMetric | None:
    in_table = Scope.LATENCY if scope[: len(LATENCY)] == LATENCY else _SCOPES.get(scope)
    return find(in_table, metric) if in_table is not None else None


def help_of(scope: tuple[str, ...], metric: str) -> str:
    """Return a description of a metric."""
    row = _row_of(scope, metric)
    return row.help if row is not None else describe(metric) or f"{_text(metric)}, of the program or of Spark."


def cluster_row(jobs: Sequence[JobView], task_managers: Sequence[TaskManagerView]) -> MetricRow:
    """Return the metrics of the JobManager."""
    numbers = {
        "numRunningJobs": sum(not job.status.is_terminal_state() for job in jobs),
        "numRegisteredTaskManagers": len(task_managers),
        "taskSlotsTotal": sum(each.slots for each in task_managers),
        "taskSlotsAvailable": sum(each.free_slots for each in task_managers),
    }
    return MetricRow(CLUSTER, {}, numbers)


def task_manager_row(view: TaskManagerView) -> MetricRow:
    """Return the metrics of an executor."""
    return MetricRow(EXECUTOR, {"host": _text(view.host), "tm_id": _text(view.id)}, view.metrics)


def job_rows(job: JobView) -> Iterator[MetricRow]:
    """Yield the metrics of a job, its subtasks and their operators; none of a job that has ended."""
    if job.status.is_terminal_state() or job.status is JobStatus.INITIALIZING:
        return
    labels = {"job_id": job.job_id, "job_name": _text(job.name)}
    yield MetricRow(JOB, labels, job.metrics)
    for vertex in job.vertices:
        operators = [
            (op.metric_scope or metric_scope(op.name), {"operator_id": op.id, "operator_name": _text(op.name)})
            for op in vertex.operators
        ]
        of_vertex = {**labels, "task_id": vertex.id, "task_name": _text(vertex.name)}
        for subtask in vertex.subtasks:
            own = {**of_vertex, **_subtask_labels(subtask)}
            yield MetricRow(TASK, own, task_metrics(subtask))
            for scope, of_operator in operators:
                if found := subtask.metrics.get(scope):
                    yield MetricRow(OPERATOR, {**own, **of_operator}, found)
    yield from _latency_rows(job, labels)


def _latency_rows(job: JobView, labels: Mapping[str, str]) -> Iterator[MetricRow]:
    vertices = {operator.id: vertex for vertex in job.vertices for operator in vertex.operators}
    for one in job.latencies:
        vertex = vertices.get(one.operator)
        at = next((each for each in vertex.subtasks if each.index == one.subtask), None) if vertex is not None else None
        place = {"host": _text(at.host), "tm_id": _text(at.task_manager)} if at is not None else {}
        own = {**labels, **place, **one.labels}
        scope = (*LATENCY, *one.labels)
        yield MetricRow(scope, own, {LATENCY_COUNT.name: one.count})
        for quantile, value in one.percentiles.items():
            yield MetricRow(scope, {**own, "quantile": quantile}, {LATENCY_AGE.name: value})


def _subtask_labels(subtask: SubtaskView) -> dict[str, str]:
    return {
        "host": _text(subtask.host),
        "tm_id": _text(subtask.task_manager),
        "task_attempt_num": str(subtask.attempt),
        "subtask_index": str(subtask.index),
    }


def task_metrics(subtask: SubtaskView) -> dict[str, int | float]:
    """Return the metrics of a subtask as a whole."""
    return dict(subtask.own_metrics or {})


def _text(text: str) -> str:
    """Return a name that can be encoded: users may choose names with lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def one_each(samples: Iterable[tuple[str, MetricSample]]) -> dict[str, list[MetricSample]]:
    """Return samples by the name they are sent with. Of two with the same name and labels, the first is kept."""
    families: dict[str, list[MetricSample]] = {}
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for name, sample in samples:
        key = (name, tuple(sorted(sample.labels.items())))
        if key not in seen:
            seen.add(key)
            families.setdefault(name, []).append(sample)
    return families
