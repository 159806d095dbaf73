"""The definition of an endpoint: a row of a table.

Routing, validation and the OpenAPI document are derived from it. Data.

    ENDPOINTS = (
        Endpoint("GET", "/jobs/:jobid/status", status, JobStatusReply, "The status of a job", tag="jobs"),
        Endpoint("GET", "/jobs/:jobid/exceptions", exceptions, Exceptions, "Why a job failed", tag="jobs",
                 query=(Query("maxExceptions", int, 20, minimum=0, meaning="how many at most"),)),
    )

    def status(call: RestCall) -> JobStatusReply:
        return {"status": call.job().status.name}

A handler receives a ``RestCall`` and returns plain data (dictionaries, lists), or a ``Response`` if the response is not
JSON. It runs on the event loop: a plain function must be fast and access only memory. A function that waits is
``async``. ``flott.rest.refusal`` maps the exceptions it raises to error responses.

Types of responses and bodies are ``TypedDict`` from ``typing_extensions`` (pydantic requires that before Python 3.12),
lists of them, or ``str`` for text/plain. Responses are validated by the tests, not while serving.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from flott.rest.refusal import Refusal
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.programs import ProgramStore
from flott.runtime.jobmanager.views.job_view import JobView, SubtaskView, TaskManagerView, VertexView

if TYPE_CHECKING:
    from flott.rest.conditional import LiveReplies
    from flott.rest.operations import Operations
    from flott.rest.security import Access
    from flott.rest.sql_mount import SqlMount

#: The pattern of each path parameter with a fixed form. All others are free text.
HEX_PARAMETERS = frozenset({"jobid", "vertexid", "triggerid", "applicationid"})
INTEGER_PARAMETERS = frozenset({"checkpointid", "subtaskindex", "attempt", "token"})

_HEX = re.compile(r"[0-9a-fA-F]{32}")
_INTEGER = re.compile(r"[0-9]{1,18}")
_SIGNED = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class Query:
    """A query parameter."""

    name: str
    kind: type[str] | type[int] | type[bool] | type[list[str]] = str  #: list: several values, separated by commas
    default: Any = None
    meaning: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    required: bool = False

    def parse(self, texts: list[str]) -> Any:
        """Return the value for these texts of a request, or the default if there are none."""
        if self.kind is list:
            return [part for text in texts for part in text.split(",") if part] if texts else list(self.default or ())
        if not texts:
            if self.required:
                raise Refusal(400, f"Bad request: query parameter {self.name} is missing: {self.meaning}.")
            return self.default
        text = texts[-1]
        if self.kind is bool:
            if text.lower() not in ("true", "false"):
                raise self._refused(text, "true or false")
            return text.lower() == "true"
        if self.kind is int:
            return self._integer(text)
        if self.choices and text not in self.choices:
            raise self._refused(text, " or ".join(self.choices))
        return text

    def _integer(self, text: str) -> int:
        if not _SIGNED.fullmatch(text):
            raise self._refused(text, "a whole number")
        number = int(text)
        if self.minimum is not None and number < self.minimum:
            raise self._refused(text, f"a number of at least {self.minimum}")
        if self.maximum is not None and number > self.maximum:
            raise self._refused(text, f"a number of at most {self.maximum}")
        return number

    def _refused(self, found: str, expected: str) -> Refusal:
        return Refusal(400, f"Bad request: query parameter {self.name} is {expected}, found {found!r}.")


@dataclass(frozen=True)
class Part:
    """A part of a multipart form, for the OpenAPI document. The handler reads it."""

    name: str
    meaning: str
    binary: bool = True
    required: bool = True
    repeated: bool = False


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One method of one path. It is served below ``/`` and ``/v1``."""

    method: str
    path: str  #: contains ``:name`` for parameters
    handler: Callable[[Any], Any]  #: receives a ``RestCall``, or the call of another application
    reply: Any
    summary: str
    tag: str
    query: tuple[Query, ...] = ()
    body: Any = None  #: the type of a JSON body; None: there is none, and a body that is sent is ignored
    form: tuple[Part, ...] = ()  #: a multipart body instead
    status: int = 200
    media_type: str = ""  #: of the response; default: text/plain for ``str``, JSON for all others
    orders: bool | None = None  #: whether it changes anything; None: it does unless the method is GET
    needs_token: bool = True  #: False: it is answered without the access token
    #: Open pages ask for it again and again: they share answers that are up to a second old. Other clients always get a
    #: new one.
    shared: bool = False

    @property
    def is_order(self) -> bool:
        """Return whether it changes anything. Such requests are refused from web pages of another origin."""
        return self.method != "GET" if self.orders is None else self.orders

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path's parameters."""
        return tuple(part[1:] for part in self.path.split("/") if part.startswith(":"))


@dataclass(frozen=True)
class RestCall:
    """A request that has been validated against its endpoint."""

    gateway: ClusterGateway
    programs: ProgramStore
    operations: Operations
    live: LiveReplies
    access: Access
    request: Request
    endpoint: Endpoint
    path: Mapping[str, Any] = field(default_factory=dict)  #: ids in lower case, numbers as int, texts decoded
    query: Mapping[str, Any] = field(default_factory=dict)  #: every declared parameter, with its default if absent
    body: Any = None  #: an instance of the endpoint's body type
    sql: SqlMount | None = None

    @property
    def job_id(self) -> str:
        """Return the ``:jobid`` of the path."""
        return str(self.path["jobid"])

    def job(self) -> JobView:
        """Return the job of the path. Raise 404 if there is none."""
        return self.gateway.job(self.job_id)

    def vertex(self, job: JobView | None = None) -> VertexView:
        """Return the vertex of the path. Raise 404 if there is none."""
        found = (job or self.job()).vertex(self.path["vertexid"])
        if found is None:
            raise Refusal(404, f"JobVertex {self.path['vertexid']} not found")
        return found

    def subtask(self, vertex: VertexView | None = None) -> SubtaskView:
        """Return the subtask of the path. Raise 404 if there is none."""
        index = self.path["subtaskindex"]
        for subtask in (vertex or self.vertex()).subtasks:
            if subtask.index == index:
                return subtask
        raise Refusal(404, f"Subtask {index} not found")

    def task_manager(self) -> TaskManagerView:
        """Return the task manager of the path. Raise 404 if there is none."""
        ident = self.path["taskmanagerid"]
        for found in self.gateway.task_managers():
            if found.id == ident:
                return found
        raise Refusal(404, f"No TaskExecutor registered under {ident}.")


def parse_parameter(name: str, text: str) -> Any:
    """Return the value of a path parameter, percent-decoded before."""
    if name in HEX_PARAMETERS:
        if not _HEX.fullmatch(text):
            raise _unresolved(name, text, "32 hexadecimal digits")
        return text.lower()
    if name in INTEGER_PARAMETERS:
        if not _INTEGER.fullmatch(text):
            raise _unresolved(name, text, "a whole number")
        return int(text)
    return text


def _unresolved(name: str, found: str, expected: str) -> Refusal:
    return Refusal(400, f"Cannot resolve path parameter ({name}) from value {found!r}: expected {expected}.")
