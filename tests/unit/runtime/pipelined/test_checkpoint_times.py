"""What the checkpoints of pipelined jobs spend their time on: measured in tasks, added up for listeners and REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flott.rest.shapes.checkpoint.checkpoint_detail import task_checkpoint_detail
from flott.rest.shapes.live.timeline import timeline
from flott.runtime.epoch.report import CheckpointTimes, SubtaskReport
from flott.runtime.jobmanager.views.job_history import JobHistory
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.jobmanager.views.tracking_listener import TrackingListener
from flott.runtime.jobmaster.epoch_outcome import checkpoint_phases
from flott.runtime.jobmaster.listener import JobListener
from flott.runtime.pipelined.file_writing import FilesAside, ImmediateWriter
from flott.runtime.storage import Storage
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel
from flott.testing.sources import EndOfEpoch
from tests.unit.runtime.jobmanager.tracked_jobs import counting, recorded, vertex_named

PIPELINED = {"execution__mode": "pipelined", "execution__checkpointing__interval": "50 ms"}


class Ticking(ManualClock):
    """Every look at this clock takes a millisecond, so whatever is measured takes some."""

    def now_ms(self) -> int:
        self._now_ms += 1
        return self._now_ms

    def monotonic(self) -> float:
        self._now_ms += 1
        return self._now_ms / 1000


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    """A clock that passes 300 ms whenever the files of a task are written."""
    clock, write = Ticking(), ImmediateWriter.write

    def slowly(self: ImmediateWriter, files: FilesAside, storage: Storage, then: Any) -> None:
        clock.advance(300)
        write(self, files, storage, then)

    monkeypatch.setattr(ImmediateWriter, "write", slowly)
    return clock


class Watching(JobListener):
    """Looks at the job whenever an interval or a checkpoint begins."""

    def __init__(self) -> None:
        self.masters: list[Any] = []
        self.in_intervals: list[JobView] = []
        self.in_checkpoints: list[JobView] = []

    def view(self) -> JobView:
        [tracker] = [each for each in self.masters[0].listeners if isinstance(each, TrackingListener)]
        return tracker.view()

    def on_interval(self, epoch: int) -> None:
        self.in_intervals.append(self.view())

    def on_checkpoint(self, epoch: int) -> None:
        self.in_checkpoints.append(self.view())


def watched(folder: Path, clock: ManualClock) -> Watching:
    """Run a pipelined job for two checkpoints, and to the barriers of the third."""
    watching = Watching()

    def end(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 3):
            raise Cancel

    script = [value for number in range(200) for value in (number, EndOfEpoch())]
    job = counting(script, options=PIPELINED)
    recorded(job, folder, clock, on_step=end, on_start=watching.masters.append, listeners=[watching])
    return watching


def test_a_checkpoint_says_what_every_subtask_spent_its_time_on(slow_disk: Ticking, tmp_path: Path) -> None:
    view = watched(tmp_path, slow_disk).in_intervals[-1]
    checkpoint = view.checkpoints.latest_completed
    assert checkpoint is not None
    assert checkpoint.pipelined
    assert list(checkpoint.phases) == ["align", "sync", "files", "ack", "commit"]
    assert checkpoint.phases["files"] >= 300
    assert checkpoint.phases["align"] > 0
    assert len(checkpoint.tasks) == 4
    counted = task_checkpoint_detail(checkpoint, vertex_named(view, "Count"))
    for subtask in counted["subtasks"]:
        assert subtask["alignment"]["duration"] > 0  # two channels: the second barrier comes later
        assert subtask["start_delay"] > 0
        assert subtask["checkpoint"]["sync"] > 0
        assert subtask["checkpoint"]["async"] >= 300
        parts = subtask["start_delay"] + subtask["alignment"]["duration"] + sum(subtask["checkpoint"].values())
        assert abs(parts - subtask["end_to_end_duration"]) <= 3  # each of the clocks ticks
        assert checkpoint.triggered_ms < subtask["ack_timestamp"] <= checkpoint.acknowledged_ms
    assert counted["summary"]["checkpoint_duration"]["async"]["min"] >= 300
    assert counted["summary"]["start_delay"]["min"] > 0
    own = vertex_named(view, "Count").subtasks[0].own_metrics or {}
    assert own["checkpointAlignmentTime"] >= 1e6
    assert own["checkpointStartDelayNanos"] >= 1e6


def test_a_pipelined_checkpoint_begins_with_its_barriers_and_not_with_the_one_before(
    slow_disk: Ticking, tmp_path: Path
) -> None:
    watching = watched(tmp_path, slow_disk)
    assert [view.checkpoints.in_progress for view in watching.in_intervals] == [0, 0, 0]
    assert [view.checkpoints.in_progress for view in watching.in_checkpoints][:2] == [1, 1]
    last = watching.in_intervals[-1]
    checkpoint = last.checkpoints.latest_completed
    assert checkpoint is not None
    took = sum(checkpoint.phases.values()) - checkpoint.phases["commit"]
    assert abs(checkpoint.duration_ms - took) < 50  # the ticks of whoever else looks at the clock
    history = JobHistory()
    history.note(last, 0)
    [before, latest] = timeline(history.epochs(), ())["epochs"]
    assert {before["mode"], latest["mode"]} == {"pipelined"}
    assert latest["start"] == checkpoint.triggered_ms > before["end"] - 5


def report(barrier_ms: int, alignment_ms: float, sync_ms: float, async_ms: float) -> SubtaskReport:
    times = CheckpointTimes(barrier_ms, alignment_ms, sync_ms, async_ms)
    return SubtaskReport("v", 0, "", {}, {}, None, 0.0, 0, checkpoint=times)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reports", "align_ms", "sync_ms"),
    [
        ([report(1010, 5, 3, 50), report(1020, 20, 2, 10)], 40.0, 2.0),
        ([report(1010, 5, 60, 0), report(1020, 20, 2, 10)], 40.0, 35.0),
        ([report(900, 5, 3, 50)], 0.0, 0.0),  # its host's clock is slow
        ([report(9000, 5, 3, 50)], 100.0, 0.0),  # its host's clock is fast
        ([], 0.0, 0.0),
    ],
)
def test_phases_end_with_the_last_subtask_and_stay_within_the_checkpoint(
    reports: list[SubtaskReport], align_ms: float, sync_ms: float
) -> None:
    assert checkpoint_phases(reports, 1000, 100.0) == (align_ms, sync_ms)
