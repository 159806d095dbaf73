"""The input of a task: a queue for each channel, which of them may be read, and the event time of each. Task side.

A source is an input too. Its queue holds what the driver wants of it: rounds to read, and barriers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from flott.common._ids import EpochId
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.gate import combine
from flott.runtime.operators.operator import EventTime
from flott.runtime.pipelined.barrier_alignment import BarrierAlignment, Reaction, on_barrier
from flott.runtime.pipelined.control import InjectBarrier, ReadRound
from flott.runtime.pipelined.links import Links
from flott.runtime.pipelined.messages import Barrier, Buffer, Channel, EventTimes, Message, TaskAddress

T = TypeVar("T")

Sourced = ReadRound | Barrier


class InputChannel:
    """What has come from one sender and was not processed yet."""

    __slots__ = ("_grant_at", "_processed", "bytes_received", "channel", "priority", "queue", "times")

    def __init__(self, channel: Channel, edges: Iterable[int], credits: int, priority: int):
        self.channel = channel
        self.queue: deque[Message] = deque()
        self.times = dict.fromkeys(edges, EventTime())
        self.priority = priority  #: a channel with a lower one is read first, if both have something
        self.bytes_received = 0  #: since the last checkpoint
        self._processed = 0
        self._grant_at = max(1, credits // 2)  # not one by one: a credit is a message where tasks are apart

    def processed(self, links: Links) -> None:
        """Grant the sender another buffer in place of one that was processed."""
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


class InputChannels:
    """All inputs of one task. It is the gate of the steps of a task: it knows the event time of every edge."""

    def __init__(
        self,
        channels: Mapping[TaskAddress, InputChannel],
        sources: Iterable[OperatorId],
        *,
        exactly_once: bool = True,
        fair: bool = True,
    ):
        self.channels = dict(channels)
        self.sources = {source: SourceQueue(source) for source in sources}
        inputs = frozenset[Hashable](self.channels.keys() | self.sources.keys())
        self.alignment = BarrierAlignment(inputs, exactly_once)
        self._turn = deque(sorted(self.channels.values(), key=lambda channel: (channel.priority, channel.channel)))
        self._in_turn = fair and len({channel.priority for channel in self._turn}) <= 1

    def receive(self, sender: TaskAddress, message: Message) -> None:
        """Take a message from a channel."""
        channel = self.channels[sender]
        if message.__class__ is Buffer and isinstance(message.payload, bytes):
            channel.bytes_received += len(message.payload)
        channel.queue.append(message)

    def order(self, command: ReadRound | InjectBarrier) -> None:
        """Take an order for a source."""
        wanted = command if isinstance(command, ReadRound) else Barrier(command.checkpoint, command.final)
        self.sources[command.source].queue.append(wanted)

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

    def on_barrier(self, source: Hashable, checkpoint: EpochId) -> Reaction:
        """Note the barrier of an input."""
        self.alignment, reaction = on_barrier(self.alignment, source, checkpoint)
        return reaction

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
