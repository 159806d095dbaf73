"""Reads lines from a socket (driver side) and writes lines to one (task side)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from flott.datastream.connectors.base import Json, SinkWriter, WriterContext
from flott.datastream.connectors.socket import SocketTextSink, SocketTextSource
from flott.errors import ConnectorError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.pushed.stream import Pushed, PushedStream, StreamEnded

_CHUNK = 65536
_POOL: ClientPool[socket.socket] = ClientPool("socket")


class LineStream(PushedStream):
    """One connection to a server of lines."""

    def __init__(self, source: SocketTextSource):
        self._source = source
        self._delimiter = source.delimiter.encode()
        self._socket: socket.socket | None = None
        self._rest = b""
        self._closed_by_server = False

    def open(self, resume: str | None) -> None:
        source = self._source
        try:
            found = socket.create_connection((source.host, source.port), source.connect_timeout_ms / 1000)
        except OSError as error:
            raise ConnectorError(f"{source.label} does not answer: {error}") from error
        found.settimeout(None)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = found

    def receive(self) -> list[Pushed]:
        assert self._socket is not None
        if self._closed_by_server:
            if not self._source.reconnects:
                raise StreamEnded
            raise ConnectorError("the server has closed the connection")
        try:
            chunk = self._socket.recv(_CHUNK)
        except OSError as error:
            raise ConnectorError(f"{type(error).__name__}: {error}") from error
        if not chunk:
            self._closed_by_server = True
            last, self._rest = self._rest, b""
            return [Pushed(last)] if last else []
        *lines, self._rest = (self._rest + chunk).split(self._delimiter)
        if self._source.delimiter == "\n":
            lines = [line.removesuffix(b"\r") for line in lines]
        return [Pushed(line) for line in lines]

    def abort(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


class LineWriter(SinkWriter[Any]):
    """Writes lines. A connection is kept between epochs."""

    def __init__(self, sink: SocketTextSink, context: WriterContext, clock: Clock | None = None):
        self._sink = sink
        self._clock = clock or SystemClock()
        self._random = Random(context.attempt_id)
        self._key = (sink.host, sink.port, sink.timeout_ms)
        self._socket: socket.socket | None = None
        self._whole = False

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        delimiter = self._sink.delimiter.encode()
        data = b"".join([raw + delimiter for raw in self._sink.serializer.serialize_batch(values)])
        retries, attempts = self._sink.retries, 0
        while True:
            attempts += 1
            try:
                if self._socket is None:
                    self._socket = _POOL.take(self._key, self._connect)
                    _check_alive(self._socket)
                self._socket.sendall(data)
                return
            except OSError as error:
                if self._socket is not None:
                    self._socket.close()
                    self._socket = None
                if attempts >= retries.max_attempts:
                    raise ConnectorError(
                        f"The server at {self._sink.host}:{self._sink.port} did not take data in {attempts} attempts:"
                        f" {type(error).__name__}: {error}. Is it running?"
                    ) from error
            self._clock.wait(threading.Event(), retries.delay_ms(attempts, self._random.random()))

    def prepare_commit(self) -> list[Json]:
        self._whole = True
        return []

    def close(self) -> None:
        found, self._socket = self._socket, None
        if found is not None:
            if self._whole:
                _POOL.give_back(self._key, found, socket.socket.close)
            else:
                found.close()

    def _connect(self) -> socket.socket:
        return socket.create_connection((self._sink.host, self._sink.port), self._sink.timeout_ms / 1000)


def _check_alive(found: socket.socket) -> None:
    """Raise if the server has closed a connection that was kept: what is written to it would be lost silently."""
    timeout = found.gettimeout()
    found.setblocking(False)
    try:
        if found.recv(1, socket.MSG_PEEK) == b"":
            raise ConnectionResetError("the server has closed the connection")
    except BlockingIOError:
        pass
    finally:
        found.settimeout(timeout)
