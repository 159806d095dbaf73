"""A round that a source subtask is reading, between two of its batches. Task side.

    bounded slices   are read to their end, before anything else is done
    open slices      are read in turn with everything else, until the driver ends the round (``EndRound``); when they
                     have nothing, the round pauses: as long as the reader says, or ever longer
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from flott.datastream.connectors.base import Pause
from flott.runtime.operators.source import SourceOperator
from flott.runtime.pipelined.control import ReadRound

#: What has no input is asked again after this time, then after twice as long, and so on up to the second; then ever a
#: millisecond later, up to the poll interval. An idle job must cost next to nothing.
FIRST_POLL_MS = 1
DOUBLED_POLL_MS = 16
#: The poll interval of a reader that follows splits, after five seconds without input: to wake up a process costs a
#: tenth of a millisecond, whatever it does then.
LONGEST_POLL_MS = 100

#: Times that differ by less, in seconds, are the same: they are sums of fractions.
SAME_TIME = 1e-6


def next_poll_ms(before_ms: int, longest_ms: int) -> int:
    """Return how long to wait before what has no input is asked again. Pure."""
    wanted = before_ms * 2 if before_ms < DOUBLED_POLL_MS else before_ms + 1
    return max(FIRST_POLL_MS, min(wanted, longest_ms))


class ReadOutcome(Enum):
    """What came of reading on."""

    READ = auto()
    PAUSED = auto()
    ENDED = auto()


class RoundReading:
    """The reading of one round."""

    def __init__(self, order: ReadRound, head: SourceOperator):
        self.order = order
        self.head = head
        self.resume_at: float | None = None  #: when it goes on, by the monotonic clock; None: at once
        self._is_told = False  #: the driver knows that open slices have brought something
        self._poll_ms = 0
        self._batches: Iterator[Pause | None] = head.read(order.assignment)

    @property
    def is_following(self) -> bool:
        """Return whether only open slices are left: other work is done in between."""
        return self.head.is_following

    def is_ready(self, now: float) -> bool:
        """Return whether it can go on."""
        return self.resume_at is None or self.resume_at <= now + SAME_TIME

    def end(self) -> None:
        """Let the round end with what open slices have brought."""
        self.head.end_open_slices()
        self.resume_at = None

    def read_on(self, now: float) -> ReadOutcome:
        """Read a batch."""
        news = next(self._batches, _END)
        if news is _END:
            return ReadOutcome.ENDED
        if not isinstance(news, Pause):
            self.resume_at, self._poll_ms = None, 0
            return ReadOutcome.READ
        if news.seconds is None:
            self._poll_ms = next_poll_ms(self._poll_ms, LONGEST_POLL_MS)
            self.resume_at = now + self._poll_ms / 1000
        else:
            self.resume_at = now + news.seconds
        return ReadOutcome.PAUSED

    def has_news(self) -> bool:
        """Return, once, that open slices have brought something."""
        if self._is_told or not self.head.has_followed:
            return False
        self._is_told = True
        return True


_END = object()
