"""The job master: the epoch loop of one job, its checkpoints, commits and restarts. Driver side.

    plan (durable) -> run -> acknowledge -> complete (durable) -> commit

What to do is decided by pure functions (``sizing``, ``restart``, ``retention``, ``redistribute``); this class reads the
facts and performs the decisions. It runs in one thread, the caller's, and is told to stop from others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from flott.common import _options as options
from flott.common._late_records import LedgerEntry
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.datastream.connectors.base import SlicePlan
from flott.errors import EpochFailure, FlottError, ProgramError, StorageError, UserCodeError, WorkerLostError
from flott.graph.job_graph import ChainedOperator, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SinkSpec
from flott.metrics.metricbase import combine
from flott.runtime.checkpoint.manifest import InputPlan, Manifest, OperatorSnapshot, SubtaskSnapshot
from flott.runtime.checkpoint.retention import Discard, orphans, subsumed
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.epoch.accumulators import add_up, values_of
from flott.runtime.epoch.failure import Blame
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.redistribute import redistribute, snapshot_of
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.runner import EpochRunner
from flott.runtime.epoch.topology import Topology, lay_out
from flott.runtime.jobmanager import ledger
from flott.runtime.jobmanager.alignment import align
from flott.runtime.jobmanager.commits import SinkCommits
from flott.runtime.jobmanager.listener import EpochStatistics, JobListener
from flott.runtime.jobmanager.restart import GiveUp, RestartStrategy, strategy_of
from flott.runtime.jobmanager.sizing import EpochLimits, next_budget
from flott.runtime.jobmanager.sources import SourceCoordinator
from flott.runtime.jobmanager.states import JobStatusHistory
from flott.runtime.jobmanager.time_report import SourceFacts, Standings, TimeSnapshot, note_standings
from flott.runtime.jobmanager.wakeups import clock_driven, next_wakeup

log = logging.getLogger("flott.job")

#: Every so many epochs the state folder is searched for files of attempts that Spark retried by itself.
SWEEP_EVERY = 200
#: Failures remembered for the restart strategy.
REMEMBERED_FAILURES = 100_000


@dataclass(frozen=True)
class Origin:
    """Where a job begins: nothing, its own latest checkpoint (claimed), or another job's (not claimed)."""

    manifest: Manifest | None = None
    root: str | None = None  #: the directory the manifest's files are in, if it is not this job's own

    @property
    def claimed(self) -> bool:
        """Whether the files are this job's own to refer to and to delete."""
        return self.root is None


@dataclass
class JobMaster:
    """Runs one job from its origin to its end."""

    graph: JobGraph
    job_id: str
    configuration: Configuration
    runner: EpochRunner
    store: CheckpointStore
    clock: Clock
    run_id: str
    origin: Origin = Origin()
    listeners: Sequence[JobListener] = ()
    on_step: Callable[[str, int], None] = lambda step, epoch: None  #: called between the steps of the protocol

    history: JobStatusHistory = field(init=False)
    failure: FlottError | None = field(init=False, default=None)
    metrics: dict[str, int | float] = field(init=False, default_factory=dict)  #: the user's, over all completed epochs
    ledger: Mapping[OperatorId, LedgerEntry] = field(init=False, default_factory=dict)  #: over the epochs of this run

    def __post_init__(self) -> None:
        self.history = JobStatusHistory(self.clock.now_ms)
        self._cancelled = threading.Event()
        self._strategy: RestartStrategy = strategy_of(self.configuration)
        self._topology = lay_out(self.graph)
        self._clock_driven = clock_driven(self.graph)
        self._limits = EpochLimits.of(self.configuration)
        self._budget = self._limits.first_budget
        self._retain = options.read(self.configuration, options.CHECKPOINTS_RETAINED)
        self._poll_ms = options.read(self.configuration, options.EPOCH_POLL_INTERVAL)
        self._min_interval_ms = options.read(self.configuration, options.EPOCH_MIN_INTERVAL)
        self._commits = SinkCommits(self.graph, self.job_id, self._pause)
        self._sources: dict[OperatorId, SourceCoordinator] = {}
        self._completed: tuple[Manifest, ...] = ()  #: retained checkpoints, oldest first
        self._latest: Manifest | None = None
        self._latest_is_own = True
        self._resumed_from: Manifest | None = None  #: what the job was started from
        self._pending: InputPlan | None = None  #: the plan of the next epoch, once it is fixed
        self._attempt = 0
        self._failures_ms: list[int] = []
        self._last_start_ms: int | None = None
        self._standings: Standings = {}  #: since when event time has not moved, as far as this run knows

    # --- the job's life ----------------------------------------------------------------------------------------------

    def run(self) -> JobStatus:
        """Run to the end. Does not raise for failures of the job: see ``history`` and ``failure``."""
        try:
            self._start()
            self._move(JobStatus.CREATED)
            self._move(JobStatus.RUNNING)
            while not (self._cancelled.is_set() or self._is_finished()):
                self._try_epoch()
            self._move(JobStatus.CANCELLING if self._cancelled.is_set() else JobStatus.FINISHED)
            if self._cancelled.is_set():
                self._move(JobStatus.CANCELED)
        except KeyboardInterrupt:
            self.cancel()
            self._move(JobStatus.CANCELLING)
            self._move(JobStatus.CANCELED)
            raise
        except EpochFailure as error:
            if self._cancelled.is_set():
                self._move(JobStatus.CANCELLING)
                self._move(JobStatus.CANCELED)
            else:
                self._give_up(error)
        except Exception as error:
            self._give_up(error)
        finally:
            self._close()
        return self.history.status

    def cancel(self) -> None:
        """Ask the job to stop, from any thread."""
        self._cancelled.set()
        self.runner.cancel()

    def _start(self) -> None:
        self._commits.validate()
        if self.origin.manifest is not None and not self.origin.claimed:
            self._latest, self._latest_is_own = self.origin.manifest, False
        else:
            self._completed = tuple(self.store.completed())
            self._latest = self._completed[-1] if self._completed else None
        self._resumed_from = self._latest
        if self.graph.batch and self._latest is not None and not self._is_finished():
            raise ProgramError(
                f"The job is to continue from checkpoint {self._latest.checkpoint_id}, but a program in BATCH mode"
                " reads its input from the beginning. Start it without a checkpoint, or set execution.runtime-mode to"
                " STREAMING."
            )
        self._recover()

    def _recover(self) -> None:
        """Be where the last completed checkpoint was: commit it (again), forget all later traces."""
        for coordinator in self._sources.values():
            coordinator.close()
        self._sources = {}
        for vertex in self.graph.sources:
            coordinator = SourceCoordinator(vertex.head)
            snapshot = self._latest.sources.get(vertex.head.id) if self._latest is not None else None
            coordinator.open(snapshot)
            self._sources[vertex.head.id] = coordinator
        if self._latest is not None and self._latest_is_own:
            self._commits.commit(self._latest, self.clock.now_ms(), replay=True)
        self._commits.discard_failed(self._latest if self._latest_is_own else None)
        self._subsume()
        self._sweep()
        plan = self.store.read_plan(self._next_epoch)
        # A plan of a program with other sources is void: nothing that was made of it has ever been visible.
        self._pending = plan if plan is not None and plan.slices.keys() == self._sources.keys() else None
        if self._pending is not None and self.graph.batch and not self._pending.finished:
            self._pending = None  # made when the program ran in STREAMING mode

    def _is_finished(self) -> bool:
        return self._latest is not None and self._latest_is_own and self._latest.final

    @property
    def _next_epoch(self) -> int:
        return 1 if self._latest is None else self._latest.checkpoint_id + 1

    def _move(self, to: JobStatus, reason: str = "") -> None:
        self.history.move(to)
        for listener in self.listeners:
            listener.on_status(to, reason)

    def _give_up(self, error: Exception) -> None:
        self.failure = error if isinstance(error, FlottError) else EpochFailure(f"{type(error).__name__}: {error}")
        if not isinstance(error, FlottError):
            log.exception("The job failed because of an unexpected error.")
        self._move(JobStatus.FAILING, str(self.failure))
        self._move(JobStatus.FAILED, str(self.failure))

    def _close(self) -> None:
        for coordinator in self._sources.values():
            coordinator.close()
        self._commits.close()

    # --- one epoch, and what follows if it fails ---------------------------------------------------------------------

    def _try_epoch(self) -> None:
        try:
            plan = self._pending or (self._plan_everything() if self.graph.batch else self._plan_input())
            if plan is not None:
                self._run_epoch(plan)
        except EpochFailure as error:
            if self._cancelled.is_set():
                return
            self._restart(error)

    def _restart(self, error: FlottError) -> None:
        self._attempt += 1
        while True:
            self._failures_ms = [*self._failures_ms[-REMEMBERED_FAILURES:], self.clock.now_ms()]
            decision = self._strategy.decide(self._failures_ms)
            if isinstance(decision, GiveUp):
                log.debug("No restart: %s.", decision.reason)
                raise error
            self._move(JobStatus.RESTARTING, str(error))
            for listener in self.listeners:
                listener.on_restart(str(error), decision.delay_ms, len(self._failures_ms))
            if self._pause(decision.delay_ms):
                return
            try:
                self._recover()
                self._move(JobStatus.RUNNING)
                return
            except (EpochFailure, ProgramError) as again:  # a source that could be opened before may be so again
                error = again
                self._move(JobStatus.RUNNING)  # the machine restarts from RUNNING only

    def _pause(self, delay_ms: int) -> bool:
        """Wait; True if the job was cancelled meanwhile."""
        return self.clock.wait(self._cancelled, delay_ms)

    # --- plan --------------------------------------------------------------------------------------------------------

    def _plan_input(self) -> InputPlan | None:
        """Fix the next epoch's input durably, or wait a little and return None if there is nothing to do yet."""
        now = self.clock.now_ms()
        if self._last_start_ms is not None and now - self._last_start_ms < self._min_interval_ms:
            self._pause(self._min_interval_ms - (now - self._last_start_ms))
            now = self.clock.now_ms()
        running = [source for source in self._sources.values() if not source.finished]
        share = max(1, self._budget // max(len(running), 1))
        facts = {ident: fact for ident, source in self._sources.items() if (fact := source.aligned(now)) is not None}
        alignments = align(facts)
        slices = {ident: source.plan(share, now, alignments.get(ident)) for ident, source in self._sources.items()}
        if not self._has_work(slices, now):
            self._pause(max(1, self._wake_at(slices, now) - now))
            return None
        held = {ident: source.held for ident, source in self._sources.items() if source.held}
        plan = InputPlan(self._next_epoch, now, slices, held)
        self.store.write_plan(plan)
        self._pending = plan
        return plan

    def _plan_everything(self) -> InputPlan:
        """Fix the one epoch of a batch job: it reads all there is."""
        now = self.clock.now_ms()
        plan = InputPlan(
            self._next_epoch, now, {ident: source.plan_everything(now) for ident, source in self._sources.items()}
        )
        self.store.write_plan(plan)
        self._pending = plan
        return plan

    def _has_work(self, slices: dict[OperatorId, SlicePlan], now: int) -> bool:
        for ident, plan in slices.items():
            if plan.slices or (plan.finished and not self._sources[ident].finished):
                return True
        if all(plan.finished for plan in slices.values()):
            return True
        return any(deadline <= now for deadline in self._deadlines())

    def _wake_at(self, slices: dict[OperatorId, SlicePlan], now: int) -> int:
        times = self._deadlines()
        for plan in slices.values():
            if not plan.finished:
                times.append(plan.wake_at_ms if plan.wake_at_ms is not None else now + self._poll_ms)
        return min(times, default=now + self._poll_ms)

    def _deadlines(self) -> list[int]:
        """Times at which an epoch is due even without input."""
        times = [at for source in self._sources.values() if (at := source.idle_deadline_ms()) is not None]
        if self._latest is not None and self._latest.wakeup_ms is not None:
            times.append(self._latest.wakeup_ms)
        return times

    # --- run, acknowledge, complete, commit --------------------------------------------------------------------------

    def _run_epoch(self, plan: InputPlan) -> None:
        self._last_start_ms = self.clock.now_ms()
        started = self.clock.monotonic()
        self.on_step("planned", plan.epoch)
        epoch_plan = self._epoch_plan(plan)
        planned = self.clock.monotonic()
        for listener in self.listeners:
            listener.on_start(plan.epoch, self.runner.progress)
        result = self.runner.run(epoch_plan)
        self.on_step("ran", plan.epoch)
        _raise_failures(result, self.graph, self._topology)
        ran = self.clock.monotonic()
        manifest = self._acknowledge(plan, result, epoch_plan.final)
        self.on_step("acknowledged", plan.epoch)
        self.store.publish(manifest)
        # At once: if committing fails, the sweep that follows must know whose files to leave alone.
        self._completed = (*self._completed, manifest)
        self._latest, self._latest_is_own = manifest, True
        self._pending, attempt, self._attempt = None, self._attempt, 0
        self.on_step("completed", plan.epoch)
        completed = self.clock.monotonic()
        self._commits.commit(manifest, plan.now_ms)
        self._commits.deliver(result)
        self._count_metrics(result)
        self._subsume()
        if manifest.checkpoint_id % SWEEP_EVERY == 0:
            self._sweep()
        self.on_step("committed", plan.epoch)
        committed = self.clock.monotonic()
        statistics = _statistics(
            self.graph, plan, result, manifest, attempt,
            [planned - started, ran - planned, completed - ran, committed - completed],
        )  # fmt: skip
        self._budget = next_budget(
            self._limits,
            self._budget,
            statistics.records_in,
            statistics.total_ms,
            result.busy_seconds(self._topology) * 1000,
            # What alignment keeps from being read says nothing about what could be.
            any(part.backlog and self._sources[i].alignment.advance_ms is None for i, part in plan.slices.items()),
        )
        self._keep_ledger(statistics.ledger)
        self._standings = note_standings(self._standings, self.time_snapshot(plan.now_ms))
        for listener in self.listeners:
            listener.on_epoch(statistics)

    def _epoch_plan(self, plan: InputPlan) -> EpochPlan:
        return EpochPlan(
            run_id=self.run_id,
            epoch=plan.epoch,
            attempt=self._attempt,
            now_ms=plan.now_ms,
            seed=crc32(self.job_id.encode()),
            sources={
                ident: self._sources[ident].assign(slices, plan.now_ms, plan.held.get(ident, frozenset()))
                for ident, slices in plan.slices.items()
            },
            states={
                operator.id: redistribute(
                    self._snapshot_of(operator), operator, self._latest_is_own, self._latest is self._resumed_from
                )
                for operator in self.graph.operators.values()
            },
            final=plan.finished,
        )

    def _snapshot_of(self, operator: ChainedOperator) -> OperatorSnapshot | None:
        if self._latest is None:
            return None
        snapshot = self._latest.operators.get(operator.id)
        if snapshot is None or self._latest_is_own:
            return snapshot
        return _with_root(snapshot, self.origin.root or "")

    def _acknowledge(self, plan: InputPlan, result: EpochResult, final: bool) -> Manifest:
        """What the reports amount to: the next checkpoint."""
        for ident, coordinator in self._sources.items():
            reports = {split: r for _, outcome in result.of_operator(ident) for split, r in outcome.splits.items()}
            coordinator.complete(plan.slices[ident], reports, plan.now_ms, plan.held.get(ident, frozenset()))
        operators: dict[OperatorId, OperatorSnapshot] = {}
        committables = {}
        for ident, operator in self.graph.operators.items():
            outcomes = [outcome for _, outcome in result.of_operator(ident)]
            operators[ident] = snapshot_of(operator, outcomes)
            if found := [committable for outcome in outcomes for committable in outcome.committables]:
                committables[ident] = found
        return Manifest(
            job_id=self.job_id,
            job_name=self.graph.name,
            checkpoint_id=plan.epoch,
            completed_at_ms=self.clock.now_ms(),
            seed=crc32(self.job_id.encode()),
            operators=operators,
            sources={ident: coordinator.snapshot() for ident, coordinator in self._sources.items()},
            committables=committables,
            attempts=tuple(sorted({report.attempt_id for report in result.reports})),
            wakeup_ms=next_wakeup(result, self._clock_driven, plan.now_ms),
            final=final,
            accumulators=add_up(
                self._latest.accumulators if self._latest is not None and self._latest_is_own else None,
                [o.accumulators for ident in operators for _, o in result.of_operator(ident) if o.accumulators],
            ),
        )

    @property
    def accumulators(self) -> dict[str, Any]:
        """The results of the user's accumulators over all completed epochs. From any thread."""
        latest = self._latest
        return values_of(latest.accumulators if latest is not None and self._latest_is_own else None)

    def _count_metrics(self, result: EpochResult) -> None:
        for report in result.reports:
            for ident, outcome in report.operators.items():
                name = self.graph.operators[ident].node.name
                combine(self.metrics, {f"{name}.{metric}": reading for metric, reading in outcome.metrics.items()})

    def _keep_ledger(self, epoch: Mapping[OperatorId, LedgerEntry]) -> None:
        for entry in ledger.first_drops(self.ledger, epoch):
            log.warning("Late records are being dropped. %s", ledger.describe(entry))
        combine(self.metrics, ledger.metric_changes(self.graph, epoch))
        self.ledger = ledger.add(self.ledger, epoch)

    def time_snapshot(self, now_ms: int | None = None) -> TimeSnapshot:
        """The facts about event time, from any thread: what is read here is replaced as a whole, never changed."""
        latest, coordinators = self._latest, dict(self._sources)
        now_ms = self.clock.now_ms() if now_ms is None else now_ms
        if latest is None:
            return TimeSnapshot(self.graph, now_ms)
        sources = {
            ident: SourceFacts(
                snapshot.splits,
                coordinators[ident].alignment.paused if ident in coordinators else frozenset(),
                coordinators[ident].backlog if ident in coordinators else False,
                snapshot.finished,
            )
            for ident, snapshot in latest.sources.items()
            if ident in self.graph.operators
        }
        return TimeSnapshot(self.graph, now_ms, latest.checkpoint_id, sources, latest.operators, self._standings)

    # --- retention ---------------------------------------------------------------------------------------------------

    def _subsume(self) -> None:
        retained, discard = subsumed(self._completed, self._retain)
        if self._discard(discard):  # else they stay known, with their files, and go next time
            self._completed = retained

    def _sweep(self) -> None:
        """Delete what crashes and failed attempts left behind."""
        done = self._latest.checkpoint_id if self._latest is not None else 0
        try:
            # Nothing runs while this does, so files of the next epoch stem from a failed attempt at it.
            self._discard(Discard(files=orphans(self.store.state_files(), self._completed, done + 1)))
            oldest = self._completed[0].checkpoint_id if self._completed else done + 1
            self._discard(Discard(checkpoints=tuple(self.store.stale_plans(oldest))))
        except StorageError as error:
            log.warning("Old state files could not be listed: %s", error)

    def _discard(self, discard: Discard) -> bool:
        try:
            self.store.discard(discard)
            return True
        except StorageError as error:
            # The epoch is committed; what stays behind is found by a later sweep.
            log.warning("Old checkpoint files could not be deleted yet: %s", error)
            return False


def _raise_failures(result: EpochResult, graph: JobGraph, topology: Topology) -> None:
    """Turn failure cards, and reports that never came, into the exception the restart strategy sees."""
    if result.failures:
        first = min(result.failures, key=lambda card: (card.blame is not Blame.USER_CODE, card.vertex, card.subtask))
        if first.blame is Blame.STORAGE:
            raise StorageError(str(first))
        raise UserCodeError(str(first))
    if missing := result.missing(graph):
        raise WorkerLostError(f"No acknowledgement came from {', '.join(missing)}.")
    if mixed := result.mixed(topology):
        raise WorkerLostError(f"Output that was lost and computed again reached {', '.join(mixed)}.")


def _with_root(snapshot: OperatorSnapshot, root: str) -> OperatorSnapshot:
    """The snapshot with absolute file names: its files are in another job's directory."""
    def absolute(subtask: SubtaskSnapshot) -> SubtaskSnapshot:
        chain, operator_state = subtask.chain, subtask.operator_state
        if chain is not None:
            chain = tuple(replace(file, name=str(Path(root, file.name))) for file in chain)
        if operator_state is not None:
            operator_state = replace(operator_state, name=str(Path(root, operator_state.name)))
        return replace(subtask, chain=chain, operator_state=operator_state)

    return replace(snapshot, subtasks=tuple(absolute(subtask) for subtask in snapshot.subtasks))


def _statistics(
    graph: JobGraph,
    plan: InputPlan,
    result: EpochResult,
    manifest: Manifest,
    attempt: int,
    phase_seconds: Sequence[float],
) -> EpochStatistics:
    outcomes = [(ident, outcome) for report in result.reports for ident, outcome in report.operators.items()]
    traffic: dict[OperatorId, tuple[int, int]] = {}
    for ident, outcome in outcomes:
        before = traffic.get(ident, (0, 0))
        traffic[ident] = (before[0] + outcome.records_in, before[1] + outcome.records_out)
    sinks = {ident for ident, operator in graph.operators.items() if isinstance(operator.node.spec, SinkSpec)}
    plan_ms, run_ms, complete_ms, commit_ms = (seconds * 1000 for seconds in phase_seconds)
    return EpochStatistics(
        epoch=plan.epoch,
        attempt=attempt,
        records_in=sum(split.records for _, outcome in outcomes for split in outcome.splits.values()),
        records_out=sum(traffic[ident][0] for ident in sinks if ident in traffic),
        watermark=min(outcome.watermark for ident, outcome in outcomes if ident in sinks),
        completed_at_ms=manifest.completed_at_ms,
        backlog=any(slices.backlog for slices in plan.slices.values()),
        state_bytes=manifest.state_bytes,
        state_entries=sum(outcome.state_entries for _, outcome in outcomes),
        plan_ms=plan_ms,
        run_ms=run_ms,
        complete_ms=complete_ms,
        commit_ms=commit_ms,
        operators=traffic,
        ledger=ledger.ledger_of(graph, result),
    )
