"""Tracks the checkpoints and savepoints of a job: their number, the latest ones, statistics. Driver side.

Memory is bounded: ten of them are remembered as they were, a thousand as numbers. Savepoints have a history of their
own, since a job that checkpoints every second would push one out of the common history within ten seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from flott.runtime.checkpoint import paths
from flott.runtime.jobmanager.views.job_view import (
    CheckpointsView,
    CheckpointTask,
    CheckpointView,
    RestoredView,
    Spread,
)
from flott.runtime.jobmaster.listener import (
    EpochStatistics,
    RestoredFrom,
    SavepointNews,
    SavepointStage,
    SubtaskStatistics,
)

#: How many checkpoints are shown individually.
HISTORY = 10
#: How many completed checkpoints statistics are computed over.
REMEMBERED_NUMBERS = 1000
#: How many completed savepoints are remembered.
SAVEPOINTS = 100


class CheckpointTracker:
    """Adds up what the job reports about its checkpoints."""

    def __init__(self, directory: str):
        self._directory = directory
        self.completed = 0
        self.failed = 0
        self.restored_count = 0
        self.restored: RestoredView | None = None
        self.running: CheckpointView | None = None  #: the epoch that runs
        self.latest: CheckpointView | None = None
        self._latest_failed: CheckpointView | None = None
        self._latest_savepoint: CheckpointView | None = None
        self._savepoints: dict[int, CheckpointView] = {}  #: those in progress, by number
        self._taken: deque[CheckpointView] = deque(maxlen=SAVEPOINTS)  #: completed savepoints, oldest first
        self._ended: deque[CheckpointView] = deque(maxlen=HISTORY)  #: oldest first
        self._numbers: deque[tuple[int, int, int, int]] = deque(maxlen=REMEMBERED_NUMBERS)

    # --- what the job reports ----------------------------------------------------------------------------------------

    def begin(self, epoch: int, now_ms: int, *, pipelined: bool = False) -> None:
        """Track the start of an epoch, or of a checkpoint of continuous tasks."""
        self.running = CheckpointView(epoch, "IN_PROGRESS", now_ms, pipelined=pipelined)

    def complete(self, statistics: EpochStatistics) -> None:
        """Track a completed epoch."""
        self.running = None
        self.completed += 1
        view = CheckpointView(
            statistics.epoch,
            "COMPLETED",
            statistics.started_at_ms or statistics.completed_at_ms,
            acknowledged_ms=statistics.completed_at_ms,
            state_bytes=statistics.state_bytes,
            written_bytes=statistics.written_bytes,
            records=statistics.records_in,
            path=self._path(statistics.epoch),
            tasks=tuple(checkpoint_task(task, statistics.started_at_ms) for task in statistics.subtasks),
            phases=statistics.phases,
            pipelined=statistics.pipelined,
        )  # fmt: skip
        self.latest = view
        self._ended.append(view)
        self._numbers.append((view.duration_ms, view.state_bytes, view.written_bytes, view.records))

    def fail(self, epoch: int, reason: str, now_ms: int) -> None:
        """Track a failed epoch. A failure between two epochs is not one of a checkpoint."""
        running, self.running = self.running, None
        if running is None:
            return
        if running.id < epoch:  # it is durable nevertheless: the failure came later
            self.completed += 1
            return
        self.failed += 1
        self._latest_failed = replace(running, status="FAILED", acknowledged_ms=now_ms, failure=reason)
        self._ended.append(self._latest_failed)

    def savepoint(self, news: SavepointNews, now_ms: int) -> None:
        """Track the progress of a savepoint."""
        begun = self._savepoints.pop(news.number, None)
        view = CheckpointView(
            news.checkpoint_id,
            news.stage.value,
            begun.triggered_ms if begun is not None else now_ms,
            path=news.path,
            state_bytes=news.state_bytes,
            written_bytes=news.state_bytes,
            savepoint_format=news.format.name,
            stops_the_job=news.stops_the_job,
            failure=news.failure,
        )
        if news.stage is SavepointStage.IN_PROGRESS:
            self._savepoints[news.number] = view
            return
        view = replace(view, acknowledged_ms=now_ms)
        self._ended.append(view)
        if news.stage is SavepointStage.FAILED:
            self.failed += 1
            self._latest_failed = view
        else:
            self.completed += 1
            self._latest_savepoint = view
            self._taken.append(view)

    def restore(self, restored: RestoredFrom, now_ms: int) -> None:
        """Track that the job was restored from a checkpoint."""
        self.restored_count += 1
        self.restored = RestoredView(restored.checkpoint_id, now_ms, restored.is_savepoint, restored.path)

    def end(self) -> None:
        """Track the end of the job: a running epoch will not complete."""
        self.running = None

    # --- the view ----------------------------------------------------------------------------------------------------

    @property
    def in_progress(self) -> int:
        """Return how many are in progress."""
        return len(self._savepoints) + (self.running is not None)

    @property
    def total(self) -> int:
        """Return how many were started in this run."""
        return self.completed + self.failed + self.in_progress

    def view(self, retained: int) -> CheckpointsView:
        """Return everything as a view. ``retained`` completed checkpoints are kept, older ones were deleted."""
        at_work = [*self._savepoints.values(), *([self.running] if self.running is not None else [])]
        numbers = list(zip(*self._numbers, strict=True)) or [(), (), (), ()]
        durations, state_bytes, written_bytes, records = (spread_of(column) for column in numbers)
        return CheckpointsView(
            completed=self.completed,
            failed=self.failed,
            in_progress=len(at_work),
            restored_count=self.restored_count,
            history=(*reversed(at_work), *self._marked(reversed(self._ended), retained))[:HISTORY],
            latest_completed=self.latest,
            latest_savepoint=self._latest_savepoint,
            latest_failed=self._latest_failed,
            restored=self.restored,
            durations=durations,
            state_bytes=state_bytes,
            written_bytes=written_bytes,
            records=records,
            savepoints=tuple(reversed(self._taken)),
        )

    @staticmethod
    def _marked(newest_first: Iterable[CheckpointView], retained: int) -> Iterable[CheckpointView]:
        """Mark checkpoints that were deleted for newer ones. Savepoints are never deleted by the job."""
        kept = 0
        for view in newest_first:
            is_checkpoint = view.status == "COMPLETED" and view.savepoint_format is None
            kept += is_checkpoint
            yield replace(view, discarded=True) if is_checkpoint and kept > retained else view

    def _path(self, epoch: int) -> str | None:
        return str(Path(self._directory, paths.checkpoint(epoch))) if self._directory else None


def checkpoint_task(task: SubtaskStatistics, triggered_ms: int) -> CheckpointTask:
    """Return the part of a subtask in a checkpoint that was triggered then."""
    times = task.checkpoint
    if times is None:
        took_ms = max(0, task.ended_ms - task.started_ms)
        return CheckpointTask(task.vertex, task.subtask, task.state_bytes, task.written_bytes, took_ms)
    return CheckpointTask(
        task.vertex,
        task.subtask,
        task.state_bytes,
        task.written_bytes,
        max(0, round(times.durable_ms) - triggered_ms),
        start_delay_ms=max(0, times.barrier_ms - triggered_ms),
        alignment_ms=round(times.alignment_ms),
        sync_ms=round(times.sync_ms),
        async_ms=round(times.async_ms),
        unaligned=times.unaligned,
        persisted_bytes=times.persisted_bytes,
    )


def spread_of(numbers: Sequence[float]) -> Spread:
    """Return the distribution of numbers. Percentiles are interpolated, as in Flink.

    >>> spread_of([10, 20]).p50
    15.0
    """
    if not numbers:
        return Spread()
    ordered = sorted(numbers)
    p50, p90, p95, p99, p999 = (percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99, 0.999))
    return Spread(
        ordered[0], ordered[-1], sum(ordered) / len(ordered), p50, p90, p95, p99, p999, count=len(ordered)
    )  # fmt: skip


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of ordered numbers, interpolated as in Flink."""
    position = share * (len(ordered) + 1) - 1
    if position <= 0:
        return float(ordered[0])
    if position >= len(ordered) - 1:
        return float(ordered[-1])
    below = int(position)
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (position - below)
