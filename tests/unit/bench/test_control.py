"""The benchmark of the control plane: everything is asked that can be, and a small session is measured in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import control, plan, process_tree, readme, report
from bench.control import Answer
from bench.runners import command, flott_control, limit_control
from flott.rest.app import all_endpoints
from flott.rest.openapi import document

ENDPOINTS = control.endpoints(document(all_endpoints()))


def request(scratch: Path, **settings: str) -> command.Request:
    return command.Request(
        workload="control", records=0, seconds=0.0, repeats=1, cores=2, variant="", settings=settings, shrink=100,
        scratch=scratch,
    )  # fmt: skip


# --- questions -------------------------------------------------------------------------------------------------------


def test_nothing_is_asked_that_does_something() -> None:
    asked = {endpoint.path for endpoint in all_endpoints() if endpoint.method == "GET"}
    orders = {endpoint.path for endpoint in all_endpoints() if endpoint.method == "GET" and endpoint.is_order}
    assert len(ENDPOINTS) == len(asked) - len(orders)
    assert not {path.replace("{", ":").replace("}", "") for path in ENDPOINTS} & orders


def test_an_endpoint_is_asked_about_one_job_after_the_other_and_not_at_all_if_there_is_nothing_to_ask_about() -> None:
    places = [{"jobid": str(n)} for n in range(20)]
    found = control.questions(["/overview", "/jobs/{jobid}", "/jobs/{jobid}/x/{triggerid}"], places, {})
    assert [question.path for question in found if question.endpoint == "/jobs/{jobid}"] == [
        f"/jobs/{n}" for n in (0, 4, 8, 12, 16)
    ]
    assert {question.endpoint for question in found} == {"/overview", "/jobs/{jobid}"}
    own = {"/jobs/{jobid}/x/{triggerid}": [{"jobid": "7", "triggerid": "t"}]}
    assert [question.path for question in control.questions([*own], places, own)] == ["/jobs/7/x/t"] * 5


def test_percentiles_are_times_that_were_measured() -> None:
    answers = [Answer("/overview", float(n), 200) for n in range(100, 0, -1)]
    assert control.percentiles(answers) == {"p50": 50.0, "p95": 95.0, "p99": 99.0, "requests": 100}
    assert control.percentiles([]) == {}


def test_the_processes_of_a_session_are_found_and_what_they_take() -> None:
    whole = [process_tree.Process(1, 0, "jm", 2**20, 5.0), process_tree.Process(2, 1, "job", 2**21, 1.0)]
    later = [process_tree.Process(1, 0, "jm", 2**20, 6.0), process_tree.Process(3, 1, "new", 2**20, 0.5)]
    assert process_tree.megabytes(whole) == 3.0
    assert process_tree.cpu_share(whole, later, 10.0) == 0.15


# --- the runners -----------------------------------------------------------------------------------------------------


def test_a_small_session_is_asked_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.asking.PAUSE_SECONDS", 0.0005)
    monkeypatch.setattr(control, "jobs", lambda shrink: 2)
    monkeypatch.setitem(flott_control.JOB_SETTINGS, "flott.epoch.min-interval", "30 s")  # the last ten are remembered
    monkeypatch.setattr(flott_control, "SETTLED_EPOCHS", 1)
    settings = {"execution.target": "in-process", "flott.storage.sync": "false"}
    found: dict[str, Any] = flott_control.measure(request(tmp_path, **settings))
    assert found["unanswered"] == {}
    assert set(found["endpoints"]) == set(ENDPOINTS)
    assert found["overall"]["requests"] == len(ENDPOINTS) * control.TIMES_A_PASS
    assert len(found["savepoint_milliseconds"]) == 2
    assert found["memory_megabytes"]["a_job_process"] > 10
    assert 0 < found["bare_beside"]["p50"] <= found["bare_beside"]["p99"]


# --- the plan and the report -----------------------------------------------------------------------------------------

TIMES = {"p50": 2.0, "p95": 5.0, "p99": 20.0, "requests": 10}
FLOTT: dict[str, Any] = {
    "workload": "control", "runner": "flott", "milliseconds": [20.0], "jobs": 20, "flinks": TIMES, "overall": TIMES,
    "endpoints": {"/overview": TIMES, "/metrics": {**TIMES, "p99": 60.0}}, "empty": TIMES, "bare_beside": TIMES,
    "empty_cpu": {"all": 0.012}, "cpu": {"all": 0.6}, "running_seconds": {"at_once": 9.0},
    "savepoint_milliseconds": [30.0, 40.0, 50.0],
    "memory_megabytes": {"with_jobs": 101.0, "after_requests": 103.0, "a_job_process": 80.0, "a_job_workers": 110.0},
}  # fmt: skip
FLINK = {"workload": "control", "runner": "flink-session", "milliseconds": [40.0], "flinks": {**TIMES, "p99": 40.0}}
LIMIT = {"workload": "control", "runner": "limit", "missing": "no port"}


def test_each_runner_of_the_workload_is_measured_with_a_module_of_its_own() -> None:
    chosen = plan.measurements(["control"], list(plan.RUNNERS))
    assert [runner for _, runner in chosen] == ["limit", "flott", "flink-session"]
    modules = [plan.CATALOGUE[runner].module_for("control") for _, runner in chosen]
    assert modules == [limit_control.__name__.rpartition(".")[2], "flott_control", "flink_control"]


def test_the_readme_compares_the_control_plane_and_tells_what_is_slower_than_asked() -> None:
    results = [FLOTT, FLINK, LIMIT]
    machine = dict.fromkeys(("cores", "python", "spark", "java", "flink", "date"), "x")
    text = readme.block({"machine": machine, "results": results})
    assert "| GET, 99th percentile | 20 ms | 40 ms | missing |" in text
    assert "| savepoint through REST | 40 ms |  | missing |" in text
    assert "all but 1 have a 99th percentile of at most 50 ms; the slowest is `/metrics` with 60 ms" in text
    assert report.ratios(results)["control"] == {"flott/limit": None, "flott/flink-session": 0.5}
