"""A bell that ends a wait: rung from any thread, heard by the one that waits."""

from __future__ import annotations

import threading

from flott.runtime.clock import Clock


class Bell:
    """Waits by a clock until the time is up or somebody rings."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._event = threading.Event()
        self._rung = False
        self._lock = threading.Lock()  #: the two change together

    def ring(self) -> None:
        """End the wait, or the next one if nobody waits now. From any thread."""
        with self._lock:
            self._rung = True
            self._event.set()

    def wait(self, delay_ms: int) -> bool:
        """Wait; False if the clock has come to its end, which stops whoever waits."""
        woken = self._clock.wait(self._event, delay_ms)
        with self._lock:
            goes_on = self._rung or not woken
            self._rung = False
            self._event.clear()  # before anybody looks at what was asked for: a later call rings again
        return goes_on
