"""The limit on an epoch's duration: a thread that interrupts the epoch when its time is up. Driver side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from flott.common._durations import rounded_millis
from flott.errors import EpochFailure, EpochTimeoutError
from flott.runtime.clock import Clock

T = TypeVar("T")

#: An epoch that continues although it was interrupted is interrupted again: Spark may not have known it yet.
AGAIN_SECONDS = 1.0


class EpochWatchdog:
    """Watches one epoch after the other. Its thread sleeps until the oldest deadline it knows of, not per epoch."""

    def __init__(self, limit_ms: int, clock: Clock, interrupt: Callable[[], None]):
        self._limit_ms = limit_ms
        self._clock = clock
        self._interrupt = interrupt
        self._ended = threading.Event()
        self._deadline: float | None = None
        self._thread: threading.Thread | None = None

    def limit(self, work: Callable[[], T]) -> T:
        """Return the result of some work; raises :class:`~flott.errors.EpochTimeoutError` if it took too long."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="flott-watchdog", daemon=True)
            self._thread.start()
        started = self._clock.monotonic()
        deadline = self._deadline = started + self._limit_ms / 1000
        try:
            result = work()
        except EpochFailure:
            if self._clock.monotonic() < deadline:
                raise
        finally:
            self._deadline = None
        if self._clock.monotonic() >= deadline:
            raise EpochTimeoutError(
                f"The epoch took longer than {rounded_millis(self._limit_ms)}, so it was cancelled. If it needs that"
                " long, set execution.checkpointing.timeout to more; if it should not, flott.epoch.max-records to less."
            )
        return result

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _watch(self) -> None:
        wait = self._limit_ms / 1000
        while not self._ended.wait(wait):
            deadline = self._deadline
            if deadline is None:
                wait = self._limit_ms / 1000
                continue
            wait = deadline - self._clock.monotonic()
            if wait <= 0:
                self._interrupt()
                wait = AGAIN_SECONDS
