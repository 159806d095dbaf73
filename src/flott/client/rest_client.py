"""A client of a JobManager's REST API: finds it, shows the token, waits for a new leader, and raises Flott's errors.

Where the JobManager is, is asked in this order: the leader, with high availability; ``rest.address`` and ``rest.port``
where one of them is set; ``cluster.json`` of the cluster; Flink's usual place, localhost:8081.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import httpx

from flott.client.access import access_headers, no_tls_context, tls_context
from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import (
    ClusterError,
    FlottError,
    JobEndedError,
    JobNotFoundError,
    StorageFullError,
    SubmissionError,
    UnreachableError,
)
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.folders import folder_of
from flott.runtime.jobmanager.running_file import read_running

if TYPE_CHECKING:
    from flott.runtime.jobmanager.leadership.election import Election

#: A JobManager that has never answered is given this long: it may just be starting.
FIRST_PATIENCE_MS = 1000
_RETRY_DELAY_MS = 200

#: A part of a form: its name, the name of the file, and the bytes or a file to read them from.
FormPart = tuple[str, str, bytes | IO[bytes]]

#: What went wrong before the request was sent, so that any request may be sent again.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

#: Errors of a server that answers but does not speak the protocol.
_HUNG_UP = (httpx.RemoteProtocolError, httpx.ReadError)

_STRANGER = "that is no JobManager, or one of another version. Check rest.address and rest.port."


class Answer(dict[str, Any]):
    """An object in an answer. A field that every JobManager sends and that is missing raises ``ClusterError``."""

    def __init__(self, fields: Iterable[tuple[str, Any]], origin: str):
        super().__init__(fields)
        self._origin = origin

    def __missing__(self, field: str) -> Any:
        raise ClusterError(f"{self._origin} without {field!r}: {_STRANGER}")


class RestClient:
    """Asks one cluster. Threads may share it; close it, or use it in a ``with`` statement.

    ``first_patience_ms``: how long a JobManager is waited for that has never answered.
    """

    def __init__(
        self,
        configuration: Configuration,
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Clock | None = None,
        first_patience_ms: int = FIRST_PATIENCE_MS,
    ):
        self._configuration = configuration
        self._first_patience_ms = first_patience_ms
        self._clock: Clock = clock or SystemClock()
        self._answered = False
        self._url: str | None = None
        self._election: Election | None = None  #: finds the leader, with high availability
        timeout = httpx.Timeout(
            configuration.get(options.REST_ANSWER_TIMEOUT) / 1000,
            connect=configuration.get(options.REST_CONNECTION_TIMEOUT) / 1000,
        )
        uses_tls = configuration.get(options.REST_TLS) and transport is None
        # Without TLS no certificate authorities are loaded, because loading them takes longer than all the rest.
        # trust_env: a proxy of this machine is not meant for a cluster's own addresses.
        self._http = httpx.Client(
            transport=transport,
            timeout=timeout,
            headers=access_headers(configuration),
            verify=tls_context(configuration) if uses_tls else no_tls_context(),
            trust_env=False,
        )

    @property
    def url(self) -> str:
        """Return the address of the JobManager, as it was found last."""
        if self._url is None:
            self._url = self._find()
        return self._url

    # -------------------------------------------------------------------------------------------------------- requests

    def get(self, path: str, **query: Any) -> Any:
        """Return the answer to a GET. ``path`` begins with a slash and has no version; None leaves a parameter out."""
        return self._json("GET", path, query)

    def post(self, path: str, json: Any = None, **query: Any) -> Any:
        """Order something."""
        return self._json("POST", path, query, json=json)

    def patch(self, path: str, json: Any = None, **query: Any) -> Any:
        """Change something, in Flink's case: cancel a job."""
        return self._json("PATCH", path, query, json=json)

    def delete(self, path: str, **query: Any) -> Any:
        """Remove something."""
        return self._json("DELETE", path, query)

    def post_form(self, path: str, parts: Sequence[FormPart], headers: Mapping[str, str] | None = None) -> Any:
        """Send files."""
        files = [(name, (file_name, content, "application/octet-stream")) for name, file_name, content in parts]
        for _, _, content in parts:
            if not isinstance(content, bytes):
                content.seek(0)
        return self._json("POST", path, {}, files=files, headers=headers)

    def text(self, path: str, **query: Any) -> str:
        """Return the text of an answer, such as a log."""
        return self._answer("GET", path, query).text

    def text_with_header(self, path: str, header: str, **query: Any) -> tuple[str, str | None]:
        """Return the text of an answer and one of its headers, such as the cursor of a log."""
        response = self._answer("GET", path, query)
        return response.text, response.headers.get(header)

    def content(self, path: str, **query: Any) -> bytes:
        """Return the bytes of an answer."""
        return self._answer("GET", path, query).content

    @contextmanager
    def stream_text(self, path: str, **query: Any) -> Iterator[Iterator[str]]:
        """Yield the text of an answer as it arrives, such as a log that is being written."""
        request = self._request("GET", path, query, timeout=httpx.Timeout(None, connect=self._http.timeout.connect))
        with self._translated(request.method, path):
            response = self._http.send(request, stream=True)
        try:
            if response.status_code >= 300:
                response.read()
                raise _refusal(response, path)
            yield self._pieces(response, path)
        finally:
            response.close()

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()
        if self._election is not None:
            self._election.resign()

    def __enter__(self) -> RestClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --------------------------------------------------------------------------------------------------------- the work

    def _json(self, method: str, path: str, query: Mapping[str, Any], **content: Any) -> Any:
        response = self._answer(method, path, query, **content)
        origin = f"{self.url} answered {method} {path}"
        if not response.content:
            return Answer((), origin)
        try:
            found = json.loads(response.content, object_pairs_hook=lambda fields: Answer(fields, origin))
        except ValueError:
            found = None
        if isinstance(found, Answer) or (isinstance(found, list) and all(isinstance(item, Answer) for item in found)):
            return found
        raise ClusterError(f"{origin} with {response.text[:80]!r}: {_STRANGER}")

    def _answer(self, method: str, path: str, query: Mapping[str, Any], **content: Any) -> httpx.Response:
        """Ask until there is an answer, or patience is at its end."""
        began = self._clock.monotonic()
        while True:
            try:
                with self._translated(method, path):
                    response = self._http.send(self._request(method, path, query, **content))
                    if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                        raise UnreachableError(_message_of(response) or f"{self.url} is not ready yet.")
                break
            except UnreachableError as error:
                waited_ms = (self._clock.monotonic() - began) * 1000
                if not self._may_repeat(method, error, content) or waited_ms >= self._patience_ms():
                    raise
                self._url = None  # it may come back elsewhere
                self._clock.wait(threading.Event(), _RETRY_DELAY_MS)
        self._answered = True
        if response.status_code >= 300 or _is_error(response):
            raise _refusal(response, path)
        return response

    def _request(self, method: str, path: str, query: Mapping[str, Any], **content: Any) -> httpx.Request:
        parameters = {name: _query_text(value) for name, value in query.items() if value is not None}
        if "json" in content and content["json"] is None:
            del content["json"]
        return self._http.build_request(method, f"{self.url}/v1{path}", params=parameters or None, **content)

    def _pieces(self, response: httpx.Response, path: str) -> Iterator[str]:
        with self._translated("GET", path):
            yield from response.iter_text()

    def _may_repeat(self, method: str, error: UnreachableError, content: Mapping[str, Any]) -> bool:
        if "files" in content:
            return False  # the files were read already; the sender of a job checks whether it arrived
        return method == "GET" or isinstance(error.__cause__, _NOT_SENT) or error.__cause__ is None

    def _patience_ms(self) -> int:
        if self._answered or _is_highly_available(self._configuration):
            return self._configuration.get(options.REST_AWAIT_LEADER)
        return self._first_patience_ms

    @contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as error:
            raise UnreachableError(
                f"The JobManager at {self.url} did not answer {method} {path} in time. It may be busy, or the address"
                " wrong: see rest.address, rest.port and flott.rest.answer-timeout."
            ) from error
        except httpx.TransportError as error:
            raise UnreachableError(self._why_unreachable(error)) from error

    def _why_unreachable(self, error: httpx.TransportError) -> str:
        if "certificate" in str(error).lower() or "ssl" in str(error).lower():
            return (
                f"The JobManager at {self.url} could not be asked by TLS: {error}. See security.ssl.rest.enabled and"
                " flott.rest.ssl.ca, and flott.rest.ssl.certificate for mutual TLS."
            )
        why = str(error).rstrip(".")
        announced = read_running(folder_of(self._configuration))
        if announced is not None and announced.url.rstrip("/") == self.url:
            return (
                f"The JobManager of this cluster (process {announced.pid}) does not answer at {self.url}: {why}. If"
                " it was killed, `flott cluster start` starts another one, which continues its jobs."
            )
        if isinstance(error, _HUNG_UP) and not self._answered and self.url.startswith("http:"):
            return (
                f"What answers at {self.url} speaks no HTTP: {why}. If it speaks TLS, name it as https://HOST:PORT or"
                " set security.ssl.rest.enabled; if it is no JobManager, check rest.address and rest.port."
            )
        return (
            f"No JobManager answers at {self.url}: {why}. `flott cluster start` starts one on this machine;"
            " rest.address and rest.port say where another one is."
        )

    # ------------------------------------------------------------------------------------------------------ where it is

    def _find(self) -> str:
        configuration = self._configuration
        if _is_highly_available(configuration):
            return self._leader()
        named = configuration.contains(options.REST_ADDRESS) or configuration.contains(options.REST_PORT)
        if not named or configuration.get(options.REST_PORT) == 0:  # any port: only the JobManager knows which
            announced = read_running(folder_of(configuration))
            if announced is not None:
                return announced.url.rstrip("/")
        scheme = "https" if configuration.get(options.REST_TLS) else "http"
        return f"{scheme}://{_host(configuration.get(options.REST_ADDRESS))}:{configuration.get(options.REST_PORT)}"

    def _leader(self) -> str:
        from flott.runtime.jobmanager.leadership.election import make_election

        if self._election is None:
            self._election = make_election(self._configuration)
        began = self._clock.monotonic()
        patience = self._configuration.get(options.REST_AWAIT_LEADER)
        while (leader := self._election.leader()) is None:
            if (self._clock.monotonic() - began) * 1000 >= patience:
                raise UnreachableError(
                    f"The cluster {self._configuration.get(options.CLUSTER_ID)!r} has no leading JobManager: start"
                    " one with `flott cluster start`, or check the options high-availability.*."
                )
            self._clock.wait(threading.Event(), _RETRY_DELAY_MS)
        return str(leader.address).rstrip("/")


# --- the configuration's part ----------------------------------------------------------------------------------------


def _is_highly_available(configuration: Configuration) -> bool:
    return configuration.get(options.HA_TYPE) != "none"


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address


# --- answers that are refusals ---------------------------------------------------------------------------------------


def _is_error(response: httpx.Response) -> bool:
    """Return whether an answer has the shape of an error: an object with the one key ``errors``, as in Flink."""
    if not response.content.startswith(b'{"errors"'):
        return False
    try:
        found = response.json()
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == {"errors"}


def _message_of(response: httpx.Response) -> str:
    try:
        errors = response.json()["errors"]
        return "\n".join(str(error) for error in errors)
    except (ValueError, LookupError, TypeError):
        return ""


def _refusal(response: httpx.Response, path: str) -> FlottError:
    status, request = response.status_code, response.request
    message = _message_of(response)
    if status == httpx.codes.UNAUTHORIZED:
        shown = "another one" if "authorization" in request.headers else "none"
        return ClusterError(
            f"{_origin_of(request.url)} asks for the cluster's token and was shown {shown}: set flott.rest.token or"
            " flott.rest.token-file."
        )
    if not message:
        phrase = f"{status} {response.reason_phrase}".rstrip()
        return ClusterError(f"{_origin_of(request.url)} answered {request.method} {path} with {phrase}: {_STRANGER}")
    if status == httpx.codes.NOT_FOUND:
        job = re.match(r"/jobs/([0-9a-f]{32})\b", path)
        if job is not None and job[1] in message:
            return JobNotFoundError(message)
    if status == httpx.codes.CONFLICT:
        return JobEndedError(message)
    if path == "/jobs" and status in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE):
        return SubmissionError(message)
    if status == httpx.codes.INSUFFICIENT_STORAGE:
        return StorageFullError(message)
    return ClusterError(message)


def _origin_of(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"


def _query_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
