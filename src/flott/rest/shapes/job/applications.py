"""Applications. Each job is an application with the job's id and name. Pure.

Flink 2.3 does the same for a job that was submitted without an application. The dashboard's first page lists
applications, not jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from typing_extensions import TypedDict

from flott.common.job_status import JobStatus
from flott.rest.shapes.job.jobs import JobLine, job_line
from flott.rest.shapes.values.numbers import duration_ms, reached
from flott.runtime.jobmanager.views.job_view import FailureView, JobView

ApplicationState = Literal["CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED"]

ApplicationLine = TypedDict(
    "ApplicationLine",
    {
        "id": str,
        "name": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "status": ApplicationState,
        "jobs": dict[str, int],
    },
)


class ApplicationsOverview(TypedDict):
    applications: list[ApplicationLine]


ApplicationDetail = TypedDict(
    "ApplicationDetail",
    {
        "id": str,
        "name": str,
        "status": ApplicationState,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "timestamps": dict[ApplicationState, int],
        "jobs": list[JobLine],
    },
)


class ApplicationException(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    jobId: str


class ApplicationExceptionHistory(TypedDict):
    entries: list[ApplicationException]


class ApplicationExceptions(TypedDict):
    exceptionHistory: ApplicationExceptionHistory


_STATES: dict[JobStatus, ApplicationState] = {
    JobStatus.INITIALIZING: "CREATED",
    JobStatus.CREATED: "CREATED",
    JobStatus.RUNNING: "RUNNING",
    JobStatus.RESTARTING: "RUNNING",
    JobStatus.RECONCILING: "RUNNING",
    JobStatus.SUSPENDED: "RUNNING",
    JobStatus.FAILING: "FAILING",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLING: "CANCELING",
    JobStatus.CANCELED: "CANCELED",
    JobStatus.FINISHED: "FINISHED",
}

#: The state of an application for each status of its job.
_REACHED_WITH: tuple[tuple[ApplicationState, JobStatus], ...] = (
    ("CREATED", JobStatus.INITIALIZING),
    ("RUNNING", JobStatus.RUNNING),
    ("FAILING", JobStatus.FAILING),
    ("FAILED", JobStatus.FAILED),
    ("CANCELING", JobStatus.CANCELLING),
    ("CANCELED", JobStatus.CANCELED),
    ("FINISHED", JobStatus.FINISHED),
)


def applications_overview(jobs: Sequence[JobView], now_ms: int) -> ApplicationsOverview:
    """Return all applications."""
    return {
        "applications": [
            {
                "id": job.job_id,
                "name": job.name,
                "start-time": job.start_ms,
                "end-time": job.end_ms,
                "duration": duration_ms(job.start_ms, job.end_ms, now_ms),
                "status": application_state(job.status),
                "jobs": {job.status.name: 1},
            }
            for job in jobs
        ]
    }


def application_detail(job: JobView, now_ms: int) -> ApplicationDetail:
    """Return the application of a job."""
    times = {state: reached(job.timestamps.get(status)) for state, status in _REACHED_WITH}
    return {
        "id": job.job_id,
        "name": job.name,
        "status": application_state(job.status),
        "start-time": job.start_ms,
        "end-time": job.end_ms,
        "duration": duration_ms(job.start_ms, job.end_ms, now_ms),
        "timestamps": {**times, "CREATED": times["CREATED"] or reached(job.start_ms)},
        "jobs": [job_line(job, now_ms)],
    }


def application_exceptions(job: JobView, limit: int) -> ApplicationExceptions:
    """Return the failures of an application, the newest first."""
    return {"exceptionHistory": {"entries": [_entry(job, failure) for failure in job.failures[:limit]]}}


def application_state(status: JobStatus) -> ApplicationState:
    """Return the state of an application for the status of its job."""
    return _STATES[status]


def _entry(job: JobView, failure: FailureView) -> ApplicationException:
    return {
        "exceptionName": failure.name,
        "stacktrace": failure.text,
        "timestamp": failure.at_ms,
        "jobId": job.job_id,
    }
