"""A gateway whose sessions run in this process, with a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from flott.common.configuration import Configuration
from flott.rest.gateway.app import create_gateway_app, listening, sessions_of
from flott.rest.gateway.sessions import Sessions
from flott.runtime.clock import SystemClock
from flott.table import EnvironmentSettings, TableEnvironment
from flott.testing.harness import in_process


class Hand(SystemClock):
    """A clock that is set by hand."""

    now = 0

    def now_ms(self) -> int:
        return self.now


@dataclass
class Gateway:
    """A client of a gateway, and what the gateway holds."""

    http: TestClient
    sessions: Sessions
    clock: Hand

    def open(self, **properties: str) -> str:
        """Return the handle of a new session."""
        reply = self.http.post("/v1/sessions", json={"properties": properties})
        assert reply.status_code == 200, reply.text
        handle: str = reply.json()["sessionHandle"]
        return handle

    def run(self, session: str, statement: str, **body: Any) -> str:
        """Start a statement and return the path of its operation."""
        reply = self.http.post(f"/v1/sessions/{session}/statements", json={"statement": statement, **body})
        assert reply.status_code == 200, reply.text
        return f"/v1/sessions/{session}/operations/{reply.json()['operationHandle']}"

    def pages(self, operation: str, row_format: str = "JSON") -> list[dict[str, Any]]:
        """Return all pages of a result, the last of them the end."""
        found, address = [], f"{operation}/result/0"
        while True:
            reply = self.http.get(address, params={"rowFormat": row_format})
            assert reply.status_code == 200, reply.text
            page = reply.json()
            if page["resultType"] != "NOT_READY":
                found.append(page)
            if page["resultType"] == "EOS":
                return found
            address = page["nextResultUri"]

    def rows(self, session: str, statement: str, row_format: str = "JSON") -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        pages = self.pages(self.run(session, statement), row_format)
        return [row for page in pages for row in page["results"]["data"]]

    def values(self, session: str, statement: str) -> list[list[Any]]:
        """Run a statement and return the values of its rows."""
        return [row["fields"] for row in self.rows(session, statement)]

    def failure(self, operation: str) -> tuple[int, list[str]]:
        """Return the status and the errors that end a result."""
        address = f"{operation}/result/0"
        while (reply := self.http.get(address)).status_code == 200:
            assert reply.json()["resultType"] != "EOS", "the statement did not fail"
            address = reply.json()["nextResultUri"]
        return reply.status_code, reply.json()["errors"]


Serve = Callable[..., Gateway]


def environment(properties: Mapping[str, str]) -> TableEnvironment:
    made = TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())
    for key, value in properties.items():
        made.get_config().set(key, value)
    return made


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start gateways with settings."""
    started: list[Gateway] = []

    def make(**settings: object) -> Gateway:
        configuration = Configuration.of(settings)
        clock = Hand()
        sessions = sessions_of(configuration, clock, environment)
        app = create_gateway_app(listening(configuration), sessions)
        http = TestClient(app, base_url="http://localhost:8083", raise_server_exceptions=False)
        gateway = Gateway(http, sessions, clock)
        started.append(gateway)
        return gateway

    yield make
    for gateway in started:
        gateway.sessions.close_all()


@pytest.fixture
def gateway(serve: Serve) -> Gateway:
    return serve()


UNBOUNDED = "CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')"
