"""The overview of all jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import duration_ms, finite
from flott.rest.shapes.vertex.states import JobState, TaskTotals, job_state, task_totals
from flott.runtime.jobmanager.views.job_view import JobView

JobType = Literal["STREAMING", "BATCH"]
SchedulerType = Literal["Default", "Adaptive", "AdaptiveBatch"]


class JobIdWithStatus(TypedDict):
    id: str
    status: JobState


class JobIdsWithStatus(TypedDict):
    jobs: list[JobIdWithStatus]


class JobStatusReply(TypedDict):
    status: JobState


JobLine = TypedDict(
    "JobLine",
    {
        "jid": str,
        "name": str,
        "jobType": JobType,
        "schedulerType": SchedulerType,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "state": JobState,
        "last-modification": int,
        "tasks": TaskTotals,
        "pending-operators": int,
        "parallelism": int,
        "restarts": int,
        "records-per-second": float,
        "waiting-for": NotRequired[str],
    },
)


class JobsOverview(TypedDict):
    jobs: list[JobLine]


def job_ids(jobs: Sequence[JobView]) -> JobIdsWithStatus:
    """Return the ids and statuses of all jobs."""
    return {"jobs": [{"id": job.job_id, "status": job_state(job.status)} for job in jobs]}


def job_status(job: JobView) -> JobStatusReply:
    """Return the status of a job."""
    return {"status": job_state(job.status)}


def jobs_overview(jobs: Sequence[JobView], now_ms: int) -> JobsOverview:
    """Return all jobs in the given order."""
    return {"jobs": [job_line(job, now_ms) for job in jobs]}


def job_line(job: JobView, now_ms: int) -> JobLine:
    """Return one job of an overview."""
    line: JobLine = {
        "jid": job.job_id,
        "name": job.name,
        "jobType": job_type(job),
        "schedulerType": scheduler_type(job),
        "start-time": job.start_ms,
        "end-time": job.end_ms,
        "duration": duration_ms(job.start_ms, job.end_ms, now_ms),
        "state": job_state(job.status),
        "last-modification": job.last_modified_ms,
        "tasks": task_totals(job.vertices),
        "pending-operators": 0,
        "parallelism": job.parallelism,
        "restarts": job.restarts,
        "records-per-second": finite(job.records_per_second),
    }
    if job.waiting_for is not None:
        line["waiting-for"] = job.waiting_for
    return line


def job_type(job: JobView) -> JobType:
    """Return Flink's name of the execution mode."""
    return "BATCH" if job.batch else "STREAMING"


def scheduler_type(job: JobView) -> SchedulerType:
    """Return whether the job changes its parallelism itself. Flink's clients know no other names."""
    return "Adaptive" if job.scheduler == "Adaptive" else "Default"
