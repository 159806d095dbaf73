"""Tracks what a job reports, and makes a view of it. Used by one thread at a time; times are parameters. Driver side.

Numbers of completed epochs are added up, each epoch once; a failed epoch reports none. Totals cover one run of the
job's process, as in Flink.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from flott.common import _options as options
from flott.common._durations import rounded_millis
from flott.common._late_records import LedgerEntry
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.epoch.accumulators import values_of
from flott.runtime.epoch.failure import FailureCard
from flott.runtime.jobmanager.views.checkpoint_tracker import CheckpointTracker
from flott.runtime.jobmanager.views.job_view import (
    NEVER,
    EpochView,
    FailureCardView,
    FailureView,
    JobView,
    ModeChangeView,
    RescaleView,
    TaskState,
    bounded,
)
from flott.runtime.jobmanager.views.latency_tracker import LatencyTracker
from flott.runtime.jobmanager.views.rates import RecentGrowth
from flott.runtime.jobmanager.views.task_tracker import Moment, TaskTracker
from flott.runtime.jobmaster import ledger
from flott.runtime.jobmaster.listener import (
    EpochStatistics,
    JobFailure,
    ModeChange,
    RestoredFrom,
    SavepointNews,
)
from flott.runtime.jobmaster.rescaling import ParallelismChange
from flott.runtime.jobmaster.restart import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    RestartStrategy,
    strategy_of,
)
from flott.runtime.pipelined.control import SubtaskLoad, TaskWait

#: How many failures and epochs are remembered.
FAILURES = 16
EPOCHS = 20
RESCALES = 8
MODE_CHANGES = 20


class JobTracker:
    """Everything that a job has reported. ``view`` may be called at any time."""

    def __init__(
        self, job_id: str, graph: JobGraph, configuration: Configuration, checkpoint_directory: str, now: Moment
    ):
        self._job_id = job_id
        self._name = graph.name
        self._batch = graph.batch
        self._configuration = configuration.to_dict()
        parameters = options.read(configuration, options.GLOBAL_JOB_PARAMETERS)
        self._job_parameters = dict(parameters or {})
        self._retained = options.read(configuration, options.CHECKPOINTS_RETAINED)
        self._restart_strategy = in_words(strategy_of(configuration))
        adaptive = options.read(configuration, options.SCHEDULER) == "adaptive" and not graph.batch
        self._scheduler = "Adaptive" if adaptive else "Default"
        self._directory = checkpoint_directory
        self._status = JobStatus.INITIALIZING
        self._timestamps = {JobStatus.INITIALIZING: now.ms}
        self._time_in: dict[JobStatus, float] = {}  #: seconds spent in former statuses
        self._status_since = now
        self._began = now
        self._epoch_began = now
        self._modified_ms = now.ms
        self._restarts = 0
        self._failures: deque[FailureView] = deque(maxlen=FAILURES)
        self._failure_count = 0
        self._culprit: tuple[str, int] | None = None  #: the vertex (by name) and the subtask that failed last
        self._checkpoints = CheckpointTracker(checkpoint_directory)
        self._epochs: deque[EpochView] = deque(maxlen=EPOCHS)
        self._rescales: deque[RescaleView] = deque(maxlen=RESCALES)
        self._configured_mode = options.read(configuration, options.EXECUTION_MODE)
        self._mode = "pipelined" if self._configured_mode == "pipelined" else "epochs"
        self._mode_changes: deque[ModeChangeView] = deque(maxlen=MODE_CHANGES)
        self._mode_change_count = 0
        self._ledger: Mapping[OperatorId, LedgerEntry] = {}
        self._last: EpochStatistics | None = None
        self._records_in = 0
        self._records_out = 0
        self._accumulators: tuple[bytes | None, Mapping[str, tuple[str, str]]] = (None, {})
        self._tasks = TaskTracker(now)
        self._latencies = LatencyTracker(options.read(configuration, options.LATENCY_HISTORY))
        self._growth: RecentGrowth[str] = RecentGrowth(now.seconds)
        self.graph(now, graph)

    # --- what the job reports ----------------------------------------------------------------------------------------

    def graph(self, now: Moment, graph: JobGraph) -> None:
        """Track the graph of the job, the first one or a changed one."""
        self._tasks.lay_out(now, graph, self._restarts)
        self._latencies.lay_out(graph)
        self._modified_ms = now.ms

    def rescaled(self, now: Moment, epoch: int, changes: Sequence[ParallelismChange]) -> None:
        """Track a change of parallelism."""
        self._tasks.started_again()
        self._rescales.append(RescaleView(epoch, now.ms, tuple(map(str, changes))))

    def mode_changed(self, now: Moment, change: ModeChange) -> None:
        """Track that an adaptive job continues in the other mode."""
        self._mode = change.mode
        self._tasks.started_again()
        self._latencies.forget()
        self._mode_change_count += 1
        self._mode_changes.append(ModeChangeView(change.mode, change.checkpoint_id, now.ms, change.reason))
        self._modified_ms = now.ms

    def status(self, now: Moment, status: JobStatus) -> None:
        """Track a change of the job's status."""
        before = self._status
        self._time_in[before] = self._time_in.get(before, 0.0) + now.seconds - self._status_since.seconds
        self._status, self._status_since = status, now
        self._timestamps[status] = now.ms
        self._modified_ms = now.ms
        if status.is_terminal_state():
            self._checkpoints.end()
            self._tasks.end(now, self._final_state)

    def waiting(self, now: Moment, waits: tuple[TaskWait, ...]) -> None:
        """Note what tasks wait for."""
        self._tasks.waiting(waits)

    def loaded(self, now: Moment, loads: tuple[SubtaskLoad, ...]) -> None:
        """Track what subtasks have done since the start of the tasks, while their checkpoint is not complete."""
        self._tasks.loaded(self._epoch_began, now, loads)

    def epoch_began(self, now: Moment, epoch: int) -> None:
        """Track the start of an epoch."""
        self._checkpoints.begin(epoch, now.ms)
        self._epoch_began = now
        self._tasks.run(now)

    def interval_began(self, now: Moment, epoch: int) -> None:
        """Track that tasks of a pipelined job run on towards a checkpoint."""
        self._epoch_began = now
        self._tasks.run(now)

    def checkpoint_began(self, now: Moment, epoch: int) -> None:
        """Track that the barriers of a pipelined job's checkpoint were sent."""
        self._checkpoints.begin(epoch, now.ms, pipelined=True)

    def epoch(self, now: Moment, statistics: EpochStatistics) -> None:
        """Track a completed epoch."""
        self._growth.about_to_grow(self._epoch_began.seconds, now.seconds, self._totals())
        self._records_in += statistics.records_in
        self._records_out += statistics.records_out
        self._checkpoints.complete(statistics)
        self._last = statistics
        self._ledger = ledger.add(self._ledger, statistics.ledger)
        self._tasks.add(self._epoch_began, now, statistics.subtasks, statistics.pending)
        self._latencies.add(statistics.subtasks)
        self._epochs.append(
            EpochView(
                statistics.epoch,
                statistics.attempt,
                statistics.completed_at_ms,
                statistics.records_in,
                statistics.records_out,
                statistics.watermark,
                statistics.phases,
                statistics.state_bytes,
                statistics.parallelism,
                statistics.backlog,
                statistics.started_at_ms or NEVER,
                statistics.written_bytes,
                statistics.pipelined,
            )
        )

    def epoch_failed(self, now: Moment, epoch: int, failure: JobFailure, tolerated: bool) -> None:
        """Track a failed epoch."""
        self._checkpoints.fail(epoch, bounded(failure.text), now.ms)
        self._modified_ms = now.ms

    def failed(self, now: Moment, failure: JobFailure) -> None:
        """Track a failure, after which the job ends or restarts."""
        view = FailureView(
            failure.name, bounded(failure.text), now.ms, failure.task, failure.host, failure.executor,
            card=None if failure.card is None else card_view(failure.card),
        )  # fmt: skip
        self._failures.appendleft(view)
        self._failure_count += 1
        located = failure.vertex is not None and failure.subtask is not None
        self._culprit = (failure.vertex or "", failure.subtask or 0) if located else None

    def restarting(self, now: Moment) -> None:
        """Track a restart."""
        self._restarts += 1
        self._tasks.restart(now, self._restarts)
        self._latencies.forget()

    def restored(self, now: Moment, restored: RestoredFrom) -> None:
        """Track that the job was restored from a checkpoint."""
        self._checkpoints.restore(restored, now.ms)

    def savepoint(self, now: Moment, news: SavepointNews) -> None:
        """Track the progress of a savepoint."""
        self._checkpoints.savepoint(news, now.ms)

    # --- the view ----------------------------------------------------------------------------------------------------

    def view(self, now: Moment) -> JobView:
        """Return everything as a view."""
        ended = self._status.is_terminal_state()
        if ended:
            now = self._status_since  # nothing changes after the end
        rates = {} if ended else self._growth.rates(now.seconds, self._totals())
        read, written = rates.get("job", (0.0, 0.0))
        return JobView(
            job_id=self._job_id,
            name=self._name,
            status=self._status,
            start_ms=self._began.ms,
            end_ms=self._status_since.ms if ended else NEVER,
            timestamps=dict(self._timestamps),
            last_modified_ms=self._modified_ms,
            batch=self._batch,
            vertices=self._tasks.view(now, ended),
            checkpoints=self._checkpoints.view(self._retained),
            failures=tuple(self._failures),
            failures_truncated=self._failure_count > FAILURES,
            configuration=self._configuration,
            job_parameters=self._job_parameters,
            accumulators=self._accumulator_texts(),
            metrics=self._metrics(now, read, written),
            epochs=tuple(self._epochs),
            restarts=self._restarts,
            records_per_second=read,
            checkpoint_directory=self._directory,
            scheduler=self._scheduler,
            restart_strategy=self._restart_strategy,
            rescales=tuple(self._rescales),
            ledger={str(ident): entry for ident, entry in self._ledger.items()},
            configured_mode=self._configured_mode,
            mode=self._mode,
            mode_changes=tuple(self._mode_changes),
            latencies=self._latencies.view(),
        )

    def _totals(self) -> dict[str, tuple[float, ...]]:
        return {"job": (self._records_in, self._records_out)}

    def _metrics(self, now: Moment, read: float, written: float) -> dict[str, int | float]:
        checkpoints, last = self._checkpoints, self._last
        latest = checkpoints.latest
        running, restarting = JobStatus.RUNNING, JobStatus.RESTARTING
        in_status_ms = round((now.seconds - self._status_since.seconds) * 1000)
        ended = self._status.is_terminal_state()
        metrics: dict[str, int | float] = {
            "numRestarts": self._restarts,
            "fullRestarts": self._restarts,
            "uptime": -1 if ended else in_status_ms if self._status is running else 0,
            "downtime": -1 if ended else 0 if self._status is running else in_status_ms if self._restarts else 0,
            "runningTime": self._spent_in(running, now),
            "restartingTime": self._spent_in(restarting, now),
            "numberOfCompletedCheckpoints": checkpoints.completed,
            "numberOfFailedCheckpoints": checkpoints.failed,
            "numberOfInProgressCheckpoints": checkpoints.in_progress,
            "totalNumberOfCheckpoints": checkpoints.total,
            "lastCheckpointDuration": latest.duration_ms if latest is not None else -1,
            "lastCheckpointSize": latest.written_bytes if latest is not None else -1,
            "lastCheckpointFullSize": latest.state_bytes if latest is not None else -1,
            "lastCheckpointCompletedTimestamp": latest.acknowledged_ms if latest is not None else -1,
            "lastCompletedCheckpointId": latest.id if latest is not None else -1,
            "lastCheckpointRestoreTimestamp": checkpoints.restored.restored_ms if checkpoints.restored else -1,
            "numModeChanges": self._mode_change_count,
            "isPipelined": int(self._mode == "pipelined" and not ended),
            "numRecordsIn": self._records_in,
            "numRecordsOut": self._records_out,
            "numRecordsInPerSecond": read,
            "numRecordsOutPerSecond": written,
        }
        if latest is not None:
            metrics["lastCheckpointAge"] = max(0, now.ms - latest.acknowledged_ms)
        if last is not None:
            metrics |= {f"epoch{phase.capitalize()}Time": took_ms for phase, took_ms in last.phases.items()}
            metrics["epochTime"] = last.total_ms
            metrics["currentEpoch"] = last.epoch
            metrics["currentLowWatermark"] = last.watermark
        return metrics | self._tasks.job_metrics(now)

    def _spent_in(self, status: JobStatus, now: Moment) -> int:
        """Return the milliseconds in a status so far, rounded once: rounded parts could add up to less than before."""
        present = now.seconds - self._status_since.seconds if self._status is status else 0.0
        return round((self._time_in.get(status, 0.0) + present) * 1000)

    def _accumulator_texts(self) -> Mapping[str, tuple[str, str]]:
        encoded = self._last.accumulators if self._last is not None else None
        if encoded != self._accumulators[0]:
            self._accumulators = (encoded, _texts(encoded))
        return self._accumulators[1]

    def _final_state(self, vertex: str, index: int) -> TaskState:
        """Return the state that a subtask ends in. If one subtask failed, the others were cancelled."""
        match self._status:
            case JobStatus.FINISHED:
                return TaskState.FINISHED
            case JobStatus.FAILED:
                blamed = self._culprit is None or self._culprit == (vertex, index)
                return TaskState.FAILED if blamed else TaskState.CANCELED
        return TaskState.CANCELED


def card_view(card: FailureCard) -> FailureCardView:
    """Return the parts of a failure card, each of bounded length."""
    return FailureCardView(
        blame=card.blame.value,
        error=bounded(card.error),
        traceback=bounded(card.traceback),
        epoch=card.epoch,
        attempt=card.attempt,
        subtask=card.subtask,
        vertex=card.vertex,
        parallelism=card.parallelism,
        operator=card.operator,
        uid=card.uid,
        user_line=card.user_line or None,
        activity=card.activity,
        key=card.key,
        record=card.record,
        timestamp=card.timestamp,
        origin=card.origin,
    )


def in_words(strategy: RestartStrategy) -> str:
    """Describe a restart strategy."""
    match strategy:
        case FixedDelay(attempts, delay_ms):
            times = "1 time" if attempts == 1 else f"{attempts} times"
            return f"Restart at most {times}, {rounded_millis(delay_ms)} after a failure"
        case FailureRate(max_failures, interval_ms, delay_ms):
            failures = "1 failure comes" if max_failures == 1 else f"{max_failures} failures come"
            rate = f"more than {failures} in {rounded_millis(interval_ms)}"
            return f"Restart {rounded_millis(delay_ms)} after a failure, unless {rate}"
        case ExponentialDelay(initial_ms, max_ms, multiplier):
            growth = f"{multiplier:g} times as late after each further one, up to {rounded_millis(max_ms)}"
            return f"Restart {rounded_millis(initial_ms)} after a failure, and {growth}"
    return "No restart"


def _texts(encoded: bytes | None) -> dict[str, tuple[str, str]]:
    """Return accumulators as texts: type and value. A user's class may fail to unpickle, or to print."""
    try:
        values = values_of(encoded)
    except Exception as error:
        return {"?": ("unreadable", f"{type(error).__name__}: {error}")}
    return {name: (type(value).__name__, _shown(value)) for name, value in values.items()}


def _shown(value: object) -> str:
    try:
        text = str(value)
    except Exception as error:
        return f"<{type(value).__qualname__} whose str() raised {type(error).__name__}>"
    return text if len(text) <= 1000 else f"{text[:997]}..."
