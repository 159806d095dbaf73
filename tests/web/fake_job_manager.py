"""A JobManager's REST server over a cluster made of data, on a real port: for browsers, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from flott.common._watermark_report import Hold, HoldCause, SentenceInstant, TimePlace, WatermarkReport, sentence_text
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.rest.app import create_app
from flott.rest.http_server import RestServer
from flott.rest.sql_mount import SqlMount
from flott.runtime.jobmanager.programs import ProgramStore
from flott.runtime.jobmanager.views.job_view import CheckpointView, EpochView, InputView, JobView, TaskState
from flott.runtime.orders import ExplainWatermark, Order
from tests.unit.rest.fake_cluster import NOW, RUNNING, FakeCluster, running_job, vertices

PIPELINED = "f" * 31 + "6"
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@contextmanager
def served(cluster: FakeCluster, port: int = 0, sql: SqlMount | None = None) -> Iterator[str]:
    """Serve a cluster; yield its address."""
    configuration = Configuration.of({**cluster.configuration.to_dict(), "rest.port": port})
    programs = ProgramStore(cluster.folder / "programs", configuration)
    server = RestServer(create_app(cluster, programs, sql=sql), configuration)
    chosen = server.start()
    try:
        yield f"http://localhost:{chosen}"
    finally:
        server.stop()


def long_job(job_id: str, name: str, count: int) -> JobView:
    """Return a running job with so many vertices in a row."""
    [source, window] = vertices(TaskState.RUNNING)
    row = [replace(source, id=f"{job_id[:16]}{0:016x}")]
    for index in range(1, count):
        before = InputView(row[-1].id, "HASH", 0)
        row.append(replace(window, id=f"{job_id[:16]}{index:016x}", name=f"step {index}", inputs=(before,)))
    return replace(running_job(job_id), name=name, vertices=tuple(row))


class StoryCluster(FakeCluster):
    """Two jobs with a past: one of epochs, one pipelined. Each has failed, restarted, and taken many savepoints."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known.clear()
        for job_id, pipelined in ((RUNNING, False), (PIPELINED, True)):
            job = story_of(job_id, pipelined)
            self.known[job_id] = job
            for seen in range(1, len(job.epochs) + 1, 15):
                part = replace(job, epochs=job.epochs[max(0, seen - 5) : seen + 15])
                self.histories.note(part, part.epochs[-1].ended_ms)

    def outcome(self, job_id: str, order: Order[Any]) -> Any:
        return watermark_report() if isinstance(order, ExplainWatermark) else super().outcome(job_id, order)


def story_of(job_id: str, pipelined: bool) -> JobView:
    """Return a running job that has failed twice in the last minute; after the last time nothing has completed yet."""
    names = ("align", "sync", "files", "ack", "commit") if pipelined else ("plan", "schedule", "run", "ack", "commit")
    epochs, at = [], NOW - 40_000
    for number in range(1, 41):
        spent = [4.0 + number % 3, 40.0, 300.0 + 37 * (number % 5), 25.0, 15.0]
        spent = [80.0 + 30 * (number % 4), 12.0, 90.0, 25.0, 15.0] if pipelined else spent
        spent[1] += 2_500 if number == 17 else 0
        took = round(sum(spent))
        state = 4096 * number
        phases = dict(zip(names, spent, strict=True))
        epochs.append(
            EpochView(
                number, 0, at + took, 500, 450, at - 2_000, phases, state, 2, False, at, state // 4,
                pipelined=pipelined,
            )
        )  # fmt: skip
        at += took + (700 if pipelined else 150)
    taken = tuple(
        CheckpointView(
            number, "COMPLETED", epochs[number].completed_ms, epochs[number].completed_ms + 300, 4096 * number, 4096,
            path=f"/savepoints/savepoint-aaaaaa-{number:04}", savepoint_format="CANONICAL",
        )
        for number in range(14, 2, -1)
    )  # fmt: skip
    job = running_job(job_id)
    failure = job.failures[0]
    failures = tuple(replace(failure, at_ms=when) for when in (at + 600, epochs[16].ended_ms + 20))
    stamps = {**job.timestamps, JobStatus.RESTARTING: at + 640}
    history = (replace(taken[0]), *job.checkpoints.history[:1])
    seen = replace(job.checkpoints, history=history, savepoints=taken, latest_savepoint=taken[0])
    mode = "pipelined" if pipelined else "epochs"
    return replace(
        job, name="fast shop" if pipelined else "shop", epochs=tuple(epochs), failures=failures, timestamps=stamps,
        checkpoints=seen, start_ms=NOW - 60_000, mode=mode, configured_mode=mode, restarts=2,
        restart_strategy="Restart at most 1 time, 1 s after a failure",
    )  # fmt: skip


def watermark_report() -> WatermarkReport:
    """Return what holds event time back where two sources are joined and feed two sinks."""
    finding = ("Split 3 of Source: orders has had no record since ", SentenceInstant(NOW - 4_000), " (4 s ago).")
    remedy = ("It counts as idle from ", SentenceInstant(NOW + 56_000), " on, and event time goes on without it.")
    texts = sentence_text(finding), sentence_text(remedy)
    hold = Hold(HoldCause.SILENT, "Source: orders", NOW - 5_000, NOW - 4_000, *texts, "3", finding, remedy)
    splits = (
        TimePlace("split 3", NOW - 5_000, holds=True, since_ms=NOW - 4_000, id="1/3"),
        TimePlace("split 0", NOW - 1_000, since_ms=NOW - 500, id="1/0"),
        TimePlace("split 1", NOW - 900, idle=True, id="1/1"),
    )
    prices = TimePlace(
        "Source: prices", NOW - 700, id="2", inputs=(TimePlace("split 0", NOW - 700, paused=True, id="2/0"),)
    )
    orders = TimePlace("Source: orders", NOW - 5_000, since_ms=NOW - 4_000, inputs=splits, id="1")
    join = TimePlace("orders with their prices", NOW - 5_000, since_ms=NOW - 4_000, inputs=(orders, prices), id="3")
    again = TimePlace("orders with their prices (see above)", NOW - 5_000, id="3")
    sinks = (
        TimePlace("Sink: revenue", NOW - 5_000, inputs=(join,), id="4"),
        TimePlace("Sink: alerts", NOW - 5_000, inputs=(again,), id="5"),
    )
    return WatermarkReport("shop", NOW, 40, sinks, (hold,))


def busy_cluster(folder: Path, jobs: int = 50, count: int = 10) -> FakeCluster:
    """Return a cluster with so many running jobs of so many vertices."""
    cluster = FakeCluster(folder)
    cluster.known.clear()
    for index in range(jobs):
        job_id = f"{index + 1:032x}"
        cluster.known[job_id] = long_job(job_id, f"pipeline {index + 1}", count)
    return cluster
