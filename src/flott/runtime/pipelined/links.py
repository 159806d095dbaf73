"""How messages and credits get from one task to another. Task side.

Credits are the flow control. A receiver grants a sender so many buffers per channel and grants them again as it
processes them. A sender transmits no buffer without a credit, so what was sent always has a place at the receiver and
nothing ever blocks. Messages that are not buffers need no credit, but they keep their place behind buffers. Only the
barrier of an unaligned checkpoint leaves its place: what it overtakes is saved with the checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Protocol

from flott.common._ids import EpochId
from flott.runtime.pipelined.messages import (
    Barrier,
    Buffer,
    Channel,
    Message,
    Overtaking,
    TaskAddress,
    encoded,
    enqueue,
)

#: Buffers that a receiver takes per channel before it has processed any, where memory allows it, and at least.
MOST_CREDITS = 16
FEWEST_CREDITS = 2
#: A sender with so many buffers that it may not transmit processes no more input.
WAITING_BUFFERS = 2


class Links(Protocol):
    """Carries messages to receivers, and credits back to senders."""

    def transmit(self, channel: Channel, message: Message) -> None:
        """Carry a message to the receiver. Never waits: what is transmitted has a place there."""

    def grant(self, channel: Channel, credits: int) -> None:
        """Allow the sender of a channel to transmit so many more buffers."""

    def shares_process(self, partition: int) -> bool:
        """Return whether the tasks of a slot are in this process, so that they take records as they are."""


def credits_per_channel(memory_bytes: int, channels: int, buffer_bytes: int) -> int:
    """Return how many buffers a task takes per input channel with its share of the network memory."""
    share = memory_bytes // max(1, channels * buffer_bytes)
    return max(FEWEST_CREDITS, min(MOST_CREDITS, share))


class Congestion:
    """How many output channels of a task hold so many buffers that it must not produce more."""

    __slots__ = ("channels",)

    def __init__(self) -> None:
        self.channels = 0


class OutputChannel:
    """What a task has to send to another, and how much of it the other takes at present."""

    __slots__ = ("_channel", "_congestion", "_links", "_queue", "credits", "may_be_overtaken", "waiting_buffers")

    def __init__(
        self, channel: Channel, links: Links, credits: int, congestion: Congestion, may_be_overtaken: bool = False
    ):
        self._channel = channel
        self._links = links
        self._queue: deque[Message] = deque()
        self._congestion = congestion
        self.credits = credits
        self.waiting_buffers = 0
        self.may_be_overtaken = may_be_overtaken  #: by the barriers of unaligned checkpoints

    def put(self, message: Message) -> None:
        """Send a message, at once if nothing waits before it."""
        if not self._queue:
            if message.__class__ is not Buffer:
                self._links.transmit(self._channel, message)
                return
            if self.credits:
                self.credits -= 1
                self._links.transmit(self._channel, message)
                return
        enqueue(self._queue, message)
        if message.__class__ is Buffer:
            self.waiting_buffers += 1
            self._congestion.channels += self.waiting_buffers == WAITING_BUFFERS

    def put_first(self, barrier: Barrier) -> list[Message]:
        """Send a barrier ahead of everything that waits; return what it has overtaken, encoded."""
        self._links.transmit(self._channel, barrier)
        return [encoded(message) for message in self._queue]

    def overtake(self, checkpoint: EpochId) -> list[Message]:
        """Send a barrier that waits behind buffers at once; return what it has overtaken, encoded."""
        overtaken: list[Message] = []
        for position, message in enumerate(self._queue):
            if isinstance(message, Barrier) and message.checkpoint == checkpoint:
                del self._queue[position]
                self._links.transmit(self._channel, replace(message, overtaking=Overtaking.NOW))
                return overtaken
            overtaken.append(encoded(message))
        return []

    def holds_barrier(self, checkpoint: EpochId) -> bool:
        """Return whether the barrier of a checkpoint waits behind buffers."""
        return any(isinstance(message, Barrier) and message.checkpoint == checkpoint for message in self._queue)

    def granted(self, credits: int) -> None:
        """Take credits and send what they allow."""
        self.credits += credits
        queue = self._queue
        while queue:
            message = queue[0]
            if message.__class__ is Buffer:
                if not self.credits:
                    return
                self.credits -= 1
                self._congestion.channels -= self.waiting_buffers == WAITING_BUFFERS
                self.waiting_buffers -= 1
            queue.popleft()
            self._links.transmit(self._channel, message)


class OutputChannels:
    """All output of one task."""

    def __init__(
        self,
        sender: TaskAddress,
        receivers: Iterable[tuple[TaskAddress, int]],
        links: Links,
        overtakable: Container[TaskAddress] = (),
    ):
        self._congestion = Congestion()
        self._channels = {
            receiver: OutputChannel(
                Channel(sender, receiver), links, credits, self._congestion, receiver in overtakable
            )
            for receiver, credits in receivers
        }
        self._all = tuple(self._channels.values())

    @property
    def is_blocked(self) -> bool:
        """Return whether a receiver takes so little that this task must not produce more."""
        return self._congestion.channels > 0

    @property
    def waiting_buffers(self) -> int:
        """Return how many buffers wait for credits."""
        return sum(channel.waiting_buffers for channel in self._all)

    @property
    def blocking(self) -> list[TaskAddress]:
        """Return the receivers that this task waits for."""
        return [address for address, channel in self._channels.items() if channel.waiting_buffers >= WAITING_BUFFERS]

    def put(self, receiver: TaskAddress, message: Message) -> None:
        """Send a message to one task."""
        self._channels[receiver].put(message)

    def send_barrier(self, barrier: Barrier) -> dict[TaskAddress, list[Message]]:
        """Send a barrier to all receivers; return what it has overtaken, by receiver."""
        overtaken = {}
        for receiver, channel in self._channels.items():
            if barrier.overtaking is Overtaking.NOW and channel.may_be_overtaken:
                overtaken[receiver] = channel.put_first(barrier)
            else:
                channel.put(barrier)
        return overtaken

    def overtake(self, checkpoint: EpochId) -> dict[TaskAddress, list[Message]]:
        """Let the barriers of a checkpoint that wait overtake buffers; return what they have overtaken."""
        return {
            receiver: channel.overtake(checkpoint)
            for receiver, channel in self._channels.items()
            if channel.may_be_overtaken
        }

    def may_overtake_more(self, checkpoint: EpochId) -> bool:
        """Return whether a barrier of a checkpoint waits that may still overtake buffers."""
        return any(channel.may_be_overtaken and channel.holds_barrier(checkpoint) for channel in self._all)

    def granted(self, receiver: TaskAddress, credits: int) -> None:
        """Take credits of a receiver."""
        self._channels[receiver].granted(credits)


class LocalLinks:
    """Links between tasks of one process: a message is in the receiver's queue at once."""

    def __init__(self) -> None:
        self.receive: dict[TaskAddress, Callable[[TaskAddress, Message], None]] = {}
        self.granted: dict[TaskAddress, Callable[[TaskAddress, int], None]] = {}

    def transmit(self, channel: Channel, message: Message) -> None:
        self.receive[channel.receiver](channel.sender, message)

    def grant(self, channel: Channel, credits: int) -> None:
        self.granted[channel.sender](channel.receiver, credits)

    def shares_process(self, partition: int) -> bool:
        return True
