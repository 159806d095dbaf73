"""The paths of the gateway, with Flink's names. Handlers that wait for a job or a statement run in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired

from starlette.responses import Response
from typing_extensions import TypedDict

from flott import __version__
from flott.common._secrets import shown
from flott.rest.endpoint import Endpoint, Query
from flott.rest.gateway.sessions import GatewaySession, Sessions
from flott.rest.gateway.shapes import ROW_FORMATS, VERSIONS, FetchReply, exact_response, fetch_reply
from flott.rest.refusal import Refusal
from flott.table._environment.completions import completions


@dataclass(frozen=True)
class GatewayCall:
    """A request that has been validated against its endpoint."""

    sessions: Sessions
    version: str
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any

    def session(self) -> GatewaySession:
        """Return the session of the path. Raise 404 if there is none."""
        return self.sessions.session(self.path["session_handle"])


class Empty(TypedDict):
    pass


class Info(TypedDict):
    productName: str
    version: str


class ApiVersions(TypedDict):
    versions: list[str]


class OpenSession(TypedDict):
    sessionName: NotRequired[str | None]
    properties: NotRequired[dict[str, str] | None]


class SessionOpened(TypedDict):
    sessionHandle: str


class SessionProperties(TypedDict):
    properties: dict[str, str]


class StatusReply(TypedDict):
    status: str


class ConfigureSession(TypedDict):
    statement: str
    executionTimeout: NotRequired[int | None]


class ExecuteStatement(TypedDict):
    statement: str
    executionTimeout: NotRequired[int | None]
    executionConfig: NotRequired[dict[str, str] | None]


class StatementStarted(TypedDict):
    operationHandle: str


class CompleteStatement(TypedDict):
    statement: str
    position: NotRequired[int | None]


class Candidates(TypedDict):
    candidates: list[str]


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
    place = f"/sessions/{session.handle}/operations/{operation.handle}"
    token, row_format = call.path["token"], call.query["rowFormat"]

    def page() -> Response:
        return exact_response(fetch_reply(operation.fetch(token), place, call.version, row_format))

    return await asyncio.to_thread(page)


def _refuse_timeout(body: Mapping[str, Any]) -> None:
    if (body.get("executionTimeout") or 0) > 0:
        raise Refusal(400, "executionTimeout is not supported, as in Flink: cancel the operation instead.")


_SESSION = "/sessions/:session_handle"
_OPERATION = f"{_SESSION}/operations/:operation_handle"
_ROW_FORMAT = Query("rowFormat", str, "JSON", "how values are written", choices=tuple(ROW_FORMATS))

ENDPOINTS = (
    Endpoint("GET", "/info", info, Info, "Name and version", tag="gateway"),
    Endpoint("GET", "/api_versions", api_versions, ApiVersions, "The prefixes that are answered", tag="gateway"),
    Endpoint("POST", "/sessions", open_session, SessionOpened, "Open a session", tag="sessions", body=OpenSession),
    Endpoint("GET", _SESSION, session_properties, SessionProperties, "The settings of a session", tag="sessions"),
    Endpoint("DELETE", _SESSION, close_session, StatusReply, "Close a session", tag="sessions"),
    Endpoint("POST", f"{_SESSION}/heartbeat", heartbeat, Empty, "Keep a session open", tag="sessions"),
    Endpoint(
        "POST", f"{_SESSION}/configure-session", configure_session, Empty,
        "Run a statement that changes the session, and wait for it", tag="sessions", body=ConfigureSession,
    ),
    Endpoint(
        "POST", f"{_SESSION}/statements", execute_statement, StatementStarted, "Start a statement", tag="statements",
        body=ExecuteStatement,
    ),
    Endpoint(
        "GET", f"{_SESSION}/complete-statement", complete_statement, Candidates, "Words that may stand at a position",
        tag="statements", body=CompleteStatement,
    ),
    Endpoint(
        "POST", f"{_SESSION}/complete-statement", complete_statement, Candidates,
        "The same, for clients that send no body with GET", tag="statements", body=CompleteStatement,
    ),
    Endpoint("GET", f"{_OPERATION}/status", operation_status, StatusReply, "How far a statement is", tag="operations"),
    Endpoint("POST", f"{_OPERATION}/cancel", cancel_operation, StatusReply, "Cancel a statement", tag="operations"),
    Endpoint("DELETE", f"{_OPERATION}/close", close_operation, StatusReply, "Drop a result", tag="operations"),
    Endpoint(
        "GET", f"{_OPERATION}/result/:token", fetch_results, FetchReply, "A page of a result", tag="operations",
        query=(_ROW_FORMAT,),
    ),
)  # fmt: skip
