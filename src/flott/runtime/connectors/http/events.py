"""Reads a stream of Server-Sent Events. Driver side."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from flott.common._secrets import without_secrets
from flott.datastream.connectors.http import ServerSentEventsSource
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.pushed.stream import Pushed, PushedStream, StreamEnded

_EVENTS = "text/event-stream"


@dataclass
class EventParser:
    """Turns lines into events, as the WHATWG's HTML standard defines them.

    >>> parser = EventParser()
    >>> parser.feed(b"id: 7\\nevent: price\\ndata: 1\\ndata: 2\\n\\n: comment\\ndata: x")
    [('price', '7', '1\\n2')]
    >>> parser.feed(b"y\\r\\n\\r\\n")
    [('message', '7', 'xy')]
    """

    last_id: str | None = None
    retry_ms: int | None = None
    _rest: bytes = b""
    _event: str = ""
    _data: list[str] = field(default_factory=list)
    _beginning: bool = True

    def feed(self, chunk: bytes) -> list[tuple[str, str | None, str]]:
        """Take bytes; return the events that are complete: their types, ids and data."""
        events: list[tuple[str, str | None, str]] = []
        for line in self._lines(chunk):
            if line:
                self._take(line)
                continue
            if self._data:
                events.append((self._event or "message", self.last_id, "\n".join(self._data)))
            self._event, self._data = "", []
        return events

    def _lines(self, chunk: bytes) -> list[str]:
        """Split at CR LF, LF and CR; a CR at the end may be half of a CR LF, so it waits."""
        text = self._rest + chunk
        held = text.endswith(b"\r")
        *lines, self._rest = (text[:-1] if held else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if held:
            self._rest += b"\r"
        decoded = [line.decode("utf-8", "replace") for line in lines]
        if self._beginning and decoded:
            decoded[0] = decoded[0].removeprefix("\ufeff")
            self._beginning = False
        return decoded

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = int(value)


class EventStream(PushedStream):
    """One connection to a server of events."""

    def __init__(self, source: ServerSentEventsSource):
        self._source = source
        self._client: httpx.Client | None = None
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._parser = EventParser()

    def open(self, resume: str | None) -> None:
        source = self._source
        seconds = source.timeout_ms / 1000
        headers = {"accept": _EVENTS, "cache-control": "no-store", **source.headers}
        if resume is not None:
            headers["last-event-id"] = resume
        self._parser = EventParser(last_id=resume)
        timeout = httpx.Timeout(seconds, read=max(seconds, source.idle_timeout_ms / 1000))
        self._client = httpx.Client(timeout=timeout, follow_redirects=True, trust_env=False)
        try:
            request = self._client.build_request("GET", source.url, headers=headers)
            self._response = self._client.send(request, stream=True)
        except httpx.InvalidURL as error:
            raise ProgramError(f"The URL of the {source.label} cannot be used: {error}.") from error
        except httpx.HTTPError as error:
            raise ConnectorError(f"The {source.label} do not answer: {_told(error)}") from error
        self._check(self._response)
        self._chunks = self._response.iter_bytes()

    def receive(self) -> list[Pushed]:
        try:
            chunk = next(self._chunks, None)
        except httpx.ReadTimeout as error:
            limit = self._source.idle_timeout_ms / 1000
            raise ConnectorError(f"nothing came for {limit:g} s") from error
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise ConnectorError(_told(error)) from error
        if chunk is None:
            raise ConnectorError("the server has closed the connection")
        types = self._source.event_types
        return [
            Pushed(data.encode(), ident)
            for kind, ident, data in self._parser.feed(chunk)
            if types is None or kind in types
        ]

    @property
    def reconnect_ms(self) -> int | None:
        return self._parser.retry_ms

    def abort(self) -> None:
        if self._response is not None:
            network: Any = self._response.extensions.get("network_stream")
            raw = None if network is None else network.get_extra_info("socket")
            if raw is not None:
                with suppress(OSError):
                    raw.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(Exception):
            if self._response is not None:
                self._response.close()
        if self._client is not None:
            self._client.close()

    def _check(self, response: httpx.Response) -> None:
        status, label = response.status_code, self._source.label
        if status == 204:
            raise StreamEnded  # so says the standard: the client is not to connect again
        if status in (401, 403):
            raise ProgramError(
                f"The server of the {label} refuses access (HTTP {status}). Give the source the headers that it wants,"
                " such as Authorization."
            )
        if status in (404, 405, 410):
            raise ProgramError(f"There are no {label} (HTTP {status}). Correct the URL.")
        if status != 200:
            raise ConnectorError(f"The server of the {label} answered HTTP {status}.")
        content = response.headers.get("content-type", "")
        if not content.startswith(_EVENTS):
            raise ProgramError(f"The server of the {label} sent {content!r}, expected {_EVENTS}. Correct the URL.")


def _told(error: Exception) -> str:
    return without_secrets(f"{type(error).__name__}: {error}")
