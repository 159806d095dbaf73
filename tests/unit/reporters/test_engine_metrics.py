"""The table of the engine's metrics: a metric is one row and one call, and everything else follows from the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flott.common.job_status import JobStatus
from flott.metrics import _engine_metrics as table
from flott.metrics._engine_metrics import Combine, EngineMetric, Kind, Scope
from flott.reporters.exposition import Exposition, TextFormat
from flott.reporters.metric_table import samples_of
from flott.reporters.opentelemetry import OpenTelemetryMetrics
from flott.rest.shapes.metrics import job_metrics, metric_values, subtask_metrics
from flott.runtime.jobmanager.views.job_view import JobView
from flott.runtime.operators.process import ProcessOperator
from flott.testing.harness import Cancel
from flott.testing.sources import EndOfEpoch
from scripts import metrics_page
from tests.unit.reporters.test_reporters import Cluster, Taking
from tests.unit.runtime.jobmanager.tracked_jobs import counting, recorded

NUMBERS = list(range(30))


def running_job(folder: Path) -> JobView:
    """Return a job after its second epoch."""
    script = [*NUMBERS[:10], EndOfEpoch(), *NUMBERS[10:], EndOfEpoch(), 1]
    seen: list[JobView] = []
    masters: list[Any] = []

    def look(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 3):
            seen.extend(each.view() for each in masters[0].listeners if hasattr(each, "view"))
            raise Cancel

    recorded(counting(script), folder, on_step=look, on_start=masters.append)
    assert seen[0].status is JobStatus.RUNNING
    return seen[0]


@pytest.fixture
def new_row(monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineMetric]:
    """Return one new row, which an operator counts by one call."""
    row = table.define(
        EngineMetric(
            "numTested", Scope.OPERATOR, Kind.COUNTER, "records", "Records that a test has counted.",
            Combine.SUM, Combine.SUM, (Scope.TASK, Scope.JOB),
        )
    )
    process = ProcessOperator.process

    def counting_process(self: ProcessOperator, batch: Any) -> None:
        self.measure(row, len(batch))
        process(self, batch)

    monkeypatch.setattr(ProcessOperator, "process", counting_process)
    yield row
    for scope in row.scopes:
        del table.ROWS[scope][row.name]


def test_one_row_and_one_call_make_a_metric(new_row: EngineMetric, tmp_path: Path) -> None:
    job = running_job(tmp_path)
    cluster: Any = Cluster([job])

    text = Exposition().scrape(cluster, TextFormat.PROMETHEUS).decode()
    for scope in ("jobmanager_job", "taskmanager_job_task", "taskmanager_job_task_operator"):
        assert f"# HELP flink_{scope}_numTested Records that a test has counted." in text
        lines = [line for line in text.splitlines() if line.startswith(f"flink_{scope}_numTested{{")]
        assert sum(float(line.rpartition(" ")[2]) for line in lines) == len(NUMBERS)

    samples = [sample for sample in samples_of(cluster) if sample.metric == "numTested"]
    assert {sample.kind for sample in samples} == {Kind.COUNTER}
    exporter = Taking()
    OpenTelemetryMetrics("otel", cluster, 1000, exporter).report()
    sent = exporter.last()["flink.taskmanager.job.task.operator.numTested"]
    assert sent.is_monotonic
    assert sum(point.value for point in sent.data_points) == len(NUMBERS)

    assert metric_values(job_metrics(job, 0), ["numTested"]) == [{"id": "numTested", "value": str(len(NUMBERS))}]
    counted = next(vertex for vertex in job.vertices if vertex.name.startswith("Count"))
    shown = [subtask_metrics(counted, subtask) for subtask in counted.subtasks]
    assert sum(metrics["numTested"] for metrics in shown) == len(NUMBERS)
    assert sum(metrics["Count.numTested"] for metrics in shown) == len(NUMBERS)

    assert "| `numTested` | counter | records |" in metrics_page.page()


def test_every_metric_of_the_engine_has_a_row_and_every_row_has_a_value(tmp_path: Path) -> None:
    job = running_job(tmp_path)
    subtasks = [subtask for vertex in job.vertices for subtask in vertex.subtasks]
    assert set(job.metrics) <= set(table.ROWS[Scope.JOB])
    of_pipelined_jobs = {"epochAlignTime", "epochSyncTime", "epochFilesTime"}
    assert set(table.ROWS[Scope.JOB]) - set(job.metrics) <= {"pendingRecords", "pendingBytes", *of_pipelined_jobs}
    assert all(set(subtask.own_metrics or {}) == set(table.ROWS[Scope.TASK]) for subtask in subtasks)
    of_operators = {name for subtask in subtasks for metrics in subtask.metrics.values() for name in metrics}
    assert of_operators - {"counted"} <= set(table.ROWS[Scope.OPERATOR])
    of_sources = {"watermarkLag", "pendingRecords", "pendingBytes"}
    assert set(table.ROWS[Scope.OPERATOR]) - of_operators <= of_sources


def test_the_bytes_of_changed_state_add_up_to_what_checkpoints_have_written(tmp_path: Path) -> None:
    job = running_job(tmp_path)
    assert job.metrics["stateBytesWritten"] == sum(each.written_bytes for each in job.checkpoints.history) > 0


def test_a_scope_has_at_most_one_metric_of_a_name() -> None:
    with pytest.raises(ValueError, match="has a metric numRecordsIn already"):
        table.define(table.RECORDS_IN)


def test_the_metrics_page_is_made_from_the_table() -> None:
    assert metrics_page.PAGE.read_text("utf-8") == metrics_page.page(), "run make docs"
