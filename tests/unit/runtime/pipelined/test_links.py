"""Credits: a sender transmits no buffer that the receiver has no place for, and keeps the order of its messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import EpochId
from flott.runtime.pipelined.links import (
    FEWEST_CREDITS,
    MOST_CREDITS,
    WAITING_BUFFERS,
    OutputChannels,
    credits_per_channel,
)
from flott.runtime.pipelined.messages import Barrier, Buffer, Channel, Message, TaskAddress

SENDER, RECEIVER = TaskAddress(0, 0), TaskAddress(1, 0)


class Receiver:
    """Links that keep what was transmitted."""

    def __init__(self) -> None:
        self.taken: list[Message] = []

    def transmit(self, channel: Channel, message: Message) -> None:
        assert channel == (SENDER, RECEIVER)
        self.taken.append(message)

    def grant(self, channel: Channel, credits: int) -> None:
        raise AssertionError("a sender grants nothing")


@given(st.integers(1, 4), st.lists(st.one_of(st.booleans(), st.integers(1, 3)), max_size=60))
def test_messages_keep_their_order_and_buffers_need_credits(credits: int, steps: list[bool | int]) -> None:
    links = Receiver()
    outputs = OutputChannels(SENDER, [(RECEIVER, credits)], links)
    sent: list[Message] = []
    granted = credits
    for number, step in enumerate(steps):
        if step is True or step is False:
            message: Message = Buffer(number, b"") if step else Barrier(EpochId(number))
            sent.append(message)
            outputs.put(RECEIVER, message)
        else:
            granted += step
            outputs.granted(RECEIVER, step)
        assert links.taken == sent[: len(links.taken)]
        assert sum(isinstance(message, Buffer) for message in links.taken) <= granted
        waiting = sent[len(links.taken) :]
        assert outputs.waiting_buffers == sum(isinstance(message, Buffer) for message in waiting)
        assert outputs.is_blocked == (outputs.waiting_buffers >= WAITING_BUFFERS)
        assert not waiting or isinstance(waiting[0], Buffer), "only a buffer may wait for a credit"
    outputs.granted(RECEIVER, len(steps))
    assert links.taken == sent


def test_credits_share_the_memory_of_a_task_between_its_channels() -> None:
    assert credits_per_channel(100 << 20, 10, 128 << 10) == MOST_CREDITS
    assert credits_per_channel(8 << 20, 8, 128 << 10) == 8
    assert credits_per_channel(1, 1000, 128 << 10) == FEWEST_CREDITS
