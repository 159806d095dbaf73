"""Endpoints of the SQL sessions of the JobManager: the paths of Flink's SQL gateway below ``/flott/sql``.

Statements run in a process of their own (``flott.rest.sql_mount``), and as jobs of this cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.responses import Response
from typing_extensions import TypedDict

from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.gateway.messages import Empty, OpenedSession, gateway_endpoints
from flott.rest.refusal import Refusal
from flott.rest.sql_mount import ROOT, SqlMount

_JSON = "application/json; charset=UTF-8"

SqlState = TypedDict(
    "SqlState",
    {
        "available": bool,
        "reason": str | None,  # why it is not
        "install": str | None,
        "process": int | None,
        "last-end": str | None,
        "max-sessions": int,
        "idle-timeout": int,
        "sessions": list[OpenedSession],
    },
)


async def state(call: RestCall) -> SqlState:
    """Say whether statements are taken, and which sessions there are. It starts nothing."""
    mount = call.sql
    if mount is None:
        return {
            "available": False, "reason": _NOT_SERVED, "install": None, "process": None, "last-end": None,
            "max-sessions": 0, "idle-timeout": 0, "sessions": [],
        }  # fmt: skip
    refused = mount.refusal
    running = mount.running if refused is None else None
    return {
        "available": refused is None,
        "reason": refused,
        "install": mount.install,
        "process": None if running is None else running.pid,
        "last-end": mount.last_end,
        "max-sessions": mount.max_sessions,
        "idle-timeout": mount.idle_timeout_ms,
        "sessions": [] if running is None else await _sessions(mount),
    }


async def end(call: RestCall) -> Empty:
    """End the process with all sessions."""
    await _mount(call).end_process()
    return {}


async def _sessions(mount: SqlMount) -> list[OpenedSession]:
    try:
        answer = await mount.forward("GET", "/v1/sessions", timeout_s=_STATE_SECONDS)
    except Refusal:  # it has just ended, or is busy
        return []
    found: list[OpenedSession] = json.loads(answer.content)["sessions"] if answer.status == 200 else []
    return found


def _passed_on(name: str) -> Callable[[RestCall], Any]:
    async def handler(call: RestCall) -> Response:
        segments = [
            quote(str(call.path[part[1:]]), safe="", errors="surrogateescape") if part.startswith(":") else part
            for part in call.endpoint.path.removeprefix(ROOT).split("/")
        ]
        query = {key: str(value) for key, value in call.query.items() if value is not None}
        answer = await _mount(call).forward(
            call.endpoint.method, f"/v2{'/'.join(segments)}", query, call.body, starts=name in _STARTING
        )
        return Response(answer.content, answer.status, headers={"Content-Type": _JSON, "Cache-Control": "no-store"})

    handler.__name__ = name
    return handler


def _mount(call: RestCall) -> SqlMount:
    if call.sql is None:
        raise Refusal(403, _NOT_SERVED)
    return call.sql


_NOT_SERVED = "This JobManager has no SQL sessions."
#: A page asks for the state again and again, so a busy process is given up soon.
_STATE_SECONDS = 5.0
#: What a client asks before it opens a session.
_STARTING = ("open_session", "info", "api_versions")


def _below_root(endpoint: Endpoint) -> Endpoint:
    # To read a page moves the result on, so a page of another origin may not ask for it.
    return replace(endpoint, path=ROOT + endpoint.path, tag="sql", orders=True)


ENDPOINTS = (
    Endpoint("GET", ROOT, state, SqlState, "Whether SQL is available, and the sessions that are open", "sql"),
    Endpoint("DELETE", ROOT, end, Empty, "End the process of the SQL sessions, with all of them", "sql"),
    *map(_below_root, gateway_endpoints(_passed_on)),
)
