"""One job out of the accounts of several processes: whatever becomes of them, it moves as Flink's table says."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.views.job_past import JobPast, without_process
from flott.runtime.jobmanager.views.job_view import CheckpointsView, CheckpointView, FailureView, JobView
from flott.runtime.jobmaster.lifecycle import STATUS_MOVES

S = JobStatus

#: What a process may say, one after the other, before it dies or the job ends.
LIVES = [
    [],
    [S.INITIALIZING],
    [S.INITIALIZING, S.CREATED],
    [S.INITIALIZING, S.CREATED, S.RUNNING],
    [S.INITIALIZING, S.CREATED, S.RUNNING, S.RESTARTING, S.RUNNING],
    [S.RUNNING, S.RESTARTING],
]
ENDS = [[S.RUNNING, S.FINISHED], [S.FAILING, S.FAILED], [S.CANCELLING, S.CANCELED]]


@given(st.lists(st.sampled_from(LIVES), max_size=4), st.sampled_from(LIVES), st.sampled_from(ENDS))
def test_any_number_of_deaths_is_seen_as_legal_moves_of_one_job(deaths, life, end):
    past, now = JobPast(1000, {S.INITIALIZING: 1000}), 1000
    told = JobView("job", "", S.INITIALIZING, 1000)
    seen = [past.shown(told)]
    for statuses in deaths:
        for status in statuses:
            now += 1
            told = JobView("job", "", status, now, timestamps={status: now}, restarts=1)
            seen.append(past.shown(told))
        now += 1
        past = past.died(seen[-1], FailureView("JobProcessDied", "", now))
        told = without_process(told, now)
        seen.append(past.shown(told))
    for status in [*life, *end]:
        now += 1
        seen.append(past.shown(JobView("job", "", status, now, timestamps={status: now})))
    moves = [view.status for view in seen]
    for before, after in itertools.pairwise(moves):
        assert after is before or after in _reachable(before), moves
    assert {view.start_ms for view in seen} == {1000}
    assert all(view.timestamps[S.INITIALIZING] == 1000 for view in seen)
    assert seen[-1].restarts == sum(1 + bool(life) for life in deaths)
    assert len(seen[-1].failures) == len(deaths)


def _reachable(status: JobStatus) -> set[JobStatus]:
    """By any moves: views are sent a few times a second, so what lasts shorter is not seen."""
    found: set[JobStatus] = set()
    wanted = [*STATUS_MOVES[status]]
    while wanted:
        if (move := wanted.pop()) not in found:
            found.add(move)
            wanted += STATUS_MOVES[move]
    return found


def test_a_job_that_is_being_cancelled_shows_it_until_it_has_ended():
    past = JobPast(1, {S.INITIALIZING: 1}).cancelled(7).cancelled(9)
    running = past.shown(JobView("job", "", S.RUNNING, 1, timestamps={S.RUNNING: 3}))
    assert running.status is S.CANCELLING
    assert running.timestamps[S.CANCELLING] == 7
    assert past.shown(JobView("job", "", S.CANCELED, 1)).status is S.CANCELED


def test_the_newest_failures_of_all_processes_are_kept():
    past = JobPast(1)
    for number in range(30):
        past = past.died(past.shown(JobView("job", "", S.RUNNING, 1)), FailureView("JobProcessDied", "", number))
    shown = past.shown(JobView("job", "", S.RUNNING, 1, failures=(FailureView("Newest", "", 99),)))
    assert [failure.at_ms for failure in shown.failures] == [99, *range(29, 14, -1)]
    assert shown.failures_truncated
    assert shown.restarts == 30


def test_savepoints_of_dead_processes_stay():
    def view(*numbers):
        taken = tuple(CheckpointView(number, "COMPLETED", number, savepoint_format="NATIVE") for number in numbers)
        return JobView("job", "", S.RUNNING, 1, checkpoints=CheckpointsView(savepoints=taken))

    past = JobPast(1).died(JobPast(1).shown(view(2, 1)), FailureView("JobProcessDied", "", 1))
    past = past.died(past.shown(view(3)), FailureView("JobProcessDied", "", 2))
    assert [one.id for one in past.shown(view(4)).checkpoints.savepoints] == [4, 3, 2, 1]
    assert [one.id for one in past.shown(without_process(past.shown(view(4)), 9)).checkpoints.savepoints] == [3, 2, 1]
