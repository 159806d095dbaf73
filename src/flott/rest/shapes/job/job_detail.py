"""One job: its times, vertices and plan. Pure."""

from __future__ import annotations

from typing import NotRequired, cast

from typing_extensions import TypedDict

from flott.common.job_status import JobStatus
from flott.datastream.connectors.base import Guarantee
from flott.rest.shapes.job.jobs import JobType, SchedulerType, job_type, scheduler_type
from flott.rest.shapes.job.plan import JobPlan, job_plan
from flott.rest.shapes.values.numbers import duration_ms, finite, reached
from flott.rest.shapes.vertex.states import (
    JobState,
    TasksByState,
    TaskStateName,
    all_subtasks,
    job_state,
    task_state,
    tasks_by_state,
)
from flott.rest.shapes.vertex.traffic import IoMetrics, io_metrics, total_traffic
from flott.runtime.jobmanager.views.job_view import ChainedOperatorView, JobView, VertexView


class JobTimestamps(TypedDict):
    """The time of each status; 0: not reached."""

    INITIALIZING: int
    CREATED: int
    RUNNING: int
    FAILING: int
    FAILED: int
    CANCELLING: int
    CANCELED: int
    FINISHED: int
    RESTARTING: int
    SUSPENDED: int
    RECONCILING: int


OperatorOfVertex = TypedDict(
    "OperatorOfVertex",
    {
        "id": str,
        "name": str,
        "uid": str | None,
        "kind": str,
        "parallelism": int,
        "source-line": str,
        "metric-scope": str,
        "guarantee": NotRequired[str],
    },
)
class WeakestLinkOfJob(TypedDict):
    guarantee: str
    operator: str
class ModeChangeOfJob(TypedDict):
    mode: str
    checkpoint: int
    timestamp: int
    reason: str
VertexOfJob = TypedDict(
    "VertexOfJob",
    {
        "id": str,
        "slotSharingGroupId": str,
        "name": str,
        "maxParallelism": int,
        "parallelism": int,
        "status": TaskStateName,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "tasks": TasksByState,
        "metrics": IoMetrics,
        "operators": list[OperatorOfVertex],
    },
)
JobDetail = TypedDict(
    "JobDetail",
    {
        "jid": str,
        "application-id": str,
        "name": str,
        "isStoppable": bool,
        "state": JobState,
        "job-type": JobType,
        "schedulerType": SchedulerType,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "maxParallelism": int,
        "now": int,
        "timestamps": JobTimestamps,
        "vertices": list[VertexOfJob],
        "status-counts": TasksByState,
        "plan": JobPlan,
        "pending-operators": int,
        "parallelism": int,
        "restarts": int,
        "records-per-second": float,
        "checkpoint-directory": str,
        "process": int,
        "configured-execution-mode": str,
        "execution-mode": str,
        "execution-mode-changes": list[ModeChangeOfJob],
        "waiting-for": NotRequired[str],
        "weakest-link": NotRequired[WeakestLinkOfJob],
    },
)

_JOB_STATUSES = tuple(status.name for status in JobStatus)


def job_detail(job: JobView, now_ms: int) -> JobDetail:
    """Return everything that the job's page shows."""
    detail: JobDetail = {
        "jid": job.job_id,
        "application-id": job.job_id,
        "name": job.name,
        "isStoppable": False,
        "state": job_state(job.status),
        "job-type": job_type(job),
        "schedulerType": scheduler_type(job),
        "start-time": job.start_ms,
        "end-time": job.end_ms,
        "duration": duration_ms(job.start_ms, job.end_ms, now_ms),
        "maxParallelism": -1,
        "now": now_ms,
        "timestamps": job_timestamps(job),
        "vertices": [_vertex(vertex, now_ms) for vertex in job.vertices],
        "status-counts": tasks_by_state([vertex.state for vertex in job.vertices]),
        "plan": job_plan(job),
        "pending-operators": 0,
        "parallelism": job.parallelism,
        "restarts": job.restarts,
        "records-per-second": finite(job.records_per_second),
        "checkpoint-directory": job.checkpoint_directory,
        "process": job.process,
        "configured-execution-mode": job.configured_mode,
        "execution-mode": job.mode,
        "execution-mode-changes": mode_changes(job),
    }
    if job.waiting_for is not None:
        detail["waiting-for"] = job.waiting_for
    if (link := weakest_link(job)) is not None:
        detail["weakest-link"] = link
    return detail


def mode_changes(job: JobView) -> list[ModeChangeOfJob]:
    """Return the last changes between epochs and pipelined of an adaptive job, oldest first."""
    return [
        {"mode": one.mode, "checkpoint": one.checkpoint, "timestamp": one.at_ms, "reason": one.reason}
        for one in job.mode_changes
    ]


def weakest_link(job: JobView) -> WeakestLinkOfJob | None:
    """Return the source or sink that promises least about records. None: none of them declares a guarantee."""
    strengths = [guarantee.value for guarantee in Guarantee]
    links = [
        (strengths.index(operator.guarantee), operator.name)
        for vertex in job.vertices
        for operator in vertex.operators
        if operator.guarantee in strengths
    ]
    if not links:
        return None
    weakest, name = max(links, key=lambda link: link[0])
    return {"guarantee": strengths[weakest], "operator": name}


def job_timestamps(job: JobView) -> JobTimestamps:
    """Return the last time the job reached each status."""
    times = {status.name: time_ms for status, time_ms in job.timestamps.items()}
    return cast(JobTimestamps, {name: reached(times.get(name)) for name in _JOB_STATUSES})


def _vertex(vertex: VertexView, now_ms: int) -> VertexOfJob:
    subtasks = all_subtasks(vertex)
    return {
        "id": vertex.id,
        "slotSharingGroupId": vertex.slot_sharing_group,
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": task_state(vertex.state),
        "start-time": vertex.start_ms,
        "end-time": vertex.end_ms,
        "duration": duration_ms(vertex.start_ms, vertex.end_ms, now_ms),
        "tasks": tasks_by_state([subtask.state for subtask in subtasks]),
        "metrics": io_metrics(total_traffic(subtasks, vertex.former)),
        "operators": [_operator(operator) for operator in vertex.operators],
    }


def _operator(operator: ChainedOperatorView) -> OperatorOfVertex:
    shape: OperatorOfVertex = {
        "id": operator.id,
        "name": operator.name,
        "uid": operator.uid,
        "kind": operator.kind,
        "parallelism": operator.parallelism,
        "source-line": operator.source_line,
        "metric-scope": operator.metric_scope,
    }
    if operator.guarantee:
        shape["guarantee"] = operator.guarantee
    return shape
