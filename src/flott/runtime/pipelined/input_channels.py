"""The input of a task: a queue for each channel, which of them may be read, and the event time of each. Task side.

A source is an input too. Its queue holds what the driver wants of it: rounds to read, and barriers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from flott.common._ids import EpochId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.gate import combine
from flott.runtime.epoch.wire import DATA, Row
from flott.runtime.operators.operator import EventTime
from flott.runtime.pipelined.barrier_alignment import (
    BarrierAlignment,
    Reaction,
    on_come,
    on_given_up,
    on_reached,
    on_taken,
    on_unaligned,
)
from flott.runtime.pipelined.control import InjectBarrier, ReadRound
from flott.runtime.pipelined.links import Links
from flott.runtime.pipelined.messages import (
    Barrier,
    Buffer,
    Channel,
    EventTimes,
    Message,
    Overtaking,
    TaskAddress,
    encoded,
    enqueue,
)

T = TypeVar("T")

Sourced = ReadRound | Barrier


class InputChannel:
    """What has come from one sender and was not processed yet."""

    __slots__ = ("_grant_at", "_processed", "bytes_received", "channel", "priority", "queue", "restored", "times")

    def __init__(self, channel: Channel, edges: Iterable[int], credits: int, priority: int):
        self.channel = channel
        self.queue: deque[Message] = deque()
        self.times = dict.fromkeys(edges, EventTime())
        self.priority = priority  #: a channel with a lower one is read first, if both have something
        self.bytes_received: dict[int, int] = {}  #: since the last checkpoint, by edge
        self.restored = 0  #: buffers at the head of the queue that were saved with the checkpoint before
        self._processed = 0
        self._grant_at = max(1, credits // 2)  # not one by one: a credit is a message where tasks are apart

    def processed(self, links: Links) -> None:
        """Grant the sender another buffer in place of one that was processed."""
        if self.restored:
            self.restored -= 1  # the sender has not sent it
            return
        self._processed += 1
        if self._processed >= self._grant_at:
            links.grant(self.channel, self._processed)
            self._processed = 0


class SourceQueue:
    """What the driver wants of one source subtask."""

    __slots__ = ("queue", "source")

    def __init__(self, source: OperatorId):
        self.source = source
        self.queue: deque[Sourced] = deque()


@dataclass
class Recording:
    """What an unaligned snapshot found, and still finds, ahead of the barriers in the channels."""

    checkpoint: EpochId
    awaited: set[TaskAddress] = field(default_factory=set)  #: senders whose barrier has not come
    messages: dict[TaskAddress, list[Message]] = field(default_factory=dict)  #: by sender, encoded
    fresh: list[tuple[TaskAddress, Message]] = field(default_factory=list)  #: to be encoded before they are processed

    def encode(self) -> None:
        """Encode what was found: functions that process records may change them."""
        for sender, message in self.fresh:
            self.messages[sender].append(encoded(message))
        self.fresh.clear()


class InputChannels:
    """All inputs of one task. It is the gate of the steps of a task: it knows the event time of every edge."""

    def __init__(
        self,
        channels: Mapping[TaskAddress, InputChannel],
        sources: Iterable[OperatorId],
        *,
        exactly_once: bool = True,
        fair: bool = True,
        overtakable: Iterable[TaskAddress] = (),
    ):
        self.channels = dict(channels)
        self.sources = {source: SourceQueue(source) for source in sources}
        inputs = frozenset[Hashable](self.channels.keys() | self.sources.keys())
        self.alignment = BarrierAlignment(inputs, exactly_once, frozenset(overtakable))
        self._recording: Recording | None = None
        self._turn = deque(sorted(self.channels.values(), key=lambda channel: (channel.priority, channel.channel)))
        self._in_turn = fair and len({channel.priority for channel in self._turn}) <= 1

    def receive(self, sender: TaskAddress, message: Message) -> None:
        """Take a message from a channel."""
        channel, recording = self.channels[sender], self._recording
        is_recorded = recording is not None and sender in recording.awaited
        if isinstance(message, Barrier):
            if recording is not None and is_recorded and message.checkpoint == recording.checkpoint:
                recording.awaited.discard(sender)
                return  # its snapshot was taken
            self._on_come(sender, message)
        elif recording is not None and is_recorded:
            recording.fresh.append((sender, message))
        if message.__class__ is Buffer and isinstance(message.payload, bytes):
            received = channel.bytes_received
            received[message.edge] = received.get(message.edge, 0) + len(message.payload)
        enqueue(channel.queue, message)

    def order(self, command: ReadRound | InjectBarrier) -> None:
        """Take an order for a source."""
        wanted: Sourced
        if isinstance(command, ReadRound):
            wanted = command
        else:
            wanted = Barrier(command.checkpoint, command.final, command.overtaking)
            self._on_come(command.source, wanted)
        self.sources[command.source].queue.append(wanted)

    def restore(self, rows: Iterable[Row]) -> None:
        """Put buffers that were saved with a checkpoint ahead of everything that has come and will come."""
        by_edge: dict[int, list[InputChannel]] = {}
        saved: dict[TaskAddress, list[Message]] = {}
        for _, _, kind, edge, former_sender, _, payload in rows:
            if edge not in by_edge:
                by_edge[edge] = [found for _, found in sorted(self.channels.items()) if edge in found.times]
            channel = by_edge[edge][former_sender % len(by_edge[edge])]
            message = Buffer(edge, payload) if kind == DATA else EventTimes(((edge, *payload),))
            saved.setdefault(channel.channel.sender, []).append(message)
        for sender, messages in saved.items():
            self.channels[sender].queue.extendleft(reversed(messages))
            self.channels[sender].restored = sum(isinstance(message, Buffer) for message in messages)

    def next_channel(self) -> InputChannel | None:
        """Return a channel that has something to process, each in its turn."""
        held_back = self.alignment.held_back
        for position, channel in enumerate(self._turn):
            if channel.queue and channel.channel.sender not in held_back:
                if self._in_turn:
                    self._turn.rotate(-position - 1)
                return channel
        return None

    def next_source(self) -> SourceQueue | None:
        """Return a source that the driver wants something of."""
        held_back = self.alignment.held_back
        for source in self.sources.values():
            if source.queue and source.source not in held_back:
                return source
        return None

    @property
    def has_work(self) -> bool:
        """Return whether anything can be processed."""
        return self.next_source() is not None or self._has_messages()

    def _has_messages(self) -> bool:
        held_back = self.alignment.held_back
        return any(channel.queue and channel.channel.sender not in held_back for channel in self._turn)

    @property
    def waiting_messages(self) -> int:
        """Return how many messages have come and were not processed."""
        return sum(len(channel.queue) for channel in self._turn)

    def _on_come(self, source: Hashable, barrier: Barrier) -> None:
        unaligned = barrier.overtaking is Overtaking.NOW
        self.alignment = on_come(self.alignment, source, barrier.checkpoint, unaligned)

    def on_barrier(self, source: Hashable, checkpoint: EpochId) -> Reaction:
        """Note that the turn of the barrier of an input has come."""
        self.alignment, reaction = on_reached(self.alignment, source, checkpoint)
        return reaction

    def give_up(self, checkpoint: EpochId) -> None:
        """Note that the driver has given a checkpoint up."""
        self.alignment = on_given_up(self.alignment, checkpoint)
        if self._recording is not None and self._recording.checkpoint <= checkpoint:
            self._recording = None

    def become_unaligned(self, checkpoint: EpochId) -> None:
        """Note that a checkpoint does not wait for the inputs any more."""
        self.alignment = on_unaligned(self.alignment, checkpoint)

    def record(self, checkpoint: EpochId) -> Recording:
        """Begin to record what is ahead of the barriers that were not reached: the snapshot was taken."""
        found = Recording(checkpoint)
        for sender, channel in self.channels.items():
            told = ((edge, time.watermark, time.idle, time.ended) for edge, time in channel.times.items())
            found.messages[sender] = [EventTimes(tuple(told))]
            if sender in self.alignment.arrived:
                continue
            for position, message in enumerate(channel.queue):
                if isinstance(message, Barrier) and message.checkpoint == checkpoint:
                    del channel.queue[position]
                    break
                found.fresh.append((sender, message))
            else:
                found.awaited.add(sender)
        self.alignment = on_taken(self.alignment, checkpoint)
        self._recording = found if found.awaited else None
        found.encode()
        return found

    def on_times(self, channel: InputChannel, times: EventTimes) -> bool:
        """Note the event time of a channel; return whether it changed that of an edge."""
        changed = False
        for edge, watermark, idle, ended in times.entries:
            before = self._time(edge)
            channel.times[edge] = EventTime(watermark, idle, ended)
            changed |= self._time(edge) != before
        return changed

    def time(self, edge: int, subtask: int) -> EventTime:
        """Return how far event time has come on an edge: the minimum over its channels."""
        return self._time(edge)

    def _time(self, edge: int) -> EventTime:
        return combine([channel.times[edge] for channel in self.channels.values() if edge in channel.times])
