"""The result of a job, for the client that waits for it. Pure."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from flott.common.job_status import JobStatus
from flott.rest.throwable import FailureCause, failure_cause
from flott.runtime.jobmanager.views.job_view import FailureView, JobResultView, JobView

ApplicationStatus = Literal["SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"]


class QueueStatus(TypedDict):
    id: Literal["IN_PROGRESS", "COMPLETED"]


#: ``accumulator-results`` is for values that Java serialized, so it stays empty; programs request Flott's own form. No
#: field may be added here, because Flink's client rejects unknown fields of this object.
JobResult = TypedDict(
    "JobResult",
    {
        "id": str,
        "name": str,
        "application-id": str,
        "application-status": ApplicationStatus,
        "accumulator-results": dict[str, str],
        "net-runtime": int,
        "start-time": int,
        "end-time": int,
        "failure-cause": NotRequired[FailureCause],
    },
)


ExecutionResult = TypedDict(
    "ExecutionResult",
    {
        "status": QueueStatus,
        "job-execution-result": NotRequired[JobResult],
    },
)

_APPLICATION_STATUS: dict[JobStatus, ApplicationStatus] = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def execution_result(job: JobView, result: JobResultView | None) -> ExecutionResult:
    """Return the result of a job, or that it is in progress."""
    if result is None:
        return {"status": {"id": "IN_PROGRESS"}}
    ended: JobResult = {
        "id": job.job_id,
        "name": job.name,
        "application-id": job.job_id,
        "application-status": _APPLICATION_STATUS.get(result.status, "UNKNOWN"),
        "accumulator-results": {},
        "net-runtime": max(0, result.net_runtime_ms),
        "start-time": job.start_ms,
        "end-time": job.end_ms,
    }
    if result.failure is not None:
        ended["failure-cause"] = _cause_of(result.failure)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": ended}


def _cause_of(failure: FailureView) -> FailureCause:
    message = next((line.strip() for line in failure.text.splitlines() if line.strip()), failure.name)
    return failure_cause(failure.name, message.removeprefix(f"{failure.name}: "), failure.text)
