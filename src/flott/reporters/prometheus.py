"""Metrics in Prometheus' text format: at a port of their own, as Flink serves them, and for REST. JobManager side.

All families are gauges, whatever the metric, as those of Flink's reporter are: Prometheus' counters have another name
(``_total``), and dashboards made for Flink would not find them.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flott.errors import ConfigurationError
from flott.reporters.metric_table import MetricSample, one_each, samples_of
from flott.reporters.reporter import Reporter
from flott.runtime.cluster.gateway import ClusterGateway

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

log = logging.getLogger("flott.reporters")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_:]")


def metric_name(sample: MetricSample) -> str:
    """The name of its family."""
    return _NOT_IN_NAMES.sub("_", "_".join(("flink", *sample.scope, sample.metric)))


def families(samples: Iterable[MetricSample], filter_values: bool = True) -> Iterator[Metric]:
    """Samples as Prometheus' client library has them. ``filter_values``: labels, too, hold only word characters."""
    from prometheus_client.core import Metric

    for name, found in one_each((metric_name(sample), sample) for sample in samples).items():
        family = Metric(name, found[0].help, "gauge")
        for sample in found:
            labels = dict(sample.labels)
            if filter_values:
                labels = {key: _NOT_IN_NAMES.sub("_", value) for key, value in labels.items()}
            with suppress(OverflowError):  # a whole number of a user's that no float can hold
                family.add_sample(name, labels, float(sample.value))
        yield family


class JobsCollector:
    """Asks the JobManager whenever somebody scrapes."""

    def __init__(self, gateway: ClusterGateway, filter_values: bool = True):
        self._gateway = gateway
        self._filter_values = filter_values

    def collect(self) -> Iterator[Metric]:
        """What Prometheus' client library calls."""
        return families(samples_of(self._gateway), self._filter_values)


def registry_of(gateway: ClusterGateway, filter_values: bool = True) -> CollectorRegistry:
    """A registry with all metrics of a JobManager in it, and nothing else."""
    try:
        from prometheus_client.registry import CollectorRegistry
    except ImportError as error:
        raise ConfigurationError(
            "Metrics for Prometheus need its client library: pip install 'flott[cluster]'."
        ) from error
    registry = CollectorRegistry()
    registry.register(JobsCollector(gateway, filter_values))
    return registry


def exposition(gateway: ClusterGateway) -> tuple[bytes, str]:
    """The metrics as text, and its content type: what REST serves at /metrics."""
    return text_of(samples_of(gateway)).encode(), CONTENT_TYPE


def text_of(samples: Iterable[MetricSample]) -> str:
    """Samples in Prometheus' text format, the values of labels filtered.

    The client library looks at every label of every sample anew, which takes it five times as long: all samples of a
    subtask have the same labels.
    """
    names: dict[tuple[tuple[str, ...], str], str] = {}
    labels: dict[int, str] = {}
    held = []  #: so that no two mappings have the same identity
    lines: dict[str, list[str]] = {}
    seen: set[tuple[str, str]] = set()
    for sample in samples:
        name = names.get((sample.scope, sample.metric))
        if name is None:
            name = names[sample.scope, sample.metric] = metric_name(sample)
        text = labels.get(id(sample.labels))
        if text is None:
            held.append(sample.labels)
            text = labels[id(sample.labels)] = _label_text(sample.labels)
        if (name, text) in seen:
            continue  # two names have become the same: the first is told
        seen.add((name, text))
        family = lines.get(name)
        if family is None:
            told = sample.help.replace("\\", "\\\\").replace("\n", "\\n")
            family = lines[name] = [f"# HELP {name} {told}", f"# TYPE {name} gauge"]
        with suppress(OverflowError):  # a whole number of a user's that no float can hold
            family.append(f"{name}{text} {_number_text(float(sample.value))}")
    return "".join(f"{line}\n" for family in lines.values() for line in family)


def _label_text(labels: Mapping[str, str]) -> str:
    found = ",".join(f'{key}="{_NOT_IN_NAMES.sub("_", value)}"' for key, value in sorted(labels.items()))
    return f"{{{found}}}" if found else ""


def _number_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


class PrometheusReporter(Reporter):
    """Serves the metrics at the first port of some that is free."""

    def __init__(self, name: str, gateway: ClusterGateway, host: str, ports: Sequence[int], filter_values: bool = True):
        self.name = name
        self._host = host
        self._ports = ports
        self._registry = registry_of(gateway, filter_values)
        self._server: Any = None
        self.port: int | None = None  #: where it is served

    def start(self) -> None:
        from prometheus_client import start_http_server

        for port in self._ports:
            try:
                self._server, _ = start_http_server(port, self._host, self._registry)
            except OSError as error:
                log.debug("Port %d for metrics: %s", port, error)
                continue
            self.port = int(self._server.server_port)
            log.info("Metrics for Prometheus: http://%s:%d/metrics", self._host, self.port)
            return
        shown = f"{self._ports[0]}-{self._ports[-1]}" if len(self._ports) > 1 else str(self._ports[0])
        log.error(
            "No metrics for Prometheus: port %s of %s is not free. Set metrics.reporter.%s.port to another one, or to"
            " a range: 9250-9260.", shown, self._host, self.name,
        )  # fmt: skip

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


def ports_of(text: str, key: str) -> list[int]:
    """The ports that ``9249`` or ``9250-9260`` stands for."""
    found = re.fullmatch(r"\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*", text)
    if found is None or int(found[2] or found[1]) > 65535 or int(found[2] or found[1]) < int(found[1]):
        raise ConfigurationError(f"Option {key}: found {text!r}, expected a port, or a range such as 9250-9260.")
    return list(range(int(found[1]), int(found[2] or found[1]) + 1))
