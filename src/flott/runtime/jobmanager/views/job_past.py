"""Adds to the view of a job what its present process does not know: former processes, and orders. Pure.

A process knows the job since its own start only. Users see one job, whose status changes as in Flink:

    process:   INITIALIZING CREATED RUNNING ✝              INITIALIZING CREATED RUNNING FINISHED
    shown:     INITIALIZING CREATED RUNNING ── RESTARTING ──────────────────── RUNNING FINISHED
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.views.checkpoint_tracker import SAVEPOINTS
from flott.runtime.jobmanager.views.job_view import CheckpointView, FailureView, JobView

#: How many failures are remembered.
_FAILURES = 16
#: Metrics that count restarts.
_COUNTS = frozenset({"numRestarts", "fullRestarts"})
_STARTING = (JobStatus.INITIALIZING, JobStatus.CREATED)


@dataclass(frozen=True)
class JobPast:
    """What is known about a job in addition to the view of its process."""

    start_ms: int  #: when it was submitted
    timestamps: Mapping[JobStatus, int] = field(default_factory=dict)
    deaths: int = 0  #: how many of its processes have died
    restarts: int = 0  #: those that dead processes counted, and their deaths
    failures: tuple[FailureView, ...] = ()
    truncated: bool = False
    savepoints: tuple[CheckpointView, ...] = ()  #: those that dead processes completed, newest first
    cancelling_ms: int | None = None  #: when it was ordered to be cancelled

    def cancelled(self, now_ms: int) -> JobPast:
        """Return the past after an order to cancel the job."""
        return self if self.cancelling_ms is not None else replace(self, cancelling_ms=now_ms)

    def died(self, shown: JobView, failure: FailureView) -> JobPast:
        """Return the past after the process with this view has died."""
        return replace(
            self,
            timestamps={**shown.timestamps, JobStatus.RESTARTING: failure.at_ms},
            deaths=self.deaths + 1,
            restarts=shown.restarts + 1,
            failures=(failure, *shown.failures)[:_FAILURES],
            truncated=shown.failures_truncated or len(shown.failures) >= _FAILURES,
            savepoints=shown.checkpoints.savepoints,
        )

    def shown(self, view: JobView) -> JobView:
        """Return the view of the job, made from the view of its process."""
        begun = {status: at for status, at in self.timestamps.items() if status in _STARTING}
        timestamps = {**self.timestamps, **view.timestamps, **begun}
        status = JobStatus.RESTARTING if self.deaths and view.status in _STARTING else view.status
        if self.cancelling_ms is not None and not status.is_terminal_state():
            status = JobStatus.CANCELLING
            timestamps[status] = self.cancelling_ms
        failures = (*view.failures, *self.failures)
        savepoints = (*view.checkpoints.savepoints, *self.savepoints)[:SAVEPOINTS]
        metrics = dict(view.metrics)
        for name in _COUNTS & metrics.keys():
            metrics[name] += self.restarts
        return replace(
            view,
            status=status,
            start_ms=self.start_ms,
            timestamps=timestamps,
            failures=failures[:_FAILURES],
            failures_truncated=view.failures_truncated or self.truncated or len(failures) > _FAILURES,
            restarts=view.restarts + self.restarts,
            metrics=metrics,
            checkpoints=replace(view.checkpoints, savepoints=savepoints),
        )


def without_process(view: JobView, now_ms: int) -> JobView:
    """Return the view of a new process that knows nothing but the last view of the former one."""
    return replace(
        view,
        status=JobStatus.INITIALIZING,
        timestamps={},
        last_modified_ms=now_ms,
        failures=(),
        failures_truncated=False,
        checkpoints=replace(view.checkpoints, savepoints=()),
        metrics={**view.metrics, **dict.fromkeys(_COUNTS & view.metrics.keys(), 0)},
        restarts=0,
        records_per_second=0.0,
        process=0,
    )
