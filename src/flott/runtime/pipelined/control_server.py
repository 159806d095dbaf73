"""The driver's side of the connections to all slots of a job. Driver side.

A thread of its own reads and writes, so that neither a slot that does not read nor a busy driver blocks the other. Who
connects proves itself in another thread, so that one that says nothing delays no slot.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from flott.common._durations import rounded_millis
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, admit
from flott.runtime.pipelined.control import (
    Command,
    SlotAddresses,
    SlotAlive,
    SlotEvent,
    SlotListens,
    SlotLost,
    SlotReady,
    SubtaskLoad,
    TaskWait,
)
from flott.runtime.pipelined.tls import ConnectionTls

log = logging.getLogger("flott.connections")


class ControlServer:
    """The driver's side of the connections to all slots of one start. A thread of its own reads."""

    def __init__(
        self,
        host: str,
        slots: int,
        secret: bytes,
        on_news: Callable[[], None],
        *,
        tcp: bool,
        tls: ConnectionTls | None = None,
        silence_ms: int | None = None,
        clock: Clock | None = None,
    ):
        self._listener = Listener(host, tcp=tcp)
        self._slots = slots
        self._secret = secret
        self._tls = tls
        self._silence_s = None if silence_ms is None else silence_ms / 1000  #: a slot that tells nothing is lost
        self._clock = clock or SystemClock()
        self._heard: dict[int, float] = {}  #: when a slot has told something
        self._has_silent_slots = False
        self._waits: dict[int, tuple[TaskWait, ...]] = {}
        self._loads: dict[int, tuple[SubtaskLoad, ...]] = {}  #: that were not taken yet
        self._on_news = on_news
        self._connections: dict[int, FrameConnection] = {}
        self._endpoints: dict[int, SlotEndpoint] = {}  #: where slots listen for each other
        self.places: dict[int, TaskPlace] = {}  #: where the slots that have connected run
        self._ready: set[int] = set()  #: slots that are connected with all others
        self._admitted: deque[tuple[int, socket.socket]] = deque()  #: have proved themselves, unknown to the thread
        self._unsent: deque[tuple[int, bytes]] = deque()  #: commands for slots, to be sent by the thread
        self._events: deque[SlotEvent] = deque()
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = socket.socketpair()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="flott-control", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> SlotEndpoint:
        """Return where slots find the driver."""
        return self._listener.endpoint

    def send(self, slot: int, command: Command) -> None:
        """Send a command. One for a slot that is not connected with all others yet waits for it."""
        with self._lock:
            self._unsent.append((slot, frames.encode_control(command)))
        self._wake()

    def add(self, event: SlotEvent) -> None:
        """Add an event that did not come from a slot."""
        with self._lock:
            self._events.append(event)
        self._on_news()

    def take_events(self) -> list[SlotEvent]:
        """Return what happened since the last call."""
        with self._lock:
            happened = list(self._events)
            self._events.clear()
        return happened

    @property
    def is_complete(self) -> bool:
        """Return whether all slots have connected."""
        return len(self._connections) == self._slots

    @property
    def is_ready(self) -> bool:
        """Return whether all slots are connected with each other, too: they take commands."""
        return len(self._ready) == self._slots

    @property
    def has_silent_slots(self) -> bool:
        """Return whether a slot was given up because it told nothing."""
        return self._has_silent_slots

    def waits(self) -> tuple[TaskWait, ...]:
        """Return what the tasks of all slots have been waiting for."""
        return tuple(wait for _, waits in sorted(self._waits.copy().items()) for wait in waits)

    def take_loads(self) -> tuple[SubtaskLoad, ...]:
        """Return the newest loads of the slots that have told theirs since the last call."""
        with self._lock:
            taken, self._loads = self._loads, {}
        return tuple(load for loads in taken.values() for load in loads)

    def close(self) -> None:
        """Close all connections: slots that still run end."""
        with self._lock:
            self._closed = True
        self._wake()
        self._thread.join()

    def _wake(self) -> None:
        with suppress(OSError):
            self._wake_write.send(b"\0")

    def _serve(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._wake_read, selectors.EVENT_READ)
        for found in self._listener.sockets:
            selector.register(found, selectors.EVENT_READ)
        try:
            looked = self._clock.monotonic()
            while not self._closed:
                self._welcome(selector)
                self._send_waiting(selector)
                for key, mask in selector.select(None if self._silence_s is None else self._silence_s / 4):
                    if key.fileobj is self._wake_read:
                        self._wake_read.recv(4096)
                    elif key.data is None:
                        assert isinstance(key.fileobj, socket.socket)
                        with suppress(OSError):  # one that has gone again
                            accepted = key.fileobj.accept()[0]
                            threading.Thread(target=self._admit, args=(accepted,), daemon=True).start()
                    else:
                        self._exchange(key.data, mask, selector)
                looked = self._look_for_silence(looked)
        except Exception as error:  # the job waits for events of this thread
            log.exception("The connections to the slots of a job have failed.")
            self.add(SlotLost(f"The connections to the slots have failed: {error}"))
        finally:
            for connection in self._connections.values():
                connection.close()
            with self._lock:
                while self._admitted:
                    self._admitted.popleft()[1].close()
            selector.close()
            self._listener.close()
            self._wake_read.close()
            self._wake_write.close()

    def _send_waiting(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            waiting, self._unsent = self._unsent, deque()
        for slot, frame in waiting:
            if slot in self._ready:
                self._connections[slot].send(frame)
            else:
                with self._lock:
                    self._unsent.append((slot, frame))
        for slot, connection in self._connections.items():
            if connection.is_open:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
                selector.modify(connection.socket, wanted, slot)

    def _look_for_silence(self, looked: float) -> float:
        """Give a slot up that has told nothing for too long. Time in which this process did not run does not count."""
        now = self._clock.monotonic()
        if self._silence_s is None:
            return now
        if now - looked > self._silence_s / 2:
            self._heard = dict.fromkeys(self._heard, now)
        for slot, heard in list(self._heard.items()):
            if now - heard > self._silence_s:
                del self._heard[slot]
                self._has_silent_slots = True
                self.add(
                    SlotLost(
                        f"Slot {slot} has sent no heartbeat for {rounded_millis(int(self._silence_s * 1000))}: its"
                        " process has stopped or cannot be reached. If it only was slow, set heartbeat.timeout to more."
                    )
                )
        return now

    def _admit(self, accepted: socket.socket) -> None:
        admitted = admit(accepted, self._secret, self._tls)
        if admitted is None:
            return
        with self._lock:
            if not self._closed:
                self._admitted.append(admitted)
                self._wake()
                return
        admitted[1].close()

    def _welcome(self, selector: selectors.BaseSelector) -> None:
        """Take those that have proved to be slots. When all are there, nothing else may connect."""
        while self._admitted:
            slot, found = self._admitted.popleft()
            if slot in self._connections or not 0 <= slot < self._slots:
                found.close()
                continue
            connection = self._connections[slot] = FrameConnection(found)
            selector.register(connection.socket, selectors.EVENT_READ, slot)
            if len(self._connections) == self._slots:
                for listening in self._listener.sockets:
                    selector.unregister(listening)
                self._listener.close()

    def _exchange(self, slot: int, mask: int, selector: selectors.BaseSelector) -> None:
        connection = self._connections[slot]
        if mask & selectors.EVENT_WRITE:
            connection.flush()
        if not mask & selectors.EVENT_READ or (data := connection.receive()) is None:
            return
        if not data:
            selector.unregister(connection.socket)
            connection.is_open = False
            self._heard.pop(slot, None)
            if not self._closed:
                self.add(SlotLost(f"The worker of slot {slot} has ended."))
            return
        if slot in self._heard:
            self._heard[slot] = self._clock.monotonic()
        events: list[SlotEvent] = []
        for _, body in connection.reader.feed(data):
            match frames.decode_control(body):
                case SlotAlive(waits=waits, loads=loads):
                    self._waits[slot] = waits
                    if loads:
                        with self._lock:
                            self._loads[slot] = loads
                    self._on_news()
                case SlotListens(endpoint, place):
                    self.places[slot] = place
                    self._introduce(slot, endpoint)
                case SlotReady():
                    self._ready.add(slot)
                    self._heard[slot] = self._clock.monotonic()  # it sends heartbeats from now on
                case event:
                    events.append(event)
        if events:
            with self._lock:
                self._events.extend(events)
            self._on_news()

    def _introduce(self, slot: int, endpoint: SlotEndpoint) -> None:
        """Note where a slot listens. When it is known of all, each is told."""
        self._endpoints[slot] = endpoint
        if len(self._endpoints) == self._slots:
            told = SlotAddresses(
                tuple(self._endpoints[one] for one in range(self._slots)),
                tuple(self.places[one] for one in range(self._slots)),
            )
            for connection in self._connections.values():
                connection.send(frames.encode_control(told))
