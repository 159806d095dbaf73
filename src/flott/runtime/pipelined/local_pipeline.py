"""The in-process form: all slots of a job in one loop, in the calling thread. Breakpoints work. Driver and task side.

Time is that of the clock it is given, so a test can use one that passes only when the job waits.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from flott.errors import WorkerLostError
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.local_runner import LocalCompactor
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.pipelined.channels import find_channels, slots_of
from flott.runtime.pipelined.control import Command, SlotEvent, SlotLost, SubtaskLoad, TaskWait
from flott.runtime.pipelined.file_writing import ImmediateWriter, StateFilesWriter
from flott.runtime.pipelined.links import LocalLinks
from flott.runtime.pipelined.messages import Message, TaskAddress
from flott.runtime.pipelined.network_memory import check_network_memory
from flott.runtime.pipelined.runner import PipelineStart
from flott.runtime.pipelined.slot import SlotSettings, TaskSlot
from flott.runtime.pipelined.waits import waits_of


class LocalPipeline:
    """Runs the tasks of a job in the calling thread."""

    follows_splits = False  # the result of a program depends on its rounds alone

    def __init__(
        self, clock: Clock | None = None, new_writer: Callable[[], StateFilesWriter] = ImmediateWriter
    ) -> None:
        self._clock = clock or SystemClock()
        self._new_writer = new_writer  #: of state files, one for each slot
        self._compactor = LocalCompactor()
        self._slots: list[TaskSlot] = []
        self._events: list[SlotEvent] = []
        self._stages = 0
        self._interrupted = False

    @property
    def compactor(self) -> StateCompactor:
        return self._compactor

    @property
    def slots(self) -> list[TaskSlot]:
        """Return the slots, for tests that look inside."""
        return self._slots

    def check(self, image: JobImage) -> None:
        """Accept every job whose buffers have the memory they need: slots cost nothing here."""
        check_network_memory(image)
        self._compactor.storage = image.storage

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        image.prepare_process()
        self._compactor.storage = image.storage
        links = LocalLinks()
        settings = SlotSettings(image, start.plan, tuple(find_channels(image)), start.rules, start.run, fair=False)
        self._events.clear()
        self._stages = len(image.topology.stages)
        report = self._events.append
        self._slots = [
            TaskSlot(settings, slot, links, self._clock, report, writer=self._new_writer())
            for slot in range(slots_of(image))
        ]
        for slot in self._slots:
            slot.open()
            for address in slot.tasks:
                links.receive[address] = _receiver(slot, address)
                links.granted[address] = _granted(slot, address)
        for slot in self._slots:
            slot.start()
        if self._interrupted:
            self.interrupt()

    def send(self, slot: int, command: Command) -> None:
        self._slots[slot].obey(command)

    def events(self) -> list[SlotEvent]:
        try:
            while self._work() and not self._interrupted:
                pass
        except SystemExit as error:  # user code ends the task, as it would end a worker, not this process
            self._events.append(SlotLost(f"User code has ended the worker: sys.exit({error.code!r})."))
        if self._interrupted:
            raise WorkerLostError("The job was cancelled.")
        happened = list(self._events)
        self._events.clear()
        return happened

    def _work(self) -> bool:
        """Let tasks work, stage after stage, each until it has nothing left to do; return whether any did.

        So a record is processed in the order of its edge, channel and position, as in an epoch, as long as what a round
        brings fits into the channels. The result of a program then depends on its rounds alone.
        """
        worked = False
        for stage in range(self._stages):
            for slot in self._slots:
                while slot.work_in_stage(stage):
                    worked = True
                    if self._interrupted:
                        return False
        return worked

    def waits(self) -> tuple[TaskWait, ...]:
        return tuple(wait for slot in self._slots for wait in waits_of(slot.settings.image, slot.tasks.values()))

    def take_loads(self) -> tuple[SubtaskLoad, ...]:
        """Return nothing: while the job's thread could tell them, its tasks do not work."""
        return ()

    @property
    def wakeup_ms(self) -> int | None:
        times = [at for slot in self._slots if (at := slot.wakeup_ms) is not None]
        resuming = [then for slot in self._slots if (then := slot.resume_at) is not None]
        if resuming:
            left_ms = (min(resuming) - self._clock.monotonic()) * 1000
            times.append(self._clock.now_ms() + max(0, ceil(left_ms - 1e-6)))  # of whole milliseconds, none is added
        return min(times, default=None)

    def interrupt(self) -> None:
        self._interrupted = True
        for slot in self._slots:
            slot.interrupt()

    def stop(self) -> None:
        for slot in self._slots:
            slot.close()
        self._slots = []

    def close(self) -> None:
        self.stop()


def _receiver(slot: TaskSlot, address: TaskAddress) -> Callable[[TaskAddress, Message], None]:
    return lambda sender, message: slot.receive(address, sender, message)


def _granted(slot: TaskSlot, address: TaskAddress) -> Callable[[TaskAddress, int], None]:
    return lambda receiver, credits: slot.granted(address, receiver, credits)
