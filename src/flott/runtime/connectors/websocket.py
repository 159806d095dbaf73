"""Reads messages from a websocket. Driver side."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.websocket import WebSocketSource
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.pushed.stream import Pushed, PushedStream, StreamEnded

_PING_SECONDS = 20.0


class WebSocketStream(PushedStream):
    """One connection. The client library answers pings, and sends some to notice that the server is gone."""

    def __init__(self, source: WebSocketSource):
        self._source = source
        self._known = require("websockets.exceptions", extra="websocket")
        self._connection: Any = None
        self._closing = ExitStack()

    def open(self, resume: str | None) -> None:
        source, known = self._source, self._known
        seconds = source.timeout_ms / 1000
        try:
            connecting = require("websockets.sync.client", extra="websocket").connect(
                source.url,
                additional_headers=dict(source.headers),
                open_timeout=seconds,
                close_timeout=2,
                max_size=source.max_message_bytes,
                **_keepalive(seconds),
            )
            self._connection = self._closing.enter_context(connecting)
            for message in source.messages_on_open:
                self._connection.send(message)
        except known.InvalidURI as error:
            raise ProgramError(f"The URL of the {source.label} cannot be used.") from error
        except known.InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise ProgramError(
                    f"The server of the {source.label} refuses access (HTTP {status}). Give the source the headers"
                    " that it wants, such as Authorization."
                ) from None
            raise ConnectorError(f"The server of the {source.label} answered HTTP {status}.") from error
        except (known.WebSocketException, OSError, TimeoutError) as error:
            reason = without_secrets(f"{type(error).__name__}: {error}")
            raise ConnectorError(f"The {source.label} does not answer: {reason}") from error

    def receive(self) -> list[Pushed]:
        found: list[Pushed] = []
        try:
            message = self._connection.recv()
            while True:
                found.append(Pushed(message.encode() if isinstance(message, str) else message))
                message = self._connection.recv(timeout=0)
        except TimeoutError:
            return found
        except self._known.ConnectionClosedOK as closed:
            if found:
                return found
            if self._source.reconnects:
                raise ConnectorError("the server has closed the connection") from closed
            raise StreamEnded from closed
        except (self._known.WebSocketException, OSError) as error:
            if found:
                return found
            raise ConnectorError(without_secrets(f"{type(error).__name__}: {error}")) from error

    def abort(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(Exception):
            self._closing.close()


def _keepalive(seconds: float) -> dict[str, float]:
    """Return the settings of pings, which the synchronous client has since version 15."""
    version = int(require("websockets.version", extra="websocket").version.split(".")[0])
    return {"ping_interval": _PING_SECONDS, "ping_timeout": seconds} if version >= 15 else {}
