"""Endpoints with which a browser logs in and out. They are answered without the access token."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.responses import JSONResponse, Response
from typing_extensions import TypedDict

from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.refusal import Refusal

SessionState = TypedDict("SessionState", {"token-required": bool, "logged-in": bool})


class LogIn(TypedDict):
    token: Annotated[str, Field(max_length=4096)]


def state(call: RestCall) -> SessionState:
    """Return whether a token is needed, and whether this client has shown it."""
    return _state(call, call.access.is_admitted(call.request.headers))


def log_in(call: RestCall) -> Response:
    """Begin a session with the access token."""
    sessions = call.access.sessions
    if sessions is None:
        return JSONResponse(_state(call, True))
    if not call.access.is_token(call.body["token"].strip()):
        raise Refusal(401, "This is not the cluster's token (flott.rest.token).")
    cookie = sessions.begin(secure=call.request.url.scheme == "https")
    return JSONResponse(_state(call, True), headers={"Set-Cookie": cookie, "Cache-Control": "no-store"})


def log_out(call: RestCall) -> Response:
    """End the session of this browser."""
    sessions = call.access.sessions
    if sessions is None:
        return JSONResponse(_state(call, True))
    cookie = sessions.end(call.request.headers.get("cookie", ""), secure=call.request.url.scheme == "https")
    return JSONResponse(_state(call, False), headers={"Set-Cookie": cookie, "Cache-Control": "no-store"})


def _state(call: RestCall, logged_in: bool) -> SessionState:
    return {"token-required": call.access.token is not None, "logged-in": logged_in}


_PATH = "/flott/session"

ENDPOINTS = (
    Endpoint("GET", _PATH, state, SessionState, "Whether a token is needed", "session", needs_token=False),
    Endpoint(
        "POST",
        _PATH,
        log_in,
        SessionState,
        "Log in: exchange the token for a cookie",
        "session",
        body=LogIn,
        needs_token=False,
    ),
    Endpoint("DELETE", _PATH, log_out, SessionState, "Log out: end the session", "session", needs_token=False),
)
