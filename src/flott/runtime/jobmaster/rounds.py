"""The rounds in which sources are read while a job runs pipelined. Driver side.

An enumerator proposes slices, readers read them, the enumerator advances, and so on: what an epoch is in large, a round
is in small. Rounds are short, since a barrier can be injected only between two of them, and each brings event time
forward. Without a backlog a round is what has arrived.

A round with open slices lasts until it is ended: for a barrier, when the enumerator wants to be asked again, or when a
split that is not read becomes idle. Its records come without the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from flott.datastream.connectors.base import SlicePlan
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import SourceSnapshot
from flott.runtime.jobmaster.alignment import Alignment
from flott.runtime.jobmaster.sources import SourceCoordinator
from flott.runtime.operators.source import SourceAssignment, SplitReport
from flott.runtime.pipelined.control import EndRound, InputFound, ReadRound, RoundRead
from flott.runtime.pipelined.source_reading import next_poll_ms
from flott.runtime.pipelined.task import CLOCK_EVERY_MS

FIRST_RECORDS = 2048
MAX_GROWTH = 4.0
#: What open slices read in so many seconds is no backlog.
BACKLOG_SECONDS = 0.1


def next_round_records(
    budget: int, records: int, duration_ms: float, backlog: bool, most: int, target_ms: float
) -> int:
    """Return how many records the next round may have, after one that took so long. Pure."""
    if not records:
        return budget
    wanted = target_ms / max(duration_ms, 0.1)
    if wanted < 1:
        return max(1, int(records * max(wanted, 1 / MAX_GROWTH)))
    if not backlog:
        return budget  # it kept up: what arrived says nothing about what is possible
    return min(most, max(budget, int(records * min(wanted, MAX_GROWTH))))


def unremarkable_records(records: int, duration_ms: float) -> int:
    """Return how many records may wait without being a backlog, after open slices have brought so many. Pure."""
    return max(FIRST_RECORDS, int(records / max(duration_ms, 1.0) * 1000 * BACKLOG_SECONDS))


@dataclass
class _Running:
    """A round that readers are reading."""

    plan: SlicePlan
    held: frozenset[str]
    now_ms: int
    began: float  #: by the monotonic clock
    waiting: set[int]  #: subtasks that have not read their part
    is_open: bool  #: it lasts until it is ended
    ends_at_ms: int | None  #: when it is ended at the latest
    is_ending: bool = False  #: its readers were told to end
    splits: dict[str, SplitReport] = field(default_factory=dict)


class SourceRounds:
    """The rounds of one source."""

    def __init__(
        self, coordinator: SourceCoordinator, most_records: int, poll_ms: int, target_ms: int, may_be_open: bool = False
    ):
        self.coordinator = coordinator
        self._most = most_records
        self._poll_ms = poll_ms
        self._target_ms = target_ms  #: with a backlog, rounds grow until one takes about so long
        self._may_be_open = may_be_open
        self._records = min(FIRST_RECORDS, most_records)
        self._number = 0
        self._running: _Running | None = None
        self._look_at_ms = 0
        self._delay_ms = 0
        self._began_ms = 0  #: when the last round began
        self.has_ended = False  #: the round that ends the source was read
        self.last_plan = SlicePlan()
        self.has_read = False  #: anything, since the last checkpoint

    @property
    def ident(self) -> OperatorId:
        """Return the source operator."""
        return self.coordinator.operator.id

    @property
    def parallelism(self) -> int:
        """Return the number of readers."""
        return self.coordinator.operator.node.parallelism

    @property
    def is_between_rounds(self) -> bool:
        """Return whether a barrier may be injected: nothing is being read, and event time was told once."""
        return self._running is None and self._number > 0

    @property
    def look_at_ms(self) -> int | None:
        """Return when the enumerator is asked next, or a round is ended; None: when the round was read, or never."""
        if self._running is not None:
            return None if self._running.is_ending else self._running.ends_at_ms
        return None if self.has_ended else self._look_at_ms

    def propose(self, now_ms: int, monotonic: float, alignment: Alignment | None) -> Iterator[tuple[int, ReadRound]]:
        """Begin a round if one is due, and yield what each subtask reads."""
        if self._running is not None or self.has_ended or now_ms < self._look_at_ms:
            return
        plan = self.coordinator.choose_slices(self._records, now_ms, alignment, self._may_be_open)
        if self._number and not plan.slices and not plan.finished and not self._is_time_due(now_ms):
            self._wait(plan, now_ms)
            return
        yield from self._begin(plan, now_ms, monotonic)

    def end(self, now_ms: int, monotonic: float) -> Iterator[tuple[int, ReadRound]]:
        """Begin the last round: the job is drained, so the source ends where it is."""
        yield from self._begin(SlicePlan(finished=True), now_ms, monotonic)

    def _begin(self, plan: SlicePlan, now_ms: int, monotonic: float) -> Iterator[tuple[int, ReadRound]]:
        held = self.coordinator.held
        assigned: tuple[SourceAssignment, ...] = self.coordinator.assign(plan, now_ms, held)
        self._number += 1
        self._delay_ms, self._began_ms = 0, now_ms
        is_open = any(part.is_open for part in plan.slices)
        ends_at = min(
            (at for at in (plan.wake_at_ms, *self._time_due_at()) if at is not None and at > now_ms), default=None
        )
        self._running = _Running(
            plan, held, now_ms, monotonic, set(range(len(assigned))), is_open, ends_at if is_open else None
        )
        self.last_plan = plan
        self.has_read |= plan.finished or not all(part.is_open for part in plan.slices)
        for subtask, assignment in enumerate(assigned):
            yield subtask, ReadRound(self.ident, self._number, assignment)

    def end_open(self, now_ms: int, at_once: bool) -> Iterator[tuple[int, EndRound]]:
        """Yield what readers are told when the open slices of the round are to end, at once or because it is time."""
        running = self._running
        if running is None or not running.is_open or running.is_ending:
            return
        if at_once or (running.ends_at_ms is not None and running.ends_at_ms <= now_ms):
            running.is_ending = True
            for subtask in sorted(running.waiting):
                yield subtask, EndRound(self.ident, self._number)

    def found(self, event: InputFound) -> None:
        """Note that open slices have brought something, if the round has not ended meanwhile."""
        self.has_read |= event.round == self._number and self._running is not None

    def read(self, event: RoundRead, now_ms: int, monotonic: float) -> None:
        """Note that a subtask has read its part; after the last one, the enumerator advances."""
        running = self._running
        if running is None or event.round != self._number:
            raise AssertionError(f"Round {event.round} was read while round {self._number} was expected.")
        running.waiting.discard(event.subtask)
        running.splits.update(event.splits)
        if running.waiting:
            return
        self._running = None
        self.coordinator.complete(running.plan, running.splits, running.now_ms, running.held)
        self.has_ended = running.plan.finished
        records = sum(report.records for report in running.splits.values())
        self.has_read |= bool(records)
        duration_ms = (monotonic - running.began) * 1000
        if running.is_open:
            self._records = min(self._most, unremarkable_records(records, duration_ms))
        else:
            self._records = next_round_records(
                self._records, records, duration_ms, running.plan.backlog, self._most, self._target_ms
            )
        self._look_at_ms = now_ms

    def snapshot(self) -> SourceSnapshot:
        """Return what to continue from. Called when a barrier is injected."""
        self.has_read = False
        return self.coordinator.snapshot()

    def _is_time_due(self, now_ms: int) -> bool:
        """Return whether event time has to be told although nothing was read."""
        return any(at <= now_ms for at in self._time_due_at())

    def _time_due_at(self) -> Iterator[int]:
        """Yield when event time advances without input: a split becomes idle, or event time follows the clock."""
        if (deadline := self.coordinator.idle_deadline_ms()) is not None:
            yield deadline
        if self.coordinator.strategy.ingestion_time:
            yield self._began_ms + CLOCK_EVERY_MS

    def _wait(self, plan: SlicePlan, now_ms: int) -> None:
        self._delay_ms = next_poll_ms(self._delay_ms, self._poll_ms)
        look_at = plan.wake_at_ms if plan.wake_at_ms is not None else now_ms + self._delay_ms
        self._look_at_ms = max(now_ms + 1, min(look_at, *self._time_due_at(), look_at))
