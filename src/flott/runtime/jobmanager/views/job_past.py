"""What the view of a job owes to what happened outside its present process: earlier ones, and orders. Pure.

A process knows the job only since its own start. Seen from outside it is one job, that moves as Flink's table says:

    process:   INITIALIZING CREATED RUNNING ✝              INITIALIZING CREATED RUNNING FINISHED
    shown:     INITIALIZING CREATED RUNNING ── RESTARTING ──────────────────── RUNNING FINISHED
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flott.common.job_status import JobStatus
from flott.runtime.jobmanager.views.job_view import FailureView, JobView

#: Failures that are remembered.
_FAILURES = 16
#: Metrics that count restarts.
_COUNTS = frozenset({"numRestarts", "fullRestarts"})
_STARTING = (JobStatus.INITIALIZING, JobStatus.CREATED)


@dataclass(frozen=True)
class JobPast:
    """What is remembered of a job beside what its process says."""

    start_ms: int  #: when it was submitted
    timestamps: Mapping[JobStatus, int] = field(default_factory=dict)
    deaths: int = 0  #: of its processes
    restarts: int = 0  #: those it counted before it died, and its death
    failures: tuple[FailureView, ...] = ()
    truncated: bool = False
    cancelling_ms: int | None = None  #: somebody cancels it since then

    def cancelled(self, now_ms: int) -> JobPast:
        """Somebody has ordered the job's end, and it will obey."""
        return self if self.cancelling_ms is not None else replace(self, cancelling_ms=now_ms)

    def died(self, shown: JobView, failure: FailureView) -> JobPast:
        """The process that was shown like this has died."""
        return replace(
            self,
            timestamps={**shown.timestamps, JobStatus.RESTARTING: failure.at_ms},
            deaths=self.deaths + 1,
            restarts=shown.restarts + 1,
            failures=(failure, *shown.failures)[:_FAILURES],
            truncated=shown.failures_truncated or len(shown.failures) >= _FAILURES,
        )

    def shown(self, view: JobView) -> JobView:
        """What the process says, as the state of the one job."""
        begun = {status: at for status, at in self.timestamps.items() if status in _STARTING}
        timestamps = {**self.timestamps, **view.timestamps, **begun}
        status = JobStatus.RESTARTING if self.deaths and view.status in _STARTING else view.status
        if self.cancelling_ms is not None and not status.is_terminal_state():
            status = JobStatus.CANCELLING
            timestamps[status] = self.cancelling_ms
        failures = (*view.failures, *self.failures)
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
        )


def without_process(view: JobView, now_ms: int) -> JobView:
    """What a process would say of the job before it knows anything but what the last one said."""
    return replace(
        view,
        status=JobStatus.INITIALIZING,
        timestamps={},
        last_modified_ms=now_ms,
        failures=(),
        failures_truncated=False,
        metrics={**view.metrics, **dict.fromkeys(_COUNTS & view.metrics.keys(), 0)},
        restarts=0,
        records_per_second=0.0,
        process=0,
    )
