"""The one place that reads the wall clock. Everything else is handed a time, or a clock, as a parameter."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring durations."""

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        """Wait until the time has passed or the event is set; whether it is."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.perf_counter()

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        return stop.wait(delay_ms / 1000)
