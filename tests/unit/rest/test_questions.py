"""Questions over HTTP: what their parameters choose, and what is answered if there is nothing of the kind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from flott.rest.app import all_endpoints
from flott.rest.endpoint import Endpoint
from tests.unit.rest.fake_cluster import FAILED, RUNNING, TASK_MANAGER, UNKNOWN, WINDOW, FakeCluster

VERTEX = f"/jobs/{RUNNING}/vertices/{WINDOW}"
EXAMPLES = {
    ":jobid": RUNNING,
    ":applicationid": RUNNING,
    ":vertexid": WINDOW,
    ":checkpointid": "7",
    ":subtaskindex": "1",
    ":attempt": "0",
    ":taskmanagerid": TASK_MANAGER,
}
#: Modules whose GETs are questions only.
QUESTIONS = ("applications", "checkpoints", "cluster", "job_manager", "jobs", "live", "task_managers", "vertices")


def questions() -> list[Endpoint]:
    modules = {f"flott.rest.endpoints.{name}" for name in QUESTIONS}
    return [one for one in all_endpoints() if one.method == "GET" and one.handler.__module__ in modules]


@pytest.mark.parametrize("endpoint", questions(), ids=lambda one: one.path)
def test_every_question_is_answered_in_its_declared_form(endpoint: Endpoint, client: TestClient) -> None:
    path = endpoint.path
    for parameter, value in EXAMPLES.items():
        path = path.replace(parameter, value)
    reply = client.get(path)
    assert reply.status_code == 200, reply.text
    TypeAdapter(endpoint.reply).validate_python(reply.json(), strict=True)


@pytest.mark.parametrize(
    "path",
    [
        f"/jobs/{UNKNOWN}",
        f"/jobs/{UNKNOWN}/plan",
        f"/jobs/{UNKNOWN}/jobmanager/environment",
        f"/applications/{UNKNOWN}",
        f"/jobs/{RUNNING}/vertices/{UNKNOWN}",
        f"/jobs/{RUNNING}/vertices/{UNKNOWN}/flamegraph",
        f"/jobs/{RUNNING}/checkpoints/details/99999",
        f"/jobs/{RUNNING}/checkpoints/details/7/subtasks/{UNKNOWN}",
        f"{VERTEX}/subtasks/2",
        f"{VERTEX}/subtasks/0/attempts/5",
        "/taskmanagers/metrics?taskmanagers=nosuch&get=x",
        f"/jobs/metrics?jobs={UNKNOWN}&get=x",
        f"/jobs/{RUNNING}/rescales/overview",
        "/datasets",
    ],
)
def test_what_does_not_exist_is_not_found(path: str, client: TestClient) -> None:
    reply = client.get(path)
    assert reply.status_code == 404
    assert list(reply.json()) == ["errors"]


@pytest.mark.parametrize(
    "path",
    [
        f"{VERTEX}/subtasks/metrics?get=numRecordsIn&agg=median",
        f"{VERTEX}/subtasks/metrics?get=numRecordsIn&subtasks=one",
        f"{VERTEX}/flamegraph?type=cold",
        f"/jobs/{RUNNING}/exceptions?maxExceptions=-1",
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused(path: str, client: TestClient) -> None:
    reply = client.get(path)
    assert reply.status_code == 400
    assert list(reply.json()) == ["errors"]


def test_metrics_of_chosen_subtasks_are_aggregated_as_asked(client: TestClient) -> None:
    path = f"{VERTEX}/subtasks/metrics?get=numRecordsIn"
    assert client.get(f"{path}&agg=min,MAX").json() == [{"id": "numRecordsIn", "min": 100.0, "max": 101.0}]
    assert client.get(f"{path}&agg=sum&subtasks=1").json() == [{"id": "numRecordsIn", "sum": 101.0}]
    assert client.get(f"{path}&agg=sum&subtasks=0-1").json() == [{"id": "numRecordsIn", "sum": 201.0}]
    assert {"id": "numRecordsIn"} in client.get(f"{VERTEX}/subtasks/metrics").json()


def test_only_metrics_that_exist_are_answered(client: TestClient) -> None:
    reply = client.get(f"/jobs/{RUNNING}/metrics?get=numRestarts,nosuch,uptime")
    assert reply.json() == [{"id": "numRestarts", "value": "1"}, {"id": "uptime", "value": "60000"}]
    heap = client.get(f"/taskmanagers/{TASK_MANAGER}/metrics?get=Status.JVM.Memory.Heap.Max")
    assert heap.json() == [{"id": "Status.JVM.Memory.Heap.Max", "value": str(1 << 30)}]


def test_metrics_of_all_jobs_and_task_managers_are_aggregated(client: TestClient, cluster: FakeCluster) -> None:
    cluster.executors.append(replace(cluster.executors[0], id="1", metrics={"Status.JVM.Memory.Heap.Used": 0}))
    [used] = client.get("/taskmanagers/metrics?get=Status.JVM.Memory.Heap.Used&agg=avg").json()
    assert used == {"id": "Status.JVM.Memory.Heap.Used", "avg": float(1 << 28)}
    [restarts] = client.get(f"/jobs/metrics?get=numRestarts&agg=sum&jobs={RUNNING},{FAILED}").json()
    assert restarts == {"id": "numRestarts", "sum": 2.0}


def test_as_many_failures_are_shown_as_asked_for(client: TestClient) -> None:
    history = client.get(f"/jobs/{FAILED}/exceptions?maxExceptions=0").json()["exceptionHistory"]
    assert history == {"entries": [], "truncated": True}


def test_no_reply_shows_the_token(client: TestClient) -> None:
    for path in (f"/jobs/{RUNNING}/jobmanager/config", f"/applications/{RUNNING}/jobmanager/config"):
        assert {"key": "flott.rest.token", "value": "******"} in client.get(path).json()


def test_the_subtasks_of_an_executor_are_those_that_ran_there(client: TestClient, cluster: FakeCluster) -> None:
    subtasks = client.get(f"/taskmanagers/{TASK_MANAGER}/flott/subtasks").json()["subtasks"]
    running = {job.job_id for job in cluster.jobs() if not job.status.is_terminal_state()}
    assert {one["job"] for one in subtasks} == running
    windows = [(one["subtask"], one["worker"]) for one in subtasks if one["vertex"] == WINDOW]
    assert windows[:2] == [(0, 4000), (1, 4001)]
    cluster.executors = [replace(cluster.executors[0], id="elsewhere")]
    assert client.get("/taskmanagers/elsewhere/flott/subtasks").json() == {"subtasks": []}
