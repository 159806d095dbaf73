"""The source of websocket messages, against a server of the same library in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flott.common import WatermarkStrategy
from flott.common.serialization import ByteArraySchema
from flott.datastream.connectors.base import SliceRequest
from flott.datastream.connectors.websocket import WebSocketSource
from flott.errors import ConnectorError, ProgramError
from flott.testing.harness import collect, in_process

pytestmark = pytest.mark.connectors
NO_TIME = WatermarkStrategy.no_watermarks()
serve = pytest.importorskip("websockets.sync.server").serve


@contextmanager
def feed(handler: Callable[[Any], None], **settings: Any) -> Iterator[str]:
    with serve(handler, "127.0.0.1", 0, **settings) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/feed"
        server.shutdown()


def test_messages_are_records_after_a_subscription_and_the_source_ends_when_the_server_closes():
    def handler(connection: Any) -> None:
        topic = connection.recv()
        for number in range(50):
            connection.send(f"{topic} {number} {connection.request.headers['x-key']}")

    with feed(handler) as url:
        source = WebSocketSource(url, {"x-key": "secret-key"}, messages_on_open=("trades",))
        found = collect(in_process(1).from_source(source, NO_TIME, "trades"))
    assert found == [f"trades {number} secret-key" for number in range(50)]
    assert "secret-key" not in repr(source)


def test_binary_messages_travel_as_they_are():
    with feed(lambda connection: connection.send(b"\xff\x00")) as url:
        source = WebSocketSource(url, deserializer=ByteArraySchema())
        assert collect(in_process(1).from_source(source, NO_TIME, "bytes")) == [b"\xff\x00"]


def test_a_connection_that_breaks_is_made_again():
    connections: list[Any] = []

    def handler(connection: Any) -> None:
        connections.append(connection)
        connection.send(f"{len(connections)}")
        if len(connections) == 1:
            connection.socket.close()

    with feed(handler) as url:
        found = collect(in_process(1).from_source(WebSocketSource(url), NO_TIME, "numbers"))
    assert found[-1] == "2"


def test_a_server_that_refuses_or_is_away_is_named_without_the_password():
    def refuse(connection: Any, request: Any) -> Any:
        return connection.respond(401, "no")

    with feed(lambda connection: None, process_request=refuse) as url:
        enumerator = WebSocketSource(url).create_enumerator()
        with pytest.raises(ProgramError, match="refuses access"):
            enumerator.plan(SliceRequest(10, 1, 0))
        enumerator.close()
    away = WebSocketSource("ws://user:hidden@127.0.0.1:1").create_enumerator()
    with pytest.raises(ConnectorError, match="does not answer") as error:
        away.plan(SliceRequest(10, 1, 0))
    assert "hidden" not in str(error.value)
    with pytest.raises(ProgramError, match="begins with ws://"):
        WebSocketSource("http://a")
