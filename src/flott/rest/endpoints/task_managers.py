"""Endpoints of Spark's executors, which Flink's tools know as task managers."""

from __future__ import annotations

from flott.rest import metric_queries
from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.shapes.cluster.job_manager import Profilings, no_profilings
from flott.rest.shapes.cluster.placed_subtasks import PlacedSubtasks, placed_subtasks
from flott.rest.shapes.cluster.task_managers import (
    TaskManagerDetail,
    TaskManagers,
    task_manager_detail,
    task_managers_reply,
)
from flott.rest.shapes.cluster.threads import NO_THREADS, ThreadDump
from flott.rest.shapes.metrics import AggregatedMetric, MetricValue, task_manager_metrics

_TAG = "taskmanagers"
_ONE = "/taskmanagers/:taskmanagerid"


def overview(call: RestCall) -> TaskManagers:
    return task_managers_reply(call.gateway.task_managers())


def detail(call: RestCall) -> TaskManagerDetail:
    return task_manager_detail(call.task_manager(), call.gateway.jobs())


def metrics(call: RestCall) -> list[MetricValue]:
    return metric_queries.values(call, task_manager_metrics(call.task_manager()))


def metrics_of_all(call: RestCall) -> list[AggregatedMetric]:
    known = {one.id: one for one in call.gateway.task_managers()}
    chosen = metric_queries.chosen_ids(call, "taskmanagers", list(known))
    return metric_queries.aggregated(call, [task_manager_metrics(known[ident]) for ident in chosen])


def subtasks(call: RestCall) -> PlacedSubtasks:
    return placed_subtasks(call.task_manager().id, call.gateway.jobs())


def threads(call: RestCall) -> ThreadDump:
    """Return no threads. Spark reports only metrics of executors."""
    call.task_manager()
    return NO_THREADS


def profilings(call: RestCall) -> Profilings:
    call.task_manager()
    return no_profilings()


ENDPOINTS = (
    Endpoint("GET", "/taskmanagers", overview, TaskManagers, "All task managers", tag=_TAG, shared=True),
    Endpoint(
        "GET",
        "/taskmanagers/metrics",
        metrics_of_all,
        list[AggregatedMetric],
        "Metrics of several task managers together",
        tag=_TAG,
        query=(
            metric_queries.NAMES,
            metric_queries.AGGREGATION,
            Query("taskmanagers", list, meaning="ids of task managers, separated by commas; without it, all"),
        ),
    ),
    Endpoint("GET", _ONE, detail, TaskManagerDetail, "A task manager", tag=_TAG, shared=True),
    Endpoint(
        "GET",
        f"{_ONE}/metrics",
        metrics,
        list[MetricValue],
        "Metrics of a task manager",
        tag=_TAG,
        query=(metric_queries.NAMES,),
    ),
    Endpoint(
        "GET",
        f"{_ONE}/flott/subtasks",
        subtasks,
        PlacedSubtasks,
        "The subtasks that ran here last",
        tag=_TAG,
        shared=True,
    ),
    Endpoint("GET", f"{_ONE}/thread-dump", threads, ThreadDump, "The threads of a task manager", tag=_TAG),
    Endpoint("GET", f"{_ONE}/profiler", profilings, Profilings, "Profiles of a task manager: none", tag=_TAG),
)
