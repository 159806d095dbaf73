"""The HTTP server: uvicorn in a thread with its own event loop. JobManager side."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import threading
from typing import Any

import h11
from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from flott.common import _cluster_options as options
from flott.common.configuration import Configuration
from flott.errors import ClusterError, ConfigurationError
from flott.rest.security import check_exposure

LOG = logging.getLogger("flott.rest")

#: The maximum size of an incomplete request line and headers, in bytes.
MAX_HEAD = 64 * 1024
#: The time within which the headers of a request must arrive, in seconds.
HEADER_TIMEOUT = 30
KEEP_ALIVE = 15
#: The time that running requests have when the server stops, in seconds.
GRACE = 3


class RestServer:
    """Serves an application according to the configuration.

    ``start`` and ``stop`` are called once each, by any thread.
    """

    def __init__(self, app: ASGIApp, configuration: Configuration, listening: socket.socket | None = None):
        """Make a server. ``listening`` replaces the address of the configuration; it is a Unix socket."""
        check_exposure(configuration)
        self._address = configuration.get(options.REST_BIND_ADDRESS)
        self._wanted_port = configuration.get(options.REST_PORT)
        config = Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=GRACE,
            h11_max_incomplete_event_size=MAX_HEAD,
        )
        self.scheme = "http"
        if configuration.get(options.REST_TLS):
            config.load()  # would otherwise set its own SSL context, which is None
            config.ssl = tls_context(configuration)
            self.scheme = "https"
        self._server = _Server(config)
        self._thread = threading.Thread(target=self._run, name="rest", daemon=True)
        self._socket = listening

    def start(self) -> int:
        """Start to listen and serve, and return the port; 0 for a Unix socket."""
        if self._socket is None:
            self._socket = bind(self._address, self._wanted_port)
        self._thread.start()
        self._server.settled.wait()
        if not self._server.started:
            raise ClusterError("The REST server did not start; see its log.")
        place = self._socket.getsockname()
        return int(place[1]) if isinstance(place, tuple) else 0

    def stop(self) -> None:
        """Complete the running requests, then close. Do nothing if the server is not running."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE + 2)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket] if self._socket else None)
        except BaseException:
            LOG.exception("The REST server ended")
        finally:
            self._server.settled.set()


class _Server(Server):
    """A server that sets an event when it has started."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.settled = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.settled.set()


class _Protocol(H11Protocol):
    """Limits the time for headers, and refuses bytes that are not a request with an error in Flink's form."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        before = self.cycle
        super().on_response_complete()  # may start the next request, if that has already arrived
        if self.cycle is before:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"errors": [f"Bad request: {msg}"]}).encode()
        headers = [("content-type", "application/json; charset=UTF-8"), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(HEADER_TIMEOUT, self._give_up, self.cycle)

    def _give_up(self, before: Any) -> None:
        if self.cycle is before:
            self.transport.close()


def bind(address: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = min(found, key=lambda info: info[0] != socket.AF_INET)
        listening = socket.create_server(place[:2], family=family, backlog=512)
        # Every connection inherits TCP_NODELAY. Without it, the body of a response waits for the client's delayed
        # acknowledgement of the head (40 ms). asyncio sets it only for sockets that it created itself.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise ClusterError(
            f"The JobManager cannot listen on {address}:{port}: {error}. Is another one running there? Choose another"
            " port with rest.port (0: any that is free), or end the other (flott cluster stop)."
        ) from error


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """Return the server's TLS context. With mutual TLS, it requests the client's certificate."""
    certificate, key = configuration.get(options.REST_TLS_CERTIFICATE), configuration.get(options.REST_TLS_KEY)
    ca = configuration.get(options.REST_TLS_CA)
    if not certificate or not key:
        raise ConfigurationError("TLS needs flott.rest.ssl.certificate and flott.rest.ssl.key: name the two files.")
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        if configuration.get(options.REST_TLS_MUTUAL):
            if not ca:
                raise ConfigurationError("Mutual TLS needs flott.rest.ssl.ca, which signs the clients' certificates.")
            context.load_verify_locations(ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"The files of flott.rest.ssl.* (certificate {certificate}, key {key}, ca {ca}) cannot be used: {error}."
        ) from error
    return context
