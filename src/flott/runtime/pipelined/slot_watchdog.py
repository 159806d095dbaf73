"""Tells the driver that a slot lives, its load and what its tasks wait for, also when user code does not return.

A thread of its own looks at the slot once a second. It sends at every heartbeat, and at once when what tasks wait for
has changed, or when they have done more than an idle slot does. Task side.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Sequence

from flott.runtime.clock import Clock
from flott.runtime.pipelined.control import SlotAlive, SubtaskLoad, TaskWait
from flott.runtime.pipelined.messages import TaskAddress
from flott.runtime.pipelined.slot import TaskSlot
from flott.runtime.pipelined.task_load import is_worth_telling
from flott.runtime.pipelined.waits import lasting, stuck, waits_of, writing

log = logging.getLogger("flott.connections")

#: How often it looks.
LOOK_MS = 1000


class SlotWatchdog:
    """Watches one slot. It is made in the thread of the slot's loop, which it watches."""

    def __init__(self, slot: TaskSlot, pulse: Callable[[], int], send: Callable[[SlotAlive], None], clock: Clock):
        self._slot = slot
        self._pulse = pulse  #: another number whenever the loop has come around; negative while it waits for events
        self._send = send
        self._clock = clock
        self._loop = threading.get_ident()
        self._ended = threading.Event()
        self._last_pulse = -1
        self._last_write: int | None = None
        self._worked: dict[TaskAddress, object] = {}
        self._waits: tuple[TaskWait, ...] = ()
        self._sent: tuple[float, Sequence[object]] = (clock.monotonic(), ())
        self._sent_loads: tuple[SubtaskLoad, ...] = ()
        self._looked = clock.monotonic()
        self._heartbeat_ms = slot.settings.rules.heartbeat_ms
        self._thread = threading.Thread(target=self._run, name="flott-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(min(LOOK_MS, self._heartbeat_ms) / 1000):
            self.look()

    def look(self) -> None:
        """Look at the slot, and send what is to be sent."""
        now, slot = self._clock.monotonic(), self._slot
        try:
            found = self._find()
            loads = tuple(load for task in slot.tasks.values() for load in task.load.at(now))
        except Exception as error:  # the tasks change while it looks; the heartbeat must go on
            log.debug("What tasks wait for could not be found.", exc_info=error)
            found, loads = [], self._sent_loads
        self._waits = lasting(self._waits, found, int((now - self._looked) * 1000))
        self._looked = now
        told = [(wait.name, wait.reason) for wait in self._waits]
        is_due = (now - self._sent[0]) * 1000 >= self._heartbeat_ms
        if is_due or told != self._sent[1] or is_worth_telling(self._sent_loads, loads):
            self._sent, self._sent_loads = (now, told), loads
            self._send(SlotAlive(slot.partition, self._waits, loads))

    def _find(self) -> list[TaskWait]:
        slot, image = self._slot, self._slot.settings.image
        pulse, before = self._pulse(), self._last_pulse
        self._last_pulse = pulse
        if pulse >= 0 and pulse == before:
            return [stuck(image, slot.address_at_work, sys._current_frames().get(self._loop))]
        worked = {address: (task.time.busy, task.time.since) for address, task in slot.tasks.items()}
        still = [task for address, task in slot.tasks.items() if self._worked.get(address) == worked[address]]
        self._worked = dict(worked)
        write, before_write = slot.oldest_write, self._last_write
        self._last_write = write
        is_writing = write is not None and write == before_write
        return [*waits_of(image, still), *([writing(image, slot.partition)] if is_writing else [])]
