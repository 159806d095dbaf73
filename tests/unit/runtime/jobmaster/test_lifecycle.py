"""The life-cycle of a job as a pure machine: each decision by itself, all moves by a table, all sequences by chance."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common._ids import EpochId
from flott.common.job_status import JobStatus as S
from flott.errors import EpochFailure, EpochTimeoutError, FlottError, ProgramError, StorageError, UserCodeError
from flott.runtime.jobmaster.lifecycle import (
    MOVES,
    STATUS_MOVES,
    AwaitDelay,
    BoundaryReached,
    Canceled,
    Cancelling,
    CancelRequested,
    CheckpointCompleted,
    CheckpointFailed,
    ConfirmFailure,
    Created,
    DelayPassed,
    Demand,
    EpochCommitted,
    EpochFailed,
    Failed,
    Failing,
    FatalError,
    Finished,
    IllegalTransition,
    Initializing,
    JobLifecycle,
    JobStarted,
    JobState,
    JobStatusHistory,
    LeadershipLost,
    Live,
    NothingDue,
    ReachBoundary,
    RefuseDrain,
    ReportCheckpointFailed,
    ReportEpochFailed,
    ReportFailure,
    ReportRestart,
    ReportRestored,
    ReportStatus,
    Restarting,
    Restore,
    Restored,
    RestoreFailed,
    Retrying,
    Rules,
    RunEpoch,
    RunEvent,
    Running,
    ShrinkEpoch,
    StartTasks,
    StopTasks,
    Suspended,
    SuspendRequested,
    TasksStarted,
    TasksStopped,
    TerminalState,
    on_event,
)
from flott.runtime.jobmaster.restart import FixedDelay
from flott.runtime.jobmaster.triggers import CheckpointPolicy

EPOCH = EpochId(7)
ERROR = UserCodeError("division by zero")
STORAGE = StorageError("the disk is full")
TIMEOUT = EpochTimeoutError("too long")
UNOPENED = ProgramError("no broker")
FAILURE = EpochFailure("it is over")

NEVER = Rules()
TWICE = Rules(FixedDelay(2, 500))
TOLERANT = Rules(FixedDelay(1, 500), CheckpointPolicy(tolerable_failures=2), retry_delay_ms=30)


def failed(error: EpochFailure, demand: Demand | None = None) -> EpochFailed:
    return EpochFailed(EPOCH, error, at_ms=100, demand=demand)


def given_up(error: EpochFailure, demand: Demand | None = None) -> CheckpointFailed:
    return CheckpointFailed(EPOCH, error, at_ms=100, demand=demand)


CANCELLED = (Cancelling(), (ReportStatus(S.CANCELLING), StopTasks()))
SUSPENDED = (Suspended(), (ReportStatus(S.SUSPENDED), StopTasks()))

#: Every decision: a state, an event, and what follows.
DECISIONS: list[tuple[str, JobState, RunEvent, JobState, tuple[Any, ...]]] = [
    ("start", Initializing(NEVER), JobStarted(), Initializing(NEVER), (Restore(first=True),)),
    (
        "restored at the start", Initializing(NEVER), Restored(), Created(NEVER),
        (ReportRestored(first=True), ReportStatus(S.CREATED), StartTasks()),
    ),
    (
        "not restorable at the start", Initializing(TWICE), RestoreFailed(STORAGE, 1), Initializing(TWICE),
        (ConfirmFailure(STORAGE, "the job could not be restored when it started"),),
    ),
    (
        "running", Created(NEVER), TasksStarted(), Running(NEVER),
        (ReportStatus(S.RUNNING), ReachBoundary()),
    ),
    ("epoch due", Running(NEVER), BoundaryReached(), Running(NEVER), (RunEpoch(),)),
    (
        "checkpoint ordered", Running(NEVER), BoundaryReached(demand=Demand.EPOCH), Running(NEVER),
        (RunEpoch(Demand.EPOCH),),
    ),
    (
        "drain", Running(NEVER), BoundaryReached(demand=Demand.DRAIN), Running(NEVER),
        (RunEpoch(Demand.DRAIN),),
    ),
    ("end of input", Running(NEVER), BoundaryReached(True), Finished(), (ReportStatus(S.FINISHED),)),
    (
        "stopped with a savepoint", Running(NEVER), BoundaryReached(demand=Demand.STOP), Finished(),
        (ReportStatus(S.FINISHED),),
    ),
    ("cancelled with a savepoint", Running(NEVER), BoundaryReached(demand=Demand.CANCEL), *CANCELLED),
    ("cancelled at its end", Running(NEVER), BoundaryReached(True, Demand.CANCEL), *CANCELLED),
    ("nothing due", Running(NEVER), NothingDue(), Running(NEVER), (ReachBoundary(),)),
    (
        "checkpoint completed", Running(TOLERANT, (1,), tolerated=2), CheckpointCompleted(EPOCH),
        Running(TOLERANT, (1,)), (),
    ),
    ("epoch committed", Running(TWICE, (1,)), EpochCommitted(EPOCH), Running(TWICE, (1,)), (ReachBoundary(),)),
    (
        "epoch failed, no restart", Running(NEVER), failed(ERROR), Running(NEVER, (100,)),
        (
            ReportEpochFailed(ERROR, tolerated=False), ReportFailure(ERROR),
            ConfirmFailure(ERROR, "no restart strategy is configured"),
        ),
    ),
    (
        "epoch failed, restart", Running(TWICE, (1,)), failed(ERROR), Restarting(TWICE, (1, 100)),
        (
            ReportEpochFailed(ERROR, tolerated=False), ReportFailure(ERROR),
            ReportStatus(S.RESTARTING, "division by zero"), ReportRestart(ERROR, 500, 2), AwaitDelay(500),
        ),
    ),
    (
        "epoch failed once too often", Running(TWICE, (1, 2)), failed(ERROR), Running(TWICE, (1, 2, 100)),
        (
            ReportEpochFailed(ERROR, tolerated=False), ReportFailure(ERROR),
            ConfirmFailure(ERROR, "all 2 restarts of the fixed-delay strategy are used up"),
        ),
    ),
    (
        "checkpoint failed, tolerated", Running(TOLERANT, tolerated=1), failed(STORAGE),
        Retrying(TOLERANT, tolerated=2), (ReportEpochFailed(STORAGE, tolerated=True), Restore()),
    ),
    (
        "checkpoint failed, not tolerated any more", Running(TOLERANT, tolerated=2), failed(STORAGE),
        Restarting(TOLERANT, (100,), tolerated=2),
        (
            ReportEpochFailed(STORAGE, tolerated=False), ReportFailure(STORAGE),
            ReportStatus(S.RESTARTING, "the disk is full"), ReportRestart(STORAGE, 500, 1), AwaitDelay(500),
        ),
    ),
    (
        "timed out, tolerated", Running(TOLERANT), failed(TIMEOUT), Retrying(TOLERANT, tolerated=1),
        (ShrinkEpoch(), ReportEpochFailed(TIMEOUT, tolerated=True), Restore()),
    ),
    (
        "the drain failed", Running(TOLERANT), failed(STORAGE, Demand.DRAIN), Retrying(TOLERANT, tolerated=1),
        (RefuseDrain(STORAGE), ReportEpochFailed(STORAGE, tolerated=True), Restore()),
    ),
    (
        "checkpoint given up, tolerated", Running(TOLERANT, tolerated=1), given_up(STORAGE, Demand.EPOCH),
        Running(TOLERANT, tolerated=2),
        (ReportCheckpointFailed(EPOCH, STORAGE, tolerated=True), RunEpoch(Demand.EPOCH)),
    ),
    (
        "checkpoint given up, not tolerated any more", Running(TOLERANT, tolerated=2), given_up(TIMEOUT),
        Restarting(TOLERANT, (100,), tolerated=2),
        (
            ReportCheckpointFailed(EPOCH, TIMEOUT, tolerated=False), ReportFailure(TIMEOUT),
            ReportStatus(S.RESTARTING, "too long"), ReportRestart(TIMEOUT, 500, 1), AwaitDelay(500),
        ),
    ),
    ("restored, tolerated", Retrying(TOLERANT), Restored(), Retrying(TOLERANT), (StartTasks(),)),
    ("running, tolerated", Retrying(TOLERANT), TasksStarted(), Running(TOLERANT), (ReachBoundary(),)),
    (
        "recovery failed, tolerated", Retrying(TOLERANT, tolerated=1), RestoreFailed(STORAGE, 100),
        Retrying(TOLERANT, tolerated=2), (ReportEpochFailed(STORAGE, tolerated=True), AwaitDelay(30)),
    ),
    ("try again, tolerated", Retrying(TOLERANT), DelayPassed(), Retrying(TOLERANT), (Restore(),)),
    (
        "recovery failed, not tolerated", Retrying(TOLERANT, tolerated=1), RestoreFailed(UNOPENED, 100),
        Restarting(TOLERANT, (100,), tolerated=1),
        (
            ReportEpochFailed(UNOPENED, tolerated=False), ReportFailure(UNOPENED),
            ReportStatus(S.RESTARTING, "no broker"), ReportRestart(UNOPENED, 500, 1), AwaitDelay(500),
        ),
    ),
    ("restart now", Restarting(TWICE, (1,)), DelayPassed(), Restarting(TWICE, (1,)), (Restore(),)),
    ("restored after a restart", Restarting(TWICE, (1,)), Restored(), Restarting(TWICE, (1,)), (StartTasks(),)),
    (
        "running after a restart", Restarting(TWICE, (1,)), TasksStarted(), Running(TWICE, (1,)),
        (ReportStatus(S.RUNNING), ReportRestored(), ReachBoundary()),
    ),
    (
        "recovery failed while restarting: no false RUNNING", Restarting(TWICE, (1,)), RestoreFailed(UNOPENED, 100),
        Restarting(TWICE, (1, 100)), (ReportFailure(UNOPENED), ReportRestart(UNOPENED, 500, 2), AwaitDelay(500)),
    ),
    (
        "recovery failed once too often", Restarting(TWICE, (1, 2)), RestoreFailed(UNOPENED, 100),
        Restarting(TWICE, (1, 2, 100)),
        (ReportFailure(UNOPENED), ConfirmFailure(UNOPENED, "all 2 restarts of the fixed-delay strategy are used up")),
    ),
    (
        "failed", Running(NEVER), FatalError(FAILURE), Failing(FAILURE),
        (ReportFailure(FAILURE), ReportStatus(S.FAILING, "it is over"), StopTasks()),
    ),
    ("tasks stopped after a failure", Failing(FAILURE), TasksStopped(), Failed(FAILURE),
     (ReportStatus(S.FAILED, "it is over"),)),
    ("tasks stopped after a cancel", Cancelling(), TasksStopped(), Canceled(), (ReportStatus(S.CANCELED),)),
    ("late failure of a cancelled job", Cancelling(), failed(ERROR), Cancelling(), ()),
    ("cancel of a failing job", Failing(FAILURE), CancelRequested(), Failing(FAILURE), ()),
    ("suspended while cancelling", Cancelling(), SuspendRequested(), Suspended(), (ReportStatus(S.SUSPENDED),)),
    *[
        (f"{event} in {state}", state, event, *expected)
        for state in (Initializing(), Created(), Running(), Retrying(), Restarting())
        for event, expected in (
            (CancelRequested(), CANCELLED), (SuspendRequested(), SUSPENDED), (LeadershipLost("token 5"), SUSPENDED),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("state", "event", "after", "actions"), [row[1:] for row in DECISIONS], ids=lambda value: "")
def test_every_decision_by_table(state: JobState, event: RunEvent, after: JobState, actions: tuple[Any, ...]) -> None:
    assert on_event(state, event) == (after, actions)


def test_an_unexpected_error_is_wrapped_once() -> None:
    unexpected = ValueError("a defect")
    after, actions = on_event(Running(), FatalError(unexpected))
    assert isinstance(after, Failing)
    assert str(after.failure) == "ValueError: a defect"
    assert actions[0] == ReportFailure(unexpected)


# --- all moves -------------------------------------------------------------------------------------------------------

STATES: list[JobState] = [
    Initializing(TWICE), Created(TWICE), Running(TWICE), Retrying(TOLERANT), Restarting(TWICE), Failing(FAILURE),
    Cancelling(), Finished(), Failed(FAILURE), Canceled(), Suspended(),
]  # fmt: skip
EVENTS: list[RunEvent] = [
    JobStarted(), Restored(), RestoreFailed(STORAGE, 1), TasksStarted(), BoundaryReached(), NothingDue(),
    CheckpointCompleted(EPOCH), EpochCommitted(EPOCH), failed(ERROR), given_up(STORAGE),
    DelayPassed(), FatalError(FAILURE),
    LeadershipLost(), CancelRequested(), SuspendRequested(), TasksStopped(),
]  # fmt: skip


def test_the_table_has_every_state_and_the_tests_have_every_event() -> None:
    assert {type(state) for state in STATES} == MOVES.keys()
    assert {type(event) for event in EVENTS} == {event for row in MOVES.values() for event in row}


@pytest.mark.parametrize(("state", "event"), list(product(STATES, EVENTS)), ids=str)
def test_every_event_is_accepted_or_refused_as_the_table_says(state: JobState, event: RunEvent) -> None:
    following = MOVES[type(state)].get(type(event))
    if following is None:
        with pytest.raises(IllegalTransition, match=f"{type(state).__name__} cannot handle {type(event).__name__}"):
            on_event(state, event)
    else:
        assert type(on_event(state, event)[0]) in following


def test_statuses_follow_each_other_as_in_flink() -> None:
    leaving = {S.FAILING, S.CANCELLING, S.SUSPENDED}
    assert {
        S.INITIALIZING: {S.CREATED, *leaving},
        S.CREATED: {S.RUNNING, *leaving},
        S.RUNNING: {S.RESTARTING, S.FINISHED, *leaving},
        S.RESTARTING: {S.RUNNING, *leaving},
        S.FAILING: {S.FAILED, S.SUSPENDED},
        S.CANCELLING: {S.CANCELED, S.SUSPENDED},
        **dict.fromkeys((S.FINISHED, S.FAILED, S.CANCELED, S.SUSPENDED, S.RECONCILING), frozenset()),
    } == STATUS_MOVES


def test_an_illegal_transition_names_the_recent_events() -> None:
    job = JobLifecycle(TWICE)
    for event in (JobStarted(), Restored(), TasksStarted(), BoundaryReached(), CheckpointCompleted(EPOCH)):
        job.deliver(event)
    with pytest.raises(IllegalTransition) as raised:
        job.deliver(Restored())
    assert str(raised.value).splitlines() == [
        "A job in state Running cannot handle Restored(). The job's recent events, oldest first:",
        "  JobStarted(): Initializing -> Initializing",
        "  Restored(): Initializing -> Created",
        "  TasksStarted(): Created -> Running",
        "  BoundaryReached(finished=False, demand=None): Running -> Running",
        "  CheckpointCompleted(epoch=7): Running -> Running",
    ]
    assert isinstance(job.state, Running), "it stays where it was"


# --- all sequences ---------------------------------------------------------------------------------------------------

ERRORS: list[FlottError] = [ERROR, STORAGE, TIMEOUT, UNOPENED, FAILURE]
times = st.integers(0, 10**6)
demands = st.sampled_from([None, *Demand])
events: st.SearchStrategy[RunEvent] = st.one_of(
    st.sampled_from(EVENTS),
    st.builds(BoundaryReached, st.booleans(), demands),
    st.builds(EpochFailed, st.just(EPOCH), st.sampled_from([ERROR, STORAGE, TIMEOUT]), times, demands),
    st.builds(CheckpointFailed, st.just(EPOCH), st.sampled_from([STORAGE, TIMEOUT]), times, demands),
    st.builds(RestoreFailed, st.sampled_from(ERRORS), times),
    st.builds(FatalError, st.sampled_from([*ERRORS, ValueError("a defect")])),
)
rules = st.builds(
    Rules,
    st.builds(FixedDelay, st.integers(0, 3), st.integers(0, 9)),
    st.builds(CheckpointPolicy, tolerable_failures=st.integers(0, 3)),
)


@given(rules, st.lists(events, max_size=60))
def test_whatever_happens_a_job_is_in_a_legal_state_and_an_end_is_an_end(
    rules: Rules, happened: list[RunEvent]
) -> None:
    job = JobLifecycle(rules)
    reported = [S.INITIALIZING]
    for event in happened:
        before = job.state
        try:
            actions = job.deliver(event)
        except IllegalTransition:
            assert type(event) not in MOVES[type(before)]
            assert job.state is before
            continue
        assert type(job.state) in MOVES[type(before)][type(event)]
        statuses = [action.status for action in actions if isinstance(action, ReportStatus)]
        assert statuses == ([] if job.state.status is before.status else [job.state.status])
        for status in statuses:
            assert status in STATUS_MOVES[reported[-1]]
            reported.append(status)
        if isinstance(before, TerminalState):
            assert job.state is before
            assert actions == ()
        if isinstance(job.state, Live):
            assert job.state.tolerated <= rules.checkpoints.tolerable_failures
        # A job that has not ended always has something under way, or reacts to an event that cannot be refused.
        assert isinstance(job.state, TerminalState) or CancelRequested in MOVES[type(job.state)]
    assert reported[-1] is job.state.status


@given(rules, st.data())
def test_a_job_whose_actions_are_performed_always_ends_when_it_is_cancelled(rules: Rules, data: st.DataObject) -> None:
    """A shell in miniature: every action that is to be answered is answered, well or badly."""
    job = JobLifecycle(rules)
    waiting: list[RunEvent] = [JobStarted()]
    for _ in range(data.draw(st.integers(0, 40), "steps")):
        if isinstance(job.state, TerminalState):
            return
        for action in job.deliver(waiting.pop(0)):
            waiting += answer(action, data)
        assert waiting or isinstance(job.state, TerminalState), "nothing is under way, and nothing will be"
    waiting.insert(0, CancelRequested())
    while not isinstance(job.state, TerminalState):
        for action in job.deliver(waiting.pop(0)):
            waiting += answer(action, data)


def answer(action: Any, data: st.DataObject) -> list[RunEvent]:
    error = st.sampled_from([ERROR, STORAGE, TIMEOUT])
    match action:
        case Restore():
            return [data.draw(st.one_of(st.just(Restored()), st.builds(RestoreFailed, error, times)))]
        case StartTasks():
            return [TasksStarted()]
        case ReachBoundary():
            return [data.draw(st.builds(BoundaryReached, st.booleans(), demands))]
        case RunEpoch():
            failure = st.builds(EpochFailed, st.just(EPOCH), error, times, demands)
            well = st.just([CheckpointCompleted(EPOCH), EpochCommitted(EPOCH)])
            badly = failure.map(lambda event: [event])
            in_between = failure.map(lambda event: [CheckpointCompleted(EPOCH), event])
            runs_on = st.builds(CheckpointFailed, st.just(EPOCH), st.sampled_from([STORAGE, TIMEOUT]), times, demands)
            return data.draw(
                st.one_of(st.just([NothingDue()]), well, badly, in_between, runs_on.map(lambda event: [event]))
            )
        case AwaitDelay():
            return [DelayPassed()]
        case ConfirmFailure(error):
            return [data.draw(st.sampled_from([FatalError(error), LeadershipLost()]))]
        case StopTasks():
            return [TasksStopped()]
    return []


# --- the history -----------------------------------------------------------------------------------------------------


def test_a_job_that_restarts_for_months_does_not_remember_every_time() -> None:
    history = JobStatusHistory(lambda: 0)
    for status in (S.CREATED, S.RUNNING, *[S.RESTARTING, S.RUNNING] * 10_000):
        history.add(status)
    assert len(history.moves) <= 200
    assert history.moves[0][0] is S.INITIALIZING
    assert history.status is S.RUNNING
