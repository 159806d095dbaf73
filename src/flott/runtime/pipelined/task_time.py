"""How a task spends its time: busy, back-pressured or idle. Task side.

A task is back-pressured while it has input and a receiver takes no more of its output. It is idle in the remaining time
in which it does not work, also while another task of its slot works.
"""

from __future__ import annotations


class TaskTime:
    """The seconds of one task since they were read last."""

    __slots__ = ("back_pressured", "busy", "since")

    def __init__(self, now: float):
        self.busy = self.back_pressured = 0.0
        self.since = now

    def read(self, now: float) -> tuple[float, float, float]:
        """Return the seconds busy, back-pressured and idle, and begin again."""
        total = max(0.0, now - self.since)
        busy = min(self.busy, total)
        back_pressured = min(self.back_pressured, total - busy)
        self.busy = self.back_pressured = 0.0
        self.since = now
        return busy, back_pressured, total - busy - back_pressured
