"""Endpoints of applications. Each job is an application."""

from __future__ import annotations

from flott.rest.endpoint import Endpoint, Query, RestCall
from flott.rest.shapes.job.applications import (
    ApplicationDetail,
    ApplicationExceptions,
    ApplicationsOverview,
    application_detail,
    application_exceptions,
    applications_overview,
)
from flott.rest.shapes.job.job_configuration import ConfigurationEntry, configuration_entries
from flott.runtime.jobmanager.views.job_view import JobView

_TAG = "applications"


def overview(call: RestCall) -> ApplicationsOverview:
    return applications_overview(call.gateway.jobs(), call.operations.clock.now_ms())


def detail(call: RestCall) -> ApplicationDetail:
    return application_detail(_job(call), call.operations.clock.now_ms())


def exceptions(call: RestCall) -> ApplicationExceptions:
    return application_exceptions(_job(call), call.query["maxExceptions"])


def configuration(call: RestCall) -> list[ConfigurationEntry]:
    return configuration_entries(_job(call).configuration)


def _job(call: RestCall) -> JobView:
    return call.gateway.job(call.path["applicationid"])


ENDPOINTS = (
    Endpoint("GET", "/applications/overview", overview, ApplicationsOverview, "All applications", tag=_TAG),
    Endpoint("GET", "/applications/:applicationid", detail, ApplicationDetail, "An application", tag=_TAG),
    Endpoint(
        "GET",
        "/applications/:applicationid/exceptions",
        exceptions,
        ApplicationExceptions,
        "Why an application failed",
        tag=_TAG,
        query=(Query("maxExceptions", int, 20, "how many at most", minimum=0),),
    ),
    Endpoint(
        "GET",
        "/applications/:applicationid/jobmanager/config",
        configuration,
        list[ConfigurationEntry],
        "The configuration of an application",
        tag=_TAG,
    ),
)
