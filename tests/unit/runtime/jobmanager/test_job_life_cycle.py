"""The life-cycle of a job as the Dispatcher sees it: a table of moves, and properties of every sequence of events."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import JobId
from flott.common.job_status import JobStatus
from flott.errors import JobEndedError, JobRestartingError
from flott.runtime.jobmanager import job_life_cycle
from flott.runtime.jobmanager.job_life_cycle import (
    Action,
    AnswerOrder,
    AwaitingStart,
    CancelAccepted,
    CleaningUp,
    DeleteLeftovers,
    DispatcherEvent,
    EndReported,
    EndWritten,
    IllegalJobEventError,
    JobAccepted,
    JobArchived,
    JobManagerEnding,
    KillProcess,
    LeftToSuccessor,
    LogWarning,
    ManagedJob,
    MarkTidy,
    OrderReceived,
    ProcessExited,
    ProcessNotStarted,
    ProcessRunning,
    ProcessStarted,
    RefuseOrder,
    RestartRules,
    SendOrder,
    SparkLost,
    StartingProcess,
    StartProcess,
    TimePassed,
    ViewReceived,
    WriteEnd,
    WritingEnd,
    on_event,
)
from flott.runtime.jobmanager.views.job_past import JobPast
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView
from flott.runtime.orders import CancelJob, SuspendJob, TakeCheckpoint

JOB = JobId("ab" * 16)
NOW, NOW_MS = 100.0, 5_000
RULES = RestartRules(restarts=2, first_pause=1.0, longest_pause=3.0, cancellation_seconds=7.0, clean_up_seconds=9.0)


def view(status: JobStatus) -> JobView:
    return JobView(JOB, "job", status, start_ms=1_000, timestamps={status: NOW_MS}, end_ms=NOW_MS)


def result(status: JobStatus) -> JobResultView:
    return JobResultView(JOB, status, 5)


def job(phase: Any, *, status: JobStatus = JobStatus.RUNNING, **facts: Any) -> ManagedJob:
    return replace(ManagedJob(JOB, view(status), JobPast(1_000), RULES, phase, process=1), **facts)


def at(kind: Any, **facts: Any) -> DispatcherEvent:
    event: DispatcherEvent = kind(NOW, NOW_MS, **facts)
    return event


def kinds(actions: tuple[Action, ...]) -> list[type]:
    """Return the types of actions, without what is only logged."""
    return [type(action) for action in actions if not isinstance(action, LogWarning)]


EXIT = at(ProcessExited, process=1, code=-9, reason="killed.")
OLD_EXIT = at(ProcessExited, process=0, code=1, reason="exited.")
FINISHED = at(EndReported, process=1, view=view(JobStatus.FINISHED), result=result(JobStatus.FINISHED))
SUSPENDED = at(EndReported, process=1, view=view(JobStatus.SUSPENDED), result=result(JobStatus.SUSPENDED))
CANCEL, CHECKPOINT = at(OrderReceived, order=CancelJob()), at(OrderReceived, order=TakeCheckpoint())
RUNNING = ProcessRunning()

TABLE: list[tuple[ManagedJob, DispatcherEvent, Any, list[type]]] = [
    # A job gets its first process at once, and the next one when its time has come.
    (job(AwaitingStart(), process=0), at(JobAccepted), StartingProcess(), [StartProcess]),
    (job(LeftToSuccessor(False), process=0), at(JobAccepted), LeftToSuccessor(False), []),
    (job(AwaitingStart(NOW + 1)), at(TimePassed), AwaitingStart(NOW + 1), []),
    (job(AwaitingStart(NOW)), at(TimePassed), StartingProcess(), [StartProcess]),
    (job(StartingProcess()), at(TimePassed), StartingProcess(), []),
    (job(StartingProcess()), at(ProcessStarted), RUNNING, []),
    (job(StartingProcess(), cancelled=True), at(ProcessStarted), ProcessRunning(NOW + 7), [SendOrder]),
    (job(StartingProcess()), at(ProcessNotStarted, reason="no memory"), AwaitingStart(NOW + 1), []),
    # The death of a process: another one after a pause that doubles, up to the longest.
    (job(RUNNING), EXIT, AwaitingStart(NOW + 1), []),
    (job(RUNNING, deaths=(NOW - 1,)), EXIT, AwaitingStart(NOW + 2), []),
    (job(RUNNING, deaths=(NOW - 3601, NOW - 3600)), EXIT, AwaitingStart(NOW + 1), []),
    (job(RUNNING, rules=replace(RULES, restarts=9), deaths=(NOW,) * 5), EXIT, AwaitingStart(NOW + 3), []),
    (job(RUNNING, deaths=(NOW - 2, NOW - 1)), EXIT, WritingEnd(JobStatus.FAILED, False), [WriteEnd]),
    (job(RUNNING, cancelled=True), EXIT, WritingEnd(JobStatus.CANCELED, False), [WriteEnd]),
    (job(RUNNING), OLD_EXIT, RUNNING, []),
    # A job that was suspended has not ended, however often that happens.
    (job(RUNNING), SUSPENDED, RUNNING, []),
    (job(RUNNING, status=JobStatus.SUSPENDED, deaths=(NOW,) * 9), EXIT, AwaitingStart(NOW + 3), []),
    (job(RUNNING, status=JobStatus.SUSPENDED, cancelled=True), EXIT, AwaitingStart(0.0), []),
    # The loss of Spark is not counted, and the next process starts at once.
    (job(RUNNING), at(SparkLost), ProcessRunning(killed_for="The Spark application has ended."), [KillProcess]),
    (job(ProcessRunning(killed_for="Spark"), deaths=(NOW,) * 2), EXIT, AwaitingStart(NOW), []),
    (job(ProcessRunning(killed_for="Spark"), cancelled=True), EXIT, WritingEnd(JobStatus.CANCELED, False), [WriteEnd]),
    (job(AwaitingStart(NOW + 1)), at(SparkLost), AwaitingStart(NOW + 1), []),
    # The end of a job is durable first; then its process cleans up, for a limited time.
    (job(RUNNING), FINISHED, WritingEnd(JobStatus.FINISHED, True), [WriteEnd]),
    (job(WritingEnd(JobStatus.FINISHED, True)), at(EndWritten), CleaningUp(NOW + 9), []),
    (job(WritingEnd(JobStatus.FAILED, False)), at(EndWritten), JobArchived(), [DeleteLeftovers]),
    (job(WritingEnd(JobStatus.FINISHED, True)), EXIT, WritingEnd(JobStatus.FINISHED, False), []),
    (job(CleaningUp(NOW + 1)), at(TimePassed), CleaningUp(NOW + 1), []),
    (job(CleaningUp(NOW)), at(TimePassed), CleaningUp(math.inf), [KillProcess]),
    (job(CleaningUp(NOW)), EXIT, JobArchived(), [DeleteLeftovers]),
    (job(CleaningUp(NOW)), at(ProcessExited, process=1, code=0, reason=""), JobArchived(), [MarkTidy]),
    # Orders go to the process.
    (job(RUNNING), CHECKPOINT, RUNNING, [SendOrder]),
    (job(AwaitingStart(NOW + 1)), CHECKPOINT, AwaitingStart(NOW + 1), [RefuseOrder]),
    (job(StartingProcess()), CHECKPOINT, StartingProcess(), [RefuseOrder]),
    (job(WritingEnd(JobStatus.FINISHED, True)), CHECKPOINT, WritingEnd(JobStatus.FINISHED, True), [SendOrder]),
    (job(WritingEnd(JobStatus.FAILED, False)), CHECKPOINT, WritingEnd(JobStatus.FAILED, False), [RefuseOrder]),
    # A cancelled job is killed if it does not end in time; without a process, the next one has only to clean up.
    (job(RUNNING), CANCEL, ProcessRunning(NOW + 7), [SendOrder]),
    (job(ProcessRunning(NOW + 2)), CANCEL, ProcessRunning(NOW + 2), [SendOrder]),
    (job(ProcessRunning(NOW)), at(TimePassed), RUNNING, [KillProcess]),
    (job(AwaitingStart(NOW + 60)), CANCEL, AwaitingStart(0.0), [AnswerOrder]),
    (job(StartingProcess()), CANCEL, StartingProcess(), [AnswerOrder]),
    (job(WritingEnd(JobStatus.FAILED, False)), CANCEL, WritingEnd(JobStatus.FAILED, False), [RefuseOrder]),
    (job(WritingEnd(JobStatus.CANCELED, False)), CANCEL, WritingEnd(JobStatus.CANCELED, False), [AnswerOrder]),
    (job(WritingEnd(JobStatus.FINISHED, True)), CANCEL, WritingEnd(JobStatus.FINISHED, True), [SendOrder]),
    # A JobManager that ends leaves its jobs to the next one.
    (job(RUNNING), at(JobManagerEnding, at_once=False), LeftToSuccessor(True), [SendOrder]),
    (job(RUNNING), at(JobManagerEnding, at_once=True), LeftToSuccessor(True), [KillProcess]),
    (job(AwaitingStart()), at(JobManagerEnding, at_once=True), LeftToSuccessor(False), []),
    (job(LeftToSuccessor(True)), EXIT, LeftToSuccessor(False), []),
    (job(LeftToSuccessor(False)), at(TimePassed), LeftToSuccessor(False), []),
    (job(LeftToSuccessor(True)), FINISHED, WritingEnd(JobStatus.FINISHED, True), [WriteEnd]),
    (job(CleaningUp(NOW + 1)), at(JobManagerEnding, at_once=True), CleaningUp(NOW + 1), []),
]


@pytest.mark.parametrize(
    ("before", "event", "phase", "actions"),
    TABLE,
    ids=[f"{type(row[0].phase).__name__}-{type(row[1]).__name__}-{n}" for n, row in enumerate(TABLE)],
)
def test_every_move_is_as_the_table_says(
    before: ManagedJob, event: DispatcherEvent, phase: Any, actions: list[type]
) -> None:
    after, found = on_event(before, event)
    assert after.phase == phase
    assert kinds(found) == actions


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (job(RUNNING), at(JobAccepted)),
        (job(RUNNING), at(ProcessStarted)),
        (job(AwaitingStart()), at(ProcessNotStarted, reason="")),
        (job(AwaitingStart()), EXIT),
        (job(RUNNING), at(EndWritten)),
        (job(AwaitingStart()), FINISHED),
        (job(CleaningUp(0.0)), FINISHED),
        (job(JobArchived()), CANCEL),
        (job(RUNNING, process=2), FINISHED),
    ],
)
def test_an_event_that_cannot_happen_is_refused_with_the_jobs_recent_events(
    before: ManagedJob, event: DispatcherEvent
) -> None:
    with pytest.raises(IllegalJobEventError) as refused:
        on_event(replace(before, recent=("SparkLost(now=1.0)", "ProcessStarted(now=2.0)")), event)
    for text in (JOB, type(before.phase).__name__, type(event).__name__, "SparkLost(now=1.0)", "ProcessStarted(now"):
        assert text in str(refused.value)


def test_recent_events_are_bounded_and_hold_no_views() -> None:
    found = job(RUNNING)
    for _ in range(100):
        found, _ = on_event(found, at(ViewReceived, process=1, view=view(JobStatus.RUNNING)))
        found, _ = on_event(found, CHECKPOINT)
    assert len(found.recent) == 20
    assert set(found.recent) == {f"OrderReceived(now={NOW}, now_ms={NOW_MS}, order=TakeCheckpoint())"}


def test_orders_that_cannot_be_carried_out_say_why() -> None:
    (refused,) = on_event(job(AwaitingStart()), CHECKPOINT)[1]
    assert isinstance(refused, RefuseOrder)
    assert isinstance(refused.error, JobRestartingError)
    (refused,) = on_event(job(WritingEnd(JobStatus.FAILED, False)), CANCEL)[1]
    assert isinstance(refused, RefuseOrder)
    assert isinstance(refused.error, JobEndedError)


def test_what_an_earlier_process_says_and_an_end_that_is_not_durable_are_not_shown() -> None:
    before = job(RUNNING, process=2)
    assert on_event(before, at(ViewReceived, process=1, view=view(JobStatus.FAILING)))[0] is before
    assert on_event(before, at(ViewReceived, process=2, view=view(JobStatus.FINISHED)))[0] is before
    after, _ = on_event(before, at(ViewReceived, process=2, view=view(JobStatus.FAILING)))
    assert after.view.status is JobStatus.FAILING


def test_a_job_is_shown_as_cancelling_once_its_process_has_accepted_it() -> None:
    told, _ = on_event(job(RUNNING), CANCEL)
    assert told.view.status is JobStatus.RUNNING
    assert on_event(told, at(CancelAccepted))[0].view.status is JobStatus.CANCELLING


def test_the_states_and_events_of_the_drawing_are_those_of_the_machine() -> None:
    drawing = job_life_cycle.__doc__ or ""
    for kind in (AwaitingStart, StartingProcess, ProcessRunning, WritingEnd, CleaningUp, JobArchived, LeftToSuccessor):
        assert kind.__name__ in drawing
    events = {kind.__name__ for kind in DispatcherEvent.__subclasses__()}
    assert {name for name in events if name in drawing} == events


# --- any sequence of events ------------------------------------------------------------------------------------------


class World:
    """Performs the actions of one job as the Dispatcher does, and checks what must always be true."""

    def __init__(self) -> None:
        self.now = 0.0
        self.job = ManagedJob(JOB, view(JobStatus.INITIALIZING), JobPast(0), RULES)
        self.alive: int | None = None  #: the number of the process that lives
        self.doomed = False  #: it was killed, or told to stop
        self.unstartable = False
        self.written = 0
        self.tidied = 0
        self.unanswered = 0
        self.happened(JobAccepted)

    def happened(self, kind: Any, **facts: Any) -> None:
        self.apply(kind(self.now, int(self.now * 1000), **facts))

    def apply(self, event: DispatcherEvent) -> None:
        self.job, actions = on_event(self.job, event)
        for action in actions:
            self.perform(action)
        self.check()

    def perform(self, action: Action) -> None:
        match action:
            case StartProcess(number):
                assert self.alive is None, "a job has one process at a time"
                assert self.written == 0, "a job that has ended is not run again"
                if self.unstartable:
                    self.happened(ProcessNotStarted, reason="no memory")
                else:
                    self.alive, self.doomed = number, False
                    self.happened(ProcessStarted)
            case KillProcess():
                assert self.alive is not None
                self.doomed = True
            case SendOrder(order):
                assert self.alive is not None, "an order is sent to a process that lives"
                self.doomed = self.doomed or isinstance(order, SuspendJob)
            case WriteEnd(found, _):
                assert found.status.is_globally_terminal_state()
                self.written += 1
            case MarkTidy() | DeleteLeftovers():
                assert self.written == 1, "files are deleted only after the end is durable"
                assert self.alive is None
                self.tidied += 1

    def check(self) -> None:
        assert self.job.has_process == (self.alive is not None) or isinstance(self.job.phase, StartingProcess)
        assert self.written <= 1, "a job ends once"
        assert self.tidied <= 1
        if self.job.cancelled and isinstance(self.job.phase, AwaitingStart):
            assert self.job.phase.at <= self.now, "a cancelled job does not wait"

    def exit(self, code: int) -> None:
        number, self.alive = self.alive, None
        self.happened(ProcessExited, process=number, code=code, reason=f"exited with code {code}.")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("time"), st.sampled_from([0.0, 0.5, 2.0, 10.0, 4000.0])),
        st.tuples(st.sampled_from(["die", "cancel", "accept", "checkpoint", "spark", "stale", "broken", "write"])),
        st.tuples(st.just("end"), st.sampled_from([JobStatus.FINISHED, JobStatus.FAILED, JobStatus.SUSPENDED])),
        st.tuples(st.just("view"), st.sampled_from([JobStatus.RUNNING, JobStatus.FAILING, JobStatus.FINISHED])),
        st.tuples(st.just("close"), st.booleans()),
    ),
    max_size=40,
)


def step(world: World, taken: tuple[Any, ...]) -> None:
    writing = isinstance(world.job.phase, WritingEnd)
    match taken:
        case ("time", seconds):
            world.now += seconds
            world.happened(TimePassed)
        case ("die",) if world.alive is not None and not writing:
            world.exit(1)
        case ("cancel",) if not world.job.has_ended:
            world.happened(OrderReceived, order=CancelJob())
        case ("accept",):
            world.happened(CancelAccepted)
        case ("checkpoint",) if not world.job.has_ended:
            world.happened(OrderReceived, order=TakeCheckpoint())
        case ("spark",):
            world.happened(SparkLost)
        case ("stale",) if world.job.process > 1:
            world.happened(ViewReceived, process=world.job.process - 1, view=view(JobStatus.FAILING))
            world.happened(ProcessExited, process=world.job.process - 1, code=1, reason="")
        case ("broken",):
            world.unstartable = not world.unstartable
        case ("write",) if writing:
            world.happened(EndWritten)
        case ("end", status) if world.alive is not None and not writing and not world.job.has_ended:
            found = view(JobStatus.CANCELED if world.job.cancelled and status is not JobStatus.SUSPENDED else status)
            world.happened(EndReported, process=world.alive, view=found, result=result(found.status))
        case ("view", status) if world.alive is not None:
            world.happened(ViewReceived, process=world.alive, view=view(status))
        case ("close", at_once) if not world.job.has_ended:
            world.happened(JobManagerEnding, at_once=at_once)


@given(STEPS)
def test_in_any_sequence_of_events_a_job_has_one_process_ends_once_and_is_cleaned_up(
    steps: list[tuple[Any, ...]],
) -> None:
    world = World()
    for taken in steps:
        step(world, taken)
    # Whatever happened: a job that is cancelled now, with processes that die, comes to its end.
    if isinstance(world.job.phase, LeftToSuccessor) or world.job.view.status is JobStatus.SUSPENDED:
        return
    world.unstartable = False
    if not world.job.has_ended and not isinstance(world.job.phase, WritingEnd):
        world.happened(OrderReceived, order=CancelJob())
    for _ in range(4):
        world.now += 1.0
        world.happened(TimePassed)
        if isinstance(world.job.phase, WritingEnd):
            world.happened(EndWritten)
        if world.alive is not None:
            world.exit(-9)
    assert isinstance(world.job.phase, JobArchived)
    assert (world.written, world.tidied) == (1, 1)


@given(STEPS)
def test_a_jobmanager_that_ends_starts_no_process_any_more(steps: list[tuple[Any, ...]]) -> None:
    world = World()
    if not world.job.has_ended:
        world.happened(JobManagerEnding, at_once=True)
    started = world.job.process
    for taken in steps:
        step(world, taken)
    assert world.job.process == started
