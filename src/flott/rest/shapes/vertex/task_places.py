"""Where a subtask runs, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flott.runtime.jobmanager.views.job_view import SubtaskView, TaskManagerView

#: What Flink says of a task that has no place yet.
UNASSIGNED = "(unassigned)"

#: The port of each task manager, by its id.
Ports = Mapping[str, int]


def ports_of(task_managers: Sequence[TaskManagerView]) -> Ports:
    """The ports at which they can be reached."""
    return {one.id: one.port for one in task_managers}


def endpoint(subtask: SubtaskView, ports: Ports) -> str:
    """host:port of the task manager it ran on last; without a port if that has gone."""
    if not subtask.host:
        return UNASSIGNED
    port = ports.get(subtask.task_manager)
    return subtask.host if port is None else f"{subtask.host}:{port}"


def task_manager_id(subtask: SubtaskView) -> str:
    """The task manager it ran on last."""
    return subtask.task_manager or UNASSIGNED
