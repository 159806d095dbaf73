"""The subtasks that ran last on an executor. Flott's own. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from flott.rest.shapes.live.numbers import Share, share
from flott.rest.shapes.vertex.backpressure import shares
from flott.rest.shapes.vertex.states import TaskStateName, task_state
from flott.runtime.jobmanager.views.job_view import JobView

PlacedSubtask = TypedDict(
    "PlacedSubtask",
    {
        "job": str,
        "job-name": str,
        "vertex": str,
        "vertex-name": str,
        "subtask": int,
        "parallelism": int,
        "status": TaskStateName,
        "worker": int,
        "busy": Share,
        "state-size": int,
    },
)


class PlacedSubtasks(TypedDict):
    subtasks: list[PlacedSubtask]


def placed_subtasks(task_manager: str, jobs: Sequence[JobView]) -> PlacedSubtasks:
    """Return the subtasks of jobs that have not ended, in the order of jobs and vertices."""
    return {
        "subtasks": [
            {
                "job": job.job_id,
                "job-name": job.name,
                "vertex": vertex.id,
                "vertex-name": vertex.name,
                "subtask": subtask.index,
                "parallelism": vertex.parallelism,
                "status": task_state(subtask.state),
                "worker": subtask.worker,
                "busy": share(shares(subtask)[0]),
                "state-size": subtask.state_bytes,
            }
            for job in jobs
            if not job.status.is_terminal_state()
            for vertex in job.vertices
            for subtask in vertex.subtasks
            if subtask.task_manager == task_manager
        ]
    }
