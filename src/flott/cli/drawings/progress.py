"""The progress of a job, as REST reports it, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flott.cli.terminal import duration_text
from flott.client.operations import Asks
from flott.common._sizes import size_text

#: The watermarks before the first and after the last record.
NO_WATERMARK = -(2**63)
END_OF_INPUT = 2**63 - 1

ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
_METRICS = ("numRecordsIn", "numRecordsOut", "pendingRecords", "currentLowWatermark")


@dataclass(frozen=True)
class Progress:
    """A job at one moment."""

    job_id: str
    name: str
    state: str
    duration_ms: int = 0
    parallelism: int = 1
    epoch: int | None = None  #: the last completed epoch
    checkpoint_age_ms: int | None = None
    state_bytes: int = 0
    records_per_second: float = 0.0
    records_in: int | None = None
    records_out: int | None = None
    lag: int | None = None  #: unread records of sources, if they know it
    watermark: int | None = None
    restarts: int = 0
    waiting_for: str | None = None

    @property
    def ended(self) -> bool:
        """Return whether the job has ended."""
        return self.state in ENDED

    def line(self) -> str:
        """Return the job in one line."""
        parts = [self.name, self.state.lower()]
        if self.waiting_for:
            parts.append(f"waits for slots: {self.waiting_for}")
        if self.epoch is not None:
            parts.append(f"epoch {self.epoch}")
            parts.append(f"{self.records_per_second:,.0f} records/s")
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        if self.watermark is not None:
            parts.append(f"watermark {watermark_text(self.watermark)}")
        if self.checkpoint_age_ms is not None:
            age = duration_text(self.checkpoint_age_ms)
            parts.append(f"checkpoint {age} ago, state {size_text(self.state_bytes)}")
        if self.restarts:
            parts.append(f"{self.restarts} restart{'s' if self.restarts > 1 else ''}")
        return "  ·  ".join(parts)

    def summary(self) -> str:
        """Return the summary of a job that has ended."""
        parts = [f"in {duration_text(self.duration_ms)}"]
        if self.records_in is not None:
            rate = self.records_in * 1000 / max(self.duration_ms, 1)
            parts.append(f"{self.records_in:,} records read ({rate:,.0f}/s)")
        if self.records_out is not None:
            parts.append(f"{self.records_out:,} written")
        if self.epoch is not None:
            parts.append(f"last epoch {self.epoch}")
        parts.append(f"{self.restarts} restart{'' if self.restarts == 1 else 's'}")
        return f"{self.name} {self.state.lower()} {', '.join(parts)}"

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        return {
            "jid": self.job_id, "name": self.name, "state": self.state, "duration": self.duration_ms,
            "parallelism": self.parallelism, "epoch": self.epoch, "checkpoint-age": self.checkpoint_age_ms,
            "state-size": self.state_bytes, "records-per-second": self.records_per_second,
            "records-in": self.records_in, "records-out": self.records_out, "lag": self.lag,
            "watermark": self.watermark, "restarts": self.restarts, "waiting-for": self.waiting_for,
        }  # fmt: skip


def read_progress(client: Asks, job_id: str) -> Progress:
    """Request the progress from the JobManager."""
    return progress_of(
        client.get(f"/jobs/{job_id}"),
        client.get(f"/jobs/{job_id}/checkpoints"),
        client.get(f"/jobs/{job_id}/metrics", get=_METRICS),
    )


def progress_of(detail: Mapping[str, Any], checkpoints: Mapping[str, Any], metrics: list[dict[str, str]]) -> Progress:
    """Combine three responses to the progress of a job."""
    latest = checkpoints.get("latest", {}).get("completed") or {}
    numbers = {entry["id"]: _number(entry.get("value")) for entry in metrics}
    watermark = numbers.get("currentLowWatermark")
    return Progress(
        detail["jid"],
        detail["name"],
        detail["state"],
        duration_ms=detail["duration"],
        parallelism=detail.get("parallelism", 1),
        epoch=latest.get("id"),
        checkpoint_age_ms=max(0, detail["now"] - latest["latest_ack_timestamp"]) if latest else None,
        state_bytes=latest.get("state_size", 0),
        records_per_second=detail.get("records-per-second", 0.0),
        records_in=numbers.get("numRecordsIn"),
        records_out=numbers.get("numRecordsOut"),
        lag=numbers.get("pendingRecords"),
        watermark=None if watermark == NO_WATERMARK else watermark,
        restarts=detail.get("restarts", 0),
        waiting_for=detail.get("waiting-for"),
    )


def watermark_text(watermark: int) -> str:
    """Return a watermark as text."""
    if watermark >= END_OF_INPUT:
        return "end of input"
    try:
        return datetime.fromtimestamp(watermark / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(watermark)


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text) if text.lstrip("-").isdecimal() else int(float(text))
    except (ValueError, OverflowError):
        return None
