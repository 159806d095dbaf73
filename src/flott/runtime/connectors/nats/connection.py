"""A connection to NATS that is used by ordinary calls, though its library is asynchronous. Driver and task side."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.nats import NatsConnectionOptions
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.runtime.connectors.client_pool import ClientPool

R = TypeVar("R")


class NatsConnection:
    """One connection with an event loop in a thread of its own. After an error it is closed."""

    def __init__(self, options: NatsConnectionOptions):
        self._options = options
        self._library = require("nats", extra="nats")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flott-nats", daemon=True)
        self._thread.start()
        self.client: Any = None
        self.stream: Any = None  #: the context of JetStream
        try:
            self.call(self._connect(), "connecting")
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        options = self._options
        settings: dict[str, Any] = {
            "allow_reconnect": False,  # the user of the connection makes another one
            "connect_timeout": options.timeout_seconds,
            "error_cb": _ignore,
            "ping_interval": 10,
        }
        for name, value in (("user", options.user), ("password", options.password), ("token", options.token)):
            if value is not None:
                settings[name] = value
        if options.credentials_file is not None:
            settings["user_credentials"] = options.credentials_file
        if options.tls_ca_location is not None:
            settings["tls"] = ssl.create_default_context(cafile=options.tls_ca_location)
        servers = [options.servers] if isinstance(options.servers, str) else list(options.servers)
        self.client = await self._library.connect(servers, **settings)
        self.stream = self.client.jetstream(timeout=options.timeout_seconds)

    def call(self, coroutine: Coroutine[Any, Any, R], doing: str, seconds: float | None = None) -> R:
        """Run a coroutine in the connection's thread and return its result. Errors become those of Flott."""
        limit = seconds if seconds is not None else 3 * self._options.timeout_seconds
        waiting = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return waiting.result(limit)
        except FlottError:
            raise
        except Exception as error:
            waiting.cancel()
            raise self._explain(error, doing, limit) from None

    def _explain(self, error: Exception, doing: str, limit: float) -> FlottError:
        options = self._options
        where = f"NATS at {without_secrets(str(options.servers))}, {doing}"
        text = without_secrets(str(error) or type(error).__name__, options.password, options.token)
        name = type(error).__name__
        if name == "AuthorizationError" or "uthoriz" in text or "uthenticat" in text:
            return ProgramError(f"{where}: refused ({text}). Check user, password, token or credentials.")
        if name == "NotFoundError":
            return ProgramError(f"{where}: not found ({text}). Create the stream first.")
        if isinstance(error, TimeoutError) or "imeout" in name:
            return ConnectorError(
                f"{where}: no answer within {limit:g} s. Check that it runs with JetStream."
            )
        if name == "NoServersError":
            return ConnectorError(
                f"{where}: no server can be reached. Check that it runs, and the address."
            )
        return ConnectorError(f"{where}: {name}: {text}.")

    def close(self) -> None:
        """End the connection and its thread."""
        if self._loop.is_closed():
            return
        if self.client is not None:
            closing = asyncio.run_coroutine_threadsafe(self.client.close(), self._loop)
            try:
                closing.result(5)
            except Exception:
                closing.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


#: Connections that are kept between epochs.
POOL: ClientPool[NatsConnection] = ClientPool("NATS")


async def _ignore(error: Exception) -> None:
    """Do nothing: errors are raised by the calls they belong to."""
