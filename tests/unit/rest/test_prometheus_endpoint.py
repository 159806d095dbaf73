"""Prometheus scrapes the JobManager itself."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient


def test_a_scrape_finds_the_metrics_of_all_jobs(client: TestClient) -> None:
    answer = client.get("/metrics", headers={"accept": "text/plain;version=0.0.4"})
    assert answer.status_code == 200
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert "flink_taskmanager_job_task_numRecordsIn" in families
    assert any(sample.labels.get("job_name") for family in families.values() for sample in family.samples)
    assert answer.headers["content-type"].startswith("text/plain")
