"""The job master: performs what the life-cycle of one job decides, epoch after epoch. Driver side.

    Inbox (other threads) ──┐
                            ├─► JobLifecycle.deliver(event) ─► actions ─► JobMaster performs them ─► events ─┐
                            └────────────────────────────────────────────────────────────────────────────────┘

``lifecycle`` decides, ``epoch_protocol`` has the steps of an epoch. This class runs in one thread, that of its caller.
Orders come from other threads (``submit``) and wait in the inbox, with the savepoints or with the deployment.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flott.common import _options as options
from flott.common._ids import EpochId, JobId
from flott.common._late_records import LedgerEntry
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.errors import (
    EpochFailure,
    FlottError,
    LeadershipLostError,
    NoSlotsError,
    ProgramError,
    SavepointError,
    StorageError,
)
from flott.graph.guarantees import weakest_link
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import EpochInput, Manifest
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.epoch.accumulators import values_of
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.report_sums import whole_of
from flott.runtime.epoch.runner import StopReason, TaskRunner, run_epoch
from flott.runtime.jobmaster.adaptive import Autoscaler
from flott.runtime.jobmaster.commits import SinkCommits
from flott.runtime.jobmaster.compactor import Compaction
from flott.runtime.jobmaster.deployment import Deployment
from flott.runtime.jobmaster.epoch_outcome import StepTimes, failure_of, raise_failures, statistics_of
from flott.runtime.jobmaster.epoch_protocol import EpochProtocol, NotDue
from flott.runtime.jobmaster.execution_mode import JobMode, pipelined_policy
from flott.runtime.jobmaster.inbox import Inbox
from flott.runtime.jobmaster.job_input import JobInput
from flott.runtime.jobmaster.lifecycle import (
    AwaitDelay,
    BoundaryReached,
    CancelRequested,
    CheckpointCompleted,
    CheckpointFailed,
    ConfirmFailure,
    DelayPassed,
    Demand,
    EpochCommitted,
    EpochFailed,
    Failed,
    Failing,
    FatalError,
    JobLifecycle,
    JobStarted,
    JobStatusHistory,
    LeadershipLost,
    NothingDue,
    ReachBoundary,
    RefuseDrain,
    ReportCheckpointFailed,
    ReportEpochFailed,
    ReportFailure,
    ReportRestart,
    ReportRestored,
    ReportStatus,
    Restore,
    Restored,
    RestoreFailed,
    Rules,
    RunAction,
    RunEpoch,
    RunEvent,
    ShrinkEpoch,
    StartTasks,
    StopTasks,
    SuspendRequested,
    TasksStarted,
    TasksStopped,
    TerminalState,
)
from flott.runtime.jobmaster.listener import JobListener, Listeners, ModeChange, RestoredFrom
from flott.runtime.jobmaster.pipelined_execution import GivenUp, PipelinedExecution, Wanted
from flott.runtime.jobmaster.restart import strategy_of
from flott.runtime.jobmaster.retained import RetainedCheckpoints
from flott.runtime.jobmaster.savepoints import SavepointCoordinator, target_of
from flott.runtime.jobmaster.side_work import SideWork, Threaded
from flott.runtime.jobmaster.sizing import EpochBudget
from flott.runtime.jobmaster.time_report import TimeSnapshot, explain
from flott.runtime.jobmaster.totals import JobTotals
from flott.runtime.jobmaster.triggers import CheckpointPolicy
from flott.runtime.jobmaster.watchdog import EpochWatchdog
from flott.runtime.managed_state.files.compaction_policy import CompactionRules
from flott.runtime.orders import (
    CancelJob,
    CancelWithSavepoint,
    ExplainWatermark,
    KeepCheckpoints,
    Order,
    RescaleJob,
    SavepointOrder,
    StopWithSavepoint,
    SuspendJob,
    TakeCheckpoint,
    TakeSavepoint,
)
from flott.runtime.pipelined.runner import PipelineRunner

log = logging.getLogger("flott.job")

R = TypeVar("R")


@dataclass
class JobMaster:
    """Runs one job to its end, from the latest checkpoint in its directory if there is one."""

    deployment: Deployment
    job_id: JobId
    configuration: Configuration
    store: CheckpointStore
    clock: Clock
    run_id: str
    listeners: Sequence[JobListener] = ()
    on_step: Callable[[str, int], None] = lambda step, epoch: None  #: called after each step of the protocol
    beside: SideWork = field(default_factory=Threaded)  #: does work beside the epochs
    compaction_rules: CompactionRules = field(default_factory=CompactionRules)
    temporary: bool = False  #: its directory is deleted when it ends
    began_with: RestoredFrom | None = None  #: the snapshot that was made the first checkpoint of a new job
    pipeline: PipelineRunner | None = None  #: executes tasks continuously; None: only epochs are possible

    history: JobStatusHistory = field(init=False)
    totals: JobTotals = field(init=False, default_factory=JobTotals)

    def __post_init__(self) -> None:
        configuration = self.configuration
        poll_ms = options.read(configuration, options.EPOCH_POLL_INTERVAL)
        policy = CheckpointPolicy.of(configuration)
        self.history = JobStatusHistory(self.clock.now_ms)
        self._lifecycle = JobLifecycle(Rules(strategy_of(configuration), policy, poll_ms))
        self._events: deque[RunEvent] = deque()  #: what came of actions, not delivered yet
        self._inbox = Inbox(self.clock)
        self._tell = Listeners(self.listeners)
        self._told: BaseException | None = None  #: the failure that listeners have been told of
        self._budget = EpochBudget.of(configuration)
        self._autoscaler = Autoscaler.of(configuration, self.deployment)
        self._watchdog = EpochWatchdog(policy.timeout_ms, self.clock, self._interrupt_epoch)
        self._keep_until = -math.inf  #: by the monotonic clock; written by any thread
        self.retained = RetainedCheckpoints(
            self.store,
            options.read(configuration, options.CHECKPOINTS_RETAINED),
            keeps_two=lambda: self.clock.monotonic() < self._keep_until,
        )
        self._mode = JobMode.of(configuration, self.graph, self.pipeline is not None)
        if not self._mode.may_be_pipelined:
            self.pipeline = None
        compactor = self.runner.compactor
        if self.pipeline is not None:
            self.pipeline.check(self.deployment.image)
            compactor = self.pipeline.compactor
        self._compaction = Compaction(compactor, self.retained, self.beside, self.run_id, self.compaction_rules)
        self.savepoints = SavepointCoordinator(
            self.job_id, self.store.storage, self.retained, compactor, self.beside, self.clock, self._inbox.wake,
            sync=options.read(configuration, options.STORAGE_SYNC), tell=self._tell.on_savepoint,
        )  # fmt: skip
        commits = SinkCommits(self.graph, self.job_id, self._inbox.pause, self.store.fence)
        self._protocol = EpochProtocol(
            self.job_id, self.run_id, self.deployment, self.store, self.retained, self._compaction, commits,
            JobInput(poll_ms), self.clock, policy, poll_ms,
        )  # fmt: skip
        self._pipelined: PipelinedExecution | None = None
        if self.pipeline is not None:
            self._pipelined = PipelinedExecution(
                self.pipeline, self._protocol.input, self.clock, pipelined_policy(configuration), self._inbox.wait,
                self._inbox.wake, self._tell.on_logs, self._protocol.has_news, commits.take_several_epochs,
                self._tell.on_waits, self._tell.on_loads,
            )  # fmt: skip

    @property
    def graph(self) -> JobGraph:
        """Return the job graph with its present parallelism."""
        return self.deployment.graph

    @property
    def runner(self) -> TaskRunner:
        """Return what executes the tasks."""
        return self.deployment.runner

    # --- from any thread ---------------------------------------------------------------------------------------------

    def submit(self, order: Order[R]) -> CompletableFuture[R]:
        """Carry out an order: at once, or between two epochs. May be called from any thread."""
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
                return self._inbox.request_checkpoint()
            case RescaleJob():
                answer = self.deployment.ask(order)
                self._inbox.wake()
                return answer
            case KeepCheckpoints(seconds):
                self._keep_until = self.clock.monotonic() + seconds
                return CompletableFuture.completed(None)
            case ExplainWatermark():
                return CompletableFuture.completed(explain(self.time_snapshot()))
        raise TypeError(f"A job master carries out orders, found {order!r}.")

    def _take_savepoint(self, order: SavepointOrder) -> CompletableFuture[str]:
        try:
            directory = target_of(order, self.configuration, temporary=self.temporary)
        except FlottError as error:
            return CompletableFuture.failed(error)
        if self.graph.batch:
            return CompletableFuture.failed(
                SavepointError("The job runs in BATCH mode, which is one epoch: there is no state to save between two.")
            )
        return self.savepoints.request(order, directory)

    def cancel(self) -> None:
        """Ask the job to end as CANCELED. May be called from any thread."""
        self._inbox.put(CancelRequested())
        self._interrupt_work()

    def suspend(self) -> None:
        """Ask the job to end here and leave everything to the process that continues it. From any thread."""
        self._inbox.put(SuspendRequested())
        self._interrupt_work()

    def _interrupt_work(self) -> None:
        self.runner.stop(StopReason.JOB_CANCELLED)
        if self.pipeline is not None:
            self.pipeline.interrupt()
        self._compaction.cancel()
        self.savepoints.cancel()

    @property
    def failure(self) -> FlottError | None:
        """Return why the job failed, if it did."""
        state = self._lifecycle.state
        return state.failure if isinstance(state, Failing | Failed) else None

    @property
    def metrics(self) -> dict[str, int | float]:
        """Return the metrics of user functions over all completed epochs of this run."""
        return self.totals.metrics

    @property
    def ledger(self) -> Mapping[OperatorId, LedgerEntry]:
        """Return the late-data ledger over all completed epochs of this run."""
        return self.totals.ledger

    @property
    def accumulators(self) -> dict[str, Any]:
        """Return the results of the user's accumulators over all completed epochs of the job."""
        latest = self._protocol.latest
        return values_of(latest.accumulators if latest is not None else None)

    def time_snapshot(self, now_ms: int | None = None) -> TimeSnapshot:
        """Return the facts about event time. What is read here is replaced as a whole, never changed."""
        latest = self._protocol.latest
        now_ms = self.clock.now_ms() if now_ms is None else now_ms
        if latest is None:
            return TimeSnapshot(self.graph, now_ms)
        facts = self._protocol.input.facts(latest, self.graph)
        standings = self.totals.standings
        return TimeSnapshot(self.graph, now_ms, latest.checkpoint_id, facts, latest.operators, standings)

    # --- the life of the job -----------------------------------------------------------------------------------------

    def run(self) -> JobStatus:
        """Run to the end. Does not raise for failures of the job: see ``history`` and ``failure``."""
        if (link := weakest_link(op.node for op in self.graph.operators.values())) is not None:
            promised = link.guarantee.value
            log.info("Job %r promises %s, as its weakest link %r does.", self.graph.name, promised, link.name)
        try:
            self._handle(JobStarted())  # first: a cancelled job, too, commits what a crash has left
            while not isinstance(self._lifecycle.state, TerminalState):
                self._handle(self._next_event())
        except KeyboardInterrupt:
            self.cancel()
            while not isinstance(self._lifecycle.state, TerminalState):
                self._handle(self._next_event())
            raise
        finally:
            self._close()
        return self.history.status

    def _next_event(self) -> RunEvent:
        """Return what ends the job first, then what other threads want, then what came of the last action."""
        if self._events and isinstance(self._events[0], FatalError | LeadershipLost):
            return self._events.popleft()
        return self._inbox.take() or self._events.popleft()

    def _handle(self, event: RunEvent) -> None:
        """Deliver an event and perform the actions that follow."""
        try:
            for action in self._lifecycle.deliver(event):
                self._perform(action)
        except LeadershipLostError as error:
            log.warning("Job %r is continued by another process: %s", self.graph.name, error)
            self._events.appendleft(LeadershipLost(str(error)))
        except Exception as error:
            self._give_up(error)

    def _perform(self, action: RunAction) -> None:
        """Perform an action; what comes of it is added to the events."""
        match action:
            case ReportStatus(status, reason):
                self.history.add(status)
                self._tell.on_status(status, reason)
            case Restore(first):
                self._restore(first)
            case ReportRestored(first):
                self._report_restored(first)
            case StartTasks():
                self._events.append(TasksStarted())  # each epoch, or the first interval, starts tasks of its own
            case ReachBoundary():
                self._reach_boundary()
            case RunEpoch(demand):
                self._run_next_epoch(demand)
            case AwaitDelay(delay_ms):
                self._inbox.pause(delay_ms)
                self._events.append(DelayPassed())
            case StopTasks():
                self._stop_pipeline()
                self._events.append(TasksStopped())  # no other runs between two epochs
            case ConfirmFailure(error, reason):
                log.debug("No restart: %s.", reason)
                self._give_up(error)
            case _:
                self._report(action)

    def _report(self, action: RunAction) -> None:
        """Perform an action that follows a failure."""
        match action:
            case ReportEpochFailed(error, tolerated):
                epoch = self._protocol.next_epoch
                self._protocol.attempt += 1
                if tolerated:
                    log.warning("Checkpoint %d failed, which is tolerated: %s", epoch, error)
                self._tell.on_epoch_failed(epoch, failure_of(error, self.graph), tolerated)
            case ReportCheckpointFailed(epoch, error, tolerated):
                outcome = "which is tolerated: the tasks run on" if tolerated else "and no more failures are tolerated"
                log.warning("Checkpoint %d failed, %s. %s", epoch, outcome, error)
                self._tell.on_epoch_failed(epoch, failure_of(error, self.graph), tolerated)
            case ReportFailure(error):
                if error is not self._told:
                    self._told = error
                    self._tell.on_failure(failure_of(error, self.graph))
            case ReportRestart(error, delay_ms, failures):
                self._tell.on_restart(str(error), delay_ms, failures)
            case RefuseDrain(error):
                self.savepoints.drain_failed(error)
            case ShrinkEpoch():
                self._budget.halve()
                with suppress(StorageError):  # then the next attempt reads the same once more
                    self.store.forget_input(self._protocol.next_epoch)
            case _:
                raise AssertionError(action)

    def _stop_pipeline(self) -> None:
        if self._pipelined is not None:
            self._pipelined.stop()

    def _restore(self, first: bool) -> None:
        self._stop_pipeline()
        try:
            if first:
                self._protocol.open()
                self._tell.on_graph(self.graph)
            self._protocol.restore()
            self._events.append(Restored())
        except (EpochFailure, ProgramError) as error:
            self._events.append(RestoreFailed(error, self.clock.now_ms()))

    def _report_restored(self, first: bool) -> None:
        latest, path = self._protocol.latest, self._protocol.latest_path
        if latest is not None and path is not None:
            began_with = self.began_with if first else None
            self._tell.on_restored(began_with or RestoredFrom(latest.checkpoint_id, path))

    def _give_up(self, error: Exception) -> None:
        """Report a failure that ends the job, unless another process leads: then that explains the failure."""
        if self._is_deposed():
            log.warning("Job %r is continued by another process. What failed here: %s", self.graph.name, error)
            self._events.appendleft(LeadershipLost(str(error)))
            return
        if not isinstance(error, FlottError):
            log.error("The job failed because of an unexpected error.", exc_info=error)
        self._events.appendleft(FatalError(error))

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
        self._stop_pipeline()
        name = self.graph.name
        self.savepoints.close(f"The job ended ({self.history.status.name}) before the savepoint could be taken.")
        self.deployment.job_ended(EpochFailure(f"Job {name!r} ended before another epoch was complete."))
        self._inbox.close(EpochFailure(f"Job {name!r} ended before the checkpoint could be taken."))
        self._protocol.close()
        with suppress(LeadershipLostError):  # then its files are for the successor to delete
            self._compaction.close()

    # --- between two epochs ------------------------------------------------------------------------------------------

    def _reach_boundary(self) -> None:
        finished = self._protocol.is_finished
        demand = self.savepoints.serve(self._protocol.latest, finished)
        if demand is None and self._inbox.wants_checkpoint:
            demand = Demand.EPOCH
        self._events.append(BoundaryReached(finished, demand))

    def _rescale(self) -> None:
        """Continue with the parallelism that was ordered. A fixed input stays valid: it does not name subtasks.

        Records that were on their way at the last checkpoint are processed first, because an edge with another
        parallelism may be another edge: it is forward, or inside a chain.
        """
        if self._protocol.latest is not None and self._protocol.latest.channels:
            return
        before = self.deployment.parallelism
        changed = self.deployment.reshape()
        if not changed:
            return
        self._budget.rescale(before, self.deployment.parallelism)
        self._protocol.input.rescale(self.graph)
        self._stop_pipeline()  # it stands at the last checkpoint: other tasks begin there
        log.info("Job %r continues with another parallelism: %s.", self.graph.name, ", ".join(map(str, changed)))
        self._tell.on_graph(self.graph)
        self._tell.on_rescale(self._protocol.next_epoch, changed)

    # --- one epoch ---------------------------------------------------------------------------------------------------

    def _run_next_epoch(self, demand: Demand | None) -> None:
        protocol = self._protocol
        try:
            if protocol.latest is not None:
                self._compaction.hold_up(protocol.latest.operators)
            if self._pipelined is None or self._pipelined.stands_at_checkpoint:
                self._rescale()
                self._change_mode()
            if self._pipelined is not None and self._mode.is_pipelined:
                self._run_interval(self._pipelined, demand)
                return
            drain = demand is Demand.DRAIN
            fixed = protocol.fix_end() if drain else protocol.fix_input(self._budget.records, demand is Demand.EPOCH)
            if isinstance(fixed, NotDue):
                self._inbox.wait(fixed.wait_ms)
                self._events.append(NothingDue())
            else:
                self._run_epoch(fixed)
        except EpochFailure as error:
            if isinstance(error, NoSlotsError) and self._mode.is_adaptive:
                self._tell_mode(self._mode.return_to_epochs(self.clock.now_ms()))
                self._events.append(NothingDue())
            else:
                self._events.append(EpochFailed(protocol.next_epoch, error, self.clock.now_ms(), demand))

    def _run_epoch(self, fixed: EpochInput) -> None:
        """Run one epoch: plan -> run -> acknowledge -> complete -> commit."""
        protocol, epoch = self._protocol, EpochId(fixed.epoch)
        times = StepTimes(self.clock, epoch, self.on_step)
        protocol.started_ms = times.started_ms
        plan = protocol.plan(fixed)
        times.reached("planned")
        result = self._run_tasks(plan)
        times.reached("ran")
        raise_failures(result, self.graph, self.deployment.topology)
        manifest = protocol.acknowledge(fixed, result)
        times.reached("acknowledged")
        permit = protocol.complete(manifest, fixed.now_ms)
        self._lifecycle.deliver(CheckpointCompleted(epoch))
        times.reached("completed")
        protocol.commit(permit, manifest, result)
        times.reached("committed")
        self._account(fixed, plan, result, manifest, times)
        self._events.append(EpochCommitted(epoch))

    def _run_interval(self, pipelined: PipelinedExecution, demand: Demand | None) -> None:
        """Let continuous tasks run to the next checkpoint: barrier -> acknowledge -> complete -> commit."""
        protocol, epoch = self._protocol, self._protocol.next_epoch
        if not pipelined.is_running:
            pipelined.start(self.graph, self.deployment.image, protocol.begin_unplanned())
        times = StepTimes(self.clock, epoch, self.on_step)
        protocol.started_ms = times.started_ms
        self._tell.on_interval(epoch)

        def begin_checkpoint() -> None:
            times.reached("planned")
            self._tell.on_checkpoint(epoch)

        interval = pipelined.run_to_checkpoint(
            epoch, lambda: self._wanted(demand), lambda: self._inbox.is_ending, begin_checkpoint
        )
        if interval is None:
            self._events.append(NothingDue())
            return
        if isinstance(interval, GivenUp):
            protocol.given_up = epoch
            self._events.append(CheckpointFailed(epoch, interval.error, self.clock.now_ms(), demand))
            return
        fixed, result = interval.input, interval.result
        raise_failures(result, self.graph, self.deployment.topology)
        times.reached("ran")
        manifest = protocol.manifest_of(fixed, result, interval.sources)
        times.reached("acknowledged")
        permit = self._reading_on(pipelined, demand, lambda: protocol.complete(manifest, fixed.now_ms))
        self._lifecycle.deliver(CheckpointCompleted(epoch))
        times.reached("completed")
        self._reading_on(pipelined, demand, lambda: protocol.commit_sinks(permit, manifest))
        protocol.tell_committed(result)
        self._reading_on(pipelined, demand, lambda: protocol.drop_replaced(manifest, result))
        pipelined.completed(interval, manifest)
        times.reached("committed")
        plan = protocol.start_plan(epoch, fixed.now_ms)
        self._account(fixed, plan, result, manifest, times, pipelined=True)
        self._events.append(EpochCommitted(epoch))

    def _reading_on(self, pipelined: PipelinedExecution, demand: Demand | None, work: Callable[[], R]) -> R:
        """Do some work for a checkpoint, which may take long, in another thread while this one lets sources be read.

        The work uses nothing that rounds use. Where it is done inline, or no source may be read, it comes first.
        """
        if not pipelined.reads_on:
            return work()
        doing = self.beside.start(work, "flott-checkpoint")
        doing.add_done_callback(lambda done: self._inbox.wake())
        try:
            pipelined.run_beside(doing.done, lambda: self._wanted(demand), lambda: self._inbox.is_ending)
            self.beside.wait(doing)
        except BaseException:  # an interruption of this process: the job ends, but not in the middle of the work
            self.cancel()
            self.beside.wait(doing)
            raise
        return doing.result()

    def _change_mode(self) -> None:
        """Continue an adaptive job in the other mode, if it is time. It stands at its last checkpoint."""
        if self._mode.is_leaving(self.clock.now_ms(), self._protocol.input.has_backlog):
            self._tell_mode(self._mode.change())

    def _tell_mode(self, reason: str) -> None:
        """Leave the former mode, and tell why."""
        self._stop_pipeline()
        change = ModeChange(self._mode.present, EpochId(self._protocol.next_epoch - 1), reason)
        log.info("Job %r continues %s", self.graph.name, change)
        self._tell.on_mode(change)

    def _wanted(self, demand: Demand | None) -> Wanted:
        """Return what orders, and a change of the mode, need of the next checkpoint."""
        drain = demand is Demand.DRAIN
        is_leaving = self._mode.is_leaving(self.clock.now_ms(), self._protocol.input.has_backlog)
        halt = is_leaving or self.deployment.is_asked or self.savepoints.ends_job
        now = demand is not None or self.savepoints.is_asked or self._inbox.wants_checkpoint or self.deployment.is_new
        return Wanted(now or halt, halt, drain, aligned=demand is not None or self.savepoints.is_asked)

    def _run_tasks(self, plan: EpochPlan) -> EpochResult:
        self._tell.on_start(plan.epoch, lambda: self.runner.status().progress)
        if self.graph.batch:
            return run_epoch(self.runner, plan, self._tell.on_logs)
        return self._watchdog.limit(lambda: run_epoch(self.runner, plan, self._tell.on_logs))

    def _interrupt_epoch(self) -> None:
        self.runner.stop(StopReason.EPOCH_TIMED_OUT)

    def _account(
        self,
        fixed: EpochInput,
        plan: EpochPlan,
        result: EpochResult,
        manifest: Manifest,
        times: StepTimes,
        *,
        pipelined: bool = False,
    ) -> None:
        """Add a committed epoch to the totals, tell listeners, answer orders and size the next epoch."""
        source, result = self._protocol.input, whole_of(result)
        self.totals.count(self.graph, result)
        pending = source.pending(fixed.now_ms)
        statistics = statistics_of(
            self.graph, fixed, result, manifest, plan.attempt, times.phase_seconds,
            started_at_ms=times.started_ms, handed_over_ms=times.handed_over_ms, pending=pending,
            pipelined=pipelined,
        )  # fmt: skip
        work_ms = result.busy_seconds(self.deployment.topology) * 1000
        self._budget.epoch_completed(statistics, work_ms, source.could_give_more(fixed))
        self.totals.add_ledger(self.graph, statistics.ledger)
        self.totals.add_records(statistics.operators)
        self.totals.note_time(self.time_snapshot(fixed.now_ms))
        self._tell.on_epoch(statistics)
        self._protocol.ended_ms = self.clock.now_ms()
        self._inbox.checkpoint_completed(EpochId(manifest.checkpoint_id))
        self.deployment.epoch_completed()
        if self._autoscaler is not None:
            self._autoscaler.epoch_completed(self.clock.monotonic() * 1000, work_ms, statistics.backlog)
