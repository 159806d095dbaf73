"""A pipeline in which records wait between tasks, so that unaligned checkpoints have something to save."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from flott.errors import WorkerLostError
from flott.runtime.managed_state.files.channel_file import QueueEnd
from flott.runtime.pipelined.control import CheckpointSaved, SlotEvent
from flott.runtime.pipelined.local_pipeline import LocalPipeline


def buffers_saved(events: Iterable[SlotEvent]) -> Counter[QueueEnd]:
    """Return how many buffers became part of checkpoints, by the end of the channel that held them."""
    saved = Counter[QueueEnd]()
    for event in events:
        if isinstance(event, CheckpointSaved) and event.channels is not None:
            for section in event.channels.sections:
                saved[section.place] += section.buffers
    return saved


class SlowPipeline(LocalPipeline):
    """Lets tasks behind the sources do one piece of work each before the driver looks."""

    saved: ClassVar[Counter[QueueEnd]] = Counter()  #: buffers that became part of checkpoints in this process

    def events(self) -> list[SlotEvent]:
        """Let all tasks work, those of sources as long as they have something to do."""
        for stage in range(self._stages):
            for slot in self._slots:
                while slot.work_in_stage(stage) and stage == 0:
                    pass
        if self._interrupted:
            raise WorkerLostError("The job was cancelled.")
        happened = list(self._events)
        self._events.clear()
        self.saved.update(buffers_saved(happened))
        return happened

    @property
    def wakeup_ms(self) -> int | None:
        """Return when there is something to do: soon."""
        return self._clock.now_ms() + 1
