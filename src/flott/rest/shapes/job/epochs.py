"""The last epochs of a job. Flott's own. Pure."""

from __future__ import annotations

from typing_extensions import TypedDict

from flott.rest.shapes.values.numbers import finite
from flott.runtime.jobmanager.views.job_view import EpochView, JobView

EpochLine = TypedDict(
    "EpochLine",
    {
        "epoch": int,
        "attempt": int,
        "completed": int,
        "read-records": int,
        "write-records": int,
        "watermark": int,
        "phases": dict[str, float],
        "state-size": int,
        "parallelism": int,
        "backlog": bool,
    },
)


class JobEpochs(TypedDict):
    epochs: list[EpochLine]


def job_epochs(job: JobView) -> JobEpochs:
    """Return the last epochs, the oldest first. Phases are in milliseconds."""
    return {"epochs": [_line(epoch) for epoch in job.epochs]}


def _line(epoch: EpochView) -> EpochLine:
    return {
        "epoch": epoch.epoch,
        "attempt": epoch.attempt,
        "completed": epoch.completed_ms,
        "read-records": epoch.records_in,
        "write-records": epoch.records_out,
        "watermark": epoch.watermark,
        "phases": {phase: finite(spent_ms) for phase, spent_ms in epoch.phases.items()},
        "state-size": epoch.state_bytes,
        "parallelism": epoch.parallelism,
        "backlog": epoch.backlog,
    }
