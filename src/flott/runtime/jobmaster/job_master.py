"""The job master: the epoch loop of one job, its checkpoints, commits and restarts. Driver side.

    plan (durable) -> run -> acknowledge -> complete (durable) -> commit

What to do is decided by pure functions (``sizing``, ``restart``, ``retention``, ``redistribute``); this class reads the
facts and performs the decisions. It runs in one thread, the caller's, and is told to stop from others.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from zlib import crc32

from flott.common import _options as options
from flott.common._ids import EpochId
from flott.common._late_records import LedgerEntry
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import (
    EpochFailure,
    EpochTimeoutError,
    FlottError,
    LeadershipLostError,
    ProgramError,
    SavepointError,
    StorageError,
)
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.metrics.metricbase import combine
from flott.runtime.checkpoint import paths
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, OperatorSnapshot
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.epoch.accumulators import add_up, values_of
from flott.runtime.epoch.plan import EpochPlan, SubtaskState
from flott.runtime.epoch.redistribute import snapshot_of, starts_of
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.runner import StopReason, TaskRunner, run_epoch
from flott.runtime.jobmaster import ledger
from flott.runtime.jobmaster.adaptive import Autoscaler
from flott.runtime.jobmaster.bell import Bell
from flott.runtime.jobmaster.checkpoint_policy import CheckpointPolicy
from flott.runtime.jobmaster.commits import SinkCommits
from flott.runtime.jobmaster.compactor import Compaction
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.epoch_outcome import failure_of, raise_failures, statistics_of
from flott.runtime.jobmaster.job_input import JobInput, Slices
from flott.runtime.jobmaster.listener import JobListener, RestoredFrom, SavepointNews
from flott.runtime.jobmaster.restart import GiveUp, RestartStrategy, strategy_of
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.savepoints import Demand, SavepointCoordinator, target_of
from flott.runtime.jobmaster.side_work import SideWork, Threaded
from flott.runtime.jobmaster.sizing import EpochLimits, next_budget
from flott.runtime.jobmaster.states import JobStatusHistory
from flott.runtime.jobmaster.time_report import Standings, TimeSnapshot, explain, note_standings
from flott.runtime.jobmaster.wakeups import clock_driven, next_wakeup
from flott.runtime.jobmaster.watchdog import EpochWatchdog
from flott.runtime.logs.line import TaskLog
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.orders import (
    CancelJob,
    CancelWithSavepoint,
    ExplainWatermark,
    Order,
    RescaleJob,
    SavepointOrder,
    StopWithSavepoint,
    SuspendJob,
    TakeCheckpoint,
    TakeSavepoint,
)

log = logging.getLogger("flott.job")

R = TypeVar("R")

#: Every so many epochs the state folder is searched for files of attempts that Spark retried by itself.
SWEEP_EVERY = 200
#: Failures remembered for the restart strategy.
REMEMBERED_FAILURES = 100_000


@dataclass
class JobMaster:
    """Runs one job, from the latest checkpoint in its directory if there is one, to its end."""

    deployment: Deployment
    job_id: str
    configuration: Configuration
    store: CheckpointStore
    clock: Clock
    run_id: str
    listeners: Sequence[JobListener] = ()
    on_step: Callable[[str, int], None] = lambda step, epoch: None  #: called between the steps of the protocol
    beside: SideWork = field(default_factory=Threaded)  #: where work beside the epochs is done
    compaction_rules: CompactionRules = field(default_factory=CompactionRules)
    temporary: bool = False  #: its directory is deleted when it ends
    began_with: RestoredFrom | None = None  #: the snapshot that was made the first checkpoint of a new job

    history: JobStatusHistory = field(init=False)
    failure: FlottError | None = field(init=False, default=None)
    metrics: dict[str, int | float] = field(init=False, default_factory=dict)  #: the user's, over all completed epochs
    ledger: Mapping[OperatorId, LedgerEntry] = field(init=False, default_factory=dict)  #: over the epochs of this run

    def __post_init__(self) -> None:
        self.history = JobStatusHistory(self.clock.now_ms)
        self._cancelled = threading.Event()
        self._suspended = False  #: it was cancelled here to go on elsewhere
        self._wanted_checkpoints: deque[CompletableFuture[EpochId]] = deque()
        self._bell = Bell(self.clock)  #: ends a wait for input
        self._strategy: RestartStrategy = strategy_of(self.configuration)
        self._clock_driven = clock_driven(self.graph)
        self._autoscaler = Autoscaler.of(self.configuration, self.deployment)
        self._limits = EpochLimits.of(self.configuration)
        self._budget = self._limits.first_budget
        retain = options.read(self.configuration, options.CHECKPOINTS_RETAINED)
        self.retained = RetainedCheckpoints(self.store, retain)
        compactor = self.runner.compactor
        self._compaction = Compaction(compactor, self.retained, self.beside, self.run_id, self.compaction_rules)
        self._poll_ms = options.read(self.configuration, options.EPOCH_POLL_INTERVAL)
        self._policy = CheckpointPolicy.of(self.configuration)
        self._watchdog = EpochWatchdog(self._policy.timeout_ms, self.clock, self._interrupt_epoch)
        self.savepoints = SavepointCoordinator(
            self.job_id, self.store.storage, self.retained, compactor, self.beside, self.clock, self.wake,
            sync=options.read(self.configuration, options.STORAGE_SYNC), tell=self._tell_savepoint,
        )  # fmt: skip
        self._commits = SinkCommits(self.graph, self.job_id, self._pause, self.store.fence)
        self._input = JobInput(self._poll_ms)
        self._latest: Manifest | None = None
        self._resumed_from: Manifest | None = None  #: what the job was started from
        self._pending: EpochInput | None = None  #: the plan of the next epoch, once it is fixed
        self._attempt = 0
        self._failures_ms: list[int] = []
        self._told: BaseException | None = None  #: the failure that listeners have heard of
        self._failed_checkpoints = 0  #: in a row, that were tolerated
        self._last_start_ms: int | None = None
        self._last_end_ms: int | None = None
        self._standings: Standings = {}  #: since when event time has not moved, as far as this run knows

    # --- the job's life ----------------------------------------------------------------------------------------------

    def run(self) -> JobStatus:
        """Run to the end. Does not raise for failures of the job: see ``history`` and ``failure``."""
        try:
            self._start()
            self._move(JobStatus.CREATED)
            self._move(JobStatus.RUNNING)
            self._run_epochs()
            if self._cancelled.is_set():
                self._leave()
            else:
                self._move(JobStatus.FINISHED)
        except KeyboardInterrupt:
            self.cancel()
            self._leave()
            raise
        except LeadershipLostError as error:
            log.warning("Job %r goes on elsewhere: %s", self.graph.name, error)
            self._suspended = True
            self._leave()
        except EpochFailure as error:
            if self._cancelled.is_set():
                self._leave()
            else:
                self._give_up(error)
        except Exception as error:
            self._give_up(error)
        finally:
            self._close()
        return self.history.status

    @property
    def graph(self) -> JobGraph:
        """The job graph in its present parallelism."""
        return self.deployment.graph

    @property
    def runner(self) -> TaskRunner:
        """What runs the epochs."""
        return self.deployment.runner

    def submit(self, order: Order[R]) -> CompletableFuture[R]:
        """Carry out an order, from any thread: at once, or between two epochs."""
        return self._carry_out(order)

    def _carry_out(self, order: Order[Any]) -> CompletableFuture[Any]:
        match order:
            case CancelJob():
                self.cancel()
                return CompletableFuture.completed(None)
            case SuspendJob():
                self.suspend()
                return CompletableFuture.completed(None)
            case TakeSavepoint() | CancelWithSavepoint() | StopWithSavepoint():
                return self._take_savepoint(order)
            case TakeCheckpoint():
                return self._take_checkpoint()
            case RescaleJob():
                return self._rescale(order)
            case ExplainWatermark():
                return CompletableFuture.completed(explain(self.time_snapshot()))
        raise TypeError(f"A job master carries out orders, found {order!r}.")

    def _rescale(self, order: RescaleJob) -> CompletableFuture[None]:
        """Change the parallelism before the next epoch; done when that epoch is complete."""
        answer = self.deployment.ask(order)
        self.wake()
        return answer

    def cancel(self) -> None:
        """Ask the job to stop, from any thread."""
        self._cancelled.set()
        self.wake()
        self.runner.stop(StopReason.JOB_CANCELLED)
        self._compaction.cancel()
        self.savepoints.cancel()

    def suspend(self) -> None:
        """Stop where the last checkpoint is, from any thread, and leave everything for whoever goes on with the job."""
        self._suspended = True
        self.cancel()

    def _take_checkpoint(self) -> CompletableFuture[EpochId]:
        """Complete an epoch, input or not; its number. It may be the one that runs now."""
        answer: CompletableFuture[EpochId] = CompletableFuture()
        self._wanted_checkpoints.append(answer)
        if self.history.status.is_terminal_state():  # it may have looked for the last time before this was there
            self._refuse_checkpoints()
        self.wake()
        return answer

    def _take_savepoint(self, order: SavepointOrder) -> CompletableFuture[str]:
        """Take a savepoint between two epochs; its path."""
        try:
            directory = target_of(order, self.configuration, temporary=self.temporary)
        except FlottError as error:
            return CompletableFuture.failed(error)
        if self.graph.batch:
            return CompletableFuture.failed(
                SavepointError("The job runs in BATCH mode, which is one epoch: there is no state to save between two.")
            )
        return self.savepoints.request(order, directory)

    def wake(self) -> None:
        """End a wait for input, from any thread: somebody has asked for something that is done between epochs."""
        self._bell.ring()

    def _start(self) -> None:
        self._commits.validate()
        self.retained.open()
        if self.retained.completed:
            self._latest = self.retained.completed[-1]
        self._resumed_from = self._latest
        if self.graph.batch and self._latest is not None and not self._is_finished():
            raise ProgramError(
                f"The job is to continue from checkpoint {self._latest.checkpoint_id}, but a program in BATCH mode"
                " reads its input from the beginning. Start it without a checkpoint, or set execution.runtime-mode to"
                " STREAMING."
            )
        for listener in self.listeners:
            listener.on_graph(self.graph)
        self._recover()
        self._tell_restored(self.began_with)

    def _recover(self) -> None:
        """Be where the last completed checkpoint was: commit it (again), forget all later traces."""
        self._input.open(self.graph, self._latest)
        if self._latest is not None:
            self._commits.commit(self._latest, self.clock.now_ms(), replay=True)
        self._commits.discard_failed(self._latest)
        self.retained.subsume()
        self.retained.sweep(self._next_epoch - 1)
        plan = self.store.read_input(self._next_epoch)
        self._pending = plan if plan is not None and self._input.fits(plan) else None
        if self._pending is not None and self.graph.batch and not self._pending.finished:
            self._pending = None  # made when the program ran in STREAMING mode

    def _is_finished(self) -> bool:
        return self._latest is not None and self._latest.final

    @property
    def _next_epoch(self) -> int:
        return 1 if self._latest is None else self._latest.checkpoint_id + 1

    def _move(self, to: JobStatus, reason: str = "") -> None:
        self.history.move(to)
        for listener in self.listeners:
            listener.on_status(to, reason)

    def _leave(self) -> None:
        """Somebody has asked the job to end, or another process goes on with it."""
        if self._suspended:
            self._move(JobStatus.SUSPENDED)
        else:
            self._move(JobStatus.CANCELLING)
            self._move(JobStatus.CANCELED)

    def _tell_failure(self, error: BaseException) -> None:
        if error is not self._told:
            self._told = error
            failure = failure_of(error, self.graph)
            for listener in self.listeners:
                listener.on_failure(failure)

    def _tell_epoch_failed(self, epoch: int, error: BaseException, tolerated: bool) -> None:
        failure = failure_of(error, self.graph)
        for listener in self.listeners:
            listener.on_epoch_failed(epoch, failure, tolerated)

    def _tell_savepoint(self, news: SavepointNews) -> None:
        for listener in self.listeners:
            listener.on_savepoint(news)

    def _tell_restored(self, restored: RestoredFrom | None = None) -> None:
        if self._latest is not None:
            path = self.store.storage.location(paths.checkpoint(self._latest.checkpoint_id))
            for listener in self.listeners:
                listener.on_restored(restored or RestoredFrom(self._latest.checkpoint_id, path))

    def _give_up(self, error: Exception) -> None:
        if self._is_deposed():  # whatever went wrong: things have been taken away from under this process
            log.warning("Job %r goes on elsewhere. What failed here: %s", self.graph.name, error)
            self._suspended = True
            self._leave()
            return
        self._tell_failure(error)
        self.failure = error if isinstance(error, FlottError) else EpochFailure(f"{type(error).__name__}: {error}")
        if not isinstance(error, FlottError):
            log.exception("The job failed because of an unexpected error.")
        self._move(JobStatus.FAILING, str(self.failure))
        self._move(JobStatus.FAILED, str(self.failure))

    def _is_deposed(self) -> bool:
        try:
            if self.store.fence is not None:
                self.store.fence.check()
        except LeadershipLostError:
            return True
        except StorageError:
            pass
        return False

    def _close(self) -> None:
        self._watchdog.close()  # first: it cannot fail, and its thread would outlive a job that fails to end well
        self.savepoints.close(f"The job ended ({self.history.status.name}) before the savepoint could be taken.")
        self.deployment.job_ended(EpochFailure(f"Job {self.graph.name!r} ended before another epoch was complete."))
        self._refuse_checkpoints()
        self._input.close()
        self._commits.close()
        with suppress(LeadershipLostError):  # then its files are for the successor to delete
            self._compaction.close()

    def _refuse_checkpoints(self) -> None:
        ended = f"Job {self.graph.name!r} ended before the checkpoint could be taken."
        with suppress(IndexError):  # who asked in the last moment may be at it, too: whoever takes the last one ends
            while True:
                self._wanted_checkpoints.popleft().set_exception(EpochFailure(ended))

    # --- one epoch, and what follows if it fails ---------------------------------------------------------------------

    def _run_epochs(self) -> None:
        """Until the job has finished, or is told to end."""
        while not self._cancelled.is_set():
            demand = self.savepoints.serve(self._latest, self._is_finished())
            if demand is Demand.CANCEL:
                self._cancelled.set()
            elif demand is Demand.STOP or self._is_finished():
                return
            else:
                self._try_epoch(demand or (Demand.EPOCH if self._wanted_checkpoints else None))

    def _try_epoch(self, demand: Demand | None = None) -> None:
        try:
            if self._latest is not None:
                self._compaction.hold_up(self._latest.operators)
            self._reshape()
            plan = self._next_input(demand)
            if plan is not None:
                self._run_epoch(plan)
        except EpochFailure as error:
            if demand is Demand.DRAIN:
                self.savepoints.drain_failed(error)
            if not self._cancelled.is_set():
                self._answer(error)

    def _answer(self, error: FlottError) -> None:
        """Try the epoch again: at once, if it is merely a checkpoint that failed, or as the restart strategy says."""
        if isinstance(error, EpochTimeoutError):
            self._budget = max(1, self._budget // 2)
            with suppress(StorageError):  # then it is tried once more as it is
                self.store.forget_input(self._next_epoch)
        while isinstance(error, EpochFailure) and self._policy.tolerates(error, self._failed_checkpoints):
            self._failed_checkpoints += 1
            self._attempt += 1
            self._tell_epoch_failed(self._next_epoch, error, tolerated=True)
            log.warning("Checkpoint %d failed, which is tolerated: %s", self._next_epoch, error)
            try:
                self._recover()
                return
            except (EpochFailure, ProgramError) as again:
                error = again
                if self._pause(self._poll_ms):
                    return
        self._restart(error)

    def _restart(self, error: FlottError) -> None:
        self._attempt += 1
        self._tell_epoch_failed(self._next_epoch, error, tolerated=False)
        while True:
            self._tell_failure(error)
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
                self._tell_restored()
                return
            except (EpochFailure, ProgramError) as again:  # a source that could be opened before may be so again
                error = again
                self._move(JobStatus.RUNNING)  # the machine restarts from RUNNING only

    def _reshape(self) -> None:
        """Go on in the parallelism that was asked for. A plan stays valid: it says what is read, not by whom."""
        before = self.deployment.parallelism
        changed = self.deployment.reshape()
        if not changed:
            return
        # Fewer subtasks take longer for the same records; what more of them can do is found out.
        self._budget = max(1, self._budget * min(before, self.deployment.parallelism) // before)
        self._input.rescale(self.graph)
        log.info("Job %r goes on with another parallelism: %s.", self.graph.name, ", ".join(map(str, changed)))
        for listener in self.listeners:
            listener.on_graph(self.graph)
            listener.on_rescale(self._next_epoch, changed)

    def _pause(self, delay_ms: int) -> bool:
        """Wait; True if the job was cancelled meanwhile."""
        return self.clock.wait(self._cancelled, delay_ms)

    # --- plan --------------------------------------------------------------------------------------------------------

    def _next_input(self, demand: Demand | None) -> EpochInput | None:
        if demand is Demand.DRAIN:
            # It reads nothing, so there is nothing to fix: after a crash in the middle nobody has asked for a drain.
            return EpochInput(self._next_epoch, self.clock.now_ms(), self._input.choose_end())
        if self._pending is not None:
            return self._pending
        return self._fix_everything() if self.graph.batch else self._fix_input(demand is Demand.EPOCH)

    def _fix_input(self, demanded: bool) -> EpochInput | None:
        """Fix the next epoch's input durably, or wait a little and return None if there is nothing to do yet."""
        now = self.clock.now_ms()
        if not demanded and (early_ms := self._policy.not_before_ms(self._last_start_ms, self._last_end_ms) - now) > 0:
            self._idle(early_ms)
            return None
        slices = self._input.choose_slices(self._budget, now)
        if not (demanded or self._has_work(slices, now)):
            self._idle(max(1, self._wake_at(slices, now) - now))
            return None
        return self._fix(EpochInput(self._next_epoch, now, slices, self._input.held()))

    def _fix_everything(self) -> EpochInput:
        """Fix the one epoch of a batch job: it reads all there is."""
        now = self.clock.now_ms()
        return self._fix(EpochInput(self._next_epoch, now, self._input.choose_everything(now)))

    def _fix(self, plan: EpochInput) -> EpochInput:
        self.store.write_input(plan)
        self._pending = plan
        return plan

    def _has_work(self, slices: Slices, now: int) -> bool:
        if self._input.has_news(slices) or self.deployment.is_new or all(plan.finished for plan in slices.values()):
            return True
        return any(deadline <= now for deadline in self._deadlines())

    def _idle(self, delay_ms: int) -> None:
        """Wait for something to do, until there is input or somebody wakes the job."""
        if not self._bell.wait(delay_ms):
            self._cancelled.set()

    def _wake_at(self, slices: Slices, now: int) -> int:
        return min([*self._deadlines(), *self._input.look_again_at(slices, now)], default=now + self._poll_ms)

    def _deadlines(self) -> list[int]:
        """Times at which an epoch is due even without input."""
        times = [*self._input.idle_deadlines()]
        if self._latest is not None and self._latest.wakeup_ms is not None:
            times.append(self._latest.wakeup_ms)
        return times

    # --- run, acknowledge, complete, commit --------------------------------------------------------------------------

    def _run_epoch(self, plan: EpochInput) -> None:
        self._last_start_ms = self.clock.now_ms()
        started = self.clock.monotonic()
        self.on_step("planned", plan.epoch)
        epoch_plan = self._plan_epoch(plan)
        planned = self.clock.monotonic()
        for listener in self.listeners:
            listener.on_start(plan.epoch, lambda: self.runner.status().progress)
        handed_over_ms = self.clock.now_ms()
        result = self._run_in_time(epoch_plan)
        self.on_step("ran", plan.epoch)
        raise_failures(result, self.graph, self.deployment.topology)
        ran = self.clock.monotonic()
        manifest = self._acknowledge(plan, result, epoch_plan.final)
        self.on_step("acknowledged", plan.epoch)
        self.store.publish(manifest)
        # At once: if committing fails, the sweep that follows must know whose files to leave alone.
        self.retained.add(manifest)
        self._latest = manifest
        self._pending, attempt, self._attempt, self._failed_checkpoints = None, self._attempt, 0, 0
        self.on_step("completed", plan.epoch)
        completed = self.clock.monotonic()
        self._commits.commit(manifest, plan.now_ms)
        self._commits.deliver(result)
        self._count_metrics(result)
        self.retained.subsume()
        self._compaction.completed(manifest)
        if manifest.checkpoint_id % SWEEP_EVERY == 0:
            self.retained.sweep(manifest.checkpoint_id)
        self.on_step("committed", plan.epoch)
        committed = self.clock.monotonic()
        statistics = statistics_of(
            self.graph, plan, result, manifest, attempt,
            [planned - started, ran - planned, completed - ran, committed - completed],
            started_at_ms=self._last_start_ms, handed_over_ms=handed_over_ms, pending=self._input.pending(plan.now_ms),
        )  # fmt: skip
        work_ms = result.busy_seconds(self.deployment.topology) * 1000
        self._budget = next_budget(
            self._limits,
            self._budget,
            statistics.records_in,
            statistics.total_ms,
            work_ms,
            self._input.could_give_more(plan),
        )
        self._keep_ledger(statistics.ledger)
        self._standings = note_standings(self._standings, self.time_snapshot(plan.now_ms))
        for listener in self.listeners:
            listener.on_epoch(statistics)
        self._last_end_ms = self.clock.now_ms()
        while self._wanted_checkpoints:
            self._wanted_checkpoints.popleft().set_result(EpochId(manifest.checkpoint_id))
        self.deployment.epoch_completed()
        if self._autoscaler is not None:
            self._autoscaler.epoch_completed(self.clock.monotonic() * 1000, work_ms, statistics.backlog)

    def _run_in_time(self, plan: EpochPlan) -> EpochResult:
        if self.graph.batch:
            return run_epoch(self.runner, plan, self._tell_logs)
        return self._watchdog.limit(lambda: run_epoch(self.runner, plan, self._tell_logs))

    def _interrupt_epoch(self) -> None:
        self.runner.stop(StopReason.EPOCH_TIMED_OUT)

    def _tell_logs(self, logs: Sequence[TaskLog]) -> None:
        for listener in self.listeners:
            listener.on_logs(logs)

    def _plan_epoch(self, plan: EpochInput) -> EpochPlan:
        return EpochPlan(
            run_id=self.run_id,
            epoch=EpochId(plan.epoch),
            attempt=self._attempt,
            now_ms=plan.now_ms,
            seed=crc32(self.job_id.encode()),
            sources=self._input.assign(plan),
            states=self._starts(),
            final=plan.finished,
        )

    def _starts(self) -> dict[OperatorId, tuple[SubtaskState, ...]]:
        """Where the subtasks of all operators begin."""
        before = self._latest.operators if self._latest is not None else {}
        return starts_of(before, self.graph, resuming=self._latest is self._resumed_from)

    def _acknowledge(self, plan: EpochInput, result: EpochResult, final: bool) -> Manifest:
        """What the reports amount to: the next checkpoint."""
        self._input.complete(plan, result)
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
            operators=self._compaction.adopt(operators),
            sources=self._input.snapshot(),
            committables=committables,
            attempts=tuple(sorted({report.attempt_id for report in result.reports})),
            wakeup_ms=next_wakeup(result, self._clock_driven, plan.now_ms),
            final=final,
            accumulators=add_up(
                self._latest.accumulators if self._latest is not None else None,
                [o.accumulators for ident in operators for _, o in result.of_operator(ident) if o.accumulators],
            ),
        )

    @property
    def accumulators(self) -> dict[str, Any]:
        """The results of the user's accumulators over all completed epochs. From any thread."""
        latest = self._latest
        return values_of(latest.accumulators if latest is not None else None)

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
        latest = self._latest
        now_ms = self.clock.now_ms() if now_ms is None else now_ms
        if latest is None:
            return TimeSnapshot(self.graph, now_ms)
        facts = self._input.facts(latest, self.graph)
        return TimeSnapshot(self.graph, now_ms, latest.checkpoint_id, facts, latest.operators, self._standings)
