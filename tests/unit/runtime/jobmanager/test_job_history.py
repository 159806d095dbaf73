"""What the JobManager remembers of a job: numbers, epochs and events of many views, each once, in bounded memory."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.views.job_history import (
    EPOCHS,
    EVENTS,
    POINTS,
    STEP_MS,
    JobHistories,
    JobHistory,
    events_of,
)
from flott.runtime.jobmanager.views.job_view import (
    CheckpointsView,
    CheckpointView,
    EpochView,
    FailureView,
    JobView,
    RescaleView,
    RestoredView,
    SubtaskView,
    TaskState,
    VertexView,
)

PHASES = {"plan": 1.0, "schedule": 2.0, "run": 30.0, "ack": 4.0, "commit": 3.0}


def epoch_view(number: int) -> EpochView:
    return EpochView(
        number, 0, 1000 * number + 37, 10, 9, 500 * number, PHASES, 64, 2, False, started_ms=1000 * number,
        written_bytes=8,
    )  # fmt: skip


def view(**changes: object) -> JobView:
    return replace(JobView("a" * 32, "job", JobStatus.RUNNING, start_ms=1), **changes)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 25), max_size=60))
def test_every_completed_epoch_is_kept_once_however_views_overlap(steps: list[int]) -> None:
    history, done = JobHistory(), 0
    for step in steps:  # a view has the last twenty epochs: more than that in one step are lost
        done += step
        history.note(view(epochs=tuple(epoch_view(n) for n in range(max(1, done - 19), done + 1))), 0)
    kept = [epoch.epoch for epoch in history.epochs()]
    assert kept == sorted(set(kept))
    assert len(kept) <= EPOCHS
    if all(step <= 20 for step in steps):
        assert kept == list(range(1, done + 1))[-EPOCHS:]


def test_an_epoch_begins_when_it_was_planned_and_ends_after_its_last_phase() -> None:
    history = JobHistory()
    history.note(view(epochs=(epoch_view(3),)), 0)
    [epoch] = history.epochs()
    assert (epoch.start_ms, epoch.end_ms, epoch.status) == (3000, 3040, "COMPLETED")
    assert dict(epoch.phases) == PHASES


def test_failed_and_running_epochs_are_part_of_the_timeline() -> None:
    failed = CheckpointView(2, "FAILED", 2000, 2500, failure="ValueError: bad\nTraceback")
    running = CheckpointView(2, "IN_PROGRESS", 2600)
    savepoint = CheckpointView(1, "FAILED", 2100, 2200, savepoint_format="CANONICAL", failure="disk full")
    history = JobHistory()
    for _ in range(3):  # the same view is sent again while nothing happens
        history.note(
            view(
                epochs=(epoch_view(1),), checkpoints=CheckpointsView(history=(running, savepoint, failed))
            ),
            0,
        )
    assert [(e.epoch, e.status) for e in history.epochs()] == [(1, "COMPLETED"), (2, "FAILED"), (2, "RUNNING")]
    assert history.epochs()[1].failure == "ValueError: bad"
    history.note(view(epochs=(epoch_view(1),), checkpoints=CheckpointsView(history=(failed,))), 0)
    assert [e.status for e in history.epochs()] == ["COMPLETED", "FAILED"]


def test_events_of_all_kinds_are_kept_once_and_in_the_order_of_time() -> None:
    known = view(
        timestamps={JobStatus.INITIALIZING: 1, JobStatus.RUNNING: 10},
        failures=(FailureView("ValueError", "ValueError: bad\n  operator Map", 30),),
        rescales=(RescaleView(4, 40, ("Map: 2 -> 4", "Sink: 2 -> 4")),),
        checkpoints=CheckpointsView(
            history=(CheckpointView(3, "COMPLETED", 50, 55, path="/s/savepoint-1", savepoint_format="NATIVE"),),
            restored=RestoredView(3, 35, False, "/c/chk-3"),
        ),
    )
    history = JobHistory()
    for _ in range(3):
        history.note(known, 0)
    history.note(replace(known, timestamps={**known.timestamps, JobStatus.RESTARTING: 60}), 0)
    assert [(event.kind, event.text) for event in history.events()] == [
        ("status", "RUNNING"),
        ("failure", "ValueError: bad"),
        ("restored", "checkpoint 3"),
        ("rescale", "Map: 2 -> 4, Sink: 2 -> 4"),
        ("savepoint", "/s/savepoint-1"),
        ("restart", "RESTARTING"),
    ]


def test_memory_is_bounded_however_long_the_job_runs() -> None:
    history = JobHistory()
    for number in range(1, 2000):
        history.note(
            view(
                epochs=(epoch_view(number),),
                timestamps={JobStatus.RUNNING: number},
                failures=(FailureView("E", "x" * 100_000, number),),
            ),
            number * STEP_MS,
        )
    assert len(history.points()) == POINTS
    assert len(history.epochs()) == EPOCHS
    assert len(history.events()) == EVENTS
    assert max(len(event.text) for event in history.events()) <= 500


def test_numbers_are_kept_once_in_a_step_and_not_after_the_end() -> None:
    history = JobHistory()
    vertex = VertexView(
        "v", "Map", 2, 128, TaskState.RUNNING, (), (),
        tuple(
            SubtaskView(i, TaskState.RUNNING, busy_ratio=busy, own_metrics={"numRecordsInPerSecond": 5.0})
            for i, busy in enumerate((0.2, 0.6))
        ),
    )  # fmt: skip
    for now_ms in range(0, 3 * STEP_MS, 250):
        history.note(
            view(
                records_per_second=now_ms,
                vertices=(vertex,),
                metrics={"currentLowWatermark": 100},
                checkpoints=CheckpointsView(latest_completed=CheckpointView(1, "COMPLETED", 0, 0)),
            ),
            now_ms,
        )
    assert [point.at_ms for point in history.points()] == [0, STEP_MS, 2 * STEP_MS]
    last = history.points()[-1]
    assert (last.watermark_lag_ms, last.checkpoint_age_ms) == (2 * STEP_MS - 100, 2 * STEP_MS)
    assert (last.vertices["v"].records_in_per_second, last.vertices["v"].busy, last.busy) == (10.0, 0.4, 0.4)
    history.note(view(status=JobStatus.FINISHED), 10 * STEP_MS)
    assert len(history.points()) == 3


def test_of_a_job_of_an_earlier_jobmanager_the_last_view_tells() -> None:
    histories = JobHistories()
    ended = view(status=JobStatus.FINISHED, end_ms=9000, epochs=(epoch_view(1), epoch_view(2)))
    assert [epoch.epoch for epoch in histories.of(ended).epochs()] == [1, 2]
    histories.note(replace(ended, epochs=(epoch_view(1),)), 0)
    assert [epoch.epoch for epoch in histories.of(ended).epochs()] == [1]
    histories.forget(ended.job_id)
    assert [epoch.epoch for epoch in histories.of(ended).epochs()] == [1, 2]


def test_a_process_that_died_is_an_event() -> None:
    died = view(failures=(FailureView("ProcessDied", "The process of the job was ended by SIGKILL.", 5),))
    assert [event.text for event in events_of(died)] == ["The process of the job was ended by SIGKILL."]
