"""How messages and credits get from one task to another. Task side.

Credits are the flow control. A receiver grants a sender so many buffers per channel and grants them again as it
processes them. A sender transmits no buffer without a credit, so what was sent always has a place at the receiver and
nothing ever blocks. Messages that are not buffers need no credit, but they keep their place behind buffers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from flott.runtime.pipelined.messages import Buffer, Channel, Message, TaskAddress

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


def credits_per_channel(memory_bytes: int, channels: int, buffer_bytes: int) -> int:
    """Return how many buffers a task takes per input channel with its share of the network memory."""
    share = memory_bytes // max(1, channels * buffer_bytes)
    return max(FEWEST_CREDITS, min(MOST_CREDITS, share))


class OutputChannel:
    """What a task has to send to another, and how much of it the other takes at present."""

    __slots__ = ("_channel", "_links", "_queue", "credits", "waiting_buffers")

    def __init__(self, channel: Channel, links: Links, credits: int):
        self._channel = channel
        self._links = links
        self._queue: deque[Message] = deque()
        self.credits = credits
        self.waiting_buffers = 0

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
        self._queue.append(message)
        self.waiting_buffers += message.__class__ is Buffer

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
                self.waiting_buffers -= 1
            queue.popleft()
            self._links.transmit(self._channel, message)


class OutputChannels:
    """All output of one task."""

    def __init__(self, sender: TaskAddress, receivers: Iterable[tuple[TaskAddress, int]], links: Links):
        self._channels = {
            receiver: OutputChannel(Channel(sender, receiver), links, credits) for receiver, credits in receivers
        }
        self._all = tuple(self._channels.values())

    @property
    def is_blocked(self) -> bool:
        """Return whether a receiver takes so little that this task must not produce more."""
        return any(channel.waiting_buffers >= WAITING_BUFFERS for channel in self._all)

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

    def put_everywhere(self, message: Message) -> None:
        """Send a message to all receivers."""
        for channel in self._all:
            channel.put(message)

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
