"""The event loop of a slot in a process of its own. Task side.

    peers (sockets) ──► messages, credits ──┐                     ┌──► messages, credits ──► peers
                                            ├─► TaskSlot.work() ──┤
    driver (socket) ──► commands ───────────┘                     └──► events ──► driver

The loop waits in ``select`` only when no task has anything to do. It ends when the driver says so, or when the
connection to the driver is gone: Spark does not end the tasks of a stage when one of them has died.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Mapping, Sequence

from flott.errors import WorkerLostError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import (
    FrameConnection,
    Listener,
    SlotEndpoint,
    answer,
    challenge,
    connect,
    verify,
)
from flott.runtime.pipelined.control import SlotEvent, SlotLost
from flott.runtime.pipelined.file_writing import BackgroundWriter
from flott.runtime.pipelined.messages import Channel, Message
from flott.runtime.pipelined.slot import SlotSettings, TaskSlot

#: The index of the driver's side of a connection.
DRIVER = -1


class SocketLinks:
    """Links to tasks of other slots by connections, to those of this slot directly."""

    def __init__(self, partition: int, peers: Mapping[int, FrameConnection]):
        self._partition = partition
        self._peers = peers
        self.slot: TaskSlot | None = None

    def transmit(self, channel: Channel, message: Message) -> None:
        if channel.receiver.partition == self._partition:
            assert self.slot is not None
            self.slot.receive(channel.receiver, channel.sender, message)
        else:
            self._peers[channel.receiver.partition].send(frames.encode_message(channel, message))

    def grant(self, channel: Channel, credits: int) -> None:
        if channel.sender.partition == self._partition:
            assert self.slot is not None
            self.slot.granted(channel.sender, channel.receiver, credits)
        else:
            self._peers[channel.sender.partition].send(frames.encode_credit(channel, credits))


def connect_peers(
    partition: int, endpoints: Sequence[SlotEndpoint], listener: Listener, secret: bytes
) -> dict[int, FrameConnection]:
    """Connect a slot with all others, once each: with those after it by connecting, with those before by accepting.

    All slots take the same steps, and each step needs only the one before it of the others, so none waits in vain.
    """
    host = listener.endpoint.host
    made = {peer: connect(endpoints[peer], host) for peer in range(partition + 1, len(endpoints))}
    for found in made.values():
        answer(found, secret, partition)
    peers = dict(made)
    while len(peers) < len(endpoints) - 1:
        accepted = _accept(listener)
        peer = verify(accepted, secret, challenge(accepted))
        if peer is None or peer in peers:
            accepted.close()
        else:
            peers[peer] = accepted
    return {peer: FrameConnection(found) for peer, found in peers.items()}


def _accept(listener: Listener) -> socket.socket:
    with selectors.DefaultSelector() as selector:
        for found in listener.sockets:
            selector.register(found, selectors.EVENT_READ)
        ready = selector.select(120)
        if not ready:
            raise WorkerLostError("Another slot of the job has not connected within two minutes.")
        listening = ready[0][0].fileobj
        assert isinstance(listening, socket.socket)
        return listening.accept()[0]


class SlotLoop:
    """Runs one slot until the driver ends it."""

    def __init__(
        self,
        settings: SlotSettings,
        partition: int,
        peers: Mapping[int, FrameConnection],
        control: FrameConnection,
        place: TaskPlace,
        clock: Clock | None = None,
    ):
        self._clock = clock or SystemClock()
        self._control = control
        self._peers = peers
        links = SocketLinks(partition, peers)
        self._writer = BackgroundWriter()
        self.slot = links.slot = TaskSlot(settings, partition, links, self._clock, self._report, place, self._writer)
        self._selector = selectors.DefaultSelector()
        self._watched: dict[FrameConnection, int] = {}
        self._is_ending = False

    def _report(self, event: SlotEvent) -> None:
        self._control.send(frames.encode_control(event))

    def run(self) -> None:
        """Run to the end."""
        slot = self.slot
        try:
            slot.open()
            for connection in (self._control, *self._peers.values()):
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
                self._watched[connection] = selectors.EVENT_READ
            self._selector.register(self._writer.socket, selectors.EVENT_READ, None)
            slot.start()
            while not (slot.is_ended or self._is_ending):
                self._communicate(0.0 if slot.work() else self._patience())
        finally:
            self._is_ending = True
            slot.close()
            self._selector.close()
            self._writer.close()
            self._drain()

    def _patience(self) -> float | None:
        """Return how long the loop may wait, in seconds. None: until something comes."""
        wakeup = self.slot.wakeup_ms
        return None if wakeup is None else max(0.0, (wakeup - self._clock.now_ms()) / 1000)

    def _communicate(self, timeout: float | None) -> None:
        for connection, watched in self._watched.items():
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
            if wanted != watched:
                self._selector.modify(connection.socket, wanted, connection)
                self._watched[connection] = wanted
        blocked = self.slot.blocked if timeout != 0.0 else []
        before = self._clock.monotonic()
        ready = self._selector.select(timeout)
        if blocked:
            self.slot.waited(self._clock.monotonic() - before, blocked)
        for key, mask in ready:
            if key.data is None:
                self.slot.finish_writing(self._writer)
                continue
            if mask & selectors.EVENT_WRITE:
                key.data.flush()
            if mask & selectors.EVENT_READ:
                self._read(key.data)

    def _read(self, connection: FrameConnection) -> None:
        data = connection.receive()
        if data is None:
            return
        if not data:
            self._lost(connection)
            return
        slot = self.slot
        for kind, body in connection.reader.feed(data):
            if kind == frames.BUFFER or kind == frames.MESSAGE:
                channel, message = frames.decode_buffer(body) if kind == frames.BUFFER else frames.decode_message(body)
                slot.receive(channel.receiver, channel.sender, message)
            elif kind == frames.CREDIT:
                channel, credits = frames.decode_credit(body)
                slot.granted(channel.sender, channel.receiver, credits)
            else:
                slot.obey(frames.decode_control(body))

    def _lost(self, connection: FrameConnection) -> None:
        """Another process has gone: without the driver this one ends, without a peer it waits for the driver."""
        self._selector.unregister(connection.socket)
        del self._watched[connection]
        if connection is self._control:
            self._is_ending = True
            return
        peer = next(index for index, found in self._peers.items() if found is connection)
        if not self.slot.is_over:
            self.slot.has_failed = True
            self._report(SlotLost(f"The connection between slots {self.slot.partition} and {peer} has ended."))

    def _drain(self) -> None:
        """Send the last events, then close everything."""
        control = self._control
        if control.is_open and control.has_unsent:
            control.socket.settimeout(5.0)
            control.flush()
        for connection in (control, *self._peers.values()):
            connection.close()
