"""The driver's side of the connections to slots: none can make it wait, and it notices those that fall silent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from flott.runtime.epoch.report import TaskPlace
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection, connect
from flott.runtime.pipelined.control import SlotAlive, SlotEvent, SlotListens, SlotLost, SlotReady, TaskWait
from flott.runtime.pipelined.control_server import ControlServer

SECRET = b"of the job"
Start = Callable[..., ControlServer]


class News:
    """Waits until the server has something."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def wait_for(self, server: ControlServer) -> list[SlotEvent]:
        while not (found := server.take_events()):
            assert self.event.wait(60), "the server tells nothing"
            self.event.clear()
        return found


@pytest.fixture
def news() -> News:
    return News()


@pytest.fixture
def start(news: News) -> Iterator[Start]:
    made: list[ControlServer] = []

    def begin(slots: int, silence_ms: int | None = None) -> ControlServer:
        made.append(ControlServer("here", slots, SECRET, news.event.set, tcp=False, silence_ms=silence_ms))
        return made[-1]

    yield begin
    for server in made:
        server.close()


def test_bytes_that_are_no_frame_are_reported_and_do_not_make_the_job_wait(start: Start, news: News) -> None:
    server = start(1)
    slot = connect(server.endpoint, "here", SECRET, 0)
    slot.sendall(b"GET / HTTP/1.1\r\n\r\n")
    (lost,) = news.wait_for(server)
    assert isinstance(lost, SlotLost)
    assert "no frame" in lost.reason
    slot.close()


def test_one_that_connects_and_says_nothing_delays_no_slot(start: Start, news: News) -> None:
    server = start(2)
    assert server.endpoint.path is not None
    silent = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    silent.connect(server.endpoint.path)
    slot = connect(server.endpoint, "here", SECRET, 1)
    slot.sendall(frames.encode_control(SlotLost("said by slot 1")))
    assert news.wait_for(server) == [SlotLost("said by slot 1")]
    assert not server.is_complete
    silent.close()
    slot.close()


def test_a_slot_that_sends_heartbeats_is_kept_and_one_that_does_not_is_lost(start: Start, news: News) -> None:
    server = start(2, silence_ms=1500)
    beating, silent = (connect(server.endpoint, "here", SECRET, slot) for slot in (0, 1))
    for slot in (beating, silent):
        slot.sendall(frames.encode_control(SlotReady()))
    ended = threading.Event()
    wait = TaskWait((), 0, "a task", "something")  # type: ignore[arg-type]

    def beat() -> None:
        connection = FrameConnection(beating)
        while not ended.wait(0.02):
            connection.send(frames.encode_control(SlotAlive(0, (wait,))))

    thread = threading.Thread(target=beat)
    thread.start()
    (lost,) = news.wait_for(server)
    ended.set()
    thread.join()
    assert isinstance(lost, SlotLost)
    assert lost.reason.startswith("Slot 1 has sent no heartbeat for 1 s 500 ms")
    assert server.has_silent_slots
    assert server.waits() == (wait,)
    beating.close()
    silent.close()


def test_a_slot_that_waits_for_the_others_at_the_start_need_not_send_heartbeats(start: Start, news: News) -> None:
    server = start(2, silence_ms=500)
    waiting, silent = (connect(server.endpoint, "here", SECRET, slot) for slot in (0, 1))
    waiting.sendall(frames.encode_control(SlotListens(server.endpoint, TaskPlace())))
    silent.sendall(frames.encode_control(SlotReady()))
    (lost,) = news.wait_for(server)
    assert isinstance(lost, SlotLost)
    assert lost.reason.startswith("Slot 1 has sent no heartbeat")
    assert not server.is_ready
    waiting.close()
    silent.close()
