"""A job that runs pipelined, from the start of its tasks to a checkpoint and on to the next. Driver side.

    start tasks ─► rounds of the sources … ─► barrier into every source ─► reports of all tasks ─► (the job master
    publishes and commits the checkpoint) ─► rounds …

The job master calls ``run_to_checkpoint`` where it would run an epoch. It returns when all tasks have saved their
state, and the tasks run on meanwhile. Everything after that (manifest, commits, retention, savepoints) is that of
epochs. While the checkpoint is published and committed, which may take long, ``run_beside`` goes on with the rounds of
sources. There is one checkpoint at a time, and the next barrier is injected after the last checkpoint was committed:
sinks can rely on that as they do in epochs.

A checkpoint that cannot be written, or takes too long, is given up (``GivenUp``) and the tasks run on. What they have
reported for it is kept: counts, and output that was prepared, belong to the next checkpoint that is completed. The
tasks restart instead if they have ended behind it (the last one of a job), and if a sink cannot commit the output of
several checkpoints at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from flott.common._durations import rounded_millis
from flott.common._ids import EpochId
from flott.errors import EpochFailure, EpochTimeoutError, NoSlotsError, WorkerLostError
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, SourceSnapshot
from flott.runtime.clock import Clock
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult, SubtaskReport
from flott.runtime.jobmaster.epoch_outcome import error_of
from flott.runtime.jobmaster.job_input import JobInput
from flott.runtime.jobmaster.rounds import SourceRounds
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.logs.line import TaskLog
from flott.runtime.managed_state.files.channel_file import ChannelFile
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.pipelined.channels import slots_of
from flott.runtime.pipelined.control import (
    CheckpointCommitted,
    CheckpointDeclined,
    CheckpointGivenUp,
    CheckpointSaved,
    InjectBarrier,
    InputFound,
    OutputFound,
    OvertakeBuffers,
    RoundRead,
    SlotEvent,
    SlotLogged,
    SlotLost,
    SubtaskLoad,
    TaskFailed,
    TaskWait,
)
from flott.runtime.pipelined.messages import Overtaking
from flott.runtime.pipelined.runner import PipelineRunner, PipelineStart
from flott.runtime.pipelined.task import TaskRules, with_replaced

log = logging.getLogger("flott.job")

#: The log says what a checkpoint waits for when it has lasted so long, or half of its timeout.
OVERDUE_MS = 30_000
#: How many waiting tasks a message names.
WAITS_TOLD = 8
#: A job without news is looked at so often. What happens in its tasks, and orders, wake it up at once; a timer of its
#: last checkpoint does not.
QUIET_LOOK_MS = 500
#: How often the listeners are told what subtasks have done.
LOADS_EVERY_S = 1.0

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
    #: After this time barriers overtake buffers, so that back pressure does not delay the checkpoint. None: never.
    overtake_after_ms: int | None = None

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
    aligned: bool = False  #: it must hold all in its state, because a savepoint is taken of it


@dataclass(frozen=True)
class Interval:
    """What tasks have done between two checkpoints: as the job master needs it to complete the second."""

    input: EpochInput  #: by name only: it was never fixed
    result: EpochResult
    sources: dict[OperatorId, SourceSnapshot]


@dataclass(frozen=True)
class GivenUp:
    """A checkpoint that has failed, while tasks run on."""

    epoch: EpochId
    error: EpochFailure


@dataclass
class _Pending:
    """A checkpoint whose barriers are under way."""

    epoch: EpochId
    now_ms: int
    began: float
    final: bool
    halt: bool
    overtaking: Overtaking = Overtaking.NEVER
    sources: dict[OperatorId, SourceSnapshot] = field(default_factory=dict)  #: those that have their barrier
    reports: list[SubtaskReport] = field(default_factory=list)
    channels: list[ChannelFile] = field(default_factory=list)
    declined: FailureCard | None = None  #: why a task could not write its state
    is_told: bool = False  #: the log says that it takes long


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
        has_news: Callable[[int], bool] = lambda now_ms: True,
        may_give_up: bool = True,
        on_waits: Callable[[tuple[TaskWait, ...]], None] = lambda waits: None,
        on_loads: Callable[[tuple[SubtaskLoad, ...]], None] = lambda loads: None,
    ):
        self._runner = runner
        self._source = source
        self._clock = clock
        self._policy = policy
        self._wait = wait
        self._wake = wake
        self._on_logs = on_logs
        self._has_own_news = has_news  #: whether tasks may have done something without input since the last checkpoint
        self._may_give_up = may_give_up  #: whether all sinks take the output of several checkpoints at once
        self._on_waits = on_waits
        self._on_loads = on_loads
        self._told_loads_at = clock.monotonic()
        self._told_waits: list[tuple[str, str]] = []
        self._graph: JobGraph | None = None
        self._slots = 0
        self._rounds: dict[OperatorId, SourceRounds] = {}
        self._pending: _Pending | None = None
        self._failures: list[FailureCard] = []
        self._output_of = EpochId(0)  #: the last epoch in which a task has produced something without input
        #: What was reported for checkpoints that were given up since the last completed one, oldest first.
        self._given_up: dict[EpochId, _Pending] = {}
        #: The sequence of files as a task has reported it, and as the manifest has it.
        self._followed: dict[Place, tuple[FileSequence, FileSequence]] = {}
        self._starts = 0
        self._started_ms = 0
        self._has_halted = False  #: sources have read nothing behind the barrier of the last checkpoint
        self._barrier_ms: int | None = None
        self._ended_ms: int | None = None  #: when the last checkpoint was committed or given up
        self._interruption: Exception | None = None  #: what happened while the last checkpoint was being committed

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Return whether tasks run."""
        return self._graph is not None

    @property
    def stands_at_checkpoint(self) -> bool:
        """Return whether others may continue from the last checkpoint: nothing was read or is outstanding behind it.

        Sources read on behind a barrier, unless an order that wanted them to halt was there before it.
        """
        return not self._given_up and (self._has_halted or not self.is_running)

    @property
    def reads_on(self) -> bool:
        """Return whether sources may be read before the checkpoint that is being taken is committed."""
        return self._runner.follows_splits and any(
            not rounds.has_ended and not self._must_stand(ident, rounds, Wanted())
            for ident, rounds in self._rounds.items()
        )

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
        self._pending, self._failures, self._followed, self._given_up = None, [], {}, {}
        self._interruption = None
        self._rounds = {
            ident: SourceRounds(
                coordinator,
                self._policy.most_records,
                self._policy.poll_ms,
                self._policy.round_ms,
                self._runner.follows_splits,
            )
            for ident, coordinator in self._source.coordinators.items()
        }
        self._started_ms = self._clock.now_ms()
        self._barrier_ms = self._ended_ms = None
        self._output_of = EpochId(0)
        self._graph, self._slots = graph, slots_of(image)
        self._runner.start(image, PipelineStart(plan, self._policy.rules, run), self._wake)

    def stop(self) -> None:
        """End the tasks. What they have not saved is void."""
        if self._graph is not None:
            self._graph = None
            self._pending, self._given_up = None, {}
            self._runner.stop()

    # --- from checkpoint to checkpoint -------------------------------------------------------------------------------

    def run_to_checkpoint(
        self,
        epoch: EpochId,
        wanted: Callable[[], Wanted],
        is_ending: Callable[[], bool],
        on_barrier: Callable[[], None],
    ) -> Interval | GivenUp | None:
        """Let tasks run until the next checkpoint was saved by all of them or has failed; None: the job is to end."""
        if self._interruption is not None:
            interruption, self._interruption = self._interruption, None
            raise interruption
        self._has_halted = False
        while not is_ending():
            happened = self._runner.events()
            for event in happened:
                self._on_event(event)
            if self._failures:
                return self._interval(epoch)
            if self._pending is not None and self._pending.declined is not None:
                return self._give_up(self._pending, error_of(self._pending.declined))
            if self._pending is not None and len(self._pending.reports) == self.expected_reports:
                return self._interval(epoch)
            now = self._clock.now_ms()
            asked = wanted()
            sent = self._begin_rounds(now, asked)
            if self._pending is None and self._is_due(epoch, now, asked):
                self._pending = self._begin_checkpoint(epoch, now, asked)
                self._barrier_ms = now
                on_barrier()
                sent = True
            sent |= self._overtake()
            sent |= self._inject()
            self._tell_waits()
            self._tell_loads()
            if self._pending is not None and (late := self._lateness(self._pending)) is not None:
                return self._give_up(self._pending, late)
            if not sent and not happened:
                self._wait(max(1, self._next_look_ms(now) - now))
        return None

    def run_beside(
        self, is_done: Callable[[], bool], wanted: Callable[[], Wanted], is_ending: Callable[[], bool]
    ) -> None:
        """Go on with the rounds of sources until something is done for the checkpoint, or they cannot go on.

        What goes wrong meanwhile is raised by ``run_to_checkpoint``: the checkpoint itself is complete, or about to be.
        """
        try:
            while not (is_done() or is_ending() or self._failures or self._interruption is not None):
                happened = self._runner.events()
                for event in happened:
                    self._on_event(event)
                now = self._clock.now_ms()
                sent = self._begin_rounds(now, wanted())
                self._tell_waits()
                self._tell_loads()
                if not sent and not happened and not is_done():
                    self._wait(min((at - now for at in self._round_times() if at > now), default=self._policy.poll_ms))
        except Exception as error:
            self._interruption = error

    def _begin_checkpoint(self, epoch: EpochId, now: int, asked: Wanted) -> _Pending:
        final, halt = self._has_ended, asked.halt or self._has_ended
        # Behind a barrier that ends the tasks nothing is processed any more, so nothing may stay behind it.
        aligned = self._policy.overtake_after_ms is None or halt or asked.aligned
        overtaking = Overtaking.NEVER if aligned else Overtaking.LATER
        return _Pending(epoch, now, self._clock.monotonic(), final, halt, overtaking)

    @property
    def _has_ended(self) -> bool:
        return all(rounds.has_ended for rounds in self._rounds.values())

    def _is_due(self, epoch: EpochId, now: int, asked: Wanted) -> bool:
        at_once = asked.now or self._has_ended
        if at_once and not self._given_up:
            return not asked.drain or self._has_ended
        if not (at_once or self._has_news or self._output_of >= epoch or self._has_own_news(now)):
            return False  # nothing has changed
        if asked.drain and not self._has_ended:
            return False
        return now >= self._policy.due_at_ms(self._barrier_ms, self._ended_ms, self._started_ms)

    @property
    def _has_news(self) -> bool:
        return bool(self._given_up) or any(rounds.has_read for rounds in self._rounds.values())

    def _begin_rounds(self, now: int, asked: Wanted) -> bool:
        """Let every source that is free read on, unless it has its barrier and must wait behind it."""
        sent = False
        monotonic = self._clock.monotonic()
        alignments = self._source.alignments(now)
        for ident, rounds in self._rounds.items():
            for subtask, end in rounds.end_open(now, at_once=self._must_end(ident, asked)):
                self._runner.send(subtask, end)
                sent = True
            if self._must_stand(ident, rounds, asked):
                continue
            if asked.drain and not rounds.has_ended and rounds.is_between_rounds:
                orders = rounds.end(now, monotonic)
            else:
                orders = rounds.propose(now, monotonic, alignments.get(ident))
            for subtask, order in orders:
                self._runner.send(subtask, order)
                sent = True
        return sent

    def _must_end(self, ident: OperatorId, asked: Wanted) -> bool:
        """Return whether a round with open slices must not last longer."""
        if self._pending is not None:  # behind its barrier a source is read on, whatever is wanted of the next one
            return ident not in self._pending.sources
        return asked.halt or asked.drain

    def _must_stand(self, ident: OperatorId, rounds: SourceRounds, asked: Wanted) -> bool:
        pending = self._pending
        if pending is not None:
            # A source that acknowledges what a checkpoint contains must not have advanced beyond it by then.
            has_barrier = ident in pending.sources
            return pending.halt or not has_barrier or rounds.coordinator.waits_for_commits
        return asked.halt and not asked.drain and rounds.is_between_rounds

    def _overtake(self) -> bool:
        """Let the barriers of the checkpoint overtake buffers, once it has taken long enough."""
        pending, after_ms = self._pending, self._policy.overtake_after_ms
        if pending is None or pending.overtaking is not Overtaking.LATER or after_ms is None:
            return False
        if (self._clock.monotonic() - pending.began) * 1000 < after_ms:
            return False
        pending.overtaking = Overtaking.NOW
        for slot in range(self._slots):
            self._runner.send(slot, OvertakeBuffers(pending.epoch))
        return True

    def _inject(self) -> bool:
        """Send the barrier into every source that is between two rounds."""
        pending, sent = self._pending, False
        if pending is None:
            return False
        for ident, rounds in self._rounds.items():
            if ident not in pending.sources and rounds.is_between_rounds:
                pending.sources[ident] = rounds.snapshot()
                for subtask in range(rounds.parallelism):
                    self._runner.send(subtask, InjectBarrier(ident, pending.epoch, pending.final, pending.overtaking))
                sent = True
        return sent

    def _on_event(self, event: SlotEvent) -> None:
        match event:
            case InputFound(source):
                self._rounds[source].found(event)
            case OutputFound(epoch):
                self._output_of = max(self._output_of, epoch)
            case RoundRead(source):
                self._rounds[source].read(event, self._clock.now_ms(), self._clock.monotonic())
            case CheckpointSaved(checkpoint, reports, channels):
                self._acknowledged(checkpoint, reports, channels)
            case CheckpointDeclined(checkpoint, reports, card, channels):
                self._acknowledged(checkpoint, reports, channels)
                if self._pending is not None and checkpoint == self._pending.epoch:
                    self._pending.declined = self._pending.declined or card
            case TaskFailed(card):
                self._failures.append(card)
            case SlotLogged(lines):
                self._on_logs((lines,))
            case SlotLost(reason, is_missing):
                raise NoSlotsError(reason) if is_missing else WorkerLostError(reason)

    def _acknowledged(
        self, checkpoint: EpochId, reports: tuple[SubtaskReport, ...], channels: ChannelFile | None
    ) -> None:
        """Add the reports of a task to its checkpoint, which may have been given up meanwhile."""
        pending = self._pending
        one = pending if pending is not None and checkpoint == pending.epoch else self._given_up.get(checkpoint)
        if one is None:
            raise WorkerLostError(f"A task has saved checkpoint {checkpoint}, which was not asked for.")
        one.reports += reports
        one.channels += () if channels is None else (channels,)

    def _give_up(self, pending: _Pending, error: EpochFailure) -> GivenUp:
        """Let tasks run on without a checkpoint. Raises the error if they have to restart."""
        if pending.final or not self._may_give_up:
            raise error
        self._pending, self._ended_ms = None, self._clock.now_ms()
        self._given_up[pending.epoch] = pending
        for slot in range(self._slots):
            self._runner.send(slot, CheckpointGivenUp(pending.epoch))
        return GivenUp(pending.epoch, error)

    def _interval(self, epoch: EpochId) -> Interval:
        pending = self._pending or _Pending(epoch, self._clock.now_ms(), 0.0, False, False)
        self._has_halted = pending.halt
        reports = tuple(map(self._follow, pending.reports))
        plans = {ident: rounds.last_plan for ident, rounds in self._rounds.items()}
        if not pending.final:
            plans = {ident: replace(plan, finished=False) for ident, plan in plans.items()}
        fixed = EpochInput(pending.epoch, pending.now_ms, plans)
        earlier = tuple(EpochResult(tuple(one.reports), (), tuple(one.channels)) for one in self._given_up.values())
        result = EpochResult(reports, tuple(self._failures), tuple(pending.channels), earlier)
        return Interval(fixed, result, dict(pending.sources))

    def _lateness(self, pending: _Pending) -> EpochTimeoutError | None:
        """Return that a checkpoint takes too long, if it does."""
        limit_ms = self._policy.checkpoints.timeout_ms
        lasted_ms = (self._clock.monotonic() - pending.began) * 1000
        if not pending.is_told and lasted_ms >= min(limit_ms / 2, OVERDUE_MS):
            pending.is_told = True
            log.warning("Checkpoint %d is not complete after %s.%s", pending.epoch, rounded_millis(int(lasted_ms)),
                        self._what_is_awaited(pending))  # fmt: skip
        if lasted_ms < limit_ms:
            return None
        missing = EpochResult(tuple(pending.reports)).missing(self._graph) if self._graph is not None else []
        return EpochTimeoutError(
            f"Checkpoint {pending.epoch} took longer than {rounded_millis(limit_ms)}, so it was given up. These"
            f" subtasks have not saved their state: {', '.join(missing)}.{self._what_is_awaited(pending)} If it needs"
            " that long, set execution.checkpointing.timeout to more."
        )

    def _tell_waits(self) -> None:
        """Tell the listeners what tasks wait for, when it has changed."""
        waits = self._runner.waits()
        told = [(wait.name, wait.reason) for wait in waits]
        if told != self._told_waits:
            self._told_waits = told
            for wait in waits:
                log.debug("%s.", wait)
            self._on_waits(waits)

    def _tell_loads(self) -> None:
        """Tell the listeners what subtasks have done since they were told last: a checkpoint may be long in coming."""
        now = self._clock.monotonic()
        if now - self._told_loads_at >= LOADS_EVERY_S and (loads := self._runner.take_loads()):
            self._told_loads_at = now
            self._on_loads(loads)

    def _what_is_awaited(self, pending: _Pending) -> str:
        """Return sentences that say which subtask waits for which, and which source has no barrier yet."""
        assert self._graph is not None
        sources = [
            f"{self._graph.operators[ident].node.name} has not finished its round, so it has no barrier."
            for ident in self._rounds
            if ident not in pending.sources
        ]
        waits = [f"{wait}." for wait in self._runner.waits()]
        return "".join(f" {sentence}" for sentence in [*sources, *waits[:WAITS_TOLD]])

    def _next_look_ms(self, now: int) -> int:
        """Return when there may be something to do."""
        times = self._round_times()
        if self._pending is None:
            due = self._policy.due_at_ms(self._barrier_ms, self._ended_ms, self._started_ms)
            times.append(due if due > now else now + max(self._policy.poll_ms, QUIET_LOOK_MS))
        elif self._pending.overtaking is Overtaking.LATER and self._policy.overtake_after_ms is not None:
            times.append(max(now + 1, self._pending.now_ms + self._policy.overtake_after_ms))
        if (wakeup := self._runner.wakeup_ms) is not None:
            times.append(wakeup)
        return min((at for at in times if at > now), default=now + self._policy.poll_ms)

    def _round_times(self) -> list[int]:
        """Return when sources are to be asked next, as far as that is known."""
        return [at for rounds in self._rounds.values() if (at := rounds.look_at_ms) is not None]

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
        for slot in range(self._slots):
            self._runner.send(slot, CheckpointCommitted(manifest.checkpoint_id, by_slot.get(slot, {})))
        self._pending, self._given_up = None, {}
        self._ended_ms = self._clock.now_ms()
