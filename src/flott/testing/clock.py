"""A clock that advances only when code waits, so that tests of timers, idleness and restarts take no time."""

from __future__ import annotations

import threading


class ManualClock:
    """A :class:`~flott.runtime.clock.Clock` whose time passes only by ``advance`` and by waiting.

    >>> clock = ManualClock(1_000)
    >>> clock.wait(threading.Event(), 500)
    False
    >>> clock.now_ms()
    1500
    """

    def __init__(self, now_ms: int = 1_000_000, until_ms: int | None = None):
        self._now_ms = now_ms
        self._until_ms = until_ms  #: a wait beyond this time returns "stop": an endless job is cancelled
        self.waits: list[int] = []  #: every wait so far, in milliseconds

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        if not stop.is_set():
            self.waits.append(delay_ms)
            self.advance(delay_ms)
        if self._until_ms is not None and self._now_ms >= self._until_ms:
            stop.set()
        return stop.is_set()

    def advance(self, by_ms: int) -> None:
        """Advance the time."""
        self._now_ms += by_ms
