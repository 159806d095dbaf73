"""The event loop of a slot in a process of its own. Task side.

    peers (sockets) ──► messages, credits ──┐                     ┌──► messages, credits ──► peers
                                            ├─► TaskSlot.work() ──┤
    driver (socket) ──► commands ───────────┘                     └──► events ──► driver

The loop waits in ``select`` only when no task has anything to do. It ends when the driver says so, or when the
connection to the driver is gone: Spark does not end the tasks of a stage when one of them has died.
"""

from __future__ import annotations

import select
import selectors
from collections.abc import Callable, Mapping

from flott.runtime.clock import Clock, SystemClock
from flott.runtime.epoch.report import TaskPlace
from flott.runtime.pipelined import frames
from flott.runtime.pipelined.connection import FrameConnection, SharedFrameConnection
from flott.runtime.pipelined.control import SlotAlive, SlotEvent, SlotLost
from flott.runtime.pipelined.file_writing import BackgroundWriter
from flott.runtime.pipelined.garbage import GarbageCollection, garbage_collection
from flott.runtime.pipelined.messages import Channel, Message
from flott.runtime.pipelined.slot import SlotSettings, TaskSlot
from flott.runtime.pipelined.slot_watchdog import SlotWatchdog

#: The index of the driver's side of a connection.
DRIVER = -1
#: A shorter wait is not rounded to milliseconds.
FINE_SECONDS = 0.005
#: ``select`` takes no file descriptors from here on.
SELECT_LIMIT = 1024


def fine_wait(selector: selectors.BaseSelector) -> Callable[[float], object] | None:
    """Return what waits for a selector for fractions of a millisecond; None: it can do so itself, or nothing can."""
    descriptor = getattr(selector, "fileno", lambda: SELECT_LIMIT)()
    if not isinstance(selector, getattr(selectors, "EpollSelector", ())) or descriptor >= SELECT_LIMIT:
        return None
    return lambda seconds: select.select([descriptor], [], [], seconds)


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

    def shares_process(self, partition: int) -> bool:
        return partition == self._partition


class SlotLoop:
    """Runs one slot until the driver ends it."""

    def __init__(
        self,
        settings: SlotSettings,
        partition: int,
        peers: Mapping[int, FrameConnection],
        control: SharedFrameConnection,
        place: TaskPlace,
        clock: Clock | None = None,
        on_open: Callable[[TaskSlot], None] = lambda slot: None,
    ):
        self._clock = clock or SystemClock()
        self._on_open = on_open  #: called when the tasks are built, before they restore their state
        self._control = control
        self._peers = peers
        links = SocketLinks(partition, peers)
        self._writer = BackgroundWriter()
        self.slot = links.slot = TaskSlot(settings, partition, links, self._clock, self._report, place, self._writer)
        self._selector = selectors.DefaultSelector()
        self._fine_wait = fine_wait(self._selector)
        self._watched: dict[FrameConnection, int] = {}
        self._is_ending = False
        self._passes = 0
        self._is_waiting = False

    def _report(self, event: SlotEvent) -> None:
        self._control.send(frames.encode_control(event))

    def run(self) -> None:
        """Run to the end."""
        slot = self.slot
        with slot.log, garbage_collection() as garbage:  # the log is also of what threads say while the tasks wait
            self._run(slot, garbage)

    def _run(self, slot: TaskSlot, garbage: GarbageCollection) -> None:
        watchdog = SlotWatchdog(slot, self._pulse, self._tell, self._clock)
        try:
            slot.open()
            self._on_open(slot)
            for connection in (self._control, *self._peers.values()):
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
                self._watched[connection] = selectors.EVENT_READ
            self._selector.register(self._writer.socket, selectors.EVENT_READ, None)
            slot.start()
            garbage.spare_present()
            while not (slot.is_ended or self._is_ending):
                self._passes += 1
                if slot.work():
                    garbage.after_work()
                    self._communicate(0.0)
                else:
                    self._communicate(self._patience())
        finally:
            self._is_ending = True
            watchdog.close()
            slot.close()
            self._selector.close()
            self._writer.close()
            self._drain()

    def _pulse(self) -> int:
        return -1 if self._is_waiting else self._passes

    def _tell(self, alive: SlotAlive) -> None:
        """Send a heartbeat. Called by the watchdog's thread, also while user code does not return."""
        self._report(alive)
        self._control.flush()

    def _patience(self) -> float | None:
        """Return how long the loop may wait, in seconds. None: until something comes."""
        wakeup, resume_at = self.slot.wakeup_ms, self.slot.resume_at
        times = [] if wakeup is None else [(wakeup - self._clock.now_ms()) / 1000]
        if resume_at is not None:
            times.append(resume_at - self._clock.monotonic())
        return max(0.0, min(times)) if times else None

    def _communicate(self, timeout: float | None) -> None:
        for connection, watched in self._watched.items():
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
            if wanted != watched:
                self._selector.modify(connection.socket, wanted, connection)
                self._watched[connection] = wanted
        blocked = self.slot.blocked if timeout != 0.0 else []
        before = self._clock.monotonic()
        self.slot.waits_since(before, blocked)
        self._is_waiting = timeout != 0.0
        ready = self._select(timeout)
        self._is_waiting = False
        if blocked:
            self.slot.waited(self._clock.monotonic() - before, blocked)
        for key, mask in ready:
            if key.data is None:
                self.slot.finish_writing()
                continue
            if mask & selectors.EVENT_WRITE:
                key.data.flush()
            if mask & selectors.EVENT_READ:
                self._read(key.data)

    def _select(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for connections. Selectors round to whole milliseconds, which is long for a source that is followed."""
        if timeout is None or not 0.0 < timeout < FINE_SECONDS or self._fine_wait is None:
            return self._selector.select(timeout)
        self._fine_wait(timeout)
        return self._selector.select(0)

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
