"""How many buffers tasks may send each other, so that those of a slot fit into its memory. Pure. Task and driver side.

    at the receiver   so many for each channel as it grants credits; they are there until they are processed
    at the sender     for each channel those that wait for credits, and for each of its edges the one that is filled

A channel inside a slot counts at both ends, although its buffers are there once: a task may move all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flott.common import _options as options
from flott.errors import ConfigurationError
from flott.runtime.epoch.exchange import BUFFER_BYTES
from flott.runtime.epoch.image import JobImage, TaskSettings
from flott.runtime.pipelined.channels import ChannelEdges, find_channels
from flott.runtime.pipelined.links import FEWEST_CREDITS, MOST_CREDITS, WAITING_BUFFERS, credits_per_channel
from flott.runtime.pipelined.messages import TaskAddress


def credits_of(receiver: TaskAddress, channels: Sequence[ChannelEdges], settings: TaskSettings) -> int:
    """Return how many buffers a task takes per channel before it has processed any."""
    if settings.network_memory_bytes is None:
        own = sum(found.channel.receiver == receiver for found in channels)
        return credits_per_channel(settings.input_memory_bytes, own, BUFFER_BYTES)
    buffers = settings.network_memory_bytes // BUFFER_BYTES - buffers_of_senders(channels)[receiver.partition]
    received = sum(found.channel.receiver.partition == receiver.partition for found in channels)
    return max(FEWEST_CREDITS, min(MOST_CREDITS, buffers // max(1, received)))


def buffers_of_senders(channels: Sequence[ChannelEdges]) -> Counter[int]:
    """Return how many buffers the senders of each slot hold at most."""
    held = Counter[int]()
    for found in channels:
        held[found.channel.sender.partition] += WAITING_BUFFERS + len(found.edges)
    return held


def buffers_needed(channels: Sequence[ChannelEdges]) -> int:
    """Return how many buffers the slot with most of them needs at least."""
    needed = buffers_of_senders(channels)
    for found in channels:
        needed[found.channel.receiver.partition] += FEWEST_CREDITS
    return max(needed.values(), default=0)


def check_network_memory(image: JobImage) -> None:
    """Refuse a job whose buffers do not fit into the memory that a slot has for them."""
    memory = image.settings.network_memory_bytes
    if memory is None:
        return
    needed = buffers_needed(find_channels(image)) * BUFFER_BYTES
    if needed > memory:
        raise ConfigurationError(
            f"{options.NETWORK_MEMORY_MAX.key} is {memory // 1024} kb, but a slot of the pipelined job needs at least"
            f" {needed // 1024} kb for the buffers of its connections. Set it to that or more, or lower"
            " parallelism.default: each subtask is connected with all subtasks of an exchange."
        )
