"""Endpoints of the cluster as a whole."""

from __future__ import annotations

import time

from flott.rest.endpoint import Endpoint, RestCall
from flott.rest.shapes.cluster.overview import (
    ClusterOverview,
    DashboardConfiguration,
    cluster_overview,
    dashboard_configuration,
)


def config(call: RestCall) -> DashboardConfiguration:
    here = time.localtime(call.operations.clock.now_ms() / 1000)
    return dashboard_configuration(call.gateway.configuration, here.tm_zone, here.tm_gmtoff * 1000)


def overview(call: RestCall) -> ClusterOverview:
    return cluster_overview(call.gateway.jobs(), call.gateway.task_managers())


ENDPOINTS = (
    Endpoint("GET", "/config", config, DashboardConfiguration, "The configuration of the dashboard", tag="cluster"),
    Endpoint("GET", "/overview", overview, ClusterOverview, "The cluster in numbers", tag="cluster"),
)
