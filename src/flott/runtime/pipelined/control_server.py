"""The driver's side of the connections to all slots of a job. Driver side.

A thread of its own reads and writes, so that neither a slot that does not read nor a busy driver blocks the other.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection, Listener, SlotEndpoint, challenge, verify
from flott.runtime.pipelined.control import Command, SlotEvent, SlotLost


class ControlServer:
    """The driver's side of the connections to all slots of one start. A thread of its own reads."""

    def __init__(self, host: str, slots: int, secret: bytes, on_news: Callable[[], None], *, tcp: bool):
        self._listener = Listener(host, tcp=tcp)
        self._slots = slots
        self._secret = secret
        self._on_news = on_news
        self._connections: dict[int, FrameConnection] = {}
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
        """Send a command. One for a slot that has not connected yet waits for it."""
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

    def close(self) -> None:
        """Close all connections: slots that still run end."""
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
            while not self._closed:
                self._send_waiting(selector)
                for key, mask in selector.select():
                    if key.fileobj is self._wake_read:
                        self._wake_read.recv(4096)
                    elif key.data is None:
                        assert isinstance(key.fileobj, socket.socket)
                        self._accept(key.fileobj, selector)
                    else:
                        self._exchange(key.data, mask, selector)
        finally:
            for connection in self._connections.values():
                connection.close()
            selector.close()
            self._listener.close()
            self._wake_read.close()
            self._wake_write.close()

    def _send_waiting(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            waiting, self._unsent = self._unsent, deque()
        for slot, frame in waiting:
            if (connection := self._connections.get(slot)) is not None:
                connection.send(frame)
            else:
                with self._lock:
                    self._unsent.append((slot, frame))
        for slot, connection in self._connections.items():
            if connection.is_open:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
                selector.modify(connection.socket, wanted, slot)

    def _accept(self, listening: socket.socket, selector: selectors.BaseSelector) -> None:
        accepted = listening.accept()[0]
        slot = verify(accepted, self._secret, challenge(accepted))
        if slot is None or slot in self._connections or not 0 <= slot < self._slots:
            accepted.close()
            return
        connection = self._connections[slot] = FrameConnection(accepted)
        selector.register(connection.socket, selectors.EVENT_READ, slot)

    def _exchange(self, slot: int, mask: int, selector: selectors.BaseSelector) -> None:
        connection = self._connections[slot]
        if mask & selectors.EVENT_WRITE:
            connection.flush()
        if not mask & selectors.EVENT_READ or (data := connection.receive()) is None:
            return
        if not data:
            selector.unregister(connection.socket)
            connection.is_open = False
            if not self._closed:
                self.add(SlotLost(f"The worker of slot {slot} has ended."))
            return
        events = [frames.decode_control(body) for _, body in connection.reader.feed(data)]
        if events:
            with self._lock:
                self._events.extend(events)
            self._on_news()
