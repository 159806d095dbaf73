"""The failures of a job. Pure."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from flott.runtime.jobmanager.views.job_view import FailureView, JobView


class ConcurrentException(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    failureLabels: dict[str, str]
    taskName: NotRequired[str]
    endpoint: NotRequired[str]
    taskManagerId: NotRequired[str]


class ExceptionEntry(ConcurrentException):
    concurrentExceptions: list[ConcurrentException]


class ExceptionHistory(TypedDict):
    entries: list[ExceptionEntry]
    truncated: bool


class JobExceptions(TypedDict):
    exceptionHistory: ExceptionHistory


def job_exceptions(job: JobView, limit: int) -> JobExceptions:
    """Return the last failures, the newest first. A failure without a task concerns the whole job."""
    return {
        "exceptionHistory": {
            "entries": [_entry(failure) for failure in job.failures[:limit]],
            "truncated": job.failures_truncated or len(job.failures) > limit,
        }
    }


def _entry(failure: FailureView) -> ExceptionEntry:
    entry: ExceptionEntry = {
        "exceptionName": failure.name,
        "stacktrace": failure.text,
        "timestamp": failure.at_ms,
        "failureLabels": {},
        "concurrentExceptions": [],
    }
    if failure.task is not None:
        entry["taskName"] = failure.task
    if failure.endpoint is not None:
        entry["endpoint"] = failure.endpoint
    if failure.task_manager is not None:
        entry["taskManagerId"] = failure.task_manager
    return entry
