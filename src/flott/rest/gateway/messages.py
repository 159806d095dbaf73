"""The paths of the gateway, with Flink's names, and their messages. Data; it imports nothing of the Table API.

The gateway serves the table with handlers that run statements; a JobManager serves it with one that passes requests on
to the process of its gateway (``flott.rest.sql_mount``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

from flott.rest.endpoint import Endpoint, Query

#: What Flink answers under each prefix is the same here, but for the form of ``nextResultUri``.
VERSIONS = ("v1", "v2", "v3", "v4")
ROW_FORMATS = ("JSON", "PLAIN_TEXT")


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


class ColumnInfo(TypedDict):
    name: str
    logicalType: dict[str, Any]
    comment: str | None


class RowInfo(TypedDict):
    kind: str
    fields: list[Any]


class ResultInfo(TypedDict):
    columns: list[ColumnInfo]
    rowFormat: str
    data: list[RowInfo]


class FetchReply(TypedDict):
    """NOT_READY has a type and an address only; EOS has no address."""

    resultType: str
    isQueryResult: NotRequired[bool]
    jobID: NotRequired[str]
    resultKind: NotRequired[str]
    results: NotRequired[ResultInfo]
    nextResultUri: NotRequired[str]


class OpenedSession(TypedDict):
    sessionHandle: str
    sessionName: str | None
    opened: int
    used: int
    statements: int


class OpenedSessions(TypedDict):
    sessions: list[OpenedSession]


_SESSION = "/sessions/:session_handle"
_OPERATION = f"{_SESSION}/operations/:operation_handle"
_ROW_FORMAT = Query("rowFormat", str, "JSON", "how values are written", choices=ROW_FORMATS)


def _unhandled(call: Any) -> Any:
    raise NotImplementedError


#: By the name of the handler.
_PATHS: dict[str, Endpoint] = {
    "info": Endpoint("GET", "/info", _unhandled, Info, "Name and version", tag="gateway"),
    "api_versions": Endpoint(
        "GET", "/api_versions", _unhandled, ApiVersions, "The prefixes that are answered", tag="gateway"
    ),
    "open_session": Endpoint(
        "POST", "/sessions", _unhandled, SessionOpened, "Open a session", tag="sessions", body=OpenSession
    ),
    "session_properties": Endpoint(
        "GET", _SESSION, _unhandled, SessionProperties, "The settings of a session", tag="sessions"
    ),
    "close_session": Endpoint("DELETE", _SESSION, _unhandled, StatusReply, "Close a session", tag="sessions"),
    "heartbeat": Endpoint("POST", f"{_SESSION}/heartbeat", _unhandled, Empty, "Keep a session open", tag="sessions"),
    "configure_session": Endpoint(
        "POST", f"{_SESSION}/configure-session", _unhandled, Empty,
        "Run a statement that changes the session, and wait for it", tag="sessions", body=ConfigureSession,
    ),
    "execute_statement": Endpoint(
        "POST", f"{_SESSION}/statements", _unhandled, StatementStarted, "Start a statement", tag="statements",
        body=ExecuteStatement,
    ),
    "complete_statement": Endpoint(
        "GET", f"{_SESSION}/complete-statement", _unhandled, Candidates, "Words that may stand at a position",
        tag="statements", body=CompleteStatement,
    ),
    "complete_statement_by_post": Endpoint(
        "POST", f"{_SESSION}/complete-statement", _unhandled, Candidates,
        "The same, for clients that send no body with GET", tag="statements", body=CompleteStatement,
    ),
    "operation_status": Endpoint(
        "GET", f"{_OPERATION}/status", _unhandled, StatusReply, "How far a statement is", tag="operations"
    ),
    "cancel_operation": Endpoint(
        "POST", f"{_OPERATION}/cancel", _unhandled, StatusReply, "Cancel a statement", tag="operations"
    ),
    "close_operation": Endpoint(
        "DELETE", f"{_OPERATION}/close", _unhandled, StatusReply, "Drop a result", tag="operations"
    ),
    "fetch_results": Endpoint(
        "GET", f"{_OPERATION}/result/:token", _unhandled, FetchReply, "A page of a result", tag="operations",
        query=(_ROW_FORMAT,),
    ),
}  # fmt: skip


def gateway_endpoints(handler_of: Callable[[str], Callable[[Any], Any]]) -> tuple[Endpoint, ...]:
    """Return the table of paths. ``handler_of`` gives a handler for the name of each."""
    return tuple(replace(endpoint, handler=handler_of(name)) for name, endpoint in _PATHS.items())
