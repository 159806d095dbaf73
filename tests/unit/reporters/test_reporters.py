"""What the tools that watch a cluster are told: Prometheus, OpenTelemetry, the log; and what they are asked for by."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from flott.common import Configuration
from flott.common import _options as options
from flott.common.job_status import JobStatus
from flott.errors import ConfigurationError
from flott.metrics._engine_metrics import Kind
from flott.reporters import make_reporters
from flott.reporters.exposition import Exposition, TextFormat
from flott.reporters.log_reporter import LogReporter, line
from flott.reporters.metric_table import samples_of
from flott.reporters.opentelemetry import (
    Collector,
    OpenTelemetryMetrics,
    OpenTelemetryTraces,
    metrics_reporter,
    traces_reporter,
)
from flott.reporters.prometheus import PrometheusReporter, ports_of
from flott.reporters.reporter import PeriodicReporter
from flott.runtime.jobmanager.views.job_view import CheckpointsView, CheckpointView, JobView, TaskManagerView
from flott.testing.clock import ManualClock
from flott.testing.harness import Cancel
from flott.testing.sources import Abort, EndOfEpoch
from tests.unit.runtime.jobmanager.tracked_jobs import counting, recorded

RETRY = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "9"}


@dataclass
class Cluster:
    """As much of a JobManager as reporters ask."""

    views: list[JobView] = field(default_factory=list)
    configuration: Configuration = field(default_factory=Configuration)
    started_ms: int = 0
    broken: bool = False

    def jobs(self) -> Sequence[JobView]:
        if self.broken:
            raise RuntimeError("no answer")
        return self.views

    def task_managers(self) -> Sequence[TaskManagerView]:
        heap = {"Status.JVM.Memory.Heap.Used": 7}
        return [TaskManagerView("driver", "here", 1, 4, 1, 4, 100, 50, 0, 0, metrics=heap)]

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"A reporter asked for {name}.")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> JobView:
    """A job that has failed once, in the middle of its life."""
    script = [*range(10), EndOfEpoch(), Abort(), *range(10, 20), EndOfEpoch(), 20]
    seen: list[JobView] = []

    def look(step: str, epoch: int) -> None:
        if (step, epoch) == ("planned", 3):
            seen.append(recorder[0].view())
            raise Cancel

    recorder: list[Any] = []

    class Holding:
        def __call__(self, master: Any) -> None:
            recorder.extend(each for each in master.listeners if hasattr(each, "view"))

    recorded(counting(script, options=RETRY), tmp_path_factory.mktemp("job"), on_step=look, on_start=Holding())
    return seen[0]


def _scraped(cluster: Cluster, filter_values: bool = True) -> dict[str, list[tuple[dict[str, str], float]]]:
    return _parsed(Exposition(filter_values).scrape(cluster, TextFormat.PROMETHEUS).decode())


def _parsed(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


# --- Prometheus ------------------------------------------------------------------------------------------------------


def test_prometheus_finds_everything_under_flinks_names(job: JobView) -> None:
    found = _scraped(Cluster([job]))
    assert found["flink_jobmanager_numRunningJobs"] == [({}, 1.0)]
    assert found["flink_jobmanager_job_numRestarts"] == [({"job_id": job.job_id, "job_name": "counting"}, 1.0)]
    assert found["flink_taskmanager_Status_JVM_Memory_Heap_Used"] == [({"host": "here", "tm_id": "driver"}, 7.0)]
    tasks = found["flink_taskmanager_job_task_numRecordsIn"]
    assert sum(value for _, value in tasks) == 20
    assert {labels["subtask_index"] for labels, _ in tasks} == {"0", "1"}
    assert {labels["task_id"] for labels, _ in tasks} == {vertex.id for vertex in job.vertices}
    assert tasks[0][0].keys() == {
        "job_id", "job_name", "task_id", "task_name", "task_attempt_num", "subtask_index", "tm_id", "host",
    }  # fmt: skip
    counted = found["flink_taskmanager_job_task_operator_counted"]
    assert sum(value for _, value in counted) == 20
    assert {labels["operator_name"] for labels, _ in counted} == {"Count"}
    assert counted[0][0]["operator_id"] in {operator.id for vertex in job.vertices for operator in vertex.operators}


def test_a_job_that_has_ended_has_no_metrics(job: JobView) -> None:
    ended = replace(job, status=JobStatus.FINISHED)
    found = _scraped(Cluster([ended]))
    assert found["flink_jobmanager_numRunningJobs"] == [({}, 0.0)]
    assert not any("_job_" in name for name in found)


@settings(max_examples=40)
@given(st.text(), st.text(), st.booleans())
def test_no_name_breaks_the_exposition(job: JobView, name: str, metric: str, filter_values: bool) -> None:
    vertex = job.vertices[1]
    subtask = replace(vertex.subtasks[0], metrics={"Count": {metric: 1, "a.b": 1, "a_b": 2, "huge": 10**400}})
    named = replace(job, name=name, vertices=(replace(vertex, name=name, subtasks=(subtask,)),))
    found = _scraped(Cluster([named]), filter_values)
    ((labels, _),) = found["flink_jobmanager_job_numRestarts"]
    assert labels["job_id"] == job.job_id
    if not filter_values:
        assert labels["job_name"] == name.encode("utf-8", "replace").decode()
    assert len(found["flink_taskmanager_job_task_operator_a_b"]) == 1


def test_quotes_and_newlines_in_a_name_are_escaped(job: JobView) -> None:
    cluster = Cluster([replace(job, name='say "hi"\n\\ and\ud800 größer')])
    ((labels, _),) = _scraped(cluster, filter_values=False)["flink_jobmanager_job_numRestarts"]
    assert labels["job_name"] == 'say "hi"\n\\ and? größer'
    ((labels, _),) = _scraped(cluster)["flink_jobmanager_job_numRestarts"]
    assert labels["job_name"] == "say__hi____and__gr__er"


def test_a_subtask_that_is_tried_again_or_moved_is_told_under_its_new_labels_only(job: JobView) -> None:
    cluster, exposition = Cluster([job]), Exposition()
    before = _parsed(exposition.scrape(cluster, TextFormat.PROMETHEUS).decode())
    vertices = tuple(
        replace(vertex, subtasks=tuple(replace(each, attempt=7, host="there") for each in vertex.subtasks))
        for vertex in job.vertices
    )
    cluster.views = [replace(job, vertices=vertices)]
    after = _parsed(exposition.scrape(cluster, TextFormat.PROMETHEUS).decode())
    assert before.keys() == after.keys()
    tasks = after["flink_taskmanager_job_task_numRecordsIn"]
    assert {(labels["task_attempt_num"], labels["host"]) for labels, _ in tasks} == {("7", "there")}
    assert len(tasks) == len(before["flink_taskmanager_job_task_numRecordsIn"])


@pytest.fixture
def own_port(job: JobView) -> Iterator[tuple[Cluster, int]]:
    """A cluster and the port at which its metrics are served."""
    cluster = Cluster([job])
    reporter = PrometheusReporter("prom", cluster, "localhost", [0])
    reporter.start()
    try:
        assert reporter.port is not None
        yield cluster, reporter.port
    finally:
        reporter.stop()


def _get(port: int, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, Message, bytes]:
    asked = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"http://localhost:{port}{path}", headers=asked, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.headers, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_metrics_are_served_at_a_port_of_their_own(own_port: tuple[Cluster, int]) -> None:
    _, port = own_port
    status, headers, body = _get(port)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "flink_jobmanager_job_uptime" in _parsed(body.decode())
    _, _, some = _get(port, "/metrics?name[]=flink_jobmanager_job_uptime&name[]=flink_jobmanager_numRunningJobs")
    assert _parsed(some.decode()).keys() == {"flink_jobmanager_job_uptime", "flink_jobmanager_numRunningJobs"}
    status, headers, body = _get(port, method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000
    assert _get(port, method="POST")[0] == 501


def test_their_own_port_speaks_openmetrics_and_gzip_to_those_who_ask(own_port: tuple[Cluster, int]) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
    _, headers, body = _get(own_port[1], Accept=accept, Accept_Encoding="gzip")
    assert headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert headers["Content-Encoding"] == "gzip"
    text = gzip.decompress(body).decode()
    families = {family.name: family for family in read_openmetrics(text)}
    assert text.endswith("# EOF\n")
    assert families["flink_jobmanager_job_numRestarts"].samples[0].value == 1.0
    assert not any(name.endswith("_total") for name in families)  # Prometheus asks for this format first


def test_a_scrape_that_fails_is_an_error_without_a_trace_and_the_next_one_is_fine(
    own_port: tuple[Cluster, int], caplog: pytest.LogCaptureFixture
) -> None:
    cluster, port = own_port
    cluster.broken = True
    status, _, body = _get(port)
    assert status == 500
    assert b"Traceback" not in body
    assert "A scrape failed: RuntimeError: no answer" in caplog.text
    cluster.broken = False
    assert _get(port)[0] == 200


def test_somebody_who_connects_and_says_nothing_is_in_nobodys_way(own_port: tuple[Cluster, int]) -> None:
    _, port = own_port
    silent = [socket.create_connection(("localhost", port)) for _ in range(20)]
    try:
        assert _get(port)[0] == 200
    finally:
        for each in silent:
            each.close()


def test_a_port_in_use_is_no_misfortune(own_port: tuple[Cluster, int], caplog: pytest.LogCaptureFixture) -> None:
    cluster, port = own_port
    second = PrometheusReporter("prom", cluster, "localhost", [port])
    second.start()
    assert second.port is None
    assert "cannot be opened" in caplog.text
    second.stop()
    third = PrometheusReporter("prom", cluster, "localhost", [port, 0])
    third.start()
    assert third.port is not None
    third.stop()


@pytest.mark.parametrize("text", ["x", "9-8", "70000", "", "1-2-3"])
def test_ports_nobody_has_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="a port, or a range"):
        ports_of(text, "key")


# --- OpenTelemetry ---------------------------------------------------------------------------------------------------


class Taking(MetricExporter):
    """Keeps what it is to send."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[MetricsData] = []

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        self.taken.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        pass

    def last(self) -> dict[str, Any]:
        """The numbers of the last report by their names."""
        (resource,) = self.taken[-1].resource_metrics
        (scope,) = resource.scope_metrics
        return {metric.name: metric.data for metric in scope.metrics}


def test_opentelemetry_gets_the_same_numbers_by_kind(job: JobView) -> None:
    exporter = Taking()
    cluster = Cluster([job])
    reporter = OpenTelemetryMetrics("otel", cluster, 1000, exporter)
    reporter.report()
    found = exporter.last()
    restarts = found["flink.jobmanager.job.numRestarts"]
    assert restarts.is_monotonic
    assert [(point.attributes["job_id"], point.value) for point in restarts.data_points] == [(job.job_id, 1)]
    records = found["flink.taskmanager.job.task.operator.counted"]
    assert not hasattr(records, "is_monotonic")
    assert sum(point.value for point in records.data_points) == 20
    assert len(found) == len({(*sample.scope, sample.metric) for sample in samples_of(cluster)})
    cluster.views = [replace(job, status=JobStatus.CANCELED)]
    reporter.report()
    assert "flink.jobmanager.job.numRestarts" not in exporter.last()
    reporter.release()


def test_a_sum_begins_anew_when_it_has_become_smaller(job: JobView) -> None:
    exporter, clock = Taking(), ManualClock(1_000)
    cluster = Cluster()
    reporter = OpenTelemetryMetrics("otel", cluster, 1000, exporter, clock=clock)
    told = []
    for restarts in (5, 7, 7, 2, 3):
        cluster.views = [replace(job, metrics={"numRestarts": restarts, "uptime": restarts})]
        reporter.report()
        (point,) = exporter.last()["flink.jobmanager.job.numRestarts"].data_points
        told.append((point.value, point.start_time_unix_nano // 1_000_000, point.time_unix_nano // 1_000_000))
        clock.advance(10)
    assert told == [(5, 1_000, 1_000), (7, 1_000, 1_010), (7, 1_000, 1_020), (2, 1_030, 1_030), (3, 1_030, 1_040)]


def test_jobs_may_come_and_go_for_ever(job: JobView) -> None:
    """OpenTelemetry's own instruments know two thousand sets of labels, and no more."""
    exporter, cluster = Taking(), Cluster()
    reporter = OpenTelemetryMetrics("otel", cluster, 1000, exporter)
    for number in range(2_500):
        cluster.views = [replace(job, job_id=f"{number:032x}", metrics={"numRestarts": number}, vertices=())]
        reporter.report()
        del exporter.taken[:-1]
    (point,) = exporter.last()["flink.jobmanager.job.numRestarts"].data_points
    assert point.attributes["job_id"] == f"{2_499:032x}"
    assert len(reporter._starts._told) == 1


def test_users_counters_may_fall_so_they_are_gauges(job: JobView) -> None:
    vertex = job.vertices[1]
    mine = {"counted": 1, "numRestarts": 1, "runningTime": 1, "numRecordsIn": 1}
    named = replace(vertex, subtasks=(replace(vertex.subtasks[0], metrics={"Count": mine}),))
    samples = samples_of(Cluster([replace(job, vertices=(named,))]))
    kinds = {sample.metric: sample.kind for sample in samples if sample.scope[-1] == "operator"}
    assert kinds == {
        "counted": Kind.GAUGE, "numRestarts": Kind.GAUGE, "runningTime": Kind.GAUGE, "numRecordsIn": Kind.COUNTER,
    }  # fmt: skip
    assert next(sample.kind for sample in samples if sample.metric == "numRestarts") is Kind.COUNTER


def _spans(job: JobView, cluster: Cluster | None = None) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    reporter = OpenTelemetryTraces("otel", cluster or Cluster([job]), SimpleSpanProcessor(exporter))
    reporter.report()
    reporter.report()  # nothing is told twice
    return list(exporter.get_finished_spans())


def test_every_epoch_is_a_trace_with_its_phases_and_its_checkpoint(job: JobView) -> None:
    spans = _spans(job)
    roots = [span for span in spans if span.name == "Epoch"]
    assert [dict(span.attributes or {})["epoch"] for span in roots] == [1, 2]
    for root in roots:
        context = root.get_span_context()
        assert context is not None
        assert root.parent is None
        children = [span for span in spans if span.parent is not None and span.parent.span_id == context.span_id]
        assert sorted(span.name for span in children) == ["Ack", "Checkpoint", "Commit", "Plan", "Run", "Schedule"]
        phases = sorted((s for s in children if s.name != "Checkpoint"), key=lambda s: "PSRAC".index(s.name[0]))
        assert phases[0].start_time == root.start_time
        assert abs((phases[-1].end_time or 0) - (root.end_time or 0)) <= 1_000
        assert all(one.end_time == other.start_time for one, other in pairwise(phases))
    assert len({(span.get_span_context() or span).trace_id for span in roots}) == 2  # type: ignore[union-attr]


def test_failed_checkpoints_and_savepoints_are_traces_of_their_own(job: JobView) -> None:
    savepoint = CheckpointView(2, "COMPLETED", 5, acknowledged_ms=9, savepoint_format="NATIVE", path="/sp")
    view = replace(job, checkpoints=replace(job.checkpoints, history=(savepoint, *job.checkpoints.history)))
    spans = [span for span in _spans(view) if span.parent is None and span.name != "Epoch"]
    failed, taken = spans
    assert (failed.name, failed.status.status_code) == ("Checkpoint", StatusCode.ERROR)
    assert (taken.name, dict(taken.attributes or {})["path"]) == ("Savepoint", "/sp")
    assert (taken.start_time, taken.end_time) == (5_000_000, 9_000_000)


def test_jobs_that_ended_before_the_job_manager_began_have_no_traces(job: JobView) -> None:
    ended = replace(job, status=JobStatus.FINISHED, end_ms=100)
    assert _spans(ended, Cluster([ended], started_ms=101)) == []
    assert _spans(ended, Cluster([ended], started_ms=99)) != []


def test_what_is_remembered_about_traces_is_bounded(job: JobView) -> None:
    cluster = Cluster([job])
    reporter = OpenTelemetryTraces("otel", cluster, SimpleSpanProcessor(InMemorySpanExporter()))
    reporter.report()
    cluster.views = [replace(job, job_id="c" * 32, checkpoints=CheckpointsView())]
    reporter.report()
    assert list(reporter._told) == ["c" * 32]


class Refusing(SpanExporter):
    """An exporter whose collector is not there."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise ConnectionError("nobody is there")

    def shutdown(self) -> None:
        raise ConnectionError("nobody is there")


def test_a_reporter_that_fails_says_so_once_and_goes_on(job: JobView, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster([job], broken=True)
    reporter = LogReporter("log", cluster, 10)
    with caplog.at_level(logging.WARNING, "flott.reporters"):
        for _ in range(3):
            reporter.try_report()
    (said,) = caplog.records
    assert said.message == "The reporter log could not report: RuntimeError: no answer"
    cluster.broken = False
    with caplog.at_level(logging.INFO, "flott.metrics"):
        reporter.try_report()
    assert "counting" in caplog.records[-1].message
    traces = OpenTelemetryTraces("otel", cluster, SimpleSpanProcessor(Refusing()))
    traces.try_report()


def test_a_reporter_reports_at_the_end_and_stops(job: JobView) -> None:
    class Counting(PeriodicReporter):
        reports = 0
        released = False

        def report(self) -> None:
            self.reports += 1
            raise OSError

        def release(self) -> None:
            self.released = True
            raise OSError

    reporter = Counting("counting", 3_600_000)
    reporter.start()
    reporter.stop()
    reporter.stop()
    assert (reporter.reports, reporter.released) == (1, True)


def test_the_end_does_not_wait_for_a_reporter_that_hangs(job: JobView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flott.reporters.reporter._PATIENCE_SECONDS", 0.01)
    hangs, go_on = threading.Event(), threading.Event()

    class Hanging(PeriodicReporter):
        def report(self) -> None:
            hangs.set()
            go_on.wait(120)

    reporter = Hanging("hanging", 1)
    reporter.start()
    assert hangs.wait(120)
    reporter.stop()  # comes back, or the test's time is up
    assert reporter._thread.is_alive()
    assert reporter._thread.daemon
    go_on.set()
    reporter._thread.join(120)


# --- the log ---------------------------------------------------------------------------------------------------------


def test_the_log_gets_a_line_for_a_job(job: JobView) -> None:
    text = line(replace(job, name="two\nlines", waiting_for="The only slot is busy."))
    assert text.startswith(f"two?lines ({job.job_id[:8]}) RUNNING · epoch 2 in ")
    assert "1 restarts" in text
    assert "1 records pending" in text
    assert "waits for slots: The only slot is busy." in text
    assert "\n" not in text


# --- the configuration -----------------------------------------------------------------------------------------------


def _made(**settings: str) -> list[Any]:
    configuration = Configuration.of({key.replace("__", "."): value for key, value in settings.items()})
    options.validate(configuration)
    return list(make_reporters(configuration, Cluster()))


def test_nobody_is_told_unless_somebody_asks() -> None:
    assert _made() == []


def test_reporters_are_found_by_their_list_or_by_their_settings() -> None:
    listed = _made(metrics__reporters="prom, log", metrics__reporter__otel__exporter__endpoint="http://x:1")
    assert [type(reporter) for reporter in listed] == [PrometheusReporter, LogReporter]
    found = _made(metrics__reporter__prom__port="9300-9310", metrics__reporter__slf4j__interval="1 s")
    assert [type(reporter) for reporter in found] == [PrometheusReporter, LogReporter]
    assert found[0]._ports == list(range(9300, 9311))
    assert found[1]._interval_s == 1.0


def test_a_reporter_of_any_name_is_what_its_factory_says() -> None:
    (made,) = _made(
        metrics__reporter__mine__factory__class="org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
        metrics__reporter__mine__port="9400",
    )
    assert (made.name, made._ports) == ("mine", [9400])


def test_opentelemetry_takes_metrics_and_traces() -> None:
    metrics, traces = _made(
        metrics__reporters="otel",
        metrics__reporter__otel__exporter__endpoint="http://localhost:4318",
        traces__reporters="otel",
        traces__reporter__otel__exporter__endpoint="http://localhost:4318",
    )
    assert [type(metrics), type(traces)] == [OpenTelemetryMetrics, OpenTelemetryTraces]
    assert Collector("http://localhost:4318").url("v1/traces") == "http://localhost:4318/v1/traces"
    assert Collector("http://h:1/mine").url("v1/traces") == "http://h:1/mine"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"metrics__reporters": "nagios"}, "expected prom, otel or log"),
        ({"metrics__reporters": "otel"}, "Set metrics.reporter.otel.exporter.endpoint"),
        ({"metrics__reporter__prom__prot": "1"}, "did you mean 'metrics.reporter.prom.port'"),
        ({"metrics__reporter__prom__port": "many"}, "a port, or a range"),
        ({"traces__reporters": "prom"}, "by otel only"),
        ({"metrics__reporter__otel__exporter__endpoint": "localhost:4318"}, "expected http://host:port"),
        (
            {
                "metrics__reporter__otel__exporter__endpoint": "http://l:1",
                "metrics__reporter__otel__exporter__protocol": "gRPC",
            },
            "HTTP",
        ),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(settings: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        _made(**settings)


def test_settings_of_flinks_that_mean_nothing_here_are_no_error(caplog: pytest.LogCaptureFixture) -> None:
    _made(metrics__reporter__prom__scope__delimiter="_")
    assert "has no effect" in caplog.text


def test_reporters_do_not_load_libraries_before_they_are_wanted(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, flott.reporters;"
        "print([m for m in ('prometheus_client', 'opentelemetry', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_is_sent_arrives_and_an_absent_collector_is_borne(job: JobView, caplog: pytest.LogCaptureFixture) -> None:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got: dict[str, bytes] = {}

    class Take(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got[self.path] = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("localhost", 0), Take)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    source = job.vertices[0]
    wild = replace(source.subtasks[0], metrics={"Source__numbers": {"huge": 10**400, "large": 2**70, "odd": 1}})
    job = replace(job, vertices=(replace(source, subtasks=(wild,)), *job.vertices[1:]))
    cluster, collector = Cluster([job]), Collector(f"http://localhost:{server.server_port}", 500, "mine", "7")
    reporters = [metrics_reporter("otel", cluster, 3_600_000, collector), traces_reporter("otel", cluster, collector)]
    for reporter in reporters:
        reporter.start()
        reporter.stop()
    server.shutdown()
    server.server_close()
    metrics = ExportMetricsServiceRequest.FromString(got["/v1/metrics"]).resource_metrics[0]
    names = {metric.name for scope in metrics.scope_metrics for metric in scope.metrics}
    assert "flink.jobmanager.job.numRestarts" in names
    operator = "flink.taskmanager.job.task.operator"
    assert {f"{operator}.large", f"{operator}.odd"} <= names
    assert {a.key: a.value.string_value for a in metrics.resource.attributes}["service.name"] == "mine"
    spans = ExportTraceServiceRequest.FromString(got["/v1/traces"]).resource_spans[0].scope_spans[0].spans
    assert {span.name for span in spans} >= {"Epoch", "Run", "Checkpoint"}
    metrics_reporter("otel", cluster, 3_600_000, replace(collector, timeout_ms=50)).try_report()  # nobody is there now
