"""The source of Server-Sent Events. The server is one in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import WatermarkStrategy
from flott.datastream.connectors.base import OnError, SliceRequest, Source
from flott.datastream.connectors.http import ServerSentEventsSource
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.http.events import EventParser
from flott.testing.connectors import SourceConformance
from flott.testing.harness import collect, in_process
from tests.connectors.http.serving import serving

STREAM = (
    b"\xef\xbb\xbfretry: 7\r\n: hello\r\nid: 1\ndata: a\n\n"
    b"event: price\rdata: b\rdata:  c\r\r"
    b"id\nunknown: x\ndata\n\n"
    b"event: no data\n\ndata: \xc3\xa4\n\ndata: incomplete"
)
EVENTS = [("message", "1", "a"), ("price", "1", "b\n c"), ("message", "", ""), ("message", "", "ä")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]):
    parser, edges = EventParser(), [0, *sorted(cuts), len(STREAM)]
    found = [event for start, stop in pairwise(edges) for event in parser.feed(STREAM[start:stop])]
    assert found == EVENTS
    assert parser.retry_ms == 7


@contextmanager
def history(events: list[bytes], per_connection: int = 1000) -> Iterator[tuple[str, list[str | None]]]:
    """Serve events with the ids 0, 1, … from where the client wants them, some in each connection, then be silent."""
    asked: list[str | None] = []
    closing = threading.Event()

    class Events(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            last = self.headers.get("last-event-id")
            asked.append(last)
            start = 0 if last is None else int(last) + 1
            self.send_response(200)
            self.send_header("content-type", "text/event-stream; charset=utf-8")
            self.end_headers()
            for ident in range(start, min(start + per_connection, len(events))):
                self.wfile.write(b"retry: 1\nid: %d\ndata: %s\n\n" % (ident, events[ident]))
            if start + per_connection >= len(events):
                closing.wait(120)

    with serving(Events) as address:
        try:
            yield f"http://{address}/events", asked
        finally:
            closing.set()


class TestEventsConformance(SourceConformance):
    secrets = ("hidden-token",)

    @pytest.fixture(autouse=True)
    def _servers(self) -> Iterator[None]:
        self.open: list[Any] = []
        yield
        for server in self.open:
            server.__exit__(None, None, None)

    def source(self, count: int) -> Source[Any]:
        return self.bad_source(count, frozenset(), OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        values = [b"%d" % number for number in range(count)]
        server = history(values, per_connection=17)
        self.open.append(server)
        url, _ = server.__enter__()
        return ServerSentEventsSource(
            url, {"authorization": "hidden-token"}, on_error=on_error, deserializer=_Numbers(bad)
        )


class _Numbers:
    """Numbers, some of which it refuses."""

    returns_lists = False

    def __init__(self, bad: frozenset[int]):
        self.bad = bad

    def deserialize(self, message: bytes) -> int:
        if int(message) in self.bad:
            raise ValueError("a bad number")
        return int(message)

    def deserialize_batch(self, messages: list[bytes]) -> list[int]:
        return [self.deserialize(message) for message in messages]


def plan_until(enumerator: Any, count: int) -> Any:
    """Ask for plans until so many messages are there."""
    clock = threading.Event()
    while True:
        plan = enumerator.plan(SliceRequest(1000, 1, 0))
        if sum(part.records or 0 for part in plan.slices) >= count or plan.finished:
            return plan
        clock.wait(0.005)


def test_after_a_restart_it_asks_for_what_comes_after_the_plan_that_was_repeated():
    with history([b"a", b"b", b"c"], per_connection=2) as (url, asked):
        source = ServerSentEventsSource(url)
        first = source.create_enumerator()
        state = first.snapshot()
        plan = plan_until(first, 2)
        first.close()  # the process dies: the plan is durable, and the state does not know it
        asked.clear()
        second = source.create_enumerator()
        second.open()
        second.restore(state)
        second.advance(plan, {})
        later = plan_until(second, 1)
        second.close()
    assert asked[0] is not None
    assert int(asked[0]) >= 1
    assert [text for part in later.slices for text in part.detail["messages"]][-1] == "c"


def test_a_job_reads_until_the_server_says_that_there_is_no_more():
    class Ends(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("last-event-id") == "2":
                self.send_response(204)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"retry: 1\nid: 1\nevent: noise\ndata: x\n\nid: 2\nevent: price\ndata: 3\n\n")

    with serving(Ends) as address:
        env = in_process(1)
        source = ServerSentEventsSource(f"http://{address}", event_types=frozenset({"price"}))
        assert collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "prices")) == ["3"]


@pytest.mark.parametrize(
    ("status", "words"), [(401, "refuses access"), (404, "There are no events"), (200, "expected")]
)
def test_a_server_without_events_for_us_is_named(status: int, words: str):
    class Refuses(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", "0")
            self.end_headers()

    with serving(Refuses) as address:
        enumerator = ServerSentEventsSource(f"http://user:hidden@{address}").create_enumerator()
        with pytest.raises(ProgramError, match=words) as refused:
            enumerator.plan(SliceRequest(10, 1, 0))
        enumerator.close()
    assert "hidden" not in str(refused.value)


def test_a_server_that_is_away_is_an_error_of_the_epoch():
    enumerator = ServerSentEventsSource("http://127.0.0.1:1").create_enumerator()
    with pytest.raises(ConnectorError, match="do not answer"):
        enumerator.plan(SliceRequest(10, 1, 0))
    enumerator.close()
