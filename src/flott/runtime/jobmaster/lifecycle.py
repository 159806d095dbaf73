"""The life-cycle of a job: ``on_event(state, event) -> (state, actions)`` over frozen values. Pure. Driver side.

    INITIALIZING ──Restored──► CREATED ──TasksStarted──► RUNNING ──BoundaryReached──► FINISHED
                                                          │  ▲      (end of input, stop with a savepoint)
                                              EpochFailed │  │ TasksStarted
                                                          ▼  │
                                                       RESTARTING ──RestoreFailed──► RESTARTING

    from INITIALIZING, CREATED, RUNNING and RESTARTING:
        ──FatalError──────────────────────► FAILING ─────TasksStopped──► FAILED
        ──CancelRequested─────────────────► CANCELLING ──TasksStopped──► CANCELED
        ──SuspendRequested, LeadershipLost─────────────────────────────► SUSPENDED   another process continues the job

A job whose checkpoint failed, which is tolerated, is in the state ``Retrying`` until it has returned to the checkpoint
before. Its status stays RUNNING. A pipelined job whose tasks run on without the checkpoint stays in ``Running``.

The names of the states are Flink's job statuses. ``MOVES`` lists for every state which events it accepts and which
states may follow. An event that is not in the table is a defect of the engine: ``JobLifecycle`` raises
:class:`IllegalTransition` with the job's recent events.

``job_master`` performs the actions and reports what came of them as events. In the mode that exists, one epoch after
the other is run by the thread of the job master. A mode whose tasks run continuously fits the same machine: its
``StartTasks`` deploys tasks that go on, its ``ReachBoundary`` returns without an event, and ``CheckpointCompleted``,
``EpochCommitted`` and ``EpochFailed`` arrive whenever tasks report them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import ClassVar

from flott.common._ids import EpochId
from flott.common.job_status import JobStatus
from flott.errors import EpochFailure, EpochTimeoutError, FlottError
from flott.runtime.jobmaster.restart import GiveUp, NeverRestart, RestartStrategy
from flott.runtime.jobmaster.triggers import CheckpointPolicy

#: How many failures the restart strategy may look back on.
REMEMBERED_FAILURES = 100_000
#: How many events an error about an illegal transition shows.
SHOWN_EVENTS = 12


class Demand(Enum):
    """What an order needs the job to do next."""

    EPOCH = "complete an epoch, with or without input"
    DRAIN = "run the last epoch, in which all sources end"
    STOP = "finish"
    CANCEL = "be cancelled"


# --- states ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """How the job reacts to failures: part of every state that can fail."""

    restart: RestartStrategy = field(default_factory=NeverRestart)
    checkpoints: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    retry_delay_ms: int = 0  #: before a recovery that failed is tried again because its failure is tolerated


@dataclass(frozen=True)
class JobState:
    """A state of a job."""

    status: ClassVar[JobStatus]


@dataclass(frozen=True)
class Live(JobState):
    """A state from which the job may still run epochs."""

    rules: Rules = field(default_factory=Rules)
    failures_ms: tuple[int, ...] = ()  #: when the job failed; tolerated failures do not count
    tolerated: int = 0  #: failed checkpoints in a row that were tolerated


@dataclass(frozen=True)
class Initializing(Live):
    """The job has not been restored yet."""

    status: ClassVar[JobStatus] = JobStatus.INITIALIZING


@dataclass(frozen=True)
class Created(Live):
    """The job stands at its last checkpoint, or at its beginning. No task has run."""

    status: ClassVar[JobStatus] = JobStatus.CREATED


@dataclass(frozen=True)
class Running(Live):
    """Epochs run."""

    status: ClassVar[JobStatus] = JobStatus.RUNNING


@dataclass(frozen=True)
class Retrying(Live):
    """A checkpoint failed, which is tolerated. The job returns to the last one and tries again."""

    status: ClassVar[JobStatus] = JobStatus.RUNNING


@dataclass(frozen=True)
class Restarting(Live):
    """The job failed. After a delay it returns to the last checkpoint."""

    status: ClassVar[JobStatus] = JobStatus.RESTARTING


@dataclass(frozen=True)
class Failing(JobState):
    """The job has failed for good. Its tasks are being stopped."""

    status: ClassVar[JobStatus] = JobStatus.FAILING
    failure: FlottError


@dataclass(frozen=True)
class Cancelling(JobState):
    """The job was cancelled. Its tasks are being stopped."""

    status: ClassVar[JobStatus] = JobStatus.CANCELLING


@dataclass(frozen=True)
class TerminalState(JobState):
    """A state that no event leaves."""


@dataclass(frozen=True)
class Finished(TerminalState):
    """All input was read, or the job was stopped with a savepoint."""

    status: ClassVar[JobStatus] = JobStatus.FINISHED


@dataclass(frozen=True)
class Failed(TerminalState):
    """The job failed and was not restarted."""

    status: ClassVar[JobStatus] = JobStatus.FAILED
    failure: FlottError


@dataclass(frozen=True)
class Canceled(TerminalState):
    """The job was cancelled."""

    status: ClassVar[JobStatus] = JobStatus.CANCELED


@dataclass(frozen=True)
class Suspended(TerminalState):
    """The job ended in this process. Another process continues it from the last checkpoint."""

    status: ClassVar[JobStatus] = JobStatus.SUSPENDED


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunEvent:
    """Something that happened to the job in this run."""

    def __str__(self) -> str:
        shown = [f"{part.name}={_short(getattr(self, part.name))}" for part in fields(self)]
        return f"{type(self).__name__}({', '.join(shown)})"


def _short(value: object) -> str:
    text = str(value).partition("\n")[0]
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class JobStarted(RunEvent):
    """The job master begins."""


@dataclass(frozen=True)
class Restored(RunEvent):
    """The job stands at its last checkpoint, or at its beginning, and everything later is forgotten."""


@dataclass(frozen=True)
class RestoreFailed(RunEvent):
    """The job could not return to its last checkpoint, for a reason that may pass."""

    error: FlottError
    at_ms: int


@dataclass(frozen=True)
class TasksStarted(RunEvent):
    """Tasks can process input."""


@dataclass(frozen=True)
class BoundaryReached(RunEvent):
    """The job stands at a completed checkpoint, and orders that are carried out there have been served."""

    finished: bool = False  #: whether all sources have ended
    demand: Demand | None = None  #: what an order still needs


@dataclass(frozen=True)
class NothingDue(RunEvent):
    """No epoch was due, and the time until one may be has passed."""


@dataclass(frozen=True)
class CheckpointCompleted(RunEvent):
    """The checkpoint of an epoch is durable."""

    epoch: EpochId


@dataclass(frozen=True)
class EpochCommitted(RunEvent):
    """The output of an epoch is visible."""

    epoch: EpochId


@dataclass(frozen=True)
class EpochFailed(RunEvent):
    """An epoch could not be completed or committed."""

    epoch: EpochId
    error: EpochFailure
    at_ms: int
    demand: Demand | None = None  #: what the epoch was run for


@dataclass(frozen=True)
class CheckpointFailed(RunEvent):
    """A checkpoint was given up. The tasks run on, beyond it."""

    epoch: EpochId
    error: EpochFailure
    at_ms: int
    demand: Demand | None = None  #: what the checkpoint was taken for


@dataclass(frozen=True)
class DelayPassed(RunEvent):
    """The delay before the next attempt is over."""


@dataclass(frozen=True)
class FatalError(RunEvent):
    """The job cannot continue, and this process still leads."""

    error: Exception


@dataclass(frozen=True)
class LeadershipLost(RunEvent):
    """Another process leads now and continues the job."""

    reason: str = ""


@dataclass(frozen=True)
class CancelRequested(RunEvent):
    """The job is to end as CANCELED."""


@dataclass(frozen=True)
class SuspendRequested(RunEvent):
    """The job is to end here because another process continues it."""


@dataclass(frozen=True)
class TasksStopped(RunEvent):
    """No task runs any more."""


# --- actions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunAction:
    """Something the job master does. It reports what came of it by an event."""


@dataclass(frozen=True)
class ReportStatus(RunAction):
    """Report a new status to listeners."""

    status: JobStatus
    reason: str = ""


@dataclass(frozen=True)
class Restore(RunAction):
    """Return to the last completed checkpoint: commit it again and delete what is later. (Restored, RestoreFailed)"""

    first: bool = False  #: the job starts: it has to find that checkpoint


@dataclass(frozen=True)
class ReportRestored(RunAction):
    """Report to listeners from which checkpoint the job continues."""

    first: bool = False  #: the job starts, perhaps from a snapshot of another job


@dataclass(frozen=True)
class StartTasks(RunAction):
    """Let tasks process input. (TasksStarted)"""


@dataclass(frozen=True)
class ReachBoundary(RunAction):
    """Serve orders at the last completed checkpoint. (BoundaryReached)"""


@dataclass(frozen=True)
class RunEpoch(RunAction):
    """Run the next epoch if one is due. (NothingDue, CheckpointCompleted, EpochCommitted, EpochFailed)"""

    demand: Demand | None = None  #: EPOCH, DRAIN: it is due in any case


@dataclass(frozen=True)
class ReportEpochFailed(RunAction):
    """Report a failed epoch to listeners."""

    error: FlottError
    tolerated: bool


@dataclass(frozen=True)
class ReportCheckpointFailed(RunAction):
    """Report a checkpoint to listeners that was given up while tasks run on."""

    epoch: EpochId
    error: EpochFailure
    tolerated: bool


@dataclass(frozen=True)
class ReportFailure(RunAction):
    """Report a failure of the job to listeners, once."""

    error: Exception


@dataclass(frozen=True)
class RefuseDrain(RunAction):
    """Fail the order to drain the job: its last epoch failed, so the job continues."""

    error: FlottError


@dataclass(frozen=True)
class ShrinkEpoch(RunAction):
    """Let the next attempt read less: this one took too long."""


@dataclass(frozen=True)
class ReportRestart(RunAction):
    """Report to listeners that the job restarts after a delay."""

    error: FlottError
    delay_ms: int
    failures: int  #: of this run so far


@dataclass(frozen=True)
class AwaitDelay(RunAction):
    """Wait before the next attempt. (DelayPassed)"""

    delay_ms: int


@dataclass(frozen=True)
class ConfirmFailure(RunAction):
    """Find out whether this process still leads, before the job fails for good. (FatalError, LeadershipLost)"""

    error: Exception
    reason: str


@dataclass(frozen=True)
class StopTasks(RunAction):
    """Stop all tasks. (TasksStopped)"""


Step = tuple[JobState, tuple[RunAction, ...]]


# --- the table of legal moves ----------------------------------------------------------------------------------------

_END: dict[type[RunEvent], tuple[type[JobState], ...]] = {
    FatalError: (Failing,),
    CancelRequested: (Cancelling,),
    SuspendRequested: (Suspended,),
    LeadershipLost: (Suspended,),
}
#: Reports about work that was under way when the job began to end.
_LATE = (
    JobStarted, Restored, RestoreFailed, TasksStarted, BoundaryReached, NothingDue, CheckpointCompleted,
    EpochCommitted, EpochFailed, CheckpointFailed, DelayPassed, FatalError, CancelRequested,
)  # fmt: skip
_EVENTS = (*_LATE, SuspendRequested, LeadershipLost, TasksStopped)
_LEADERSHIP = {SuspendRequested: (Suspended,), LeadershipLost: (Suspended,)}

#: For every state, the events that it accepts, and for every event the states that may follow.
MOVES: Mapping[type[JobState], Mapping[type[RunEvent], tuple[type[JobState], ...]]] = {
    Initializing: {
        JobStarted: (Initializing,),
        Restored: (Created,),
        RestoreFailed: (Initializing,),
        **_END,
    },
    Created: {TasksStarted: (Running,), **_END},
    Running: {
        BoundaryReached: (Running, Finished, Cancelling),
        NothingDue: (Running,),
        CheckpointCompleted: (Running,),
        EpochCommitted: (Running,),
        EpochFailed: (Retrying, Restarting, Running),
        CheckpointFailed: (Running, Restarting),
        **_END,
    },
    Retrying: {
        Restored: (Retrying,),
        TasksStarted: (Running,),
        RestoreFailed: (Retrying, Restarting),
        DelayPassed: (Retrying,),
        **_END,
    },
    Restarting: {
        DelayPassed: (Restarting,),
        Restored: (Restarting,),
        TasksStarted: (Running,),
        RestoreFailed: (Restarting,),
        **_END,
    },
    Failing: {**dict.fromkeys(_LATE, (Failing,)), **_LEADERSHIP, TasksStopped: (Failed,)},
    Cancelling: {**dict.fromkeys(_LATE, (Cancelling,)), **_LEADERSHIP, TasksStopped: (Canceled,)},
    Finished: dict.fromkeys(_EVENTS, (Finished,)),
    Failed: dict.fromkeys(_EVENTS, (Failed,)),
    Canceled: dict.fromkeys(_EVENTS, (Canceled,)),
    Suspended: dict.fromkeys(_EVENTS, (Suspended,)),
}

#: The same by status: which status listeners may be told after which.
STATUS_MOVES: Mapping[JobStatus, frozenset[JobStatus]] = {
    status: frozenset(
        after.status
        for state, row in MOVES.items()
        if state.status is status
        for following in row.values()
        for after in following
        if after.status is not status
    )
    for status in JobStatus
}


# --- the machine -----------------------------------------------------------------------------------------------------


class IllegalTransition(Exception):
    """A job got an event that its state does not accept: a defect of the engine."""


def on_event(state: JobState, event: RunEvent) -> Step:
    """Return the state that follows an event, and what is to be done. Raises IllegalTransition if there is none."""
    following = MOVES[type(state)].get(type(event))
    if following is None:
        raise IllegalTransition(f"A job in state {type(state).__name__} cannot handle {event}.")
    after, actions = _next(state, event)
    if type(after) not in following:
        raise IllegalTransition(f"{event} must not lead from {type(state).__name__} to {type(after).__name__}.")
    return after, actions


def _next(state: JobState, event: RunEvent) -> Step:
    match state:
        case TerminalState():
            return state, ()
        case Failing() | Cancelling():
            return _stop(state, event)
        case Live():
            return _end(event) or _continue(state, event)
    raise AssertionError(state)


def _stop(state: Failing | Cancelling, event: RunEvent) -> Step:
    """Follow a job whose tasks are being stopped."""
    match event:
        case TasksStopped():
            ended = Failed(state.failure) if isinstance(state, Failing) else Canceled()
            reason = str(state.failure) if isinstance(state, Failing) else ""
            return ended, (ReportStatus(ended.status, reason),)
        case SuspendRequested() | LeadershipLost():
            return Suspended(), (ReportStatus(JobStatus.SUSPENDED),)
    return state, ()


def _end(event: RunEvent) -> Step | None:
    """Follow events that end a job in any state; None: the event is none of them."""
    match event:
        case CancelRequested():
            return Cancelling(), (ReportStatus(JobStatus.CANCELLING), StopTasks())
        case SuspendRequested() | LeadershipLost():
            return Suspended(), (ReportStatus(JobStatus.SUSPENDED), StopTasks())
        case FatalError(error):
            failure = error if isinstance(error, FlottError) else EpochFailure(f"{type(error).__name__}: {error}")
            report = ReportFailure(error), ReportStatus(JobStatus.FAILING, str(failure))
            return Failing(failure), (*report, StopTasks())
    return None


def _continue(state: Live, event: RunEvent) -> Step:
    match event:
        case JobStarted():
            return state, (Restore(first=True),)
        case DelayPassed():
            return state, (Restore(),)
        case Restored() if isinstance(state, Initializing):
            return _as(Created, state), (ReportRestored(first=True), ReportStatus(JobStatus.CREATED), StartTasks())
        case Restored():
            return state, (StartTasks(),)
        case TasksStarted():
            return _as(Running, state), (*_entered_running(state), ReachBoundary())
        case RestoreFailed(error, at_ms):
            return _restore_failed(state, error, at_ms)
        case BoundaryReached(finished, demand):
            return _at_boundary(state, finished, demand)
        case NothingDue() | EpochCommitted():
            return state, (ReachBoundary(),)
        case CheckpointCompleted():
            return replace(state, tolerated=0), ()
        case EpochFailed():
            return _epoch_failed(state, event)
        case CheckpointFailed():
            return _checkpoint_failed(state, event)
    raise AssertionError(event)


def _as(kind: type[Live], state: Live) -> Live:
    return kind(state.rules, state.failures_ms, state.tolerated)


def _entered_running(state: Live) -> tuple[RunAction, ...]:
    match state:
        case Retrying():
            return ()
        case Restarting():
            return (ReportStatus(JobStatus.RUNNING), ReportRestored())
    return (ReportStatus(JobStatus.RUNNING),)


def _at_boundary(state: Live, finished: bool, demand: Demand | None) -> Step:
    if demand is Demand.CANCEL:
        return Cancelling(), (ReportStatus(JobStatus.CANCELLING), StopTasks())
    if finished or demand is Demand.STOP:
        return Finished(), (ReportStatus(JobStatus.FINISHED),)
    return state, (RunEpoch(demand),)


def _epoch_failed(state: Live, event: EpochFailed) -> Step:
    """Try the epoch again: at once if only a checkpoint failed and that is tolerated, else by the restart strategy."""
    actions: list[RunAction] = []
    if event.demand is Demand.DRAIN:
        actions.append(RefuseDrain(event.error))
    if isinstance(event.error, EpochTimeoutError):
        actions.append(ShrinkEpoch())
    if state.rules.checkpoints.tolerates(event.error, state.tolerated):
        retrying = replace(_as(Retrying, state), tolerated=state.tolerated + 1)
        return retrying, (*actions, ReportEpochFailed(event.error, tolerated=True), Restore())
    after, more = _restart(state, event.error, event.at_ms)
    return after, (*actions, ReportEpochFailed(event.error, tolerated=False), *more)


def _checkpoint_failed(state: Live, event: CheckpointFailed) -> Step:
    """Take the next checkpoint, if that is tolerated, else restart by the restart strategy."""
    if state.rules.checkpoints.tolerates(event.error, state.tolerated):
        report = ReportCheckpointFailed(event.epoch, event.error, tolerated=True)
        return replace(state, tolerated=state.tolerated + 1), (report, RunEpoch(event.demand))
    after, more = _restart(state, event.error, event.at_ms)
    return after, (ReportCheckpointFailed(event.epoch, event.error, tolerated=False), *more)


def _restore_failed(state: Live, error: FlottError, at_ms: int) -> Step:
    """A source or a storage that could be used before may be usable again. A job that never ran does not wait."""
    if isinstance(state, Initializing):
        return state, (ConfirmFailure(error, "the job could not be restored when it started"),)
    if isinstance(state, Retrying):
        if isinstance(error, EpochFailure) and state.rules.checkpoints.tolerates(error, state.tolerated):
            again = ReportEpochFailed(error, tolerated=True), AwaitDelay(state.rules.retry_delay_ms)
            return replace(state, tolerated=state.tolerated + 1), again
        after, more = _restart(state, error, at_ms)
        return after, (ReportEpochFailed(error, tolerated=False), *more)
    return _restart(state, error, at_ms)


def _restart(state: Live, error: FlottError, at_ms: int) -> Step:
    failures = (*state.failures_ms[-REMEMBERED_FAILURES:], at_ms)
    decision = state.rules.restart.decide(failures)
    if isinstance(decision, GiveUp):
        return replace(state, failures_ms=failures), (ReportFailure(error), ConfirmFailure(error, decision.reason))
    # A job that fails while it restarts stays RESTARTING: it has not been running in between.
    status = () if isinstance(state, Restarting) else (ReportStatus(JobStatus.RESTARTING, str(error)),)
    report = ReportFailure(error), *status, ReportRestart(error, decision.delay_ms, len(failures))
    return replace(_as(Restarting, state), failures_ms=failures), (*report, AwaitDelay(decision.delay_ms))


# --- the state of one job --------------------------------------------------------------------------------------------


@dataclass
class JobStatusHistory:
    """The status of a job, and when it reached each one. Read from any thread."""

    now_ms: Callable[[], int]
    moves: list[tuple[JobStatus, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.moves.append((JobStatus.INITIALIZING, self.now_ms()))

    @property
    def status(self) -> JobStatus:
        """Return the current status."""
        return self.moves[-1][0]

    def add(self, status: JobStatus) -> None:
        """Note a new status. A job that restarts for months does not remember every single time."""
        self.moves.append((status, self.now_ms()))
        if len(self.moves) > 200:
            del self.moves[1:100]


class JobLifecycle:
    """The state of one job, and the events that led to it."""

    def __init__(self, rules: Rules):
        self.state: JobState = Initializing(rules)
        self._recent: deque[tuple[RunEvent, JobState, JobState]] = deque(maxlen=SHOWN_EVENTS)

    def deliver(self, event: RunEvent) -> tuple[RunAction, ...]:
        """Move to the state that follows an event; return what is to be done."""
        before = self.state
        try:
            self.state, actions = on_event(before, event)
        except IllegalTransition as error:
            recent = "\n  ".join(f"{past}: {type(a).__name__} -> {type(b).__name__}" for past, a, b in self._recent)
            raise IllegalTransition(f"{error} The job's recent events, oldest first:\n  {recent}") from None
        self._recent.append((event, before, self.state))
        return actions
