"""All jobs at a glance: the overview of the web UI, and the numbers of the last minutes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import TypedDict

from flott import __version__
from flott.rest.shapes.live.numbers import Share, mean, share
from flott.rest.shapes.values.numbers import finite
from flott.rest.shapes.vertex.backpressure import shares
from flott.rest.shapes.vertex.states import JobState, all_subtasks, job_state
from flott.runtime.jobmanager.views.job_history import STEP_MS, JobPoint, watermark_of
from flott.runtime.jobmanager.views.job_view import NEVER, JobView, TaskManagerView, TaskState

LiveJobLine = TypedDict(
    "LiveJobLine",
    {
        "id": str,
        "name": str,
        "status": JobState,
        "start": int,
        "end": int,
        "batch": bool,
        "parallelism": int,
        "restarts": int,
        "failures": int,
        "waiting-for": str | None,
        "records-per-second": float,
        "records-out-per-second": float,
        "watermark": int | None,
        "last-checkpoint": int,
        "checkpoint-duration": int,
        "state-size": int,
        "busy": Share,
        "backpressured": Share,
        "tasks": dict[str, int],
    },
)
LiveOverview = TypedDict(
    "LiveOverview",
    {
        "flott-version": str,
        "started": int,
        "executors": int,
        "slots-total": int,
        "slots-available": int,
        "jobs": list[LiveJobLine],
    },
)
JobSeries = TypedDict(
    "JobSeries",
    {
        "at": list[int],
        "records-per-second": list[float],
        "watermark-lag": list[int | None],
        "checkpoint-age": list[int | None],
        "busy": list[Share],
    },
)


class AllSeries(TypedDict):
    step: int
    jobs: dict[str, JobSeries]


def live_overview(jobs: Sequence[JobView], executors: Sequence[TaskManagerView], started_ms: int) -> LiveOverview:
    """Return the cluster and all jobs, in the given order."""
    return {
        "flott-version": __version__,
        "started": started_ms,
        "executors": len(executors),
        "slots-total": sum(one.slots for one in executors),
        "slots-available": sum(one.free_slots for one in executors),
        "jobs": [live_job_line(job) for job in jobs],
    }


def live_job_line(job: JobView) -> LiveJobLine:
    """Return one job. Rates are rounded, so that an answer changes only if a page would show something else."""
    latest = job.checkpoints.latest_completed
    busy, backpressured = load_of(job)
    return {
        "id": job.job_id,
        "name": job.name,
        "status": job_state(job.status),
        "start": job.start_ms,
        "end": job.end_ms,
        "batch": job.batch,
        "parallelism": job.parallelism,
        "restarts": job.restarts,
        "failures": len(job.failures),
        "waiting-for": job.waiting_for,
        "records-per-second": round(finite(job.records_per_second), 1),
        "records-out-per-second": round(finite(job.metrics.get("numRecordsOutPerSecond", 0.0)), 1),
        "watermark": watermark_of(job),
        "last-checkpoint": latest.acknowledged_ms if latest is not None else NEVER,
        "checkpoint-duration": latest.duration_ms if latest is not None else NEVER,
        "state-size": latest.state_bytes if latest is not None else 0,
        "busy": busy,
        "backpressured": backpressured,
        "tasks": _tasks(job),
    }


def load_of(job: JobView) -> tuple[Share, Share]:
    """Return the busy and the backpressured share of the vertex that has the largest, 0 for a job that has ended."""
    if job.status.is_terminal_state():
        return 0.0, 0.0
    busy = backpressured = 0.0
    for vertex in job.vertices:
        parts = [shares(subtask) for subtask in vertex.subtasks]
        busy = max(busy, mean([part[0] for part in parts]))
        backpressured = max(backpressured, mean([part[2] for part in parts]))
    return share(busy), share(backpressured)


def all_series(points: Mapping[str, Sequence[JobPoint]]) -> AllSeries:
    """Return the numbers of the last minutes of several jobs."""
    return {"step": STEP_MS, "jobs": {job_id: series_of(found) for job_id, found in points.items()}}


def series_of(points: Sequence[JobPoint]) -> JobSeries:
    """Return the numbers of a job as columns, oldest first."""
    return {
        "at": [point.at_ms for point in points],
        "records-per-second": [round(finite(point.records_per_second), 1) for point in points],
        "watermark-lag": [point.watermark_lag_ms for point in points],
        "checkpoint-age": [point.checkpoint_age_ms for point in points],
        "busy": [share(point.busy) for point in points],
    }


def _tasks(job: JobView) -> dict[str, int]:
    counts: dict[TaskState, int] = {}
    for vertex in job.vertices:
        for subtask in all_subtasks(vertex):
            counts[subtask.state] = counts.get(subtask.state, 0) + 1
    return {state.value: count for state, count in counts.items()}
