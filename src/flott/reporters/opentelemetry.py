"""Sends metrics and traces by OpenTelemetry's protocol. JobManager side; its library is imported when it is needed.

A trace is one epoch, with a span for each of its phases and one for its checkpoint:

    Epoch ├── Plan ├── Schedule ├── Run ├── Ack ├── Commit
          └── Checkpoint

Savepoints, and checkpoints that failed, are traces of their own. Spans are made from the views of the jobs, which hold
the last twenty epochs and are looked at twice a second: of a job with more epochs than that some have no trace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flott.errors import ConfigurationError
from flott.metrics._engine_metrics import Kind
from flott.reporters.metric_table import MetricSample, one_each, samples_of
from flott.reporters.reporter import PeriodicReporter
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.gateway import ClusterGateway
from flott.runtime.jobmanager.views.job_view import NEVER, CheckpointView, EpochView, JobView

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Span, SpanProcessor

#: The interval at which views are searched for new spans.
TRACE_INTERVAL_MS = 500
#: The phases after the last report of a task.
_COMPLETION = ("ack", "commit")
#: The phases of an epoch, in order.
PHASES = ("plan", "schedule", "run", *_COMPLETION)
#: The phases of the checkpoint of a pipelined job, in order.
CHECKPOINT_PHASES = ("align", "sync", "files", *_COMPLETION)

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_./-]")


@dataclass(frozen=True)
class Collector:
    """The collector, and the name of the service that sends to it."""

    endpoint: str
    timeout_ms: int = 10_000
    service_name: str = "flott"
    service_version: str | None = None

    def url(self, path: str) -> str:
        """Return the address for a kind of data: the endpoint itself, if it has a path."""
        has_path = re.fullmatch(r"https?://[^/]+/?", self.endpoint) is None
        return self.endpoint if has_path else f"{self.endpoint.rstrip('/')}/{path}"


def metric_name(sample: MetricSample) -> str:
    """Return the name that a sample is sent with."""
    return _NOT_IN_NAMES.sub("_", ".".join(("flink", *sample.scope, sample.metric)))[:255]


# --- metrics ---------------------------------------------------------------------------------------------------------


class SumStarts:
    """The start of each sum. A sum that has become smaller was started again, with the job's process."""

    def __init__(self) -> None:
        self._told: dict[object, tuple[int, int | float]] = {}  #: its start and its last value
        self._telling: dict[object, tuple[int, int | float]] = {}

    def of(self, key: object, value: int | float, now_ns: int) -> int:
        """Return the start of a sum with this value. A new sum starts now."""
        since_ns, before = self._told.get(key, (now_ns, value))
        self._telling[key] = (since_ns if value >= before else now_ns, value)
        return self._telling[key][0]

    def forget_others(self) -> None:
        """Forget sums that were not asked for since the last call."""
        self._told, self._telling = self._telling, {}


class OpenTelemetryMetrics(PeriodicReporter):
    """Sends all metrics at an interval.

    Without OpenTelemetry's instruments: those remember every set of labels they ever saw, of jobs long gone, too, and
    after two thousand they put all that is new together under one.
    """

    def __init__(
        self,
        name: str,
        gateway: ClusterGateway,
        interval_ms: int,
        exporter: MetricExporter,
        resource: Resource | None = None,
        clock: Clock | None = None,
    ):
        from opentelemetry.sdk.resources import Resource

        super().__init__(name, interval_ms)
        self._gateway = gateway
        self._exporter = exporter
        self._resource = resource or Resource.create()
        self._clock = clock or SystemClock()
        self._starts = SumStarts()

    def report(self) -> None:
        from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        families = one_each((metric_name(sample), sample) for sample in samples_of(self._gateway))
        now_ns = _ns(self._clock.now_ms())
        metrics = [self._metric(name, samples, now_ns) for name, samples in families.items()]
        self._starts.forget_others()
        scope = ScopeMetrics(InstrumentationScope("flott"), metrics, "")
        self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))  # logs its own failures

    def release(self) -> None:
        self._exporter.shutdown()

    def _metric(self, name: str, samples: Sequence[MetricSample], now_ns: int) -> Metric:
        from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum

        counts = samples[0].kind is Kind.COUNTER
        points = []
        for sample in samples:
            value = _sendable(sample.value)
            if value is not None:
                since_ns = self._starts.of((name, frozenset(sample.labels.items())), value, now_ns) if counts else 0
                points.append(NumberDataPoint(dict(sample.labels), since_ns, now_ns, value))
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if counts else Gauge(points)
        return Metric(name, samples[0].help, "", data)


def metrics_reporter(
    name: str, gateway: ClusterGateway, interval_ms: int, collector: Collector
) -> OpenTelemetryMetrics:
    """Return a reporter that sends by OTLP over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise _missing() from error
    exporter = OTLPMetricExporter(collector.url("v1/metrics"), timeout=collector.timeout_ms / 1000)
    return OpenTelemetryMetrics(name, gateway, interval_ms, exporter, _resource(collector))


# --- traces ----------------------------------------------------------------------------------------------------------


@dataclass
class _Told:
    """What was sent about one job."""

    epoch: tuple[int, int] = (NEVER, NEVER)  #: when the last one completed, and its number
    checkpoints: set[tuple[object, ...]] = field(default_factory=set)


class OpenTelemetryTraces(PeriodicReporter):
    """Sends a trace for every epoch, savepoint and failed checkpoint that it sees."""

    def __init__(self, name: str, gateway: ClusterGateway, processor: SpanProcessor, resource: Resource | None = None):
        from opentelemetry.sdk.trace import TracerProvider

        super().__init__(name, TRACE_INTERVAL_MS)
        self._gateway = gateway
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("flott")
        self._told: dict[str, _Told] = {}

    def report(self) -> None:
        jobs = self._gateway.jobs()
        known = {job.job_id for job in jobs}
        self._told = {job_id: told for job_id, told in self._told.items() if job_id in known}
        for job in jobs:
            if job.job_id in self._told or not _ended_before(job, self._gateway.started_ms):
                self._tell(job, self._told.setdefault(job.job_id, _Told()))

    def release(self) -> None:
        self._provider.shutdown()

    def _tell(self, job: JobView, told: _Told) -> None:
        ended = {_key(view): view for view in job.checkpoints.history if view.acknowledged_ms != NEVER}
        of_epochs = {view.id: key for key, view in ended.items() if _is_checkpoint(view)}
        for epoch in job.epochs:
            if (epoch.completed_ms, epoch.epoch) > told.epoch:
                told.epoch = (epoch.completed_ms, epoch.epoch)
                key = of_epochs.get(epoch.epoch)
                self._tell_epoch(job, epoch, ended[key] if key is not None else None)
        for key, view in reversed(ended.items()):
            if key not in told.checkpoints and not _is_checkpoint(view):
                self._tell_checkpoint(job, view, None)
        told.checkpoints = set(ended)

    def _tell_epoch(self, job: JobView, epoch: EpochView, checkpoint: CheckpointView | None) -> None:
        phases = CHECKPOINT_PHASES if epoch.pipelined else PHASES
        before = [phase for phase in phases if phase not in _COMPLETION]
        start_ms = epoch.completed_ms - sum(epoch.phases.get(phase, 0.0) for phase in before)
        end_ms = start_ms + sum(epoch.phases.values())
        facts = {
            **_of_job(job), "epoch": epoch.epoch, "attempt": epoch.attempt, "recordsIn": epoch.records_in,
            "recordsOut": epoch.records_out, "watermark": epoch.watermark, "stateBytes": epoch.state_bytes,
            "parallelism": epoch.parallelism, "backlog": epoch.backlog,
        }  # fmt: skip
        root = self._span("Epoch", None, start_ms, facts)
        at_ms = start_ms
        for phase in phases:
            took_ms = epoch.phases.get(phase, 0.0)
            child = self._span(phase.capitalize(), root, at_ms, {"epoch": epoch.epoch})
            at_ms += took_ms
            child.end(_ns(at_ms))
        if checkpoint is not None:
            self._tell_checkpoint(job, checkpoint, root)
        root.end(_ns(end_ms))

    def _tell_checkpoint(self, job: JobView, view: CheckpointView, parent: Span | None) -> None:
        from opentelemetry.trace import Status, StatusCode

        facts = {
            **_of_job(job), "checkpointId": view.id, "checkpointStatus": view.status, "fullSize": view.state_bytes,
            "checkpointedSize": view.written_bytes, "checkpointType": view.savepoint_format or "CHECKPOINT",
        }  # fmt: skip
        if view.path is not None:
            facts["path"] = view.path
        name = "Checkpoint" if view.savepoint_format is None else "Savepoint"
        span = self._span(name, parent, view.triggered_ms, facts)
        if view.status == "FAILED":
            span.set_status(Status(StatusCode.ERROR, (view.failure or "").partition("\n")[0]))
        span.end(_ns(view.acknowledged_ms))

    def _span(self, name: str, parent: Span | None, start_ms: float, facts: Mapping[str, Any]) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import set_span_in_context

        # An empty context, not the current one: a trace is one epoch.
        context = Context() if parent is None else set_span_in_context(parent, Context())
        span: Span = self._tracer.start_span(name, context, start_time=_ns(start_ms), attributes=dict(facts))  # type: ignore[assignment]
        return span


def traces_reporter(name: str, gateway: ClusterGateway, collector: Collector) -> OpenTelemetryTraces:
    """Return a reporter that sends by OTLP over HTTP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise _missing() from error
    exporter = OTLPSpanExporter(collector.url("v1/traces"), timeout=collector.timeout_ms / 1000)
    return OpenTelemetryTraces(name, gateway, BatchSpanProcessor(exporter), _resource(collector))


def _resource(collector: Collector) -> Resource:
    from opentelemetry.sdk.resources import Resource

    version = {"service.version": collector.service_version} if collector.service_version else {}
    return Resource.create({"service.name": collector.service_name, **version})


def _missing() -> ConfigurationError:
    return ConfigurationError("Reports by OpenTelemetry need its library: pip install 'flott[opentelemetry]'.")


def _sendable(value: int | float) -> int | float | None:
    """Return a number of 64 bits, or None if it has more: the exporter would then send nothing at all."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        try:
            return float(value)
        except OverflowError:
            return None
    return value


def _key(view: CheckpointView) -> tuple[object, ...]:
    return (view.id, view.savepoint_format, view.triggered_ms, view.status)


def _is_checkpoint(view: CheckpointView) -> bool:
    """Return whether a checkpoint is a completed epoch, and so part of the epoch's trace."""
    return view.savepoint_format is None and view.status == "COMPLETED"


def _ended_before(job: JobView, time_ms: int) -> bool:
    return job.end_ms != NEVER and job.end_ms < time_ms


def _of_job(job: JobView) -> dict[str, Any]:
    return {"jobId": job.job_id, "jobName": job.name.encode("utf-8", "replace").decode("utf-8")}


def _ns(time_ms: float) -> int:
    return int(time_ms * 1_000_000)
