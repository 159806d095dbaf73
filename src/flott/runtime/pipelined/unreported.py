"""A checkpoint of a task between its snapshot and its report: which buffers belong to it is not known at once.

    queued     ahead of the barrier in an input channel when the snapshot was taken     known at once
    recorded   came later, in a channel whose barrier had not come                      until all barriers have come
    overtaken  waited for credits when the barrier left, or stopped waiting itself      until all barriers have left

An aligned checkpoint has none of them and is reported at once, unless its barriers may still overtake buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from flott.common._ids import EpochId
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.report import CheckpointTimes, SubtaskReport
from flott.runtime.epoch.task_steps import SavingSubtask
from flott.runtime.managed_state.files.channel_file import (
    ChannelFile,
    QueueEnd,
    SavedBuffers,
    encode_channel_file,
    encode_time,
)
from flott.runtime.pipelined.file_writing import FilesAside
from flott.runtime.pipelined.input_channels import Recording
from flott.runtime.pipelined.links import OutputChannels
from flott.runtime.pipelined.messages import Barrier, Buffer, EventTimes, Message, Overtaking, TaskAddress


@dataclass
class Unreported:
    """A checkpoint whose snapshot was taken."""

    barrier: Barrier  #: as the task has passed it on
    saving: list[SavingSubtask]  #: its state, which is encoded step by step
    reports: tuple[SubtaskReport, ...]  #: without those of operators
    times: CheckpointTimes  #: up to the snapshot
    taken: float  #: when the snapshot had been taken, by the monotonic clock
    aside: FilesAside  #: its files so far
    file: str  #: the name for its channel state, if there is any
    recording: Recording
    overtaken: dict[TaskAddress, list[Message]]  #: by receiver
    is_given_up: bool = False  #: what tasks report of it counts, but its buffers do not

    @property
    def checkpoint(self) -> EpochId:
        """Return its number."""
        return self.barrier.checkpoint

    @property
    def is_saved(self) -> bool:
        """Return whether its state was encoded."""
        return all(one.steps.is_done for one in self.saving)

    def is_complete(self, outputs: OutputChannels) -> bool:
        """Return whether its state was encoded and no more buffers can become part of it."""
        if not self.is_saved:
            return False
        if self.is_given_up:
            return True
        if self.recording.awaited:
            return False
        return self.barrier.overtaking is Overtaking.NEVER or not outputs.may_overtake_more(self.checkpoint)

    def overtake(self, outputs: OutputChannels) -> None:
        """Let its barriers that wait to leave overtake buffers, unless it stays aligned."""
        if self.barrier.overtaking is Overtaking.LATER:
            self.barrier = replace(self.barrier, overtaking=Overtaking.NOW)
            self.overtaken |= outputs.overtake(self.checkpoint)

    def reports_at(
        self, reports: Iterable[SubtaskReport], now: float, channels: ChannelFile | None
    ) -> tuple[SubtaskReport, ...]:
        """Return reports with the times of the checkpoint, once all files are durable."""
        times = replace(
            self.times, async_ms=(now - self.taken) * 1000, unaligned=self.barrier.overtaking is Overtaking.NOW
        )
        return tuple(
            replace(report, checkpoint=replace(times, persisted_bytes=_persisted(report, channels)))
            for report in reports
        )

    def save_channels(self, address: TaskAddress, image: JobImage) -> ChannelFile | None:
        """Add the file with all buffers that belong to it to its files; None if there are none."""
        if self.is_given_up or not any(isinstance(message, Buffer) for found in self._messages() for message in found):
            return None
        saved = [*self._received(address, image), *self._unsent(address, image)]
        file, data = encode_channel_file(self.file, saved)
        self.aside.write(file.name, data)
        return file

    def _messages(self) -> Iterator[list[Message]]:
        yield from self.recording.messages.values()
        yield from self.overtaken.values()

    def _received(self, address: TaskAddress, image: JobImage) -> Iterator[SavedBuffers]:
        for sender, messages in self.recording.messages.items():
            yield from _by_edge(messages, sender, address, QueueEnd.RECEIVER, image)

    def _unsent(self, address: TaskAddress, image: JobImage) -> Iterator[SavedBuffers]:
        for receiver, messages in self.overtaken.items():
            yield from _by_edge(messages, address, receiver, QueueEnd.SENDER, image)


def _persisted(report: SubtaskReport, channels: ChannelFile | None) -> int:
    """Return how many bytes that waited before or behind a subtask were saved."""
    sections = channels.sections if channels is not None else ()
    return sum(
        part.payload_bytes
        for part in sections
        if (part.edge.target if part.place is QueueEnd.RECEIVER else part.edge.source) in report.operators
    )


def _by_edge(
    messages: Iterable[Message], sender: TaskAddress, receiver: TaskAddress, place: QueueEnd, image: JobImage
) -> Iterator[SavedBuffers]:
    found: dict[int, list[bytes]] = {}
    for message in messages:  # latency markers are left out: they are not part of checkpoints
        if isinstance(message, Buffer):
            assert isinstance(message.payload, bytes)
            found.setdefault(message.edge, []).append(message.payload)
        elif isinstance(message, EventTimes):
            for edge, watermark, idle, ended in message.entries:
                found.setdefault(edge, []).append(encode_time(watermark, idle, ended))
    for edge, entries in found.items():
        shape = image.edges[edge]
        if shape.may_be_overtaken:
            yield SavedBuffers(shape.ident, shape.partitioning, sender.partition, receiver.partition, place, entries)
