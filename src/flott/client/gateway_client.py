"""A client of a SQL gateway, Flott's or Flink's: it opens a session, runs statements and reads results by pages.

All requests are those of Flink's gateway REST API from V2 on, which both gateways serve. Client side.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx

from flott.client.access import access_headers, no_tls_context, tls_context
from flott.client.operations import Pauses
from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import ClusterError, FlottError, UnreachableError
from flott.runtime.clock import Clock, SystemClock

#: The versions of the API that this client speaks, the best one first.
_VERSIONS = ("v4", "v3", "v2")
#: A session is kept open by a request in this interval; gateways close one that was not used for ten minutes.
HEARTBEAT_MS = 60_000
#: The longest pause between two requests for rows of a query.
_LONGEST_PAUSE_MS = 300
#: What cuts a connection although the server may be there: a GET is sent again, once.
_CUT = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result; its type is the JSON document of Flink's logical type."""

    name: str
    type: Mapping[str, Any]


@dataclass(frozen=True)
class ChangedRow:
    """A row of a result. ``kind`` is the name of a ``RowKind``, such as INSERT."""

    kind: str
    fields: Sequence[Any]


@dataclass(frozen=True)
class ResultHeader:
    """What is known of a result when its statement has run."""

    kind: str  #: SUCCESS or SUCCESS_WITH_CONTENT
    is_query: bool
    columns: tuple[ResultColumn, ...]
    job_id: str | None


@dataclass(frozen=True)
class _Page:
    header: ResultHeader | None  #: None: the statement has not run yet
    rows: Sequence[ChangedRow]
    next_token: int | None  #: None: there are no more rows


class GatewayClient:
    """Sends requests to one gateway, and says in a sentence what went wrong. Threads may share it."""

    def __init__(
        self,
        url: str,
        configuration: Configuration,
        *,
        transport: httpx.BaseTransport | None = None,
    ):
        self.url = url.rstrip("/")
        self._version: str | None = None
        uses_tls = self.url.startswith("https:") and transport is None
        self._http = httpx.Client(
            transport=transport,
            timeout=httpx.Timeout(
                configuration.get(options.REST_ANSWER_TIMEOUT) / 1000,
                connect=configuration.get(options.REST_CONNECTION_TIMEOUT) / 1000,
            ),
            headers=access_headers(configuration),
            verify=tls_context(configuration) if uses_tls else no_tls_context(),
            trust_env=False,  # as in RestClient: a proxy of this machine is not meant for addresses of a cluster
        )

    def product(self) -> str:
        """Return the name and the version of the gateway. Raise if what answers is none."""
        found = self._ask("GET", "/v1/info")
        return f"{found.get('productName', 'SQL gateway')} {found.get('version', '')}".rstrip()

    def ask(self, method: str, path: str, json: Any = None, **query: str) -> Mapping[str, Any]:
        """Return the answer to a request. ``path`` has no version."""
        if self._version is None:
            self._version = self._best_version()
        return self._ask(method, f"/{self._version}{path}", json, **query)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def _best_version(self) -> str:
        served = self._ask("GET", "/v1/api_versions").get("versions") or ()
        for version in _VERSIONS:
            if version.upper() in served:
                return version
        raise ClusterError(
            f"The gateway at {self.url} serves the versions {', '.join(map(str, served)) or 'none'} of the API; this"
            f" shell needs one of {', '.join(version.upper() for version in reversed(_VERSIONS))}."
        )

    def _ask(self, method: str, path: str, json: Any = None, **query: str) -> Mapping[str, Any]:
        response = self._send(method, path, json, query)
        found = _object_in(response)
        if found is not None and response.status_code < 300 and "errors" not in found:
            return found
        raise ClusterError(self._refusal(response, found, method, path))

    def _send(self, method: str, path: str, json: Any, query: Mapping[str, str]) -> httpx.Response:
        request = self._http.build_request(method, self.url + path, params=dict(query) or None, json=json)
        try:
            try:
                return self._http.send(request)
            except _CUT:
                if method != "GET":
                    raise
                return self._http.send(request)
        except httpx.TimeoutException as error:
            raise UnreachableError(
                f"The SQL gateway at {self.url} did not answer {method} {path} in time. It may be busy, or the address"
                " wrong: see --gateway and flott.rest.answer-timeout."
            ) from error
        except httpx.TransportError as error:
            raise UnreachableError(self._why_unreachable(error)) from error

    def _why_unreachable(self, error: httpx.TransportError) -> str:
        why = str(error).rstrip(".")
        if "certificate" in why.lower() or "ssl" in why.lower():
            return (
                f"The SQL gateway at {self.url} could not be asked by TLS: {why}. See flott.rest.ssl.ca, and"
                " flott.rest.ssl.certificate for mutual TLS; a gateway without TLS is named as http://HOST:PORT."
            )
        if self._version is None:
            tls = " If it speaks TLS, name it as https://HOST:PORT." if isinstance(error, _CUT) else ""
            return (
                f"No SQL gateway answers at {self.url}: {why}.{tls} `flott sql-gateway` starts one; --gateway says"
                " where another one is."
            )
        return (
            f"The SQL gateway at {self.url} does not answer any more: {why}. If it was stopped, its sessions with their"
            " tables and settings have ended: start it again, and then this shell."
        )

    def _refusal(self, response: httpx.Response, found: Mapping[str, Any] | None, method: str, path: str) -> str:
        if response.status_code == httpx.codes.UNAUTHORIZED:
            shown = "another one" if "authorization" in response.request.headers else "none"
            return (
                f"The SQL gateway at {self.url} asks for an access token and was shown {shown}: set flott.rest.token"
                " or flott.rest.token-file."
            )
        errors = (found or {}).get("errors")
        if isinstance(errors, list) and errors:
            return readable_errors([str(error) for error in errors])
        phrase = f"{response.status_code} {response.reason_phrase}".rstrip()
        return f"{self.url} answered {method} {path} with {phrase}, which no SQL gateway does: check --gateway."


class SqlClientSession:
    """A session of a gateway. It stays open until ``close``, because a thread sends heartbeats."""

    def __init__(
        self,
        client: GatewayClient,
        properties: Mapping[str, str],
        clock: Clock | None = None,
        heartbeat_ms: int = HEARTBEAT_MS,
    ):
        self.client = client
        self._clock: Clock = clock or SystemClock()
        opened = client.ask("POST", "/sessions", {"sessionName": "flott sql", "properties": dict(properties)})
        self._path = f"/sessions/{_field(opened, 'sessionHandle', client.url)}"
        self._closed = threading.Event()
        self._heartbeats = threading.Thread(
            target=self._send_heartbeats, args=(heartbeat_ms,), name="flott-gateway-heartbeat", daemon=True
        )
        self._heartbeats.start()

    def properties(self) -> Mapping[str, str]:
        """Return the settings of the session by key."""
        found: Mapping[str, str] = self.client.ask("GET", self._path).get("properties") or {}
        return found

    def start(self, statement: str, row_format: str) -> GatewayOperation:
        """Start a statement."""
        started = self.client.ask("POST", f"{self._path}/statements", {"statement": statement})
        path = f"{self._path}/operations/{_field(started, 'operationHandle', self.client.url)}"
        return GatewayOperation(self.client, path, row_format, self._clock)

    def complete(self, text: str) -> Sequence[str]:
        """Return the words that may stand where a text ends."""
        found = self.client.ask(
            "GET", f"{self._path}/complete-statement", {"statement": text, "position": len(text)}
        ).get("candidates")
        return [str(word) for word in found or ()]

    def close(self) -> None:
        """End the session, if the gateway is still there; its queries end, and jobs of INSERTs continue."""
        self._closed.set()
        with suppress(FlottError):
            self.client.ask("DELETE", self._path)
        self._heartbeats.join()
        self.client.close()

    def _send_heartbeats(self, interval_ms: int) -> None:
        while not self._clock.wait(self._closed, interval_ms):
            with suppress(FlottError):  # the next statement says what is wrong with the gateway
                self.client.ask("POST", f"{self._path}/heartbeat")


class GatewayOperation:
    """A statement that a session runs, and its result. Rows can be read once."""

    def __init__(self, client: GatewayClient, path: str, row_format: str, clock: Clock):
        self._client = client
        self._path = path
        self._row_format = row_format
        self._clock = clock
        self._page = _Page(None, (), 0)

    def await_header(self) -> ResultHeader:
        """Wait until the statement has run, and return what is known of its result. Raise the error of a statement."""
        pauses = Pauses(self._clock, _LONGEST_PAUSE_MS)
        while (header := self._fetch().header) is None:
            pauses.wait()
        return header

    def rows(self) -> Iterator[ChangedRow]:
        """Yield all rows as they come, after ``await_header``."""
        pauses = Pauses(self._clock, _LONGEST_PAUSE_MS)
        while True:
            yield from self._page.rows
            if self._page.next_token is None:
                return
            if self._page.rows:
                pauses.start_again()
            else:
                pauses.wait()
            self._fetch()

    def cancel(self) -> None:
        """End the statement; a query that still gives rows ends too."""
        self._client.ask("POST", f"{self._path}/cancel")

    def close(self) -> None:
        """Have the gateway drop the result, if it is still there."""
        with suppress(FlottError):
            self._client.ask("DELETE", f"{self._path}/close")

    def _fetch(self) -> _Page:
        token = self._page.next_token
        reply = self._client.ask("GET", f"{self._path}/result/{token}", rowFormat=self._row_format)
        self._page = _page_in(reply)
        return self._page


def readable_errors(errors: Sequence[str]) -> str:
    """Return the errors of an answer as a message. Of a Java stack trace, which Flink sends, the last cause remains."""
    traces = [error for error in errors if "\n\tat " in error]
    if not traces:
        return "\n".join(errors)
    lines = [line for line in traces[-1].splitlines() if line.strip() and not line.startswith("\t")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    first = [line for line in lines if not line.startswith("<Exception on server side")][:1]
    message = (causes or first or [traces[-1]])[-1]
    return re.sub(r"^(?:[\w$]+\.)+[\w$]+: ", "", message)


def _page_in(reply: Mapping[str, Any]) -> _Page:
    kind = reply.get("resultType")
    following = str(reply.get("nextResultUri") or "")
    token = re.search(r"/result/(\d+)", following)
    next_token = None if token is None or kind == "EOS" else int(token[1])
    if kind == "NOT_READY":
        return _Page(None, (), next_token or 0)
    results = reply.get("results") or {}
    header = ResultHeader(
        str(reply.get("resultKind") or "SUCCESS_WITH_CONTENT"),
        bool(reply.get("isQueryResult")),
        tuple(ResultColumn(column["name"], column["logicalType"]) for column in results.get("columns") or ()),
        reply.get("jobID"),
    )
    rows = [ChangedRow(row["kind"], row["fields"]) for row in results.get("data") or ()]
    return _Page(header, rows, next_token)


def _object_in(response: httpx.Response) -> Mapping[str, Any] | None:
    """Return the object of an answer; None if there is none. Numbers keep all of their digits."""
    if not response.content:
        return {} if response.status_code < 300 else None
    try:
        found = json.loads(response.content, parse_float=Decimal)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _field(reply: Mapping[str, Any], name: str, url: str) -> str:
    if name not in reply:
        raise ClusterError(f"{url} answered without {name!r}, which no SQL gateway does: check --gateway.")
    return str(reply[name])
