"""The life-cycle of a job as the Dispatcher sees it: events in, actions out. Pure; the Dispatcher performs the actions.

    JobAccepted                   ProcessStarted
  AwaitingStart ──TimePassed──► StartingProcess ───────────► ProcessRunning ──EndReported──► WritingEnd(process)
     ▲    ▲                          │                          │    ▲ │                        │
     │    └──────ProcessNotStarted───┤          ProcessExited───┤    └─┘ ViewReceived,          │ EndWritten
     │                               │                          │        CancelAccepted,        ▼
     └───────────────────────────────┼──────────────────────────┤        SparkLost,          CleaningUp
       another process may start     │                          │        OrderReceived          │
                                     ▼                          ▼                               │ ProcessExited
       too many deaths, or cancelled: WritingEnd(no process) ──EndWritten──► JobArchived ◄──────┘

  any state before the end ──JobManagerEnding──► LeftToSuccessor: the job is kept, and the next JobManager continues it

A job has at most one process, and processes are numbered: what an earlier process says late has no effect. Times are
those of the events; the machine reads no clock. ``on_event`` refuses an event that cannot happen in a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flott.common._ids import JobId
from flott.common.job_status import JobStatus
from flott.errors import ClusterError, JobEndedError, JobRestartingError
from flott.runtime.jobmanager.views.job_past import JobPast, without_process
from flott.runtime.jobmanager.views.job_view import FailureView, JobResultView, JobView
from flott.runtime.orders import CancelJob, Order, SuspendJob

#: A job remembers so many events, for the message of an event that is not allowed.
_REMEMBERED_EVENTS = 20
#: A job that ends without a process keeps so many of its earlier failures.
_KEPT_FAILURES = 15
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class RestartRules:
    """How often and when the process of a job is started again, and how long it may take to end."""

    restarts: int = 10  #: deaths within an hour after which the job fails
    first_pause: float = 0.5  #: seconds before the first restart; they double with every death within an hour
    longest_pause: float = 60.0
    cancellation_seconds: float = math.inf  #: after so long, a process that does not obey a cancellation is killed
    clean_up_seconds: float = 300.0  #: after so long, the process of a job that has ended is killed

    def pause(self, deaths: int) -> float:
        """Return the seconds before the next start after so many deaths within an hour."""
        return min(self.longest_pause, self.first_pause * (1 << min(deaths - 1, 10)))


# --- states ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AwaitingStart:
    """The job has no process. The next one starts at ``at`` (seconds of the monotonic clock)."""

    at: float = 0.0


@dataclass(frozen=True)
class StartingProcess:
    """A process of the job is being started."""


@dataclass(frozen=True)
class ProcessRunning:
    """The job has a process."""

    kill_at: float = math.inf  #: when it is killed because it has not obeyed a cancellation
    killed_for: str | None = None  #: why it is killed, if its death is not to count as a failure of the job


@dataclass(frozen=True)
class WritingEnd:
    """The end of the job is being written; until that is durable the job has not ended."""

    status: JobStatus
    has_process: bool  #: whether the process reported the end, and waits to be told that it is durable


@dataclass(frozen=True)
class CleaningUp:
    """The end of the job is durable. Its process deletes what is not needed any more."""

    kill_at: float


@dataclass(frozen=True)
class JobArchived:
    """The end of the job is durable, and the job has no process."""


@dataclass(frozen=True)
class LeftToSuccessor:
    """This JobManager ends. The job is kept, and the next JobManager continues it."""

    has_process: bool


Phase = AwaitingStart | StartingProcess | ProcessRunning | WritingEnd | CleaningUp | JobArchived | LeftToSuccessor


@dataclass(frozen=True)
class ManagedJob:
    """A job as the Dispatcher knows it: its state, and what is true in all states."""

    job_id: JobId
    told: JobView  #: what the process said last
    past: JobPast  #: what earlier processes said, and orders
    rules: RestartRules = field(default_factory=RestartRules)
    phase: Phase = field(default_factory=AwaitingStart)
    process: int = 0  #: the number of the last process
    deaths: tuple[float, ...] = ()  #: when processes of the job died within the last hour
    cancelled: bool = False  #: a client has ordered the end of the job
    recent: tuple[str, ...] = ()  #: the last events, for error messages

    @cached_property
    def view(self) -> JobView:
        """Return the job as clients see it: one job, through the deaths of its processes."""
        return self.past.shown(self.told)

    @property
    def has_ended(self) -> bool:
        """Return whether the end of the job is durable."""
        return isinstance(self.phase, CleaningUp | JobArchived)

    @property
    def has_process(self) -> bool:
        """Return whether the job has a process."""
        match self.phase:
            case ProcessRunning() | CleaningUp():
                return True
            case WritingEnd(_, has_process) | LeftToSuccessor(has_process):
                return has_process
        return False


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DispatcherEvent:
    """Something that happened to a job."""

    now: float  #: seconds of the monotonic clock
    now_ms: int  #: the wall clock

    def brief(self) -> str:
        """Return the event in a few words, without its view."""
        facts = [f"{name}={fact}" for name, fact in vars(self).items() if isinstance(fact, int | float | str | Order)]
        return f"{type(self).__name__}({', '.join(facts)})"


@dataclass(frozen=True)
class JobAccepted(DispatcherEvent):
    """The job was submitted, or recovered, and is kept durably."""


@dataclass(frozen=True)
class TimePassed(DispatcherEvent):
    """Deadlines may have passed."""


@dataclass(frozen=True)
class ProcessStarted(DispatcherEvent):
    """The process that was being started runs."""


@dataclass(frozen=True)
class ProcessNotStarted(DispatcherEvent):
    """The process could not be started."""

    reason: str


@dataclass(frozen=True)
class ViewReceived(DispatcherEvent):
    """A process has said how the job stands."""

    process: int
    view: JobView = field(repr=False)


@dataclass(frozen=True)
class EndReported(DispatcherEvent):
    """A process has said that the job ended, or that another leader continues it (SUSPENDED)."""

    process: int
    view: JobView = field(repr=False)
    result: JobResultView = field(repr=False)


@dataclass(frozen=True)
class EndWritten(DispatcherEvent):
    """The end of the job is durable."""


@dataclass(frozen=True)
class ProcessExited(DispatcherEvent):
    """A process has ended."""

    process: int
    code: int
    reason: str


@dataclass(frozen=True)
class OrderReceived(DispatcherEvent):
    """A client has given an order."""

    order: Order[Any]


@dataclass(frozen=True)
class CancelAccepted(DispatcherEvent):
    """The process has answered that it cancels the job."""


@dataclass(frozen=True)
class SparkLost(DispatcherEvent):
    """The Spark application that ran the tasks of the job has ended."""


@dataclass(frozen=True)
class JobManagerEnding(DispatcherEvent):
    """This JobManager ends, or has lost the leadership (``at_once``: another one may run the job already)."""

    at_once: bool


# --- actions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StartProcess:
    """Start a process; ``ProcessStarted`` or ``ProcessNotStarted`` follows."""

    process: int


@dataclass(frozen=True)
class SendOrder:
    """Send an order to the process. Its answer is the answer to the client, if a client gave the order."""

    order: Order[Any]


@dataclass(frozen=True)
class AnswerOrder:
    """Tell the client that its order was carried out."""


@dataclass(frozen=True)
class RefuseOrder:
    """Tell the client why its order cannot be carried out."""

    error: ClusterError


@dataclass(frozen=True)
class KillProcess:
    """Kill the process at once. The job continues from its last checkpoint if it continues."""


@dataclass(frozen=True)
class WriteEnd:
    """Write durably how the job ended; ``EndWritten`` follows."""

    view: JobView = field(repr=False)
    result: JobResultView = field(repr=False)


@dataclass(frozen=True)
class MarkTidy:
    """Note durably that nothing of the job is left to be deleted."""


@dataclass(frozen=True)
class DeleteLeftovers:
    """Delete what the process of the job would have deleted if it had lived longer."""


@dataclass(frozen=True)
class LogWarning:
    """Write a line to the log of the JobManager."""

    text: str
    is_error: bool = False


Action = (
    StartProcess
    | SendOrder
    | AnswerOrder
    | RefuseOrder
    | KillProcess
    | WriteEnd
    | MarkTidy
    | DeleteLeftovers
    | LogWarning
)
Outcome = tuple[ManagedJob, tuple[Action, ...]]


class IllegalJobEventError(RuntimeError):
    """An event cannot happen in the state of a job. The Dispatcher has an error, and the message says how it came."""


# --- the machine -----------------------------------------------------------------------------------------------------


def on_event(job: ManagedJob, event: DispatcherEvent) -> Outcome:
    """Return the job after an event, and what is to be done."""
    after, actions = _HANDLERS[type(event)](job, event)
    if isinstance(event, ViewReceived) or (after is job and not actions):
        return after, actions  # too many of them happen to be remembered
    return replace(after, recent=(*job.recent, event.brief())[-_REMEMBERED_EVENTS:]), actions


def _illegal(job: ManagedJob, event: DispatcherEvent) -> IllegalJobEventError:
    recent = "".join(f"\n  {text}" for text in job.recent)
    return IllegalJobEventError(
        f"Job {job.job_id} ({job.view.name!r}) is in {job.phase}, where {event.brief()} cannot happen."
        f" Its last events:{recent or ' none'}"
    )


def _start(job: ManagedJob) -> Outcome:
    number = job.process + 1
    return replace(job, phase=StartingProcess(), process=number), (StartProcess(number),)


def _accepted(job: ManagedJob, event: JobAccepted) -> Outcome:
    match job.phase:
        case AwaitingStart() if job.process == 0:
            return _start(job)
        case LeftToSuccessor():
            return job, ()
    raise _illegal(job, event)


def _time_passed(job: ManagedJob, event: TimePassed) -> Outcome:
    match job.phase:
        case AwaitingStart(at) if event.now >= at:
            return _start(job)
        case ProcessRunning(kill_at) as phase if event.now >= kill_at:
            text = f"Job {job.job_id} ({job.view.name!r}) was cancelled and has not ended in time: it is killed."
            return replace(job, phase=replace(phase, kill_at=math.inf)), (LogWarning(text, True), KillProcess())
        case CleaningUp(kill_at) if event.now >= kill_at:
            text = f"Job {job.job_id} has ended, but its process does not: it is killed."
            return replace(job, phase=CleaningUp(math.inf)), (LogWarning(text, True), KillProcess())
    return job, ()


def _started(job: ManagedJob, event: ProcessStarted) -> Outcome:
    if not isinstance(job.phase, StartingProcess):
        raise _illegal(job, event)
    if job.cancelled:
        kill_at = event.now + job.rules.cancellation_seconds
        return replace(job, phase=ProcessRunning(kill_at)), (SendOrder(CancelJob()),)
    return replace(job, phase=ProcessRunning()), ()


def _not_started(job: ManagedJob, event: ProcessNotStarted) -> Outcome:
    if not isinstance(job.phase, StartingProcess):
        raise _illegal(job, event)
    return _after_death(job, event, event.reason, None)


def _view_received(job: ManagedJob, event: ViewReceived) -> Outcome:
    if event.process != job.process or event.view.status.is_globally_terminal_state():
        return job, ()  # an end that is not durable is not shown
    match job.phase:
        case ProcessRunning() | WritingEnd(_, True) | LeftToSuccessor(True):
            return replace(job, told=event.view), ()
    return job, ()


def _end_reported(job: ManagedJob, event: EndReported) -> Outcome:
    if event.process != job.process or not isinstance(job.phase, ProcessRunning | LeftToSuccessor):
        raise _illegal(job, event)
    if event.view.status is JobStatus.SUSPENDED:
        return replace(job, told=event.view), ()
    view = job.past.shown(event.view)
    runtime_ms = max(event.result.net_runtime_ms, view.end_ms - view.start_ms)  # of all its processes
    phase = WritingEnd(view.status, has_process=True)
    return replace(job, phase=phase), (WriteEnd(view, replace(event.result, net_runtime_ms=runtime_ms)),)


def _end_written(job: ManagedJob, event: EndWritten) -> Outcome:
    match job.phase:
        case WritingEnd(_, True):
            return replace(job, phase=CleaningUp(event.now + job.rules.clean_up_seconds)), ()
        case WritingEnd(_, False):
            return replace(job, phase=JobArchived()), (DeleteLeftovers(),)
    raise _illegal(job, event)


def _exited(job: ManagedJob, event: ProcessExited) -> Outcome:
    if event.process != job.process:
        return job, ()
    match job.phase:
        case ProcessRunning(_, killed_for):
            return _after_death(job, event, event.reason, killed_for)
        case CleaningUp():
            return replace(job, phase=JobArchived()), (MarkTidy() if event.code == 0 else DeleteLeftovers(),)
        case WritingEnd(status, True):
            return replace(job, phase=WritingEnd(status, has_process=False)), ()
        case LeftToSuccessor(True):
            return replace(job, phase=LeftToSuccessor(False)), ()
    raise _illegal(job, event)


def _order_received(job: ManagedJob, event: OrderReceived) -> Outcome:
    if isinstance(event.order, CancelJob):
        return _cancel(job, event)
    if job.has_process and not job.has_ended:
        return job, (SendOrder(event.order),)
    return job, (
        RefuseOrder(JobRestartingError(f"Job {job.job_id} has no process at the moment: it is being started again.")),
    )


def _cancel(job: ManagedJob, event: OrderReceived) -> Outcome:
    match job.phase:
        case WritingEnd(JobStatus.FAILED, False):
            text = f"Job {job.job_id} ({job.view.name!r}) has failed: its end is being written."
            return job, (RefuseOrder(JobEndedError(text)),)
        case ProcessRunning(kill_at) as phase:
            kill_at = min(kill_at, event.now + job.rules.cancellation_seconds)
            return replace(job, cancelled=True, phase=replace(phase, kill_at=kill_at)), (SendOrder(event.order),)
        case WritingEnd(_, True) | LeftToSuccessor(True):
            return replace(job, cancelled=True), (SendOrder(event.order),)
        case AwaitingStart():  # its next process has nothing to do but to clean up, so it starts at once
            past = job.past.cancelled(event.now_ms)
            return replace(job, cancelled=True, past=past, phase=AwaitingStart(0.0)), (AnswerOrder(),)
        case StartingProcess() | WritingEnd() | LeftToSuccessor():
            return replace(job, cancelled=True, past=job.past.cancelled(event.now_ms)), (AnswerOrder(),)
    raise _illegal(job, event)


def _cancel_accepted(job: ManagedJob, event: CancelAccepted) -> Outcome:
    if job.has_ended:
        return job, ()
    return replace(job, past=job.past.cancelled(event.now_ms)), ()


def _spark_lost(job: ManagedJob, event: SparkLost) -> Outcome:
    if isinstance(job.phase, ProcessRunning):
        return replace(job, phase=replace(job.phase, killed_for="The Spark application has ended.")), (KillProcess(),)
    return job, ()


def _manager_ending(job: ManagedJob, event: JobManagerEnding) -> Outcome:
    stop: Action = KillProcess() if event.at_once else SendOrder(SuspendJob())
    match job.phase:
        case ProcessRunning():
            return replace(job, phase=LeftToSuccessor(True)), (stop,)
        case WritingEnd(_, True):
            return job, (stop,)
        case AwaitingStart() | StartingProcess():
            return replace(job, phase=LeftToSuccessor(False)), ()
    return job, ()


def _after_death(job: ManagedJob, event: DispatcherEvent, reason: str, killed_for: str | None) -> Outcome:
    """Return the job without its process: it gets another one after a pause, or has to end."""
    deaths = tuple(at for at in job.deaths if event.now - at < _HOUR_SECONDS) + (() if killed_for else (event.now,))
    job = replace(job, deaths=deaths)
    # A job that was suspended has another leader, or this one only seems to have lost it: that is no end.
    suspended = job.view.status is JobStatus.SUSPENDED
    told = f"Job {job.job_id} ({job.view.name!r}){' was suspended' if suspended else ''}: {killed_for or reason}"
    if not suspended and job.cancelled:
        return _end_without_process(job, event, JobStatus.CANCELED, "", told)
    if not suspended and len(deaths) > job.rules.restarts:
        reason = f"{reason} It was death number {len(deaths)} within an hour."
        return _end_without_process(job, event, JobStatus.FAILED, reason, told)
    failure = FailureView("JobProcessDied", killed_for or reason, event.now_ms)
    pause = 0.0 if killed_for else job.rules.pause(len(deaths))
    waiting = replace(
        job,
        told=without_process(job.told, event.now_ms),
        past=job.past.died(job.view, failure),
        phase=AwaitingStart(0.0 if job.cancelled else event.now + pause),
    )
    return waiting, (LogWarning(told),)


def _end_without_process(job: ManagedJob, event: DispatcherEvent, status: JobStatus, reason: str, told: str) -> Outcome:
    now = event.now_ms
    failure = FailureView("JobProcessDied", reason, now) if reason else None
    leaving = JobStatus.CANCELLING if status is JobStatus.CANCELED else JobStatus.FAILING
    view = replace(
        job.view,
        status=status,
        end_ms=now,
        timestamps={**job.view.timestamps, leaving: job.view.timestamps.get(leaving, now), status: now},
        last_modified_ms=now,
        failures=((failure,) if failure else ()) + job.view.failures[:_KEPT_FAILURES],
    )
    result = JobResultView(view.job_id, status, max(0, now - view.start_ms), failure=failure)
    return replace(job, phase=WritingEnd(status, has_process=False)), (LogWarning(told), WriteEnd(view, result))


_HANDLERS: dict[type[DispatcherEvent], Callable[[ManagedJob, Any], Outcome]] = {
    JobAccepted: _accepted,
    TimePassed: _time_passed,
    ProcessStarted: _started,
    ProcessNotStarted: _not_started,
    ViewReceived: _view_received,
    EndReported: _end_reported,
    EndWritten: _end_written,
    ProcessExited: _exited,
    OrderReceived: _order_received,
    CancelAccepted: _cancel_accepted,
    SparkLost: _spark_lost,
    JobManagerEnding: _manager_ending,
}
