"""Where the time of a job went: its last epochs with their phases, and what happened between them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from flott.rest.shapes.live.numbers import event_time
from flott.rest.shapes.values.numbers import finite
from flott.runtime.jobmanager.views.job_history import JobEvent, PastEpoch

TimelineEpoch = TypedDict(
    "TimelineEpoch",
    {
        "epoch": int,
        "attempt": int,
        "status": str,
        "mode": str,
        "start": int,
        "end": int,
        "records-in": int,
        "records-out": int,
        "watermark": int | None,
        "phases": dict[str, float],
        "state-size": int,
        "written": int,
        "parallelism": int,
        "backlog": bool,
        "failure": str | None,
    },
)


class TimelineEvent(TypedDict):
    at: int
    kind: str
    text: str
    epoch: int | None


class Timeline(TypedDict):
    epochs: list[TimelineEpoch]
    events: list[TimelineEvent]


def timeline(epochs: Sequence[PastEpoch], events: Sequence[JobEvent]) -> Timeline:
    """Return epochs and events, oldest first. Phases are in milliseconds."""
    return {
        "epochs": [_epoch(epoch) for epoch in epochs],
        "events": [
            {"at": event.at_ms, "kind": event.kind, "text": event.text, "epoch": event.epoch} for event in events
        ],
    }


def _epoch(epoch: PastEpoch) -> TimelineEpoch:
    return {
        "epoch": epoch.epoch,
        "attempt": epoch.attempt,
        "status": epoch.status,
        "mode": "pipelined" if epoch.pipelined else "epochs",
        "start": epoch.start_ms,
        "end": epoch.end_ms,
        "records-in": epoch.records_in,
        "records-out": epoch.records_out,
        "watermark": event_time(epoch.watermark),
        "phases": {phase: round(finite(spent_ms), 3) for phase, spent_ms in epoch.phases.items()},
        "state-size": epoch.state_bytes,
        "written": epoch.written_bytes,
        "parallelism": epoch.parallelism,
        "backlog": epoch.backlog,
        "failure": epoch.failure,
    }
