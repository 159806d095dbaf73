"""The handlers of the gateway's paths (``messages``). Those that wait for a job or a statement run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from flott import __version__
from flott.common._secrets import shown
from flott.rest.endpoint import Endpoint
from flott.rest.gateway.messages import (
    VERSIONS,
    ApiVersions,
    Candidates,
    Empty,
    Info,
    OpenedSessions,
    SessionOpened,
    SessionProperties,
    StatementStarted,
    StatusReply,
    gateway_endpoints,
)
from flott.rest.gateway.sessions import GatewaySession, Sessions
from flott.rest.gateway.shapes import exact_response, fetch_reply
from flott.rest.refusal import Refusal
from flott.table._environment.completions import completions


@dataclass(frozen=True)
class GatewayCall:
    """A request that has been validated against its endpoint."""

    sessions: Sessions
    version: str
    root: str  #: the path below which all paths of the gateway are; empty for a gateway with a port of its own
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any

    def session(self) -> GatewaySession:
        """Return the session of the path. Raise 404 if there is none."""
        return self.sessions.session(self.path["session_handle"])


def info(call: GatewayCall) -> Info:
    """Say what answers."""
    return {"productName": "Flott", "version": __version__}


def api_versions(call: GatewayCall) -> ApiVersions:
    """List the prefixes."""
    return {"versions": [version.upper() for version in VERSIONS]}


async def open_session(call: GatewayCall) -> SessionOpened:
    """Start a session."""
    name, properties = call.body.get("sessionName"), call.body.get("properties") or {}
    session = await asyncio.to_thread(call.sessions.open, name, properties)
    return {"sessionHandle": session.handle}


def list_sessions(call: GatewayCall) -> OpenedSessions:
    """Show all sessions."""
    return {
        "sessions": [
            {
                "sessionHandle": one.handle,
                "sessionName": one.name,
                "opened": one.opened_ms,
                "used": one.used_ms,
                "statements": one.active,
            }
            for one in call.sessions.opened()
        ]
    }


def session_properties(call: GatewayCall) -> SessionProperties:
    """Show the settings of a session."""
    return {"properties": dict(sorted(shown(call.session().properties).items()))}


async def close_session(call: GatewayCall) -> StatusReply:
    """End a session."""
    await asyncio.to_thread(call.sessions.close, call.path["session_handle"])
    return {"status": "CLOSED"}


def heartbeat(call: GatewayCall) -> Empty:
    """Keep a session from expiring."""
    call.session()
    return {}


async def configure_session(call: GatewayCall) -> Empty:
    """Run a statement that changes the session."""
    _refuse_timeout(call.body)
    await asyncio.to_thread(call.session().configure, call.body["statement"])
    return {}


def execute_statement(call: GatewayCall) -> StatementStarted:
    """Start a statement."""
    _refuse_timeout(call.body)
    operation = call.session().submit(call.body["statement"], call.body.get("executionConfig"))
    return {"operationHandle": operation.handle}


async def complete_statement(call: GatewayCall) -> Candidates:
    """Suggest words."""
    text, position = call.body["statement"], call.body.get("position")
    before = text if position is None else text[: max(0, position)]
    return {"candidates": await asyncio.to_thread(completions, before, call.session().environment)}


def operation_status(call: GatewayCall) -> StatusReply:
    """Say how far a statement is."""
    return {"status": call.session().operation(call.path["operation_handle"]).status.value}


async def cancel_operation(call: GatewayCall) -> StatusReply:
    """Cancel a statement."""
    operation = call.session().operation(call.path["operation_handle"])
    return {"status": (await asyncio.to_thread(operation.cancel)).value}


async def close_operation(call: GatewayCall) -> StatusReply:
    """Drop the result of a statement."""
    session = call.session()
    operation = await asyncio.to_thread(session.close_operation, call.path["operation_handle"])
    return {"status": operation.status.value}


async def fetch_results(call: GatewayCall) -> Response:
    """Give a page of a result."""
    session = call.session()
    operation = session.operation(call.path["operation_handle"])
    place = f"{call.root}/{call.version}/sessions/{session.handle}/operations/{operation.handle}"
    token, row_format = call.path["token"], call.query["rowFormat"]

    def page() -> Response:
        fetched = operation.fetch(token)
        return exact_response(fetch_reply(fetched, place, row_format, short=call.version == "v1"))

    return await asyncio.to_thread(page)


def _refuse_timeout(body: Mapping[str, Any]) -> None:
    if (body.get("executionTimeout") or 0) > 0:
        raise Refusal(400, "executionTimeout is not supported, as in Flink: cancel the operation instead.")


_HANDLERS = {
    handler.__name__: handler
    for handler in (
        info, api_versions, open_session, session_properties, close_session, heartbeat, configure_session,
        execute_statement, complete_statement, operation_status, cancel_operation, close_operation, fetch_results,
    )
}  # fmt: skip

ENDPOINTS = gateway_endpoints(lambda name: _HANDLERS[name.removesuffix("_by_post")])

#: What the gateway of a JobManager serves in addition, to the JobManager only: handles are not shown to clients.
LIST_SESSIONS = Endpoint("GET", "/sessions", list_sessions, OpenedSessions, "All sessions", tag="sessions")
