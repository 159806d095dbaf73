"""The pauses between two questions to a JobManager: short at first, longer for what takes long. Client side."""

from __future__ import annotations

import threading

from flott.runtime.clock import Clock

_FIRST_MS = 20
_LONGEST_MS = 1000


class Pauses:
    """Pauses that grow."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self._next_ms = _FIRST_MS

    def start_again(self) -> None:
        """With a short one: something has happened."""
        self._next_ms = _FIRST_MS

    def wait(self) -> None:
        """The next one."""
        self._clock.wait(threading.Event(), self._next_ms)
        self._next_ms = min(_LONGEST_MS, self._next_ms * 3 // 2)
