"""The last checkpoint of a task, from its snapshot to its report. Task side.

    begin ──► steps: state that was taken aside is encoded ──► files are written by another thread ──► report
                    │                                                                               │
                    └── until all its barriers have come and left (``unreported``)                  └── or why it failed

There is at most one: the next barrier follows the commit, or comes when the driver has given this one up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flott.common._ids import EpochId
from flott.errors import StorageError
from flott.runtime.clock import Clock
from flott.runtime.epoch.failure import card_of
from flott.runtime.epoch.report import SubtaskReport, TaskPlace
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.managed_state.files.channel_file import ChannelFile
from flott.runtime.pipelined.control import CheckpointDeclined, CheckpointSaved, SlotEvent
from flott.runtime.pipelined.file_writing import StateFilesWriter
from flott.runtime.pipelined.links import OutputChannels
from flott.runtime.pipelined.messages import TaskAddress
from flott.runtime.pipelined.unreported import Unreported

#: A busy task works so many times as long as the last step of saving took before it takes the next one: records that
#: arrive while a checkpoint is being saved must not queue up behind it.
WORK_PER_STEP = 3.0


class CheckpointSaving:
    """Saves and reports the checkpoints of one task. All but the writing of files is done in the thread of the task."""

    def __init__(
        self,
        task: StageTask,
        address: TaskAddress,
        outputs: OutputChannels,
        clock: Clock,
        report: Callable[[SlotEvent], None],
        place: TaskPlace,
        writer: StateFilesWriter,
    ):
        self.unreported: Unreported | None = None  #: the last checkpoint, until its files are handed over
        self._task = task
        self._address = address
        self._outputs = outputs
        self._clock = clock
        self._report = report
        self._place = place
        self._writer = writer
        self._step_at = 0.0  #: when a busy task may take the next step, by the monotonic clock

    @property
    def has_work(self) -> bool:
        """Return whether state waits to be encoded."""
        return self.unreported is not None and not self.unreported.is_saved

    def begin(self, unreported: Unreported) -> None:
        """Take on a checkpoint whose snapshot was taken. If nothing is left to do, it is reported at once."""
        self.unreported = unreported
        if unreported.is_complete(self._outputs):
            self._hand_over(unreported)

    def step(self, is_busy: Callable[[], bool]) -> bool:
        """Encode a part of the state, if it is time, and report the checkpoint after the last one.

        ``is_busy``: whether the task could process input instead. Return whether anything was done.
        """
        unreported = self.unreported
        if unreported is None:
            return False
        unreported.recording.encode()
        at_work = next((one for one in unreported.saving if not one.steps.is_done), None)
        if at_work is not None:
            before = self._clock.monotonic()
            if before < self._step_at and is_busy():
                return False
            self._task.turn_to(at_work.subtask)
            at_work.steps.step()
            after = self._clock.monotonic()
            self._step_at = after + WORK_PER_STEP * (after - before)
        if not unreported.is_complete(self._outputs):
            return at_work is not None
        self._hand_over(unreported)
        return True

    def overtake(self, checkpoint: EpochId) -> bool:
        """Let the barriers of a checkpoint that wait overtake buffers; return whether its snapshot was taken."""
        if self.unreported is None or self.unreported.checkpoint != checkpoint:
            return False
        self.unreported.overtake(self._outputs)
        return True

    def give_up(self, checkpoint: EpochId) -> None:
        """Wait for no more buffers of a checkpoint that the driver has given up."""
        if self.unreported is not None and self.unreported.checkpoint <= checkpoint:
            self.unreported.is_given_up = True

    def abandon(self) -> None:
        """Report what is left of a checkpoint: another one begins, so the driver has given it up."""
        if self.unreported is not None:
            self.unreported.is_given_up = True
            self._hand_over(self.unreported)

    def _hand_over(self, unreported: Unreported) -> None:
        """Hand the files over to be written; the checkpoint is reported when they are durable."""
        self.unreported = None
        found = []
        for one, report in zip(unreported.saving, unreported.reports, strict=True):
            self._task.turn_to(one.subtask)
            found.append(replace(report, operators=one.steps.finish()))
        channels = unreported.save_channels(self._address, self._task.image)

        def acknowledge(error: StorageError | None) -> None:
            reports = unreported.reports_at(found, self._clock.monotonic(), channels)
            if error is None:
                self._report(CheckpointSaved(unreported.checkpoint, reports, channels))
            else:
                self._decline(unreported.checkpoint, reports, channels, error)

        self._writer.write(unreported.aside, self._task.image.storage, acknowledge)

    def _decline(
        self,
        checkpoint: EpochId,
        reports: tuple[SubtaskReport, ...],
        channels: ChannelFile | None,
        error: StorageError,
    ) -> None:
        """Report why a checkpoint could not be written."""
        subtask = self._task.subtasks[0]
        card = card_of(error, subtask.vertex.name, subtask.index, subtask.scope)
        card = replace(card, epoch=checkpoint, host=self._place.host, executor=self._place.executor)
        self._report(CheckpointDeclined(checkpoint, reports, card, channels))
