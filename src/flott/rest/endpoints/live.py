"""Endpoints that open pages ask for again and again: what runs, how fast, and where the time goes. Flott's own.

``flott.rest.conditional`` builds each answer at most once a second, and sends it only to clients that do not have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from flott.rest.conditional import FRESH_SECONDS
from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.shapes.checkpoint.checkpoints import Savepoints, savepoints
from flott.rest.shapes.job.failures import JobFailures, job_failures
from flott.rest.shapes.job.late_records import LateDataReply, late_ledger
from flott.rest.shapes.live.jobs import AllSeries, LiveOverview, all_series, live_overview
from flott.rest.shapes.live.timeline import Timeline, timeline
from flott.rest.shapes.live.vertices import (
    LiveJob,
    LiveSeries,
    LiveVertexDetail,
    live_job,
    live_series,
    live_vertex_detail,
)
from flott.runtime.jobmanager.views.job_history import STEP_MS


def overview(call: RestCall) -> Response:
    gateway = call.gateway
    return _live(call, lambda: live_overview(gateway.jobs(), gateway.task_managers(), gateway.started_ms))


def series(call: RestCall) -> Response:
    """Return the numbers of the last minutes of the jobs that run. They change at every step."""
    gateway = call.gateway

    def build() -> AllSeries:
        running = [job.job_id for job in gateway.jobs() if not job.status.is_terminal_state()]
        return all_series({job_id: gateway.history(job_id).points() for job_id in running})

    return _live(call, build, fresh_seconds=STEP_MS / 2000)


def job(call: RestCall) -> Response:
    return _live(call, lambda: live_job(call.job()))


def series_of_job(call: RestCall) -> Response:
    return _live(call, lambda: live_series(call.gateway.history(call.job_id).points()), fresh_seconds=STEP_MS / 2000)


def vertex(call: RestCall) -> Response:
    def build() -> LiveVertexDetail:
        found = call.job()
        return live_vertex_detail(found, call.vertex(found))

    return _live(call, build)


def job_timeline(call: RestCall) -> Response:
    def build() -> Timeline:
        history = call.gateway.history(call.job_id)
        return timeline(history.epochs(), history.events())

    return _live(call, build)


def late(call: RestCall) -> Response:
    return _live(call, lambda: late_ledger(call.job()))


def savepoints_of_job(call: RestCall) -> Response:
    """Return the completed savepoints of a job, those that were disposed of marked."""
    return _live(call, lambda: savepoints(call.job(), call.gateway.disposed_savepoints()))


def failures(call: RestCall) -> Response:
    return _live(call, lambda: job_failures(call.job()))


def _live(call: RestCall, build: Callable[[], Any], *, fresh_seconds: float = FRESH_SECONDS) -> Response:
    key = (call.endpoint.path, *call.path.values())
    return call.live.reply(key, call.request.headers, build, fresh_seconds=fresh_seconds)


def _get(path: str, handler: Callable[[RestCall], Response], reply: Any, summary: str) -> Endpoint:
    return Endpoint("GET", path, handler, reply, summary, tag="live")


_JOB = "/jobs/:jobid/flott"

ENDPOINTS = (
    _get("/flott/live", overview, LiveOverview, "All jobs with the numbers that an open page shows"),
    _get("/flott/series", series, AllSeries, "The numbers of the last ten minutes of all running jobs"),
    _get(f"{_JOB}/live", job, LiveJob, "A job with the numbers of its vertices and edges"),
    _get(f"{_JOB}/series", series_of_job, LiveSeries, "The numbers of the last ten minutes of a job"),
    _get(f"{_JOB}/vertices/:vertexid", vertex, LiveVertexDetail, "A vertex: subtasks, skew, ages of latency markers"),
    _get(f"{_JOB}/timeline", job_timeline, Timeline, "The last epochs with their phases, and what happened between"),
    _get(f"{_JOB}/late", late, LateDataReply, "The late-data ledger, with samples"),
    _get(f"{_JOB}/savepoints", savepoints_of_job, Savepoints, "The last hundred savepoints that a job has completed"),
    _get(f"{_JOB}/failures", failures, JobFailures, "Failure cards, and the command that runs the epoch again"),
)
