"""Accumulators. They are collected for the whole job, so vertices and subtasks have none. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict

from flott.rest.shapes.vertex.states import all_subtasks
from flott.rest.shapes.vertex.vertices import Ports, endpoint
from flott.runtime.jobmanager.views.job_view import JobView, SubtaskView, VertexView


class AccumulatorLine(TypedDict):
    name: str
    type: str
    value: str


JobAccumulators = TypedDict(
    "JobAccumulators",
    {
        "job-accumulators": list[AccumulatorLine],
        "user-task-accumulators": list[AccumulatorLine],
        "serialized-user-task-accumulators": dict[str, str],
    },
)
VertexAccumulators = TypedDict("VertexAccumulators", {"id": str, "user-accumulators": list[AccumulatorLine]})
SubtaskAccumulators = TypedDict(
    "SubtaskAccumulators",
    {"subtask": int, "attempt": int, "endpoint": str, "host": str, "user-accumulators": list[AccumulatorLine]},
)


class AccumulatorsOfSubtasks(TypedDict):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


AttemptAccumulators = TypedDict(
    "AttemptAccumulators",
    {"subtask": int, "attempt": int, "id": str, "user-accumulators": list[AccumulatorLine]},
)


def job_accumulators(job: JobView) -> JobAccumulators:
    """Return the accumulators of the job. Flink's list of the job's own accumulators is always empty."""
    return {
        "job-accumulators": [],
        "user-task-accumulators": _lines(job.accumulators),
        "serialized-user-task-accumulators": {},
    }


def vertex_accumulators(vertex: VertexView) -> VertexAccumulators:
    """Return the empty response of a vertex."""
    return {"id": vertex.id, "user-accumulators": []}


def accumulators_of_subtasks(vertex: VertexView, ports: Ports) -> AccumulatorsOfSubtasks:
    """Return the empty response of all subtasks."""
    return {
        "id": vertex.id,
        "parallelism": vertex.parallelism,
        "subtasks": [
            {
                "subtask": subtask.index,
                "attempt": subtask.attempt,
                "endpoint": endpoint(subtask, ports),
                "host": subtask.host,
                "user-accumulators": [],
            }
            for subtask in all_subtasks(vertex)
        ],
    }


def attempt_accumulators(vertex: VertexView, subtask: SubtaskView) -> AttemptAccumulators:
    """Return the empty response of an attempt. Attempts have no id, so the vertex's id is used."""
    return {"subtask": subtask.index, "attempt": subtask.attempt, "id": vertex.id, "user-accumulators": []}


def _lines(accumulators: Mapping[str, tuple[str, str]]) -> list[AccumulatorLine]:
    return [{"name": name, "type": kind, "value": value} for name, (kind, value) in accumulators.items()]
