"""A job that runs pipelined, from the start of its tasks to a checkpoint and on to the next. Driver side.

    start tasks ─► rounds of the sources … ─► barrier into every source ─► reports of all tasks ─► (the job master
    publishes and commits the checkpoint) ─► rounds …

The job master calls ``run_to_checkpoint`` where it would run an epoch. It returns when all tasks have saved their
state, and the tasks run on meanwhile. Everything after that (manifest, commits, retention, savepoints) is that of
epochs. There is one checkpoint at a time, and the next barrier is injected after the last checkpoint was committed:
sinks can rely on that as they do in epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from flott.common._durations import rounded_millis
from flott.common._ids import EpochId
from flott.errors import EpochTimeoutError, WorkerLostError
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, SourceSnapshot
from flott.runtime.clock import Clock
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult, SubtaskReport
from flott.runtime.jobmaster.job_input import JobInput
from flott.runtime.jobmaster.rounds import SourceRounds
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.logs.line import TaskLog
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.pipelined.control import (
    CheckpointCommitted,
    CheckpointSaved,
    InjectBarrier,
    RoundRead,
    SlotEvent,
    SlotLogged,
    SlotLost,
    TaskFailed,
)
from flott.runtime.pipelined.runner import PipelineRunner, PipelineStart
from flott.runtime.pipelined.task import TaskRules, with_replaced

Place = tuple[OperatorId, int]


@dataclass(frozen=True)
class PipelinedPolicy:
    """When checkpoints are taken, and what tasks do about barriers."""

    interval_ms: int = 1000
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    rules: TaskRules = field(default_factory=TaskRules)
    most_records: int = 1 << 62  #: of a round
    poll_ms: int = 50
    round_ms: int = 20  #: with a backlog

    def due_at_ms(self, last_start_ms: int | None, last_end_ms: int | None, started_ms: int) -> int:
        """Return when the next checkpoint is due, given when the last one began and ended."""
        began = started_ms if last_start_ms is None else last_start_ms
        return max(began + self.interval_ms, self.checkpoints.not_before_ms(last_start_ms, last_end_ms))


@dataclass(frozen=True)
class Wanted:
    """What orders to the job need of the next checkpoint."""

    now: bool = False  #: it is due at once
    halt: bool = False  #: sources stop behind its barrier, because the tasks end with it
    drain: bool = False  #: all sources end before it


@dataclass(frozen=True)
class Interval:
    """What tasks have done between two checkpoints: as the job master needs it to complete the second."""

    input: EpochInput  #: by name only: it was never fixed
    result: EpochResult
    sources: dict[OperatorId, SourceSnapshot]


@dataclass
class _Pending:
    """A checkpoint whose barriers are under way."""

    epoch: EpochId
    now_ms: int
    began: float
    final: bool
    halt: bool
    sources: dict[OperatorId, SourceSnapshot] = field(default_factory=dict)  #: those that have their barrier
    reports: list[SubtaskReport] = field(default_factory=list)


class PipelinedExecution:
    """The running tasks of a job, and the checkpoint that is being taken."""

    def __init__(
        self,
        runner: PipelineRunner,
        source: JobInput,
        clock: Clock,
        policy: PipelinedPolicy,
        wait: Callable[[int], None],
        wake: Callable[[], None],
        on_logs: Callable[[tuple[TaskLog, ...]], None],
        has_timers: Callable[[int], bool] = lambda now_ms: True,
    ):
        self._runner = runner
        self._source = source
        self._clock = clock
        self._policy = policy
        self._wait = wait
        self._wake = wake
        self._on_logs = on_logs
        self._has_timers = has_timers  #: whether a timer in processing time may have fired since the last checkpoint
        self._graph: JobGraph | None = None
        self._rounds: dict[OperatorId, SourceRounds] = {}
        self._pending: _Pending | None = None
        self._failures: list[FailureCard] = []
        #: The sequence of files as a task has reported it, and as the manifest has it.
        self._followed: dict[Place, tuple[FileSequence, FileSequence]] = {}
        self._starts = 0
        self._started_ms = 0
        self._barrier_ms: int | None = None
        self.committed_ms: int | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Return whether tasks run."""
        return self._graph is not None

    @property
    def expected_reports(self) -> int:
        """Return how many subtasks acknowledge a checkpoint."""
        assert self._graph is not None
        return sum(vertex.parallelism for vertex in self._graph.vertices)

    def start(self, graph: JobGraph, image: JobImage, plan: EpochPlan) -> None:
        """Start the tasks from the state that a plan names."""
        self._runner.check(image)
        self._starts += 1
        run = f"{plan.run_id}-{plan.attempt}-p{self._starts}"
        self._pending, self._failures, self._followed = None, [], {}
        self._rounds = {
            ident: SourceRounds(coordinator, self._policy.most_records, self._policy.poll_ms, self._policy.round_ms)
            for ident, coordinator in self._source.coordinators.items()
        }
        self._started_ms = self._clock.now_ms()
        self._barrier_ms = self.committed_ms = None
        self._graph = graph
        self._runner.start(image, PipelineStart(plan, self._policy.rules, run), self._wake)

    def stop(self) -> None:
        """End the tasks. What they have not saved is void."""
        if self._graph is not None:
            self._graph = None
            self._pending = None
            self._runner.stop()

    # --- from checkpoint to checkpoint -------------------------------------------------------------------------------

    def run_to_checkpoint(
        self,
        epoch: EpochId,
        wanted: Callable[[], Wanted],
        is_ending: Callable[[], bool],
        on_barrier: Callable[[], None],
    ) -> Interval | None:
        """Let tasks run until the next checkpoint was saved by all of them; None: the job is to end first."""
        while not is_ending():
            happened = self._runner.events()
            for event in happened:
                self._on_event(event)
            if self._failures:
                return self._interval(epoch)
            if self._pending is not None and len(self._pending.reports) == self.expected_reports:
                return self._interval(epoch)
            now = self._clock.now_ms()
            asked = wanted()
            sent = self._begin_rounds(now, asked)
            if self._pending is None and self._is_due(now, asked):
                self._pending = _Pending(
                    epoch, now, self._clock.monotonic(), self._has_ended, asked.halt or self._has_ended
                )
                self._barrier_ms = now
                on_barrier()
                sent = True
            sent |= self._inject()
            self._limit(now)
            if not sent and not happened:
                self._wait(max(1, self._next_look_ms(now) - now))
        return None

    @property
    def _has_ended(self) -> bool:
        return all(rounds.has_ended for rounds in self._rounds.values())

    def _is_due(self, now: int, asked: Wanted) -> bool:
        if asked.now or self._has_ended:
            return not asked.drain or self._has_ended
        if not any(rounds.has_read for rounds in self._rounds.values()) and not self._has_timers(now):
            return False  # nothing has changed
        return now >= self._policy.due_at_ms(self._barrier_ms, self.committed_ms, self._started_ms)

    def _begin_rounds(self, now: int, asked: Wanted) -> bool:
        """Let every source that is free read on, unless it has its barrier and must wait behind it."""
        sent = False
        monotonic = self._clock.monotonic()
        alignments = self._source.alignments(now)
        for ident, rounds in self._rounds.items():
            if self._must_stand(ident, rounds, asked):
                continue
            if asked.drain and rounds.look_at_ms is not None and rounds.is_between_rounds:
                orders = rounds.end(now, monotonic)
            else:
                orders = rounds.propose(now, monotonic, alignments.get(ident))
            for subtask, order in orders:
                self._runner.send(subtask, order)
                sent = True
        return sent

    def _must_stand(self, ident: OperatorId, rounds: SourceRounds, asked: Wanted) -> bool:
        pending = self._pending
        if pending is not None:
            # A source that acknowledges what a checkpoint contains must not have advanced beyond it by then.
            has_barrier = ident in pending.sources
            return pending.halt or not has_barrier or rounds.coordinator.waits_for_commits
        return asked.halt and not asked.drain and rounds.is_between_rounds

    def _inject(self) -> bool:
        """Send the barrier into every source that is between two rounds."""
        pending, sent = self._pending, False
        if pending is None:
            return False
        for ident, rounds in self._rounds.items():
            if ident not in pending.sources and rounds.is_between_rounds:
                pending.sources[ident] = rounds.snapshot()
                for subtask in range(rounds.parallelism):
                    self._runner.send(subtask, InjectBarrier(ident, pending.epoch, pending.final))
                sent = True
        return sent

    def _on_event(self, event: SlotEvent) -> None:
        match event:
            case RoundRead(source):
                self._rounds[source].read(event, self._clock.now_ms(), self._clock.monotonic())
            case CheckpointSaved(checkpoint, reports):
                if self._pending is None or checkpoint != self._pending.epoch:
                    raise WorkerLostError(f"A task has saved checkpoint {checkpoint}, which was not asked for.")
                self._pending.reports += reports
            case TaskFailed(card):
                self._failures.append(card)
            case SlotLogged(lines):
                self._on_logs((lines,))
            case SlotLost(reason):
                raise WorkerLostError(reason)

    def _interval(self, epoch: EpochId) -> Interval:
        pending = self._pending or _Pending(epoch, self._clock.now_ms(), 0.0, False, False)
        reports = tuple(map(self._follow, pending.reports))
        plans = {ident: rounds.last_plan for ident, rounds in self._rounds.items()}
        if not pending.final:
            plans = {ident: replace(plan, finished=False) for ident, plan in plans.items()}
        fixed = EpochInput(pending.epoch, pending.now_ms, plans)
        return Interval(fixed, EpochResult(reports, tuple(self._failures)), dict(pending.sources))

    def _limit(self, now: int) -> None:
        pending, limit_ms = self._pending, self._policy.checkpoints.timeout_ms
        if pending is not None and (self._clock.monotonic() - pending.began) * 1000 >= limit_ms:
            missing = EpochResult(tuple(pending.reports)).missing(self._graph) if self._graph is not None else []
            raise EpochTimeoutError(
                f"Checkpoint {pending.epoch} took longer than {rounded_millis(limit_ms)}, so it was given up. These"
                f" subtasks have not saved their state: {', '.join(missing)}. If it needs that long, set"
                " execution.checkpointing.timeout to more."
            )

    def _next_look_ms(self, now: int) -> int:
        """Return when there may be something to do."""
        times = [at for rounds in self._rounds.values() if (at := rounds.look_at_ms) is not None]
        if self._pending is None:
            due = self._policy.due_at_ms(self._barrier_ms, self.committed_ms, self._started_ms)
            times.append(due if due > now else now + self._policy.poll_ms)
        if (wakeup := self._runner.wakeup_ms) is not None:
            times.append(wakeup)
        return min((at for at in times if at > now), default=now + self._policy.poll_ms)

    # --- the files of a checkpoint -----------------------------------------------------------------------------------

    def _follow(self, report: SubtaskReport) -> SubtaskReport:
        """Return a report whose sequences of files have the compacted files that earlier checkpoints have adopted."""
        operators = dict(report.operators)
        for ident, outcome in operators.items():
            followed = self._followed.get((ident, report.subtask))
            if followed is not None and outcome.sequence:
                operators[ident] = replace(outcome, sequence=with_replaced(outcome.sequence, *followed))
        return replace(report, operators=operators)

    def completed(self, interval: Interval, manifest: Manifest) -> None:
        """Tell the tasks that a checkpoint is committed, and which of their files were replaced in it."""
        assert self._pending is not None
        raw = {
            (ident, int(report.subtask)): outcome.sequence
            for report in self._pending.reports
            for ident, outcome in report.operators.items()
            if outcome.sequence
        }
        by_slot: dict[int, dict[OperatorId, tuple[FileSequence, FileSequence]]] = {}
        for (ident, subtask), reported in raw.items():
            adopted = manifest.operators[ident].subtasks[subtask].sequence or ()
            if adopted != reported:
                self._followed[ident, subtask] = (reported, adopted)
                by_slot.setdefault(subtask, {})[ident] = (reported, adopted)
            else:
                self._followed.pop((ident, subtask), None)
        for slot, replaced in by_slot.items():
            self._runner.send(slot, CheckpointCommitted(manifest.checkpoint_id, replaced))
        self._pending = None
        self.committed_ms = self._clock.now_ms()
