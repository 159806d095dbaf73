"""Slots that start find each other by way of the driver, or end with a sentence that the driver learns."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from flott.errors import WorkerLostError
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.pipelined import frames, meeting
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, connect
from flott.runtime.pipelined.control import EndTasks, SlotListens, SlotLost
from flott.runtime.pipelined.control_server import ControlServer
from flott.runtime.pipelined.meeting import meet
from flott.runtime.pipelined.tls import ConnectionTls
from tests.unit.runtime.jobmanager.jobs import wait_for
from tests.unit.runtime.pipelined.certificates import make_certificates, tls_of

SECRET = b"of the job"
SLOTS = 3
Met = tuple[FrameConnection, dict[int, FrameConnection], tuple[TaskPlace, ...]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"))


class Start:
    """A driver, and slots in threads."""

    def __init__(self, tls: ConnectionTls | None = None) -> None:
        self.news = threading.Event()
        self.tls = tls
        self.server = ControlServer("here", SLOTS, SECRET, self.news.set, tcp=tls is not None, tls=tls)
        self.pool = ThreadPoolExecutor(SLOTS)

    @property
    def driver(self) -> SlotEndpoint:
        found = self.server.endpoint
        return SlotEndpoint("127.0.0.1", None, found.port) if self.tls else found

    def slot(self, slot: int) -> Future[Met]:
        return self.pool.submit(self._meet, slot)

    def _meet(self, slot: int) -> Met:
        listener = Listener("here", tcp=self.tls is not None, bind="127.0.0.1")
        if self.tls:
            listener.endpoint = SlotEndpoint("127.0.0.1", None, listener.endpoint.port)
        try:
            return meet(slot, self.driver, listener, SECRET, self.tls, TaskPlace("here", str(slot)))
        finally:
            listener.close()

    def lost(self) -> str:
        """Return the first reason why the start fails."""
        while not (found := self.server.take_events()):
            assert self.news.wait(60), "the driver learns nothing"
            self.news.clear()
        assert isinstance(found[0], SlotLost)
        return found[0].reason


@pytest.fixture
def start() -> Iterator[Start]:
    made = Start()
    yield made
    made.server.close()
    made.pool.shutdown()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
def test_all_slots_are_connected_before_any_takes_a_command(encrypted: bool, certificates: Path) -> None:
    start = Start(tls_of(certificates) if encrypted else None)
    start.server.send(1, EndTasks())
    met = {slot: start.slot(slot) for slot in (1, 0, 2)}
    for slot, future in met.items():
        assert set(future.result(60)[1]) == set(range(SLOTS)) - {slot}
        assert future.result()[2] == tuple(TaskPlace("here", str(one)) for one in range(SLOTS))
    control = met[1].result()[0]
    assert [frames.decode_control(body) for _, body in control.reader.feed(first_bytes(control))] == [EndTasks()]
    wait_for(lambda: start.server.is_ready)  # it learns from each slot that it is connected
    assert start.server.take_events() == []
    start.server.close()
    start.pool.shutdown()
    for future in met.values():
        for connection in (future.result()[0], *future.result()[1].values()):
            connection.close()


def first_bytes(connection: FrameConnection) -> bytes:
    while (data := connection.receive()) is None:
        assert select.select([connection.socket], [], [], 60)[0], "nothing comes"
    return data


def test_a_slot_that_waits_in_vain_for_the_others_ends_and_the_driver_learns_why(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flott.runtime.pipelined.meeting.START_SECONDS", 0.2)
    waiting = start.slot(1)
    with pytest.raises(WorkerLostError, match="slot 1 has started, but another one has not"):
        waiting.result(60)
    assert start.lost().startswith("Slot 1 could not start: The driver has not said within two minutes where")


def test_a_slot_that_dies_before_it_said_where_it_listens_fails_the_start(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, real = threading.Event(), meeting._await_addresses

    def await_addresses(*named: Any) -> Any:
        waits.set()
        return real(*named)

    monkeypatch.setattr(meeting, "_await_addresses", await_addresses)
    waiting = start.slot(1)
    assert waits.wait(60)
    connect(start.driver, "here", SECRET, 0).close()
    assert start.lost() == "The worker of slot 0 has ended."
    start.server.close()
    with pytest.raises(WorkerLostError, match="has ended the connection while slot 1 waited"):
        waiting.result(60)


def test_a_slot_that_dies_while_others_connect_to_it_fails_the_start(start: Start) -> None:
    waiting = [start.slot(slot) for slot in (0, 1)]
    listener = Listener("here", tcp=False)
    dying = FrameConnection(connect(start.driver, "here", SECRET, 2))
    dying.send(frames.encode_control(SlotListens(listener.endpoint, TaskPlace())))
    first_bytes(dying)
    listener.close()
    dying.close()
    assert "slot" in start.lost().lower()
    assert not start.server.is_ready
    for future in waiting:
        with suppress(WorkerLostError, OSError):
            for connection in future.result(60)[1].values():
                connection.close()
            pytest.fail("a slot has connected with one that is dead")
