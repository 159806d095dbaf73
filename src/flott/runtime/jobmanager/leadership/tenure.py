"""One leadership, from the moment it was won: it must be confirmed again and again, or it is lost. JobManager side."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from flott.runtime.clock import Clock

log = logging.getLogger("flott.cluster")


class Tenure:
    """Confirms a leadership at an interval, and loses it when that fails for too long.

    What counts is when the last confirmation that succeeded *began*, by the own monotonic clock: a standby waiting for
    signs of life has not seen the last one earlier. A thread of its own watches the time, since a confirmation may
    hang; after the process was stopped for too long it is the first to know.
    """

    def __init__(self, name: str, clock: Clock, began: float, valid_seconds: float, interval_ms: int):
        self.lost = threading.Event()
        self._name = name
        self._clock = clock
        self._confirmed = began
        self._valid = valid_seconds
        self._interval_ms = interval_ms
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def keep(self, confirm: Callable[[], str | None]) -> None:
        """Confirm from now on. ``confirm`` says why the leadership is over, if it is; what it raises is told."""
        for target, arguments in ((self._confirm, (confirm,)), (self._watch, ())):
            thread = threading.Thread(target=target, args=arguments, name=f"flott-{self._name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    @property
    def is_valid(self) -> bool:
        """Return whether the last confirmation still counts."""
        return not self.lost.is_set() and self._clock.monotonic() - self._confirmed < self._valid

    def lose(self, reason: str) -> None:
        """Say that it is over."""
        if not self.lost.is_set():
            log.error("This JobManager does not lead any more: %s.", reason)
            self.lost.set()

    def end(self) -> None:
        """End it without telling, since it was given up."""
        self._ended.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5)
        self.lost.set()

    def _confirm(self, confirm: Callable[[], str | None]) -> None:
        while not self._clock.wait(self._ended, self._interval_ms) and not self.lost.is_set():
            began = self._clock.monotonic()
            try:
                if not self.is_valid:
                    continue  # too late: another process may be taking over
                reason = confirm()
            except Exception as error:
                log.warning("That this JobManager leads could not be confirmed: %s: %s", type(error).__name__, error)
                continue
            if reason is not None:
                self.lose(reason)
            else:
                self._confirmed = began

    def _watch(self) -> None:
        while not self.lost.is_set():
            left = self._confirmed + self._valid - self._clock.monotonic()
            if left <= 0:
                self.lose(f"it could not be confirmed for {self._valid:.1f} s")
                return
            if self._clock.wait(self._ended, max(1, min(int(left * 1000) + 1, self._interval_ms))):
                return
