"""The rounds that the sources of a task are reading, between two of their batches. Task side.

    bounded slices   are read to their end, before anything else is done
    open slices      are read in turn with everything else, until the driver ends the round (``EndRound``); when they
                     have nothing, the round pauses: as long as the reader says, or ever longer
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from flott.datastream.connectors.base import Pause
from flott.graph.operator_ids import OperatorId
from flott.runtime.clock import Clock
from flott.runtime.epoch.report_sums import added_splits
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.operators.source import SourceOperator, SplitReport
from flott.runtime.pipelined.control import EndRound, ReadRound

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

    def __init__(self, order: ReadRound, subtask: Subtask, head: SourceOperator):
        self.order = order
        self.subtask = subtask
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


class TaskSources:
    """The sources of one task: the rounds that they are reading, and what they have read since the last checkpoint."""

    def __init__(self, task: StageTask, clock: Clock):
        self._task = task
        self._clock = clock
        self._subtasks = {
            subtask.vertex.head.id: subtask
            for subtask in task.subtasks
            if isinstance(subtask.operators[0], SourceOperator)
        }
        self._rounds: dict[OperatorId, RoundReading] = {}  #: being read, in the order in which they take turns
        self._ended: dict[OperatorId, int] = {}  #: the last round of each source that the driver has ended
        self._read: dict[OperatorId, dict[str, SplitReport]] = {}
        self.begin()

    def __bool__(self) -> bool:
        return bool(self._subtasks)

    def _head(self, source: OperatorId) -> SourceOperator:
        """Return the operator. It is looked up each time, because a restore may replace it."""
        head = self._subtasks[source].operators[0]
        assert isinstance(head, SourceOperator)
        return head

    def begin(self) -> None:
        """Begin to count what is read: a checkpoint was taken."""
        self._read = {source: {} for source in self._subtasks}

    def open_round(self, order: ReadRound) -> RoundReading:
        """Begin a round."""
        subtask = self._subtasks[order.source]
        self._task.turn_to(subtask)
        reading = self._rounds[order.source] = RoundReading(order, subtask, self._head(order.source))
        if self._ended.get(order.source, 0) >= order.round:
            reading.end()
        return reading

    def end_round(self, command: EndRound) -> None:
        """End the open slices of a round where they are, or as soon as it is begun."""
        self._ended[command.source] = command.round
        reading = self._rounds.get(command.source)
        if reading is not None and reading.order.round <= command.round:
            reading.end()

    def ready_round(self) -> RoundReading | None:
        """Return a round that can go on: one with bounded slices if there is one, otherwise each in its turn."""
        if not self._rounds:
            return None
        now = self._clock.monotonic()
        following = None
        for reading in self._rounds.values():
            if not reading.is_following:
                return reading
            if following is None and reading.is_ready(now):
                following = reading
        return following

    @property
    def only_follow(self) -> bool:
        """Return whether no round has bounded slices left."""
        return all(reading.is_following for reading in self._rounds.values())

    @property
    def resume_at(self) -> float | None:
        """Return when a split that is followed may have something, by the monotonic clock."""
        return min((at for reading in self._rounds.values() if (at := reading.resume_at) is not None), default=None)

    def read_on(self, reading: RoundReading) -> ReadOutcome:
        """Read the next batch of a round. The others come first then."""
        source = reading.order.source
        self._task.turn_to(reading.subtask)
        self._rounds[source] = self._rounds.pop(source)
        outcome = reading.read_on(self._clock.monotonic())
        if outcome is ReadOutcome.ENDED:
            del self._rounds[source]
            self._read[source] = added_splits(self._read[source], reading.head.reports)
        return outcome

    @contextmanager
    def reporting_all_rounds(self) -> Iterator[None]:
        """Let sources report what they have read in all rounds since the last checkpoint.

        Otherwise they report the last round, by which event time advances.
        """
        heads = {source: self._head(source) for source in self._subtasks}
        last_rounds = {source: head.reports for source, head in heads.items()}
        for source, head in heads.items():
            head.reports = self._read[source]
        try:
            yield
        finally:
            for source, head in heads.items():
                head.reports = last_rounds[source]
