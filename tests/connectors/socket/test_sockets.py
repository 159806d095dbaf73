"""Lines from and to sockets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flott.common import WatermarkStrategy
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import Guarantee, SliceRequest, WriterContext
from flott.datastream.connectors.socket import SocketTextSink, SocketTextSource
from flott.errors import ConnectorError, ProgramError
from flott.testing.harness import collect, in_process
from tests.connectors.pages import run_page

NO_TIME = WatermarkStrategy.no_watermarks()


@contextmanager
def sending(*connections: list[bytes]) -> Iterator[int]:
    """Send these chunks to one connection after the other, and close each."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for chunks in connections:
                client, _ = server.accept()
                with client:
                    for chunk in chunks:
                        client.sendall(chunk)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(60)


class Received:
    """What has come on any number of connections, each in pieces."""

    def __init__(self) -> None:
        self._texts: list[bytearray] = []
        self._changed = threading.Condition()

    def read(self, client: socket.socket) -> None:
        text = bytearray()
        self._texts.append(text)
        with client:
            while data := client.recv(1000):
                with self._changed:
                    text += data
                    self._changed.notify_all()

    def lines(self, count: int) -> list[bytes]:
        """Wait for so many lines, and return all that have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: sum(text.count(b"\n") for text in self._texts) >= count, 60)
            return [line for text in self._texts for line in bytes(text).splitlines()]


@contextmanager
def receiving() -> Iterator[tuple[int, Received]]:
    """Receive from any number of connections."""
    received = Received()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=received.read, args=(client,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], received


def test_lines_are_records_wherever_the_bytes_are_cut_and_the_source_ends_with_the_connection():
    with sending([b"tea\r\nj", "am\nä".encode()[:4], "ä\nlast".encode()[1:]]) as port:
        source = SocketTextSource("127.0.0.1", port)
        assert collect(in_process(1).from_source(source, NO_TIME, "lines")) == ["tea", "jam", "ä", "last"]
        assert source.guarantee is Guarantee.NONE


def test_another_delimiter_and_connecting_again():
    with sending([b"a|b|"], [b"c|"]) as port:
        enumerator = SocketTextSource("127.0.0.1", port, delimiter="|", reconnects=True).create_enumerator()
        found: list[str] = []
        pause = threading.Event()
        while len(found) < 3:
            plan = enumerator.plan(SliceRequest(2, 1, 0))
            assert not plan.finished
            found += [text for part in plan.slices for text in part.detail["messages"]]
            enumerator.advance(plan, {})
            pause.wait(0.01)
        enumerator.close()
    assert found == ["a", "b", "c"]


def test_a_plan_that_is_not_run_is_proposed_again_and_an_ended_source_stays_ended():
    with sending([b"a\nb\n"]) as port:
        enumerator = SocketTextSource("127.0.0.1", port).create_enumerator()
        pause = threading.Event()
        while not (plan := enumerator.plan(SliceRequest(10, 1, 0))).finished:
            pause.wait(0.005)
        assert plan.slices[0].detail["messages"] == ["a", "b"]
        assert enumerator.plan(SliceRequest(10, 1, 0)).slices == plan.slices
        enumerator.advance(plan, {})
        state = enumerator.snapshot()
        enumerator.close()
    again = SocketTextSource("127.0.0.1", port).create_enumerator()
    again.restore(state)
    assert again.plan(SliceRequest(10, 1, 0)).finished


def test_a_source_that_is_not_read_holds_the_server_back():
    with sending([b"x\n" * 5000]) as port:
        enumerator = SocketTextSource("127.0.0.1", port, capacity=10).create_enumerator()
        read, pause = 0, threading.Event()
        while not (plan := enumerator.plan(SliceRequest(100_000, 1, 0))).finished:
            read += sum(part.stop for part in plan.slices)
            enumerator.advance(plan, {})
            pause.wait(0.001)
        enumerator.close()
    assert read + sum(part.stop for part in plan.slices) == 5000


def test_nobody_at_the_port_is_an_error():
    enumerator = SocketTextSource("127.0.0.1", 1).create_enumerator()
    with pytest.raises(ConnectorError, match=r"socket 127\.0\.0\.1:1 does not answer"):
        enumerator.plan(SliceRequest(10, 1, 0))
    sink = SocketTextSink("127.0.0.1", 1, retries=RetryPolicy(max_attempts=2, initial_delay_ms=1))
    writer = sink.create_writer(WriterContext(0, 1, 1, "a", "job", "op", 0))
    with pytest.raises(ConnectorError, match="did not take data in 2 attempts"):
        writer.write(["a"], None)
    for wrong in (lambda: SocketTextSource("a", 0), lambda: SocketTextSource("a", 1, delimiter="")):
        with pytest.raises(ProgramError):
            wrong()


def test_a_sink_writes_lines_and_keeps_its_connection():
    with receiving() as (port, received):
        sink = SocketTextSink("127.0.0.1", port)
        for epoch in (1, 2):
            writer = sink.create_writer(WriterContext(0, 1, epoch, f"{epoch}", "job", "op", 0))
            writer.write([f"a{epoch}", "b"], None)
            assert writer.prepare_commit() == []
            writer.close()
        assert received.lines(4) == [b"a1", b"b", b"a2", b"b"]


def test_the_program_of_the_page_runs():
    with sending([b"tea jam\ntea\n"]) as source, receiving() as (sink, received):
        run_page("socket.md", {"9999": str(source), "9998": str(sink)})
        assert sorted(received.lines(3)) == [b"JAM", b"TEA", b"TEA"]
