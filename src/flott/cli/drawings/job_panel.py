"""A job on one screen: current rates, vertices, checkpoints and failures. Pure, except for ``ask``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flott.cli.drawings.progress import NO_WATERMARK, Progress, progress_of, watermark_text
from flott.cli.terminal import duration_text, table, time_text
from flott.client.operations import Asks
from flott.common._sizes import size_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_JOB_METRICS = ("numRecordsIn", "numRecordsOut", "pendingRecords", "currentLowWatermark")
_VERTEX_METRICS = ("busyTimeMsPerSecond", "numRecordsInPerSecond", "numRecordsOutPerSecond")
_BAR = 10
_PARTS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"
_STATE_STYLES = {"RUNNING": "green", "FINISHED": "bold", "FAILED": "bold red", "FAILING": "bold red",
                 "RESTARTING": "yellow", "CANCELED": "yellow", "CANCELLING": "yellow"}  # fmt: skip


@dataclass(frozen=True)
class VertexFacts:
    """A vertex at one moment."""

    name: str
    parallelism: int
    status: str
    busy: float  #: of the busiest subtask, 0..1
    skew: float  #: how much busier it is than the average, 0..1
    records_in_per_second: float
    records_out_per_second: float
    watermark: int | None
    waits: tuple[str, ...] = ()  #: what subtasks of a pipelined job wait for, each with its number

    def document(self) -> dict[str, Any]:
        """Return the vertex as JSON."""
        return {
            "waits": list(self.waits),
            "name": self.name, "parallelism": self.parallelism, "status": self.status, "busy": self.busy,
            "skew": self.skew, "records-in-per-second": self.records_in_per_second,
            "records-out-per-second": self.records_out_per_second, "watermark": self.watermark,
        }  # fmt: skip


@dataclass(frozen=True)
class JobFacts:
    """A job at one moment."""

    progress: Progress
    start_ms: int
    vertices: tuple[VertexFacts, ...]
    rates: tuple[float, ...]  #: recent records per second, oldest first
    completed: int
    failed: int
    checkpoint_ms: int | None  #: the duration of the last one
    failure: str | None
    failure_ms: int = 0

    @property
    def slowest(self) -> int | None:
        """Return the lowest watermark of all vertices."""
        return min((v.watermark for v in self.vertices if v.watermark is not None), default=None)

    def document(self) -> dict[str, Any]:
        """Return the job as JSON."""
        return {
            **self.progress.document(),
            "start-time": self.start_ms,
            "checkpoints": {"completed": self.completed, "failed": self.failed, "last-duration": self.checkpoint_ms},
            "vertices": [vertex.document() for vertex in self.vertices],
            "last-failure": None if self.failure is None else {"timestamp": self.failure_ms, "text": self.failure},
        }


def ask(client: Asks, job_id: str) -> JobFacts:
    """Request all facts of a job from the JobManager."""
    path = f"/jobs/{job_id}"
    detail = client.get(path)
    checkpoints = client.get(f"{path}/checkpoints")
    failures = client.get(f"{path}/exceptions", maxExceptions=1)["exceptionHistory"]["entries"]
    latest = checkpoints["latest"].get("completed")
    return JobFacts(
        progress_of(detail, checkpoints, client.get(f"{path}/metrics", get=_JOB_METRICS)),
        detail["start-time"],
        tuple(_vertex(client, f"{path}/vertices/{vertex['id']}", vertex) for vertex in detail["vertices"]),
        rates_of(client.get(f"{path}/flott/epochs")["epochs"]),
        checkpoints["counts"]["completed"],
        checkpoints["counts"]["failed"],
        latest["end_to_end_duration"] if latest else None,
        str(failures[0]["stacktrace"]).strip() if failures else None,
        failures[0]["timestamp"] if failures else 0,
    )


def _vertex(client: Asks, path: str, vertex: Mapping[str, Any]) -> VertexFacts:
    found = {entry["id"]: entry for entry in client.get(f"{path}/subtasks/metrics", get=_VERTEX_METRICS)}
    marks = [int(entry["value"]) for entry in client.get(f"{path}/watermarks")]
    busy = found.get("busyTimeMsPerSecond", {"max": 0.0, "avg": 0.0})
    return VertexFacts(
        vertex["name"],
        vertex["parallelism"],
        vertex["status"],
        busy["max"] / 1000,
        (busy["max"] - busy["avg"]) / 1000,
        found.get("numRecordsInPerSecond", {"sum": 0.0})["sum"],
        found.get("numRecordsOutPerSecond", {"sum": 0.0})["sum"],
        min(marks, default=NO_WATERMARK) if min(marks, default=NO_WATERMARK) > NO_WATERMARK else None,
        tuple(
            f"{vertex['name']} ({subtask['subtask'] + 1}/{vertex['parallelism']}): {subtask['waits-for']}"
            for subtask in client.get(f"{path}/backpressure").get("subtasks", ())
            if "waits-for" in subtask
        ),
    )


def rates_of(epochs: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """Return the records per second between consecutive epochs."""
    return tuple(
        after["read-records"] * 1000 / max(1, after["completed"] - before["completed"])
        for before, after in pairwise(epochs)
    )


# -------------------------------------------------------------------------------------------------------- for people


def panel(facts: JobFacts) -> RenderableType:
    """Return the screen."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [_head(facts), "", vertex_table(facts.vertices)]
    waits = [wait for vertex in facts.vertices for wait in vertex.waits]
    if waits:
        parts.append(Text(f"\nwaiting  {waits[0]}", "yellow"))
        if len(waits) > 1:
            parts.append(Text(f"and {len(waits) - 1} more subtasks (--json lists them)", "yellow"))
    if facts.failure is not None:
        first, *others = facts.failure.splitlines()
        when = Text(f"\nlast failure {time_text(facts.failure_ms)}  ", "yellow")
        parts.append(when.append(first, "bold red"))
        parts += [Text(line, "red") for line in others[:8] if line.strip()]
    return Group(*parts)


def _head(facts: JobFacts) -> Text:
    from rich.text import Text

    job = facts.progress
    text = Text(job.name, "bold")
    text.append(f"  {job.job_id}  ", "dim not bold").append(job.state, _STATE_STYLES.get(job.state, "cyan"))
    text.append(f"  for {duration_text(job.duration_ms)}, since {time_text(facts.start_ms)}", "not bold")
    if job.waiting_for:
        text.append(f"\nwaits for slots: {job.waiting_for}", "yellow")
    rows = [("records/s", f"{job.records_per_second:,.0f}")]
    if facts.rates:
        rows[0] = ("records/s", f"{job.records_per_second:,.0f}  {sparkline(facts.rates)}")
    if job.lag is not None:
        rows.append(("lag", f"{job.lag:,} records"))
    watermark = job.watermark if job.watermark is not None else facts.slowest
    rows.append(("watermark", "none" if watermark is None else watermark_text(watermark)))
    if job.epoch is not None and job.checkpoint_age_ms is not None:
        took = "" if facts.checkpoint_ms is None else f", took {duration_text(facts.checkpoint_ms)}"
        rows.append((
            "checkpoint",
            f"{job.epoch}, {duration_text(job.checkpoint_age_ms)} ago{took}, state {size_text(job.state_bytes)};"
            f" {facts.completed} completed, {facts.failed} failed",
        ))  # fmt: skip
    rows.append(("restarts", str(job.restarts)))
    for label, value in rows:
        text.append(f"\n{label:<11}", "dim not bold").append(value, "not bold")
    return text


def vertex_table(vertices: Sequence[VertexFacts]) -> RenderableType:
    """Return the table of vertices."""
    from rich.text import Text

    rows = [
        (
            Text(vertex.name, "bold"),
            str(vertex.parallelism),
            Text(vertex.status.lower(), _STATE_STYLES.get(vertex.status, "cyan")),
            busy_bar(vertex.busy),
            f"{vertex.skew:.0%}" if vertex.skew >= 0.05 else "",
            f"{vertex.records_in_per_second:,.0f}",
            f"{vertex.records_out_per_second:,.0f}",
            "-" if vertex.watermark is None else watermark_text(vertex.watermark),
        )
        for vertex in vertices
    ]
    titles = ("vertex", "par", "state", "busy", "skew", "in/s", "out/s", "watermark")
    return table(titles, rows, {"par", "skew", "in/s", "out/s"})


def busy_bar(share: float) -> Text:
    """Return a share of time as a bar and a number."""
    from rich.text import Text

    share = min(max(share, 0.0), 1.0)
    eighths = round(share * _BAR * 8)
    bar = "█" * (eighths // 8) + (_PARTS[eighths % 8] if eighths % 8 else "")
    style = "green" if share < 0.7 else "yellow" if share < 0.9 else "red"
    return Text(bar.ljust(_BAR, "·"), style).append(f" {share:4.0%}", "default")


def sparkline(values: Sequence[float]) -> str:
    """Return numbers as a line of bars, scaled to the largest."""
    top = max(values, default=0.0)
    return "".join(_SPARKS[round(value / top * (len(_SPARKS) - 1)) if top > 0 else 0] for value in values)


def jobs_table(jobs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the table of all jobs."""
    from rich.text import Text

    rows = [
        (
            job["jid"],
            Text(job["name"], "bold"),
            Text(job["state"].lower(), _STATE_STYLES.get(job["state"], "cyan")),
            duration_text(job["duration"]),
            str(job.get("parallelism", job["tasks"]["total"])),
            f"{job.get('records-per-second', 0.0):,.0f}",
            str(job.get("restarts", 0)),
        )
        for job in jobs
    ]
    right = {"par", "records/s", "restarts"}
    return table(("job", "name", "state", "for", "par", "records/s", "restarts"), rows, right)
