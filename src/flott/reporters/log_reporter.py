"""Writes a line per running job to the log, at an interval. JobManager side."""

from __future__ import annotations

import logging

from flott.common._sizes import size_text
from flott.reporters.reporter import PeriodicReporter
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.views.job_view import JobView

log = logging.getLogger("flott.metrics")


class LogReporter(PeriodicReporter):
    """Logs the most important numbers of every job."""

    def __init__(self, name: str, gateway: ClusterGateway, interval_ms: int):
        super().__init__(name, interval_ms)
        self._gateway = gateway

    def report(self) -> None:
        for job in self._gateway.jobs():
            if not job.status.is_terminal_state():
                log.info("%s", line(job))


def line(job: JobView) -> str:
    """Return a job as one line."""
    parts = [f"{_shown(job.name)} ({job.job_id[:8]}) {job.status.name}"]
    if job.epochs:
        last = job.epochs[-1]
        parts += [
            f"epoch {last.epoch} in {sum(last.phases.values()):,.0f} ms x{last.parallelism}",
            f"{job.records_per_second:,.0f} records/s",
            f"state {size_text(last.state_bytes)}",
            f"busy {_busiest(job):.0%}",
        ]
    for metric, label in (("pendingRecords", "records"), ("pendingBytes", "bytes")):
        if job.metrics.get(metric):
            parts.append(f"{job.metrics[metric]:,} {label} pending")
    if job.checkpoints.failed:
        parts.append(f"{job.checkpoints.failed} failed checkpoints")
    if job.restarts:
        parts.append(f"{job.restarts} restarts")
    if job.waiting_for:
        parts.append(f"waits for slots: {job.waiting_for}")
    return " · ".join(parts)


def _busiest(job: JobView) -> float:
    return max((subtask.busy_ratio for vertex in job.vertices for subtask in vertex.subtasks), default=0.0)


def _shown(name: str) -> str:
    """Return a name as one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)
