"""How a task spends its time: busy, back-pressured or idle. Task side.

A task is back-pressured while it has input and a receiver takes no more of its output. It is idle in the remaining time
in which it does not work, also while another task of its slot works.
"""

from __future__ import annotations


class TaskTime:
    """The seconds of one task since its start, and since they were read last.

    The thread of its slot writes. ``until`` may be called by another thread meanwhile: it reads what is complete first,
    and what lasts is cleared before it is added. So it may return less than there is for a moment, but never more.
    """

    __slots__ = ("_read", "back_pressured", "blocked_since", "busy", "since", "works_since")

    def __init__(self, now: float):
        self.busy = self.back_pressured = 0.0
        self.works_since: float | None = None  #: when the piece of work at hand began
        self.blocked_since: float | None = None  #: when the wait began that has not been added yet
        self.since = now  #: when it was read last
        self._read = (0.0, 0.0)  #: what it was then

    def read(self, now: float) -> tuple[float, float, float]:
        """Return the seconds busy, back-pressured and idle since the last call."""
        total = max(0.0, now - self.since)
        busy = min(self.busy - self._read[0], total)
        back_pressured = min(self.back_pressured - self._read[1], total - busy)
        self._read = (self.busy, self.back_pressured)
        self.since = now
        return busy, back_pressured, total - busy - back_pressured

    def until(self, now: float) -> tuple[float, float]:
        """Return the seconds busy and back-pressured since the start, with those of what still lasts."""
        busy, back_pressured = self.busy, self.back_pressured
        works_since, blocked_since = self.works_since, self.blocked_since
        if works_since is not None:
            busy += max(0.0, now - works_since)
        if blocked_since is not None:
            back_pressured += max(0.0, now - blocked_since)
        return busy, back_pressured
