"""Endpoints of the vertices of a job and their subtasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from flott.rest import metric_queries, profiling
from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.refusal import Refusal
from flott.rest.shapes.job.accumulators import (
    AccumulatorsOfSubtasks,
    AttemptAccumulators,
    VertexAccumulators,
    accumulators_of_subtasks,
    attempt_accumulators,
    vertex_accumulators,
)
from flott.rest.shapes.metrics import AggregatedMetric, MetricValue, subtask_metrics, vertex_metrics, watermarks
from flott.rest.shapes.vertex.backpressure import BackPressure, back_pressure
from flott.rest.shapes.vertex.stacks import ProcessStacks, WorkerStacks, no_stacks
from flott.rest.shapes.vertex.states import all_subtasks
from flott.rest.shapes.vertex.vertices import (
    FlameGraph,
    Ports,
    SubtaskDetail,
    SubtasksTimes,
    TaskManagersOfVertex,
    VertexDetail,
    flame_graph_of,
    no_flame_graph,
    ports_of,
    subtask_detail,
    subtasks_times,
    task_managers_of_vertex,
    vertex_detail,
)
from flott.runtime.jobmanager.views.job_view import SubtaskView, VertexView

_VERTEX = "/jobs/:jobid/vertices/:vertexid"
_SUBTASK = f"{_VERTEX}/subtasks/:subtaskindex"
_ATTEMPT = f"{_SUBTASK}/attempts/:attempt"


def detail(call: RestCall) -> VertexDetail:
    return vertex_detail(call.vertex(), _ports(call), _now_ms(call))


def times(call: RestCall) -> SubtasksTimes:
    return subtasks_times(call.vertex(), _ports(call), _now_ms(call))


def task_managers(call: RestCall) -> TaskManagersOfVertex:
    return task_managers_of_vertex(call.vertex(), _ports(call), _now_ms(call))


def pressure(call: RestCall) -> BackPressure:
    return back_pressure(call.vertex(), _now_ms(call))


def event_time(call: RestCall) -> list[MetricValue]:
    return watermarks(call.vertex())


def metrics(call: RestCall) -> list[MetricValue]:
    return metric_queries.values(call, vertex_metrics(call.vertex()))


def metrics_of_subtasks(call: RestCall) -> list[AggregatedMetric]:
    vertex = call.vertex()
    subtasks = all_subtasks(vertex)
    chosen = metric_queries.chosen_indexes(call, "subtasks", len(subtasks))
    return metric_queries.aggregated(call, [subtask_metrics(vertex, subtasks[index]) for index in chosen])


def accumulators(call: RestCall) -> VertexAccumulators:
    return vertex_accumulators(call.vertex())


def subtasks_accumulators(call: RestCall) -> AccumulatorsOfSubtasks:
    return accumulators_of_subtasks(call.vertex(), _ports(call))


async def flame_graph(call: RestCall) -> FlameGraph:
    """Sample the processes of a vertex. Without py-spy, or if they are on other machines, there is no flame graph."""
    pids = _workers(call)
    if not pids or profiling.sampler() is None:
        return no_flame_graph()
    idle = call.query["type"].lower() != "on_cpu"
    try:
        tree = await asyncio.to_thread(profiling.sample_flame_graph, list(pids), idle=idle)
    except profiling.UnreadableProcess:
        return no_flame_graph()
    return flame_graph_of(tree, _now_ms(call))


async def stacks(call: RestCall) -> WorkerStacks:
    """Return the stacks of the processes of a vertex."""
    found = _workers(call)
    if profiling.sampler() is None:
        return no_stacks("py-spy is not installed beside the JobManager: pip install 'flott[profiling]'.")
    if not found:
        return no_stacks("No process of the vertex runs on the JobManager's machine.")
    processes: list[ProcessStacks] = []
    for pid, subtasks in found.items():
        try:
            threads = await asyncio.to_thread(profiling.sample_threads, pid)
        except profiling.UnreadableProcess as error:
            return no_stacks(str(error))
        processes.append({"pid": pid, "subtasks": subtasks, "threads": threads})
    return {"available": True, "reason": None, "processes": processes}


def _workers(call: RestCall) -> dict[int, list[str]]:
    """Return the processes of the vertex on this machine. A job that has ended has none, though workers live on."""
    job = call.job()
    vertices = [call.vertex(job)]
    ended = job.status.is_terminal_state()
    return {} if ended else profiling.workers_here(vertices, call.query["subtaskindex"])


def subtask(call: RestCall) -> SubtaskDetail:
    _, found = _subtask(call)
    return subtask_detail(found, _ports(call), _now_ms(call))


def metrics_of_subtask(call: RestCall) -> list[MetricValue]:
    vertex, found = _subtask(call)
    return metric_queries.values(call, subtask_metrics(vertex, found))


def accumulators_of_attempt(call: RestCall) -> AttemptAccumulators:
    return attempt_accumulators(*_subtask(call))


def _subtask(call: RestCall) -> tuple[VertexView, SubtaskView]:
    """Return the subtask of the path. Only its current attempt is known."""
    vertex = call.vertex()
    index, attempt = call.path["subtaskindex"], call.path.get("attempt")
    found = next((one for one in all_subtasks(vertex) if one.index == index), None)
    if found is None:
        raise Refusal(404, f"Vertex {vertex.id} has no subtask {index}.")
    if attempt is not None and attempt != found.attempt:
        raise Refusal(404, f"Subtask {index} is in attempt {found.attempt}; attempt {attempt} is not known.")
    return vertex, found


def _ports(call: RestCall) -> Ports:
    return ports_of(call.gateway.task_managers())


def _now_ms(call: RestCall) -> int:
    return call.operations.clock.now_ms()


def _get(
    path: str, handler: Callable[[RestCall], Any], reply: Any, summary: str, *query: Query, shared: bool = False
) -> Endpoint:
    return Endpoint("GET", path, handler, reply, summary, tag="vertices", query=query, shared=shared)


_OF_SUBTASK = Query("subtaskindex", int, None, "of one subtask", minimum=0)

ENDPOINTS = (
    _get(_VERTEX, detail, VertexDetail, "A vertex with its subtasks"),
    _get(f"{_VERTEX}/subtasktimes", times, SubtasksTimes, "The times of all state changes of subtasks"),
    _get(f"{_VERTEX}/taskmanagers", task_managers, TaskManagersOfVertex, "The subtasks by task manager"),
    _get(f"{_VERTEX}/backpressure", pressure, BackPressure, "How busy the subtasks are"),
    _get(f"{_VERTEX}/watermarks", event_time, list[MetricValue], "The watermarks of subtasks"),
    _get(f"{_VERTEX}/metrics", metrics, list[MetricValue], "Metrics of a vertex", metric_queries.NAMES),
    _get(
        f"{_VERTEX}/subtasks/metrics",
        metrics_of_subtasks,
        list[AggregatedMetric],
        "Metrics of subtasks together",
        metric_queries.NAMES,
        metric_queries.AGGREGATION,
        Query("subtasks", list, meaning="numbers of subtasks and ranges of them, like 0,2-4; without it, all"),
        shared=True,
    ),
    _get(f"{_VERTEX}/accumulators", accumulators, VertexAccumulators, "The accumulators of a vertex"),
    _get(
        f"{_VERTEX}/subtasks/accumulators",
        subtasks_accumulators,
        AccumulatorsOfSubtasks,
        "The accumulators of subtasks",
    ),
    Endpoint(
        "GET",
        f"{_VERTEX}/flamegraph",
        flame_graph,
        FlameGraph,
        "A flame graph, sampled by py-spy for two seconds; -2 as its time if that is not possible",
        "vertices",
        query=(
            Query(
                "type", str, "full", "which threads",
                choices=("full", "on_cpu", "off_cpu", "FULL", "ON_CPU", "OFF_CPU"),
            ),
            _OF_SUBTASK,
        ),
        orders=True,  # it costs, and shows code
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/flott/vertices/:vertexid/stacks",
        stacks,
        WorkerStacks,
        "The stacks of the processes that run a vertex, by py-spy",
        "vertices",
        query=(_OF_SUBTASK,),
        orders=True,
    ),
    _get(_SUBTASK, subtask, SubtaskDetail, "A subtask"),
    _get(f"{_SUBTASK}/metrics", metrics_of_subtask, list[MetricValue], "Metrics of a subtask", metric_queries.NAMES),
    _get(f"{_SUBTASK}/accumulators", accumulators_of_attempt, AttemptAccumulators, "The accumulators of a subtask"),
    _get(_ATTEMPT, subtask, SubtaskDetail, "An attempt of a subtask"),
    _get(
        f"{_ATTEMPT}/accumulators",
        accumulators_of_attempt,
        AttemptAccumulators,
        "The accumulators of an attempt of a subtask",
    ),
)
