"""Endpoints of the JobManager itself."""

from __future__ import annotations

from flott.rest import metric_queries
from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.process import own_threads, process_facts, process_metrics
from flott.rest.shapes.cluster.job_manager import JobManagerEnvironment, Profilings, environment, no_profilings
from flott.rest.shapes.cluster.threads import ThreadDump
from flott.rest.shapes.job.job_configuration import ConfigurationEntry, configuration_entries
from flott.rest.shapes.metrics import MetricValue, job_manager_metrics

_TAG = "jobmanager"


def configuration(call: RestCall) -> list[ConfigurationEntry]:
    return configuration_entries(call.gateway.configuration.to_dict())


def surroundings(call: RestCall) -> JobManagerEnvironment:
    return environment(process_facts())


def metrics(call: RestCall) -> list[MetricValue]:
    gateway = call.gateway
    return metric_queries.values(call, job_manager_metrics(gateway.jobs(), gateway.task_managers(), process_metrics()))


def threads(call: RestCall) -> ThreadDump:
    return own_threads()


def profilings(call: RestCall) -> Profilings:
    return no_profilings()


ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobmanager/config",
        configuration,
        list[ConfigurationEntry],
        "The configuration of the JobManager, without secrets",
        tag=_TAG,
        shared=True,
    ),
    Endpoint(
        "GET",
        "/jobmanager/environment",
        surroundings,
        JobManagerEnvironment,
        "The platform of the JobManager",
        tag=_TAG,
        shared=True,
    ),
    Endpoint(
        "GET",
        "/jobmanager/metrics",
        metrics,
        list[MetricValue],
        "Metrics of the JobManager",
        tag=_TAG,
        shared=True,
        query=(metric_queries.NAMES,),
    ),
    Endpoint(
        "GET", "/jobmanager/thread-dump", threads, ThreadDump, "The threads of the JobManager", tag=_TAG, shared=True
    ),
    Endpoint("GET", "/jobmanager/profiler", profilings, Profilings, "Profiles of the JobManager: none", tag=_TAG),
)
