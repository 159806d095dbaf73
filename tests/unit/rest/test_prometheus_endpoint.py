"""Prometheus scrapes the JobManager itself."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.unit.rest.fake_cluster import RUNNING, FakeCluster


def test_a_scrape_finds_the_metrics_of_all_jobs(client: TestClient) -> None:
    answer = client.get("/metrics", headers={"accept": "text/plain;version=0.0.4"})
    assert answer.status_code == 200
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert "flink_taskmanager_job_task_numRecordsIn" in families
    assert any(sample.labels.get("job_name") for family in families.values() for sample in family.samples)
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_scrape_that_asks_for_openmetrics_gets_it(client: TestClient) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
    answer = client.get("/v1/metrics", headers={"accept": accept})
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    plain = client.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in read_openmetrics(answer.text)}
    assert names == {family.name for family in text_string_to_metric_families(plain.text)}
    assert answer.text.endswith("# EOF\n")
    assert "# EOF" not in plain.text


def test_a_job_that_is_gone_is_gone_from_the_next_scrape(client: TestClient, cluster: FakeCluster) -> None:
    assert RUNNING in client.get("/metrics").text
    del cluster.known[RUNNING]
    assert RUNNING not in client.get("/metrics").text
