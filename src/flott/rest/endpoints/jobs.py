"""Endpoints of the jobs of a JobManager."""

from __future__ import annotations

from flott.rest import metric_queries
from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.process import process_facts
from flott.rest.shapes.cluster.job_manager import JobManagerEnvironment, environment
from flott.rest.shapes.job.accumulators import JobAccumulators, job_accumulators
from flott.rest.shapes.job.epochs import JobEpochs, job_epochs
from flott.rest.shapes.job.exceptions import JobExceptions, job_exceptions
from flott.rest.shapes.job.execution_result import ExecutionResult, execution_result
from flott.rest.shapes.job.job_configuration import (
    ConfigurationEntry,
    JobConfiguration,
    configuration_entries,
    job_configuration,
)
from flott.rest.shapes.job.job_detail import JobDetail, job_detail
from flott.rest.shapes.job.jobs import (
    JobIdsWithStatus,
    JobsOverview,
    JobStatusReply,
    job_ids,
    job_status,
    jobs_overview,
)
from flott.rest.shapes.job.plan import JobPlanReply, job_plan_reply
from flott.rest.shapes.metrics import AggregatedMetric, MetricValue, job_metrics

_TAG = "jobs"
_EXCEPTIONS = Query("maxExceptions", int, 20, "how many at most", minimum=0)


def ids(call: RestCall) -> JobIdsWithStatus:
    return job_ids(call.gateway.jobs())


def overview(call: RestCall) -> JobsOverview:
    return jobs_overview(call.gateway.jobs(), call.operations.clock.now_ms())


def metrics_of_jobs(call: RestCall) -> list[AggregatedMetric]:
    now_ms = call.operations.clock.now_ms()
    jobs = {job.job_id: job for job in call.gateway.jobs()}
    chosen = metric_queries.chosen_ids(call, "jobs", list(jobs))
    return metric_queries.aggregated(call, [job_metrics(jobs[ident], now_ms) for ident in chosen])


def detail(call: RestCall) -> JobDetail:
    return job_detail(call.job(), call.operations.clock.now_ms())


def status(call: RestCall) -> JobStatusReply:
    return job_status(call.job())


def result(call: RestCall) -> ExecutionResult:
    job = call.job()
    return execution_result(job, call.gateway.result(job.job_id))


def plan(call: RestCall) -> JobPlanReply:
    return job_plan_reply(call.job())


def configuration(call: RestCall) -> JobConfiguration:
    return job_configuration(call.job())


def exceptions(call: RestCall) -> JobExceptions:
    return job_exceptions(call.job(), call.query["maxExceptions"])


def accumulators(call: RestCall) -> JobAccumulators:
    return job_accumulators(call.job())


def metrics(call: RestCall) -> list[MetricValue]:
    return metric_queries.values(call, job_metrics(call.job(), call.operations.clock.now_ms()))


def epochs(call: RestCall) -> JobEpochs:
    return job_epochs(call.job())


def all_settings(call: RestCall) -> list[ConfigurationEntry]:
    return configuration_entries(call.job().configuration)


def surroundings(call: RestCall) -> JobManagerEnvironment:
    call.job()
    return environment(process_facts())


ENDPOINTS = (
    Endpoint("GET", "/jobs", ids, JobIdsWithStatus, "The ids of all jobs, and their status", tag=_TAG),
    Endpoint("GET", "/jobs/overview", overview, JobsOverview, "An overview of all jobs", tag=_TAG),
    Endpoint(
        "GET",
        "/jobs/metrics",
        metrics_of_jobs,
        list[AggregatedMetric],
        "Metrics of several jobs together",
        tag=_TAG,
        query=(
            metric_queries.NAMES,
            metric_queries.AGGREGATION,
            Query("jobs", list, meaning="ids of jobs, separated by commas; without it, all"),
        ),
    ),
    Endpoint("GET", "/jobs/:jobid", detail, JobDetail, "A job with its vertices and plan", tag=_TAG),
    Endpoint("GET", "/jobs/:jobid/status", status, JobStatusReply, "The status of a job", tag=_TAG),
    Endpoint("GET", "/jobs/:jobid/execution-result", result, ExecutionResult, "The result of a job", tag=_TAG),
    Endpoint("GET", "/jobs/:jobid/plan", plan, JobPlanReply, "The graph of a job", tag=_TAG),
    Endpoint("GET", "/jobs/:jobid/config", configuration, JobConfiguration, "The settings of a job", tag=_TAG),
    Endpoint(
        "GET", "/jobs/:jobid/exceptions", exceptions, JobExceptions, "Why a job failed", tag=_TAG, query=(_EXCEPTIONS,)
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/accumulators",
        accumulators,
        JobAccumulators,
        "The accumulators of a job",
        tag=_TAG,
        query=(Query("includeSerializedValue", bool, False, "accepted without effect; there is no Java form"),),
        shared=True,
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/metrics",
        metrics,
        list[MetricValue],
        "Metrics of a job",
        tag=_TAG,
        query=(metric_queries.NAMES,),
    ),
    Endpoint("GET", "/jobs/:jobid/flott/epochs", epochs, JobEpochs, "The last epochs of a job", tag=_TAG),
    Endpoint(
        "GET",
        "/jobs/:jobid/jobmanager/config",
        all_settings,
        list[ConfigurationEntry],
        "The configuration of a job",
        tag=_TAG,
    ),
    Endpoint(
        "GET",
        "/jobs/:jobid/jobmanager/environment",
        surroundings,
        JobManagerEnvironment,
        "The platform of the JobManager",
        tag=_TAG,
    ),
)
