"""The ASGI application of the REST API: it routes requests to the endpoint tables. JobManager side.

It contains what applies to all endpoints: the two prefixes, the form of errors and of JSON, and the validation of
requests. ``flott.rest.security`` decides which requests are admitted.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import logging
import math
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote

from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.rest import endpoints as endpoint_modules
from flott.rest.conditional import LiveReplies, is_page
from flott.rest.dashboard import Dashboard
from flott.rest.endpoint import Endpoint, RestCall, parse_parameter
from flott.rest.gateway.messages import VERSIONS
from flott.rest.operations import Operations
from flott.rest.refusal import Refusal, message_of, refusal_of
from flott.rest.security import Access
from flott.rest.sql_mount import ROOT, SqlMount
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.programs import ProgramStore
from flott.web.static_files import PREFIX, static_page

LOG = logging.getLogger("flott.rest")

#: A JSON body above this size is refused, also if uploads may be larger.
MAX_JSON_BODY = 4 * 1024 * 1024
#: The maximum size of all headers, in bytes.
MAX_HEADERS = 32 * 1024
#: The maximum number of concurrent requests; further requests are answered with 503.
MAX_ACTIVE = 512
#: The maximum time between two parts of a body, in seconds.
BODY_TIMEOUT = 60
_SQL = ROOT.strip("/").split("/")
JSON_TYPE = "application/json; charset=UTF-8"
#: The answer to a preflight request of a page of another origin. Orders are checked again when they are sent.
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}


def all_endpoints() -> tuple[Endpoint, ...]:
    """Return the endpoints of all modules in ``flott.rest.endpoints``."""
    names = sorted(module.name for module in pkgutil.iter_modules(endpoint_modules.__path__))
    modules = [importlib.import_module(f"{endpoint_modules.__name__}.{name}") for name in names]
    return tuple(endpoint for module in modules for endpoint in module.ENDPOINTS)


def create_app(
    gateway: ClusterGateway, programs: ProgramStore, clock: Clock | None = None, sql: SqlMount | None = None
) -> Starlette:
    """Return the application that serves this JobManager. Without ``sql`` it has no SQL sessions."""
    operations = Operations(clock or SystemClock(), gateway.configuration.get(options.REST_ASYNC_STORE_DURATION))
    app = Starlette()
    app.router.default = RequestHandler(gateway, programs, operations, Routes.of(all_endpoints()), sql)
    return app


@dataclass
class Routes:
    """The endpoints as a tree of path segments. A literal segment has priority over a parameter."""

    methods: dict[str, Endpoint] = field(default_factory=dict)
    literals: dict[str, Routes] = field(default_factory=dict)
    parameter: Routes | None = None

    @staticmethod
    def of(table: Sequence[Endpoint]) -> Routes:
        """Build the tree. Two rows with the same method and path are a programming error."""
        root = Routes()
        for endpoint in table:
            node = root
            for segment in _segments(endpoint.path):
                node = node._parameter() if segment.startswith(":") else node.literals.setdefault(segment, Routes())
            if endpoint.method in node.methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice.")
            node.methods[endpoint.method] = endpoint
        return root

    def find(self, method: str, segments: Sequence[str]) -> tuple[Endpoint, list[str]] | None:
        """Return the endpoint of a request and its path parameters in order."""
        if not segments:
            endpoint = self.methods.get(method)
            return None if endpoint is None else (endpoint, [])
        head, *rest = segments
        if head in self.literals and (found := self.literals[head].find(method, rest)) is not None:
            return found
        if head and self.parameter is not None and (found := self.parameter.find(method, rest)) is not None:
            return found[0], [head, *found[1]]
        return None

    def _parameter(self) -> Routes:
        if self.parameter is None:
            self.parameter = Routes()
        return self.parameter


class EndpointHandler:
    """Admit every request, find its endpoint, validate it, and respond in Flink's form.

    ``flott.rest.gateway`` serves another table of endpoints with it.
    """

    def __init__(self, configuration: Configuration, routes: Routes, clock: Clock | None = None):
        self._routes = routes
        self._access = Access.of(configuration, clock)
        self._max_content = configuration.get(options.REST_MAX_CONTENT)
        self._allowed_origin = configuration.get(options.WEB_ALLOW_ORIGIN)
        self._active = 0

    def open_page(self, request: Request) -> Response | None:
        """Return what is served without a token: files that hold no data of the cluster."""
        return None

    def page(self, path: str) -> Response | None:
        """Return what is served at a path besides the endpoints."""
        return None

    def segments(self, request: Request) -> list[str]:
        """Return the segments of the path, without the version."""
        segments = path_segments(request.scope)
        return segments[1:] if segments[:1] == ["v1"] else segments

    def make_call(
        self, request: Request, endpoint: Endpoint, path: Mapping[str, Any], query: Mapping[str, Any], body: Any
    ) -> Any:
        """Return what the endpoint's handler receives."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        request = Request(scope, bounded(receive, self._max_content))
        self._active += 1
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:
            response = error_response(error, request)
        finally:
            self._active -= 1
        response.headers["Access-Control-Allow-Origin"] = self._allowed_origin
        response.headers["X-Content-Type-Options"] = "nosniff"  # logs and records may contain anything
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if self._active > MAX_ACTIVE:
            raise Refusal(503, f"The server is answering {MAX_ACTIVE} requests already: try again later.")
        if sum(len(name) + len(value) for name, value in request.headers.raw) > MAX_HEADERS:
            raise Refusal(431, f"The headers of a request have at most {MAX_HEADERS} bytes.")
        if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
            return Response(status_code=204, headers=PREFLIGHT)
        self._access.admit_host(request.headers)
        method = "GET" if request.method == "HEAD" else request.method
        if method == "GET" and (open_page := self.open_page(request)) is not None:
            return open_page
        found = self._routes.find(method, self.segments(request))
        if found is None or found[0].needs_token:
            self._access.admit_token(request.headers)
        if method == "GET" and (page := self.page(request.url.path.removeprefix("/"))) is not None:
            return page
        if found is None:
            raise Refusal(404, f"Not found: {request.method} {request.url.path}")
        endpoint, texts = found
        if endpoint.is_order:
            self._access.admit_order(request.headers)
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_content:
            raise Refusal(413, f"A request has at most {self._max_content} bytes (rest.server.max-content-length).")
        call = await self._call(request, endpoint, texts)
        reply = self.reply_to(call) if endpoint.shared else endpoint.handler(call)
        if inspect.isawaitable(reply):
            reply = await reply
        return reply if isinstance(reply, Response) else json_response(reply, endpoint.status)

    def reply_to(self, call: Any) -> Any:
        """Return the reply to a call whose replies open pages share."""
        return call.endpoint.handler(call)

    async def _call(self, request: Request, endpoint: Endpoint, texts: Sequence[str]) -> Any:
        path = {
            name: parse_parameter(name, unquote(text, errors="surrogateescape"))
            for name, text in zip(endpoint.parameters, texts, strict=True)
        }
        query = {query.name: query.parse(request.query_params.getlist(query.name)) for query in endpoint.query}
        body = None if endpoint.body is None else await _body(request, endpoint)
        return self.make_call(request, endpoint, path, query, body)


class RequestHandler(EndpointHandler):
    """Serves a JobManager: its endpoints, the web UI, and Flink's dashboard if it is configured."""

    def __init__(
        self,
        gateway: ClusterGateway,
        programs: ProgramStore,
        operations: Operations,
        routes: Routes,
        sql: SqlMount | None = None,
    ):
        super().__init__(gateway.configuration, routes, operations.clock)
        self._gateway = gateway
        self._programs = programs
        self._operations = operations
        self._live = LiveReplies(operations.clock, encoded_json)
        self._dashboard = Dashboard.of(gateway.configuration)
        self._sql = sql

    def segments(self, request: Request) -> list[str]:
        segments = super().segments(request)
        if segments[:2] == _SQL and segments[2:3] and segments[2] in VERSIONS:  # clients of the gateway's API
            del segments[2]
        return segments

    def open_page(self, request: Request) -> Response | None:
        path = request.url.path.removeprefix("/")
        if path in ("", "index.html") and not self._dashboard.files:
            return RedirectResponse(PREFIX)  # relative, so that it works behind a proxy with a path of its own
        return static_page(path, request.headers.get("if-none-match"))

    def page(self, path: str) -> Response | None:
        return self._dashboard.page(path)

    def reply_to(self, call: Any) -> Any:
        if not is_page(call.request.headers):
            return call.endpoint.handler(call)
        key = (call.endpoint.path, *call.path.values(), str(call.query))
        if inspect.iscoroutinefunction(call.endpoint.handler):
            return self._live.reply_later(key, call.request.headers, lambda: call.endpoint.handler(call))
        return self._live.reply(key, call.request.headers, lambda: call.endpoint.handler(call))

    def make_call(
        self, request: Request, endpoint: Endpoint, path: Mapping[str, Any], query: Mapping[str, Any], body: Any
    ) -> RestCall:
        return RestCall(
            self._gateway, self._programs, self._operations, self._live, self._access, request, endpoint, path, query,
            body, self._sql,
        )  # fmt: skip


def bounded(receive: Receive, max_bytes: int) -> Receive:
    """Yield the parts of a body, and refuse it if it is too long or stops arriving."""
    taken = 0

    async def next_part() -> Message:
        nonlocal taken
        try:
            message = await asyncio.wait_for(receive(), BODY_TIMEOUT)
        except TimeoutError:
            raise Refusal(408, f"Nothing more of the request came for {BODY_TIMEOUT} s.") from None
        taken += len(message.get("body", b""))
        if taken > max_bytes:
            raise Refusal(413, f"A request has at most {max_bytes} bytes (rest.server.max-content-length).")
        return message

    return next_part


def json_response(content: Any, status: int = 200) -> Response:
    """Return a JSON response as Flink writes it."""
    return Response(encoded_json(content), status, headers={"Content-Type": JSON_TYPE})


def encoded_json(content: Any) -> bytes:
    """Return content as JSON in the form of Flink: NaN and infinite numbers become strings."""
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_without_nan(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def error_response(error: BaseException, request: Request) -> Response:
    """Return an error response with the message of the error and without a stack trace."""
    refusal = refusal_of(error)
    if refusal is None:
        LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
        refusal = Refusal(500, message_of(error))
    response = json_response({"errors": list(refusal.messages)}, refusal.status)
    if refusal.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def path_segments(scope: Scope) -> list[str]:
    """Return the segments of the path, still percent-encoded. An encoded slash separates nothing."""
    raw = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogateescape")
    return _segments(raw.decode("latin-1").partition("?")[0])


def _segments(path: str) -> list[str]:
    trimmed = path[1:] if path.startswith("/") else path
    trimmed = trimmed[:-1] if trimmed.endswith("/") else trimmed
    return trimmed.split("/") if trimmed else []


async def _body(request: Request, endpoint: Endpoint) -> Any:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_JSON_BODY:
            raise Refusal(413, f"A JSON body has at most {MAX_JSON_BODY} bytes.")
    try:
        return _adapter(endpoint).validate_json(bytes(data) if data.strip() else b"{}")
    except ValidationError as error:
        raise Refusal(400, f"Request did not match expected format: {_problem(error)}") from None


@cache
def _adapter(endpoint: Endpoint) -> TypeAdapter[Any]:
    return TypeAdapter(endpoint.body)


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def _without_nan(content: Any) -> Any:
    if isinstance(content, float) and not math.isfinite(content):
        return "NaN" if math.isnan(content) else "Infinity" if content > 0 else "-Infinity"
    if isinstance(content, Mapping):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_without_nan(value) for value in content]
    return content
