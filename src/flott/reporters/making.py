"""Makes reporters from the configuration. JobManager side.

A reporter has a name, which is a part of the keys of its settings: ``metrics.reporter.<name>.port``. What it is follows
from ``factory.class``, as in Flink, or from the name itself.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from flott.common import _cluster_options as options
from flott.common.config_options import ConfigOption
from flott.common.configuration import Configuration
from flott.errors import ConfigurationError
from flott.reporters.log_reporter import LogReporter
from flott.reporters.opentelemetry import Collector, metrics_reporter, traces_reporter
from flott.reporters.prometheus import PrometheusReporter, ports_of
from flott.reporters.reporter import Reporter
from flott.runtime.jobmanager.gateway import ClusterGateway

log = logging.getLogger("flott.reporters")

T = TypeVar("T")

#: The kind of a reporter, by its name and by its class in Flink.
_KINDS = {
    "prom": "prometheus", "prometheus": "prometheus", "PrometheusReporterFactory": "prometheus",
    "otel": "opentelemetry", "opentelemetry": "opentelemetry",
    "OpenTelemetryMetricReporterFactory": "opentelemetry", "OpenTelemetryTraceReporterFactory": "opentelemetry",
    "log": "log", "slf4j": "log", "Slf4jReporterFactory": "log",
}  # fmt: skip

_OPENTELEMETRY = {"exporter.endpoint", "exporter.protocol", "exporter.timeout", "service.name", "service.version"}
#: The settings of each kind.
_SETTINGS = {
    "prometheus": {"port", "host", "filterLabelValueCharacters"},
    "opentelemetry": {"interval"} | _OPENTELEMETRY,
    "log": {"interval"},
}
#: Settings of all reporters in Flink that have no effect in Flott.
_WITHOUT_EFFECT = ("scope.", "filter.", "class")


def make_reporters(configuration: Configuration, gateway: ClusterGateway) -> list[Reporter]:
    """Return the configured reporters. Raises for settings that are wrong."""
    metrics = _names(configuration, "metrics", options.METRIC_REPORTERS)
    traces = _names(configuration, "traces", options.TRACE_REPORTERS)
    return [
        *(_metrics(configuration, gateway, name) for name in metrics),
        *(_traces(configuration, gateway, name) for name in traces),
    ]


def _names(configuration: Configuration, group: str, option: ConfigOption[str | None]) -> list[str]:
    """Return the names of the listed reporters or, as in Flink, of all that have a setting."""
    listed = configuration.get(option)
    if listed is not None:
        return [name.strip() for name in listed.strip("[] ").replace(";", ",").split(",") if name.strip()]
    prefix = f"{group}.reporter."
    found = (key.removeprefix(prefix).split(".")[0] for key in configuration.to_dict() if key.startswith(prefix))
    return list(dict.fromkeys(found))


def _metrics(configuration: Configuration, gateway: ClusterGateway, name: str) -> Reporter:
    settings = _Settings(configuration, "metrics", name)
    match settings.kind:
        case "prometheus":
            ports = ports_of(settings.read(options.PROMETHEUS_PORT), settings.key("port"))
            return PrometheusReporter(
                name, gateway, settings.read(options.PROMETHEUS_HOST), ports,
                settings.read(options.PROMETHEUS_FILTER_LABELS),
            )  # fmt: skip
        case "opentelemetry":
            return metrics_reporter(name, gateway, settings.read(options.OTEL_INTERVAL), settings.collector())
    return LogReporter(name, gateway, settings.read(options.LOG_REPORTER_INTERVAL))


def _traces(configuration: Configuration, gateway: ClusterGateway, name: str) -> Reporter:
    settings = _Settings(configuration, "traces", name)
    if settings.kind != "opentelemetry":
        raise ConfigurationError(f"Option traces.reporters: found {name!r}; traces are reported by otel only.")
    return traces_reporter(name, gateway, settings.collector())


class _Settings:
    """The settings of one reporter."""

    def __init__(self, configuration: Configuration, group: str, name: str):
        self._configuration = configuration
        self._prefix = f"{group}.reporter.{name}."
        factory = configuration.get_string(self.key("factory.class"), "").rpartition(".")[2]
        kind = _KINDS.get(factory) if factory else _KINDS.get(name)
        if kind is None:
            found = f"{self.key('factory.class')} is {factory!r}" if factory else f"{name!r}"
            raise ConfigurationError(
                f"Option {group}.reporters: found {found}, expected prom, otel or log. A reporter of another name needs"
                f" {self.key('factory.class')}: PrometheusReporterFactory, OpenTelemetryMetricReporterFactory or"
                " Slf4jReporterFactory."
            )
        self.kind = kind
        self._check(_SETTINGS[kind])

    def key(self, setting: str) -> str:
        """Return the complete key of a setting."""
        return self._prefix + setting

    def read(self, option: ConfigOption[T]) -> T:
        """Read an option for this reporter. It is declared under the usual name of such reporters."""
        setting = ".".join(option.key.split(".")[3:])
        return self._configuration.get(replace(option, key=self.key(setting)))

    def collector(self) -> Collector:
        """Return the collector that OpenTelemetry data is sent to."""
        endpoint = self.read(options.OTEL_ENDPOINT)
        if not endpoint:
            raise ConfigurationError(
                f"Set {self.key('exporter.endpoint')} to where the OpenTelemetry collector takes OTLP over HTTP, for"
                " example http://localhost:4318."
            )
        if not endpoint.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"Option {self.key('exporter.endpoint')}: found {endpoint!r}, expected http://host:port."
            )
        self.read(options.OTEL_PROTOCOL)  # raises for another protocol
        return Collector(
            endpoint,
            self.read(options.OTEL_TIMEOUT),
            self.read(options.OTEL_SERVICE_NAME),
            self.read(options.OTEL_SERVICE_VERSION),
        )

    def _check(self, known: Iterable[str]) -> None:
        for key in self._configuration.to_dict():
            setting = key.removeprefix(self._prefix)
            if not key.startswith(self._prefix) or setting in known or setting == "factory.class":
                continue
            if setting.startswith(_WITHOUT_EFFECT):
                log.warning("The option %s has no effect in Flott.", key)
                continue
            near = difflib.get_close_matches(setting, list(known), n=1)
            hint = f"did you mean {self.key(near[0])!r}?" if near else f"expected one of {', '.join(sorted(known))}."
            raise ConfigurationError(f"Unknown option {key!r}: {hint}")
