"""Credits: a sender transmits no buffer that the receiver has no place for, and keeps the order of its messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import EpochId
from flott.graph.operator_ids import OperatorId
from flott.runtime.pipelined.input_channels import InputChannel, InputChannels
from flott.runtime.pipelined.links import (
    FEWEST_CREDITS,
    MOST_CREDITS,
    WAITING_BUFFERS,
    OutputChannels,
    credits_per_channel,
)
from flott.runtime.pipelined.messages import (
    LONG_QUEUE,
    Barrier,
    Buffer,
    Channel,
    EventTimes,
    LatencyMarker,
    Message,
    Overtaking,
    TaskAddress,
)

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
            other = LatencyMarker(0, number, OperatorId("o"), 0) if number % 2 else Barrier(EpochId(number))
            message: Message = Buffer(number, b"") if step else other
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


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["send", "grant"])), max_size=80))
def test_a_task_is_blocked_while_any_receiver_has_too_many_buffers_waiting(
    credits: int, steps: list[tuple[int, str]]
) -> None:
    class Anyone(Receiver):
        def transmit(self, channel: Channel, message: Message) -> None:
            self.taken.append(message)

    receivers = [TaskAddress(1, number) for number in range(3)]
    outputs = OutputChannels(SENDER, [(receiver, credits) for receiver in receivers], Anyone())
    balance = [credits] * 3  # credits, or less than nothing: buffers that wait for some
    for number, step in steps:
        if step == "grant":
            outputs.granted(receivers[number], 1)
        else:
            outputs.put(receivers[number], Buffer(0, b""))
        balance[number] += 1 if step == "grant" else -1
        waiting = [max(0, -left) for left in balance]
        blocking = [receiver for receiver, found in zip(receivers, waiting, strict=True) if found >= WAITING_BUFFERS]
        assert outputs.blocking == blocking
        assert outputs.is_blocked == bool(blocking)
        assert outputs.waiting_buffers == sum(waiting)


def test_credits_share_the_memory_of_a_task_between_its_channels() -> None:
    assert credits_per_channel(100 << 20, 10, 128 << 10) == MOST_CREDITS
    assert credits_per_channel(8 << 20, 8, 128 << 10) == 8
    assert credits_per_channel(1, 1000, 128 << 10) == FEWEST_CREDITS


# --- barriers that overtake ------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(0, 12), st.booleans(), st.booleans())
def test_a_barrier_that_overtakes_leaves_the_buffers_that_wait_and_returns_them(
    credits: int, buffers: int, at_once: bool, overtakable: bool
) -> None:
    links = Receiver()
    outputs = OutputChannels(SENDER, [(RECEIVER, credits)], links, overtakable={RECEIVER} if overtakable else ())
    sent = [Buffer(0, b"%d" % number) for number in range(buffers)]
    for buffer in sent:
        outputs.put(RECEIVER, buffer)
    barrier = Barrier(EpochId(1), overtaking=Overtaking.NOW if at_once else Overtaking.LATER)
    overtaken = outputs.send_barrier(barrier)
    waits = not at_once and overtakable and buffers > credits
    assert outputs.may_overtake_more(EpochId(1)) == waits
    if not at_once:
        assert overtaken == {}
        overtaken = outputs.overtake(EpochId(1))
    assert not outputs.may_overtake_more(EpochId(1))
    if overtakable:
        assert overtaken[RECEIVER] == sent[credits:]
        assert links.taken[:-1] == sent[:credits]
        assert isinstance(links.taken[-1], Barrier)
    else:
        assert overtaken == {}
    outputs.granted(RECEIVER, buffers)
    assert [message for message in links.taken if isinstance(message, Buffer)] == sent
    assert len(links.taken) == len(sent) + 1


def test_event_time_that_moves_while_a_receiver_takes_nothing_does_not_fill_the_queue_of_its_sender() -> None:
    links = Receiver()
    outputs = OutputChannels(SENDER, [(RECEIVER, 1)], links)
    first, second, barrier = Buffer(0, b"1"), Buffer(0, b"2"), Barrier(EpochId(1))
    outputs.put(RECEIVER, first)
    outputs.put(RECEIVER, second)
    for watermark in range(2 * LONG_QUEUE):
        outputs.put(RECEIVER, times(watermark))
    outputs.put(RECEIVER, barrier)
    outputs.put(RECEIVER, times(2 * LONG_QUEUE))
    outputs.granted(RECEIVER, 1)
    waiting = LONG_QUEUE - 1  # beside the second buffer
    each = [times(watermark) for watermark in range(waiting - 1)]
    assert links.taken == [first, second, *each, times(2 * LONG_QUEUE - 1), barrier, times(2 * LONG_QUEUE)]


def test_a_channel_that_is_held_back_keeps_few_event_times() -> None:
    channel = InputChannel(Channel(SENDER, RECEIVER), [0], FEWEST_CREDITS, 0)
    inputs = InputChannels({SENDER: channel}, [])
    for watermark in range(2 * LONG_QUEUE):
        inputs.receive(SENDER, times(watermark))
    buffer, other = Buffer(0, b""), EventTimes(((1, 5, False, False),))
    for message in (buffer, times(1), other):
        inputs.receive(SENDER, message)
    each = [times(watermark) for watermark in range(LONG_QUEUE - 1)]
    assert list(channel.queue) == [*each, times(2 * LONG_QUEUE - 1), buffer, times(1), other]


def times(watermark: int) -> EventTimes:
    return EventTimes(((0, watermark, False, False),))
