"""HTTP to the nodes of a cluster, with connections that are kept between epochs. Driver and task side."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import httpx

from flott.common._secrets import without_secrets
from flott.datastream.connectors.elasticsearch import ElasticsearchSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.stores.actions import Unavailable
from flott.runtime.connectors.stores.http_answers import PASSING_STATUS, retry_after_ms

_log = logging.getLogger(__name__)
_POOL: ClientPool[httpx.Client] = ClientPool("elasticsearch")
_SHOWN = 500


class TooLarge(Exception):
    """The server does not accept a request of this size."""


class Cluster:
    """Sends requests to one node, and to the next one after a failure."""

    def __init__(self, sink: ElasticsearchSink):
        self._sink = sink
        self._node = 0
        self.name = f"Elasticsearch at {sink.hosts[0]}"

    def bulk(self, body: bytes) -> list[dict[str, Any]]:
        """Send a bulk request; return the answers to its actions."""
        response = self._request("POST", "/_bulk", body)
        if response.status_code == 413:
            raise TooLarge
        self._check(response)
        answer = response.json()
        return [next(iter(item.values())) for item in answer["items"]]

    def check(self) -> None:
        """Ask for something harmless. Raises if the cluster does not answer, or not to this user."""
        self._check(self._request("GET", "/", None))

    def _request(self, method: str, path: str, body: bytes | None) -> httpx.Response:
        host = self._sink.hosts[self._node % len(self._sink.hosts)]
        headers = {"content-type": "application/x-ndjson"} if body is not None else {}
        if self._sink.api_key is not None:
            headers["authorization"] = f"ApiKey {self._sink.api_key}"
        try:
            with _POOL.borrow(self._key(), self._connect, httpx.Client.close) as client:
                return client.request(method, host + self._sink.path_prefix + path, content=body, headers=headers)
        except httpx.HTTPError as error:
            self._node += 1
            reason = without_secrets(f"{type(error).__name__}: {error}", self._sink.password, self._sink.api_key)
            raise Unavailable(f"{host} does not answer ({reason})") from error

    def _check(self, response: httpx.Response) -> None:
        status = response.status_code
        if status < 300:
            return
        if status in PASSING_STATUS:
            self._node += 1
            raise Unavailable(f"HTTP {status}: {_reason(response)}", retry_after_ms(response.headers))
        if status in (401, 403):
            raise RefusedLogin(
                f"{self.name} does not accept the user, the password or the API key (HTTP {status}), or the user may"
                " not do this. Correct the settings of the sink's connection, or the user's permissions."
            )
        raise ConnectorError(f"{self.name} refused a request (HTTP {status}): {_reason(response)}")

    def _connect(self) -> httpx.Client:
        sink = self._sink
        login = None if sink.username is None or sink.password is None else (sink.username, sink.password)
        connect, read = sink.connection_timeout_ms / 1000, sink.socket_timeout_ms / 1000
        return httpx.Client(
            auth=login,
            timeout=httpx.Timeout(read, connect=connect),
            verify=True if sink.certificate_authority is None else _trusting(sink.certificate_authority),
            trust_env=False,
        )

    def _key(self) -> tuple[Any, ...]:
        sink = self._sink
        timeouts = (sink.connection_timeout_ms, sink.socket_timeout_ms)
        return (sink.hosts, sink.username, sink.password, sink.certificate_authority, timeouts)


class RefusedLogin(ConnectorError):
    """The cluster does not accept the login. In a running job it may have expired, so a restart may help."""


def check_connection(sink: ElasticsearchSink) -> None:
    """Raise ``ProgramError`` for a wrong login. A cluster that does not answer may be back when the job needs it."""
    try:
        Cluster(sink).check()
    except RefusedLogin as error:
        raise ProgramError(str(error)) from None
    except (Unavailable, ConnectorError) as error:
        _log.warning("Elasticsearch at %s does not answer yet: %s", sink.hosts[0], error)


def _trusting(path: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise ProgramError(f"The certificate {path} cannot be read: {error}.") from error
    return context


def _reason(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
        return str(error["reason"] if isinstance(error, dict) else error)[:_SHOWN]
    except (ValueError, KeyError, TypeError):
        return response.text[:_SHOWN]
