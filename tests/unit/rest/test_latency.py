"""The latency of a job, where Flink's clients look for it."""

from __future__ import annotations

from dataclasses import replace

from starlette.testclient import TestClient

from flott.runtime.jobmanager.views.job_view import LatencyView
from tests.unit.rest.fake_cluster import RUNNING, SOURCE, WINDOW, FakeCluster

NAME = f"latency.source_id.{SOURCE}.operator_id.{WINDOW}.operator_subtask_index.1.latency"


def measure(cluster: FakeCluster) -> None:
    latency = LatencyView(WINDOW, 1, SOURCE, None, 300, 2, 90, 12.5, 3.5, {"0.5": 11.0, "0.99": 88.0})
    cluster.known[RUNNING] = replace(cluster.known[RUNNING], latencies=(latency,))


def test_the_metrics_of_a_job_list_its_latencies(client: TestClient, cluster: FakeCluster) -> None:
    def listed() -> set[str]:
        return {one["id"] for one in client.get(f"/jobs/{RUNNING}/metrics").json() if "latency" in one["id"]}

    assert listed() == set()
    measure(cluster)
    parts = ("count", "min", "max", "mean", "stddev", "median", "p99")
    assert listed() == {f"{NAME}_{part}" for part in parts}


def test_a_query_by_name_answers_the_number(client: TestClient, cluster: FakeCluster) -> None:
    measure(cluster)
    answer = client.get(f"/jobs/{RUNNING}/metrics?get={NAME}_p99,{NAME}_count").json()
    assert answer == [{"id": f"{NAME}_p99", "value": "88.0"}, {"id": f"{NAME}_count", "value": "300"}]
    [both] = client.get(f"/jobs/metrics?get={NAME}_max&agg=max").json()
    assert both == {"id": f"{NAME}_max", "max": 90.0}
