"""Endpoints of logs: of the JobManager, of task managers, and of jobs.

The log lines of a task manager reach the JobManager with the reports of its tasks, so its log is assembled from the
logs of the jobs. It includes printed output. ``flott.runtime.logs`` checks file names, so that none leaves its folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from typing_extensions import TypedDict

from flott.errors import ClusterError
from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.refusal import Refusal
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.logs.entry import LogFilter
from flott.runtime.logs.log_files import (
    JOB_LOG,
    LogCursor,
    LogLines,
    job_folder,
    list_logs,
    read_log,
)
from flott.runtime.logs.task_manager_log import TaskManagerCursor, TaskManagerLines, read_task_manager_log

T = TypeVar("T")

#: The position at which a reader of a log continues: sent with the lines, returned as ``offset``.
CURSOR_HEADER = "X-Flott-Log-Cursor"
TASK_MANAGER_LOG = "taskmanager.log"
JOB_MANAGER_LOG = "jobmanager.log"
JOB_MANAGER_OUTPUT = "jobmanager.out"
#: The maximum number of lines that are assembled for a task manager.
TASK_MANAGER_LINES = 10_000
MAX_TAIL = 100_000


class LogDescription(TypedDict):
    name: str
    size: int
    mtime: int


class LogList(TypedDict):
    logs: list[LogDescription]


# ----------------------------------------------------------------------------------------------------- the JobManager


async def job_manager_logs(call: RestCall) -> LogList:
    """List the log files of the JobManager."""
    return await _listed(call.gateway.log_folder)


async def job_manager_file(call: RestCall) -> Response:
    """Return one log file of the JobManager, or lines of it."""
    return await _of_job_manager(call, call.path["logname"])


async def job_manager_log(call: RestCall) -> Response:
    """Return the main log of the JobManager, or lines of it."""
    return await _of_job_manager(call, JOB_MANAGER_LOG)


async def job_manager_output(call: RestCall) -> Response:
    """Return the output of the JobManager, or lines of it."""
    return await _of_job_manager(call, JOB_MANAGER_OUTPUT)


async def _of_job_manager(call: RestCall, name: str) -> Response:
    wanted = LogFilter(level=call.query["level"], search=call.query["search"] or None)
    return await _chosen(call, call.gateway.log_folder, name, wanted)


# ------------------------------------------------------------------------------------------------------ task managers


async def task_manager_logs(call: RestCall) -> LogList:
    """List the logs of a task manager: one, which is assembled on request."""
    manager = call.task_manager()
    whole = await _of_task_manager(call, LogFilter(task_manager=manager.id), TASK_MANAGER_LINES)
    size = len(whole.text.encode("utf-8", "replace"))
    return {"logs": [{"name": TASK_MANAGER_LOG, "size": size, "mtime": manager.heartbeat_ms}]}


async def task_manager_file(call: RestCall) -> Response:
    """Return the log of a task manager by its name, or lines of it."""
    call.task_manager()
    if call.path["logname"] != TASK_MANAGER_LOG:
        raise Refusal(404, "File not found.")
    return await task_manager_log(call)


async def task_manager_log(call: RestCall) -> Response:
    """Return the log of a task manager, or lines of it."""
    query = call.query
    wanted = LogFilter(level=query["level"], task_manager=call.task_manager().id, search=query["search"] or None)
    cursor = _parsed(TaskManagerCursor.of, query["offset"])
    tail = TASK_MANAGER_LINES if query["tail"] is None else min(query["tail"], TASK_MANAGER_LINES)
    found = await _of_task_manager(call, wanted, tail, cursor)
    return _text(found.text, {CURSOR_HEADER: str(found.cursor)})


async def _of_task_manager(
    call: RestCall, wanted: LogFilter, tail: int, cursor: TaskManagerCursor | None = None
) -> TaskManagerLines:
    folder = call.gateway.log_folder
    return await asyncio.to_thread(read_task_manager_log, folder, wanted, tail=tail, cursor=cursor)


# --------------------------------------------------------------------------------------------------------------- jobs


async def job_logs(call: RestCall) -> LogList:
    """List the log files of a job."""
    return await _listed(job_folder(call.gateway.log_folder, call.job().job_id))


async def job_log(call: RestCall) -> Response:
    """Return lines of a job's log: all, the last ones, or those after a position."""
    job = call.job()
    folder = job_folder(call.gateway.log_folder, job.job_id)
    name = call.path.get("logname", JOB_LOG)
    query = call.query
    operator = _name_of(job, query["operator"])
    wanted = LogFilter(
        level=query["level"], operator=operator, subtask=query["subtask"], search=query["search"] or None
    )
    cursor = _cursor(query["offset"])
    files = await asyncio.to_thread(list_logs, folder)
    if name == JOB_LOG and not any(file.name.startswith(JOB_LOG) for file in files):
        # The job is known before its process writes the first line. Until then its log is empty, not missing.
        return _text("", {CURSOR_HEADER: str(cursor or LogCursor())})
    return await _chosen(call, folder, name, wanted)


def _name_of(job: JobView, operator: str | None) -> str | None:
    """Return the name of an operator, which logs contain, for its name, uid or id."""
    operators = [one for vertex in job.vertices for one in vertex.operators]
    return next((one.name for one in operators if operator and operator in (one.uid, one.id)), operator)


def _cursor(text: str | None) -> LogCursor | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and len(text) < 19:
        return LogCursor(0, int(text))
    return _parsed(LogCursor.of, text)


def _parsed(parse: Callable[[str], T], text: str | None) -> T | None:
    try:
        return None if text is None else parse(text)
    except ClusterError as error:
        raise Refusal(400, str(error)) from error


# ------------------------------------------------------------------------------------------------------------- shared


async def _listed(folder: Path) -> LogList:
    files = await asyncio.to_thread(list_logs, folder)
    return {"logs": [{"name": file.name, "size": file.size, "mtime": file.mtime_ms} for file in files]}


async def _chosen(call: RestCall, folder: Path, name: str, wanted: LogFilter) -> Response:
    """Return the lines of a log that the query selects: all, the last ones, or those after a position."""
    query = call.query
    if query["tail"] is None and query["offset"] is None:
        return await _whole(folder, name, wanted)
    cursor = _cursor(query["offset"])
    found = await _read(folder, name, cursor=cursor, tail=query["tail"] if cursor is None else None, wanted=wanted)
    return _text(found.text, {CURSOR_HEADER: str(found.cursor)})


async def _whole(folder: Path, name: str, wanted: LogFilter | None = None) -> Response:
    """Yield a log from its beginning to its current end, block by block."""
    first = await _read(folder, name, wanted=wanted)
    size = next((file.size for file in await asyncio.to_thread(list_logs, folder) if file.name == name), 0)

    async def blocks() -> AsyncIterator[bytes]:
        found = first
        while True:
            yield found.text.encode("utf-8", "replace")
            before = found.cursor
            if before.offset >= size:
                return
            found = await _read(folder, name, cursor=before, wanted=wanted)
            if found.cursor.file != before.file or found.cursor.offset <= before.offset:
                return

    return StreamingResponse(blocks(), media_type="text/plain", headers={CURSOR_HEADER: str(first.cursor)})


async def _read(folder: Path, name: str, **how: Any) -> LogLines:
    try:
        return await asyncio.to_thread(read_log, folder, name, **how)
    except ClusterError as error:
        # The dashboard shows every error message except this one in a separate window.
        raise Refusal(404, "File not found.") from error


def _text(text: str, headers: dict[str, str] | None = None) -> Response:
    return PlainTextResponse(text.encode("utf-8", "replace"), headers=headers)


_LINES = (
    Query("tail", int, None, "only the last lines", minimum=0, maximum=MAX_TAIL),
    Query("offset", str, None, f"where to continue: a position, or the value of the header {CURSOR_HEADER}"),
    Query(
        "level", str, None, "this level and those above it", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    ),
    Query("search", str, None, "only lines that contain this text, in upper or lower case"),
)
_JOB_QUERY = (
    *_LINES,
    Query("operator", str, None, "only lines of this operator, by name, uid or id"),
    Query("subtask", int, None, "only lines of this subtask", minimum=0),
)


def _get(path: str, handler: Any, reply: Any, summary: str, query: tuple[Query, ...] = ()) -> Endpoint:
    return Endpoint("GET", path, handler, reply, summary, "logs", query=query)


ENDPOINTS = (
    _get("/jobmanager/logs", job_manager_logs, LogList, "The log files of the JobManager"),
    _get("/jobmanager/logs/:logname", job_manager_file, str, "A log file of the JobManager", _LINES),
    _get("/jobmanager/log", job_manager_log, str, "The log of the JobManager", _LINES),
    _get("/jobmanager/stdout", job_manager_output, str, "The output of the JobManager", _LINES),
    _get("/taskmanagers/:taskmanagerid/logs", task_manager_logs, LogList, "The logs of a task manager"),
    _get("/taskmanagers/:taskmanagerid/logs/:logname", task_manager_file, str, "A log of a task manager", _LINES),
    _get("/taskmanagers/:taskmanagerid/log", task_manager_log, str, "The log of a task manager, for all jobs", _LINES),
    _get(
        "/taskmanagers/:taskmanagerid/stdout",
        task_manager_log,
        str,
        "The same: printed output is part of the log",
        _LINES,
    ),
    _get("/jobs/:jobid/logs", job_logs, LogList, "The log files of a job"),
    _get("/jobs/:jobid/logs/:logname", job_log, str, "A log of a job, as text", _JOB_QUERY),
    _get("/jobs/:jobid/log", job_log, str, "The log of a job, as text", _JOB_QUERY),
)
