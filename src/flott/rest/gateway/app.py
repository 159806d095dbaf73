"""The ASGI application of the SQL gateway, and the process that serves it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request

from flott.common import _cluster_options as options
from flott.common.config_options import ConfigOption
from flott.common.configuration import Configuration
from flott.errors import ClusterError
from flott.rest.app import EndpointHandler, Routes, path_segments
from flott.rest.endpoint import Endpoint
from flott.rest.gateway.endpoints import ENDPOINTS, GatewayCall
from flott.rest.gateway.messages import VERSIONS
from flott.rest.gateway.sessions import EnvironmentFactory, Sessions
from flott.rest.http_server import RestServer
from flott.runtime.clock import Clock, SystemClock
from flott.table.environment_settings import EnvironmentSettings
from flott.table.table_environment import TableEnvironment


class GatewayHandler(EndpointHandler):
    """Serves sessions."""

    def __init__(self, configuration: Configuration, sessions: Sessions, table: Sequence[Endpoint], root: str):
        super().__init__(configuration, Routes.of(table))
        self._sessions = sessions
        self._root = root

    def segments(self, request: Request) -> list[str]:
        segments = path_segments(request.scope)
        return segments[1:] if segments[:1] and segments[0] in VERSIONS else segments

    def make_call(
        self, request: Request, endpoint: Endpoint, path: Mapping[str, Any], query: Mapping[str, Any], body: Any
    ) -> GatewayCall:
        first = path_segments(request.scope)[0]
        version = first if first in VERSIONS else VERSIONS[-1]
        return GatewayCall(self._sessions, version, self._root, path, query, body)


def create_gateway_app(
    configuration: Configuration, sessions: Sessions, table: Sequence[Endpoint] = ENDPOINTS, root: str = ""
) -> Starlette:
    """Return the application that serves these sessions. ``root`` begins the addresses in its replies."""
    app = Starlette()
    app.router.default = GatewayHandler(configuration, sessions, table, root)
    return app


def sessions_of(
    configuration: Configuration,
    clock: Clock,
    make_environment: EnvironmentFactory | None = None,
    limit: ConfigOption[int] = options.GATEWAY_MAX_SESSIONS,
    on_query: Callable[[str], None] = lambda job_id: None,
) -> Sessions:
    """Return the registry of sessions according to the configuration. ``limit`` is the option of their number."""
    return Sessions(
        make_environment or environments_of(configuration),
        clock,
        configuration.get(options.GATEWAY_IDLE_TIMEOUT),
        configuration.get(limit),
        configuration.get(options.GATEWAY_MAX_STATEMENTS),
        limit.key,
        on_query,
    )


def environments_of(configuration: Configuration) -> EnvironmentFactory:
    """Return what makes the environments of sessions: their properties override the configuration."""

    def make(properties: Mapping[str, str]) -> TableEnvironment:
        own = Configuration(configuration)
        for key, value in properties.items():
            own.set_string(key, value)
        settings = EnvironmentSettings.new_instance().with_configuration(own)
        batch = own.get_string("execution.runtime-mode", "streaming").lower() == "batch"
        return TableEnvironment.create((settings.in_batch_mode() if batch else settings.in_streaming_mode()).build())

    return make


class SqlGateway:
    """Serves sessions over HTTP until it is stopped, and ends those that are not used."""

    def __init__(self, configuration: Configuration, clock: Clock | None = None):
        self._clock = clock or SystemClock()
        self._sessions = sessions_of(configuration, self._clock)
        self._interval_ms = configuration.get(options.GATEWAY_CHECK_INTERVAL)
        self._address = configuration.get(options.GATEWAY_ADDRESS)
        self._port = configuration.get(options.GATEWAY_PORT)
        own = listening(configuration)
        self._server = RestServer(create_gateway_app(own, self._sessions), own)
        self._stop = threading.Event()

    def start(self) -> str:
        """Start to serve, and return the address."""
        try:
            port = self._server.start()
        except ClusterError as error:
            raise ClusterError(
                f"The SQL gateway cannot listen on {self._address}:{self._port}: {error.__cause__ or error}. Choose"
                " another port with --port (0: any that is free)."
            ) from error
        return f"{self._server.scheme}://{self._address}:{port}"

    def run(self) -> None:
        """Wait until ``stop``, and end idle sessions meanwhile."""
        try:
            while not self._clock.wait(self._stop, self._interval_ms):
                self._sessions.expire()
        finally:
            self._server.stop()
            self._sessions.close_all()

    def stop(self) -> None:
        """Have ``run`` return, from any thread or a signal handler."""
        self._stop.set()


def listening(configuration: Configuration) -> Configuration:
    """Return the configuration of the gateway's server: that of REST, at the gateway's own address."""
    own = Configuration(configuration)
    address = configuration.get(options.GATEWAY_ADDRESS)
    own.set_string(options.REST_ADDRESS.key, address)
    own.set_string(options.REST_BIND_ADDRESS.key, address)
    own.set_string(options.REST_PORT.key, str(configuration.get(options.GATEWAY_PORT)))
    return own
