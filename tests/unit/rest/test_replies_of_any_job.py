"""Whatever a job looks like, its replies can be read: JSON without NaN, complete, with Flink's ids and enums."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from flott.common.job_status import JobStatus
from flott.rest.shapes.checkpoint.checkpoint_configuration import CheckpointConfiguration, checkpoint_configuration
from flott.rest.shapes.checkpoint.checkpoint_detail import (
    TaskCheckpointDetail,
    checkpoint_detail,
    task_checkpoint_detail,
)
from flott.rest.shapes.checkpoint.checkpoints import CheckpointItem, Checkpoints, checkpoints
from flott.rest.shapes.cluster.overview import ClusterOverview, cluster_overview
from flott.rest.shapes.cluster.task_managers import (
    TaskManagerDetail,
    TaskManagers,
    task_manager_detail,
    task_managers_reply,
)
from flott.rest.shapes.job.accumulators import (
    AccumulatorsOfSubtasks,
    JobAccumulators,
    VertexAccumulators,
    accumulators_of_subtasks,
    job_accumulators,
    vertex_accumulators,
)
from flott.rest.shapes.job.applications import (
    ApplicationDetail,
    ApplicationExceptions,
    ApplicationsOverview,
    application_detail,
    application_exceptions,
    applications_overview,
)
from flott.rest.shapes.job.epochs import JobEpochs, job_epochs
from flott.rest.shapes.job.exceptions import JobExceptions, job_exceptions
from flott.rest.shapes.job.execution_result import ExecutionResult, execution_result
from flott.rest.shapes.job.failures import JobFailures, job_failures
from flott.rest.shapes.job.job_configuration import JobConfiguration, job_configuration
from flott.rest.shapes.job.job_detail import JobDetail, job_detail
from flott.rest.shapes.job.jobs import JobIdsWithStatus, JobsOverview, job_ids, jobs_overview
from flott.rest.shapes.job.late_records import LateDataReply, late_ledger
from flott.rest.shapes.job.plan import JobPlanReply, job_plan_reply
from flott.rest.shapes.live.jobs import LiveOverview, live_overview
from flott.rest.shapes.live.timeline import Timeline, timeline
from flott.rest.shapes.live.vertices import (
    LiveJob,
    LiveSeries,
    LiveVertexDetail,
    live_job,
    live_series,
    live_vertex_detail,
)
from flott.rest.shapes.metrics import (
    AggregatedMetric,
    MetricValue,
    aggregated_metrics,
    job_manager_metrics,
    job_metrics,
    metric_values,
    subtask_metrics,
    vertex_metrics,
    watermarks,
)
from flott.rest.shapes.vertex.backpressure import BackPressure, back_pressure
from flott.rest.shapes.vertex.states import all_subtasks
from flott.rest.shapes.vertex.vertices import (
    SubtasksTimes,
    TaskManagersOfVertex,
    VertexDetail,
    subtasks_times,
    task_managers_of_vertex,
    vertex_detail,
)
from flott.runtime.jobmanager.views.job_history import JobHistory
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView, TaskManagerView
from tests.unit.rest.fake_cluster import NOW, running_job, subtask
from tests.unit.rest.views import ids, job_views, numbers, task_manager_views

BRIEF = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
HEX = re.compile(r"[0-9a-f]{32}")
PORTS = {"driver": 4040}



def history_of(job: JobView) -> JobHistory:
    history = JobHistory()
    history.note(job, NOW)
    return history


OF_A_JOB: Sequence[tuple[Any, Callable[[JobView], Any]]] = (
    (JobIdsWithStatus, lambda job: job_ids([job])),
    (JobsOverview, lambda job: jobs_overview([job], NOW)),
    (ApplicationsOverview, lambda job: applications_overview([job], NOW)),
    (ApplicationDetail, lambda job: application_detail(job, NOW)),
    (ApplicationExceptions, lambda job: application_exceptions(job, 1)),
    (JobDetail, lambda job: job_detail(job, NOW)),
    (JobPlanReply, job_plan_reply),
    (JobConfiguration, lambda job: job_configuration(replace(job, configuration={}))),
    (CheckpointConfiguration, lambda job: checkpoint_configuration(replace(job, configuration={}))),
    (JobExceptions, lambda job: job_exceptions(job, 1)),
    (JobAccumulators, job_accumulators),
    (Checkpoints, checkpoints),
    (JobEpochs, job_epochs),
    (JobFailures, job_failures),
    (LateDataReply, late_ledger),
    (LiveOverview, lambda job: live_overview([job], [], NOW)),
    (LiveJob, live_job),
    (LiveSeries, lambda job: live_series(history_of(job).points())),
    (list[LiveVertexDetail], lambda job: [live_vertex_detail(job, vertex) for vertex in job.vertices]),
    (Timeline, lambda job: timeline(history_of(job).epochs(), history_of(job).events())),
    (
        ExecutionResult,
        lambda job: execution_result(
            job, JobResultView(job.job_id, job.status, 7, {"x": b"y"}, next(iter(job.failures), None), b"ledger")
        ),
    ),
    (list[MetricValue], lambda job: metric_values(job_metrics(job, NOW), list(job_metrics(job, NOW)))),
    (list[AggregatedMetric], lambda job: aggregated_metrics([job_metrics(job, NOW)] * 2, ["uptime", *job.metrics], [])),
    (
        list[CheckpointItem],
        lambda job: [checkpoint_detail(job, checkpoint) for checkpoint in job.checkpoints.history],
    ),
    (
        list[TaskCheckpointDetail],
        lambda job: [
            task_checkpoint_detail(checkpoint, vertex)
            for checkpoint in job.checkpoints.history
            for vertex in job.vertices
        ],
    ),
    (list[VertexDetail], lambda job: [vertex_detail(vertex, PORTS, NOW) for vertex in job.vertices]),
    (list[SubtasksTimes], lambda job: [subtasks_times(vertex, PORTS, NOW) for vertex in job.vertices]),
    (list[TaskManagersOfVertex], lambda job: [task_managers_of_vertex(one, PORTS, NOW) for one in job.vertices]),
    (list[BackPressure], lambda job: [back_pressure(vertex, NOW) for vertex in job.vertices]),
    (list[VertexAccumulators], lambda job: [vertex_accumulators(vertex) for vertex in job.vertices]),
    (list[AccumulatorsOfSubtasks], lambda job: [accumulators_of_subtasks(vertex, PORTS) for vertex in job.vertices]),
    (list[list[MetricValue]], lambda job: [watermarks(vertex) for vertex in job.vertices]),
    (
        list[list[MetricValue]],
        lambda job: [metric_values(vertex_metrics(one), list(vertex_metrics(one))) for one in job.vertices],
    ),
    (
        list[list[AggregatedMetric]],
        lambda job: [
            aggregated_metrics(parts, [name for part in parts for name in part], [])
            for parts in ([subtask_metrics(one, task) for task in all_subtasks(one)] for one in job.vertices)
        ],
    ),
)
ADAPTERS = [(TypeAdapter(kind), make) for kind, make in OF_A_JOB]
LINES, DETAIL = TypeAdapter(TaskManagers), TypeAdapter(TaskManagerDetail)
OVERVIEW, METRICS = TypeAdapter(ClusterOverview), TypeAdapter(list[MetricValue])


def through_json(reply: Any) -> Any:
    return json.loads(json.dumps(reply, allow_nan=False))


@BRIEF
@given(job_views())
def test_every_reply_of_any_job_is_json_of_its_declared_form(job: JobView) -> None:
    for adapter, make in ADAPTERS:
        reply = through_json(make(job))
        adapter.validate_python(reply, strict=True)
        assert not (isinstance(reply, dict) and set(reply) == {"errors"}), "clients would take it for an error"


@BRIEF
@given(job_views())
def test_the_detail_of_any_job_is_of_one_piece(job: JobView) -> None:
    detail = through_json(job_detail(job, NOW))
    vertices = detail["vertices"]
    nodes = detail["plan"]["nodes"]
    assert [node["id"] for node in nodes] == [vertex["id"] for vertex in vertices]
    known = {node["id"] for node in nodes}
    assert all(one["id"] in known for node in nodes for one in node.get("inputs", ()))
    for ident in [detail["jid"], detail["application-id"], *known, *(one["slotSharingGroupId"] for one in vertices)]:
        assert HEX.fullmatch(ident)
    for vertex in vertices:
        assert sum(vertex["tasks"].values()) == vertex["parallelism"]
    assert sum(detail["status-counts"].values()) == len(vertices)
    assert all(time_ms >= 0 for time_ms in detail["timestamps"].values())
    assert "<script>" not in json.dumps([node["description"] for node in nodes])
    [line] = jobs_overview([job], NOW)["jobs"]
    tasks = dict(line["tasks"])
    assert tasks.pop("total") == sum(tasks.values()) == sum(vertex["parallelism"] for vertex in vertices)


@BRIEF
@given(st.lists(task_manager_views, max_size=3), st.lists(job_views(), max_size=1))
def test_replies_about_any_task_managers_are_json_of_their_declared_form(
    executors: list[TaskManagerView], jobs: list[JobView]
) -> None:
    LINES.validate_python(through_json(task_managers_reply(executors)), strict=True)
    OVERVIEW.validate_python(through_json(cluster_overview(jobs, executors)), strict=True)
    metrics = job_manager_metrics(jobs, executors, {"Status.Python.Threads.Count": 3})
    METRICS.validate_python(through_json(metric_values(metrics, list(metrics))), strict=True)
    for executor in executors:
        reply = through_json(task_manager_detail(executor, jobs))
        DETAIL.validate_python(reply, strict=True)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), numbers | st.just(10**400)), max_size=4))
def test_aggregated_metrics_are_numbers_whatever_the_values_are(parts: list[dict[str, float]]) -> None:
    for metric in through_json(aggregated_metrics(parts, ["a", "b"], [])):
        assert set(metric) == {"id", "min", "max", "avg", "sum", "skew"}
        assert 0 <= metric["skew"] <= 100
        assert metric["min"] <= metric["max"]


# ---- speed: an open page of the dashboard asks for these every few seconds ------------------------------------------


def wide_job(ident: str, vertices: int, parallelism: int) -> JobView:
    job = running_job(ident)
    template = job.vertices[1]
    tasks = tuple(subtask(index, template.state) for index in range(parallelism))
    wide = tuple(
        replace(template, id=f"{number:032x}", parallelism=parallelism, subtasks=tasks, inputs=())
        for number in range(vertices)
    )
    return replace(job, vertices=wide, status=JobStatus.RUNNING)


def calls_of(action: Callable[[], object]) -> int:
    """Return how many functions are called: how long they take depends on the machine and what else it does."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    ("reply", "limit"),
    [
        pytest.param(lambda: job_detail(wide_job("a" * 32, 20, 8), NOW), 3_000, id="detail"),
        pytest.param(lambda: jobs_overview([wide_job("a" * 32, 3, 4)] * 100, NOW), 8_000, id="overview"),
    ],
)
def test_pages_that_are_asked_for_again_and_again_are_cheap(reply: Callable[[], object], limit: int) -> None:
    assert calls_of(lambda: json.dumps(reply())) < limit


@given(ids)
def test_ids_are_given_as_they_are(ident: str) -> None:
    assert job_ids([replace(running_job(), job_id=ident)])["jobs"][0]["id"] == ident
