"""A vertex of a job and its subtasks: states, times, traffic, and task managers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NotRequired, cast

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import duration_ms, reached
from flott.rest.shapes.values.statistics import Aggregate, aggregate
from flott.rest.shapes.vertex.stacks import FlameGraphNode
from flott.rest.shapes.vertex.states import (
    ByTaskState,
    TasksByState,
    TaskStateName,
    all_subtasks,
    task_state,
    tasks_by_state,
)
from flott.rest.shapes.vertex.traffic import IoMetrics, io_metrics, total_traffic
from flott.runtime.jobmanager.views.job_view import NEVER, SubtaskView, TaskManagerView, TaskState, VertexView

#: Flink's text for a task that is not assigned to a task manager.
UNASSIGNED = "(unassigned)"

#: The port of each task manager, by its id.
Ports = Mapping[str, int]

#: The end timestamp that tells the dashboard that flame graphs are disabled.
DISABLED = -2

SubtaskDetail = TypedDict(
    "SubtaskDetail",
    {
        "subtask": int,
        "status": TaskStateName,
        "attempt": int,
        "endpoint": str,
        "host": str,
        "start-time": int,
        "start_time": int,
        "end-time": int,
        "duration": int,
        "metrics": IoMetrics,
        "taskmanager-id": str,
        "status-duration": dict[str, int],
        "worker": int,
        "watermark": int,
        "state-size": int,
    },
)
AggregatedSubtasks = TypedDict(
    "AggregatedSubtasks", {"metrics": dict[str, Aggregate], "status-duration": dict[str, Aggregate]}
)


class VertexDetail(TypedDict):
    id: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: list[SubtaskDetail]
    aggregated: AggregatedSubtasks


class TaskTimestamps(ByTaskState):
    """The time of each state; 0: not reached."""


class SubtaskTimes(TypedDict):
    subtask: int
    endpoint: str
    host: str
    duration: int
    timestamps: TaskTimestamps


class SubtasksTimes(TypedDict):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimes]


TaskManagerOfVertex = TypedDict(
    "TaskManagerOfVertex",
    {
        "endpoint": str,
        "host": str,
        "taskmanager-id": str,
        "status": TaskStateName,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": IoMetrics,
        "status-counts": TasksByState,
        "aggregated": AggregatedSubtasks,
    },
)


class TaskManagersOfVertex(TypedDict):
    id: str
    name: str
    now: int
    taskmanagers: list[TaskManagerOfVertex]


#: The order in which a subtask passes the states. In the other states it has ended or is about to end.
_PHASES = (
    TaskState.CREATED,
    TaskState.SCHEDULED,
    TaskState.DEPLOYING,
    TaskState.INITIALIZING,
    TaskState.RUNNING,
)
#: The combined state of several tasks: the first of these that one task is in, else the state of all tasks.
_ANY_OF = (TaskState.FAILED, TaskState.CANCELING, TaskState.CANCELED, TaskState.INITIALIZING, TaskState.RUNNING)
_LEAST_OF = (TaskState.CREATED, TaskState.RECONCILING, TaskState.SCHEDULED, TaskState.DEPLOYING, TaskState.FINISHED)


def vertex_detail(vertex: VertexView, ports: Ports, now_ms: int) -> VertexDetail:
    """Return a vertex with all its subtasks."""
    subtasks = all_subtasks(vertex)
    return {
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": now_ms,
        "subtasks": [subtask_detail(subtask, ports, now_ms) for subtask in subtasks],
        "aggregated": _aggregated(subtasks, now_ms),
    }


def subtask_detail(subtask: SubtaskView, ports: Ports, now_ms: int) -> SubtaskDetail:
    """Return one subtask. The dashboard of 2.3 reads ``start_time``, all other clients ``start-time``."""
    return {
        "subtask": subtask.index,
        "status": task_state(subtask.state),
        "attempt": subtask.attempt,
        "endpoint": endpoint(subtask, ports),
        "host": subtask.host,
        "start-time": subtask.start_ms,
        "start_time": subtask.start_ms,
        "end-time": subtask.end_ms,
        "duration": duration_ms(subtask.start_ms, subtask.end_ms, now_ms),
        "metrics": io_metrics(subtask.traffic),
        "taskmanager-id": task_manager_id(subtask),
        "status-duration": status_durations(subtask, now_ms),
        "worker": subtask.worker,
        "watermark": subtask.watermark,
        "state-size": subtask.state_bytes,
    }


def subtasks_times(vertex: VertexView, ports: Ports, now_ms: int) -> SubtasksTimes:
    """Return the times of all state changes of each subtask."""
    return {
        "id": vertex.id,
        "name": vertex.name,
        "now": now_ms,
        "subtasks": [
            {
                "subtask": subtask.index,
                "endpoint": endpoint(subtask, ports),
                "host": endpoint(subtask, ports),
                "duration": duration_ms(_first_ms(subtask), subtask.end_ms, now_ms),
                "timestamps": _timestamps(subtask),
            }
            for subtask in all_subtasks(vertex)
        ],
    }


def task_managers_of_vertex(vertex: VertexView, ports: Ports, now_ms: int) -> TaskManagersOfVertex:
    """Return the subtasks of a vertex by task manager."""
    groups: dict[str, list[SubtaskView]] = {}
    for subtask in all_subtasks(vertex):
        groups.setdefault(task_manager_id(subtask), []).append(subtask)
    return {
        "id": vertex.id,
        "name": vertex.name,
        "now": now_ms,
        "taskmanagers": [_on_task_manager(ident, subtasks, ports, now_ms) for ident, subtasks in groups.items()],
    }


def status_durations(subtask: SubtaskView, now_ms: int) -> dict[str, int]:
    """Return the time that the subtask spent in each state; -1: not reached. Flink's parser requires all states."""
    until = now_ms if subtask.end_ms == NEVER else subtask.end_ms
    durations: dict[str, int] = {}
    for state in reversed(_PHASES):
        time_ms = reached(subtask.timestamps.get(state))
        durations[state.value] = max(0, until - time_ms) if time_ms else NEVER
        until = time_ms or until
    return durations


def state_of(states: Sequence[TaskState]) -> TaskState:
    """Return the combined state of several tasks, by Flink's rule."""
    for state in _ANY_OF:
        if state in states:
            return state
    return next((state for state in _LEAST_OF if state in states), TaskState.CREATED)


def _on_task_manager(ident: str, subtasks: Sequence[SubtaskView], ports: Ports, now_ms: int) -> TaskManagerOfVertex:
    begun = [subtask.start_ms for subtask in subtasks if subtask.start_ms != NEVER]
    start_ms = min(begun, default=NEVER)
    all_ended = all(subtask.end_ms != NEVER for subtask in subtasks)
    end_ms = max(subtask.end_ms for subtask in subtasks) if all_ended else NEVER
    states = [subtask.state for subtask in subtasks]
    return {
        "endpoint": endpoint(subtasks[0], ports),
        "host": subtasks[0].host,
        "taskmanager-id": ident,
        "status": task_state(state_of(states)),
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": duration_ms(start_ms, end_ms, now_ms),
        "metrics": io_metrics(total_traffic(subtasks)),
        "status-counts": tasks_by_state(states),
        "aggregated": _aggregated(subtasks, now_ms),
    }


def _aggregated(subtasks: Sequence[SubtaskView], now_ms: int) -> AggregatedSubtasks:
    traffic = [subtask.traffic for subtask in subtasks]
    durations = [status_durations(subtask, now_ms) for subtask in subtasks]
    return {
        "metrics": {
            "read-bytes": aggregate(one.bytes_in for one in traffic),
            "write-bytes": aggregate(one.bytes_out for one in traffic),
            "read-records": aggregate(one.records_in for one in traffic),
            "write-records": aggregate(one.records_out for one in traffic),
            "accumulated-backpressured-time": aggregate(one.back_pressured_ms for one in traffic),
            "accumulated-idle-time": aggregate(one.idle_ms for one in traffic),
            "accumulated-busy-time": aggregate(one.busy_ms for one in traffic),
        },
        "status-duration": _by_state(durations),
    }


def _by_state(durations: Sequence[Mapping[str, int]]) -> dict[str, Aggregate]:
    return {
        state.value: aggregate(spent for one in durations if (spent := one[state.value]) != NEVER) for state in _PHASES
    }


def _timestamps(subtask: SubtaskView) -> TaskTimestamps:
    times = subtask.timestamps
    return cast(TaskTimestamps, {state.value: reached(times.get(state)) for state in TaskState})


def _first_ms(subtask: SubtaskView) -> int:
    known = [time_ms for time_ms in subtask.timestamps.values() if reached(time_ms)]
    return min(known, default=subtask.start_ms)


class FlameGraph(TypedDict):
    endTimestamp: int
    data: NotRequired[FlameGraphNode]


def no_flame_graph() -> FlameGraph:
    """Return a response without a flame graph."""
    return {"endTimestamp": DISABLED}


def flame_graph_of(tree: FlameGraphNode, now_ms: int) -> FlameGraph:
    """Return a flame graph."""
    return {"endTimestamp": now_ms, "data": tree}


def ports_of(task_managers: Sequence[TaskManagerView]) -> Ports:
    """Return the ports of task managers by their id."""
    return {one.id: one.port for one in task_managers}


def endpoint(subtask: SubtaskView, ports: Ports) -> str:
    """Return host:port of the last task manager of a subtask, without the port if it no longer exists."""
    if not subtask.host:
        return UNASSIGNED
    port = ports.get(subtask.task_manager)
    return subtask.host if port is None else f"{subtask.host}:{port}"


def task_manager_id(subtask: SubtaskView) -> str:
    """Return the last task manager of a subtask."""
    return subtask.task_manager or UNASSIGNED
