"""Endpoints that look into the state and the records of a job. Flott's own; Flink has no such endpoints.

An inspector answers, a process that imports the job's classes (``flott.runtime.jobmanager.inspection``). Because that
runs code of the job, pages of another origin may not ask, not even with GET.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from flott.errors import JobEndedError, JobNotFoundError, StateError
from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.refusal import Refusal
from flott.rest.shapes.job.orders import TriggerResponse
from flott.rest.shapes.job.state import (
    FoundKey,
    KeyCount,
    KeyHistory,
    PreviewRequest,
    PreviewState,
    ReadableCheckpoints,
    StateChanges,
    StateRows,
    StatesOfCheckpoint,
)
from flott.rest.waiting import carried_out
from flott.runtime.jobmanager.inspection.questions import (
    CompareStates,
    CountKeys,
    FindKey,
    ListCheckpoints,
    ListStates,
    PageRows,
    PreviewRecords,
    Question,
    TraceKey,
)
from flott.runtime.orders import KeepCheckpoints


async def checkpoints(call: RestCall) -> Mapping[str, Any]:
    """Return the checkpoints that can be read at present."""
    return await _answer(call, ListCheckpoints())


async def states(call: RestCall) -> Mapping[str, Any]:
    """Return the operators and states of a checkpoint."""
    return await _answer(call, ListStates(call.query["checkpoint"]))


async def count(call: RestCall) -> Mapping[str, Any]:
    """Count the keys of a state."""
    return await _answer(call, CountKeys(*_state(call), call.query["checkpoint"]))


async def rows(call: RestCall) -> Mapping[str, Any]:
    """Return a page of the rows of a state."""
    query = call.query
    question = PageRows(*_state(call), query["checkpoint"], query["limit"], query["after"], query["prefix"])
    return await _answer(call, question)


async def key(call: RestCall) -> Mapping[str, Any]:
    """Return what a state has for a key."""
    return await _answer(call, FindKey(*_state(call), call.query["key"], call.query["checkpoint"]))


async def history(call: RestCall) -> Mapping[str, Any]:
    """Return what a state had for a key in the checkpoints that are kept."""
    return await _answer(call, TraceKey(*_state(call), call.query["key"]))


async def changes(call: RestCall) -> Mapping[str, Any]:
    """Return what is different between two checkpoints."""
    query = call.query
    question = CompareStates(query["before"], query["after"], query["operator"], query["state"], query["limit"])
    return await _answer(call, question)


async def preview(call: RestCall) -> Mapping[str, Any]:
    """Run the last epoch again, to show the records of an operator. The job keeps its files for a minute."""
    body = call.body
    question = PreviewRecords(
        body["operator"], body.get("side") or "emitted", body.get("epoch"), body.get("limit") or 100
    )
    wanted: str | None = body.get("triggerId")

    def start() -> Future[Any]:
        with suppress(JobEndedError, JobNotFoundError):  # an ended job deletes nothing any more
            call.gateway.order(call.job_id, KeepCheckpoints())
        return call.gateway.inspect(call.job_id, question)

    call.job()
    ident = await asyncio.to_thread(call.operations.trigger, _previews(call), start, wanted.lower() if wanted else None)
    return {"request-id": ident}


def preview_state(call: RestCall) -> Mapping[str, Any]:
    """Return the records, when the epoch has been run again."""
    return call.operations.outcome(_previews(call), call.path["triggerid"]).reply(lambda answer: answer)


async def _answer(call: RestCall, question: Question) -> dict[str, Any]:
    try:
        return await carried_out(lambda: call.gateway.inspect(call.job_id, question))
    except StateError as error:
        raise Refusal(404, str(error)) from error


def _state(call: RestCall) -> tuple[str, str]:
    return call.query["operator"], call.query["state"]


def _previews(call: RestCall) -> str:
    return f"the previews of job {call.job_id}"


_CHECKPOINT = Query("checkpoint", int, None, "the number of a checkpoint; without it, the latest", minimum=1)
_OPERATOR = Query("operator", str, None, "the uid, id or name of an operator", required=True)
_NAME = Query("state", str, None, "the name of the state", required=True)
_KEY = Query("key", str, None, "a Python literal such as 7 or ('a', 3), or else a text", required=True)
_LIMIT = Query("limit", int, 50, "how many rows at most", minimum=1, maximum=1000)


def _get(path: str, handler: Callable[[RestCall], Any], reply: Any, summary: str, *query: Query) -> Endpoint:
    return Endpoint("GET", f"/jobs/:jobid/flott/{path}", handler, reply, summary, "state", query=query, orders=True)


ENDPOINTS = (
    _get("state/checkpoints", checkpoints, ReadableCheckpoints, "The checkpoints whose state can be read"),
    _get("state", states, StatesOfCheckpoint, "The operators and states of a checkpoint", _CHECKPOINT),
    _get("state/count", count, KeyCount, "How many keys a state has, by key group", _OPERATOR, _NAME, _CHECKPOINT),
    _get(
        "state/rows",
        rows,
        StateRows,
        "A page of the rows of a state",
        _OPERATOR,
        _NAME,
        _CHECKPOINT,
        _LIMIT,
        Query("after", str, None, "where to continue: the value of next of the former page"),
        Query("prefix", str, None, "only keys whose text begins with this"),
    ),
    _get("state/key", key, FoundKey, "What a state has for a key", _OPERATOR, _NAME, _KEY, _CHECKPOINT),
    _get("state/history", history, KeyHistory, "A key in all checkpoints that are kept", _OPERATOR, _NAME, _KEY),
    _get(
        "state/diff",
        changes,
        StateChanges,
        "What is different between two checkpoints",
        Query("before", int, None, "the number of the earlier checkpoint", minimum=1, required=True),
        Query("after", int, None, "the number of the later checkpoint; without it, the latest", minimum=1),
        Query("operator", str, None, "only this operator, by uid, id or name"),
        Query("state", str, None, "only the state with this name"),
        Query("limit", int, 20, "how many changes of each state are shown", minimum=0, maximum=200),
    ),
    Endpoint(
        "POST",
        "/jobs/:jobid/flott/preview",
        preview,
        TriggerResponse,
        "Run the last epoch again, to show the records of an operator",
        "state",
        body=PreviewRequest,
        status=202,
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/flott/preview/:triggerid",
        preview_state,
        PreviewState,
        "The records of an operator, when the epoch has been run again",
        "state",
    ),
)
