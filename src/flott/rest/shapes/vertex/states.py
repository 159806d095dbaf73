"""States of jobs and tasks under the names of Flink's API, and counts of tasks by state. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, cast

from typing_extensions import TypedDict

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.views.job_view import SubtaskView, TaskState, VertexView

JobState = Literal[
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
]
TaskStateName = Literal[
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
]


class ByTaskState(TypedDict):
    """A number for each state of a task."""

    CREATED: int
    SCHEDULED: int
    DEPLOYING: int
    RUNNING: int
    FINISHED: int
    CANCELING: int
    CANCELED: int
    FAILED: int
    RECONCILING: int
    INITIALIZING: int


class TasksByState(ByTaskState):
    """The number of tasks in each state."""


class TaskTotals(TypedDict):
    """The same for the overview of jobs: in lower case, and with their sum."""

    total: int
    created: int
    scheduled: int
    deploying: int
    running: int
    finished: int
    canceling: int
    canceled: int
    failed: int
    reconciling: int
    initializing: int


_TASK_STATES = tuple((state.value, state) for state in TaskState)
_LOWER_CASE = tuple((state.value.lower(), state) for state in TaskState)


def job_state(status: JobStatus) -> JobState:
    """Return the name of a job's status."""
    return cast(JobState, status.name)


def task_state(state: TaskState) -> TaskStateName:
    """Return the name of the state of a task or vertex."""
    return state.value


def all_subtasks(vertex: VertexView) -> Sequence[SubtaskView]:
    """Return all subtasks of the vertex in order. Those without a task yet are CREATED."""
    if len(vertex.subtasks) >= vertex.parallelism:
        return vertex.subtasks
    known = {subtask.index: subtask for subtask in vertex.subtasks}
    width = max(vertex.parallelism, 1 + max(known, default=-1))
    return [known.get(index) or SubtaskView(index, TaskState.CREATED) for index in range(width)]


def tasks_by_state(states: Sequence[TaskState]) -> TasksByState:
    """Count subtasks by state."""
    return cast(TasksByState, {name: states.count(state) for name, state in _TASK_STATES})


def task_totals(vertices: Sequence[VertexView]) -> TaskTotals:
    """Count the subtasks of a job by state."""
    states = list(_states(vertices))
    counts = {name: states.count(state) for name, state in _LOWER_CASE}
    return cast(TaskTotals, {"total": len(states), **counts})


def _states(vertices: Sequence[VertexView]) -> Iterator[TaskState]:
    for vertex in vertices:
        for subtask in all_subtasks(vertex):
            yield subtask.state
