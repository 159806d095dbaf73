"""State and records over HTTP: what is asked of inspectors, and how their answers and refusals look."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from flott.errors import ClusterError, UnreachableError
from flott.rest.endpoints import state as state_endpoints
from flott.runtime.jobmanager.inspection.questions import PageRows, PreviewRecords
from tests.unit.rest.fake_cluster import RUNNING, UNKNOWN, FakeCluster
from tests.unit.snapshots.snapshots import ledger, run

STATE = f"/jobs/{RUNNING}/flott/state"
ONE = {"operator": "ledger", "state": "total"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("job")
    run(ledger, place, epochs=2, **{"execution.checkpointing.num-retained": "5"})
    return place


@pytest.fixture(autouse=True)
def inspected(cluster: FakeCluster, folder: Path) -> Iterator[None]:
    cluster.checkpoint_directory = str(folder)
    yield
    cluster.inspectors.close()


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/checkpoints", {}),
        ("", {}),
        ("/count", ONE),
        ("/rows", ONE),
        ("/key", {**ONE, "key": "alice"}),
        ("/history", {**ONE, "key": "alice"}),
        ("/diff", {"before": 1}),
    ],
)
def test_every_answer_has_its_declared_form(client: TestClient, path: str, query: dict[str, Any]) -> None:
    [endpoint] = [one for one in state_endpoints.ENDPOINTS if one.path == f"/jobs/:jobid/flott/state{path}"]
    reply = client.get(f"{STATE}{path}", params=query)
    assert reply.status_code == 200, reply.text
    TypeAdapter(endpoint.reply).validate_python(reply.json(), strict=True)


def test_parameters_reach_the_inspector(client: TestClient, cluster: FakeCluster) -> None:
    client.get(f"{STATE}/rows", params={**ONE, "limit": 7, "after": "3.1", "prefix": "a'b", "checkpoint": 2})
    assert cluster.questions == [PageRows("ledger", "total", 2, 7, "3.1", "a'b")]


@pytest.mark.parametrize(
    ("path", "query", "status", "says"),
    [
        ("", {"checkpoint": 99}, 404, "keeps 1, 2"),
        ("", {"checkpoint": 0}, 400, "at least 1"),
        ("/rows", {"operator": "ledger"}, 400, "state is missing"),
        ("/rows", {**ONE, "limit": 5000}, 400, "at most 1000"),
        ("/rows", {**ONE, "state": "<b>"}, 404, "no state"),
        ("/rows", {**ONE, "after": "../.."}, 404, "where a page ended"),
        ("/key", ONE, 400, "key is missing"),
        ("/diff", {}, 400, "before is missing"),
    ],
)
def test_what_is_not_there_is_refused(
    client: TestClient, path: str, query: dict[str, Any], status: int, says: str
) -> None:
    reply = client.get(f"{STATE}{path}", params=query)
    assert (reply.status_code, list(reply.json())) == (status, ["errors"])
    assert says in reply.json()["errors"][0]
    assert client.get(f"/jobs/{UNKNOWN}/flott/state{path}", params=query).status_code in (404, status)


@pytest.mark.parametrize(
    ("failure", "status"), [(UnreachableError("too many wait"), 503), (ClusterError("it has ended"), 500)]
)
def test_failures_of_inspectors_are_told(
    client: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, failure: Exception, status: int
) -> None:
    refused: Future[Any] = Future()
    refused.set_exception(failure)
    monkeypatch.setattr(cluster, "inspect", lambda job_id, question: refused)
    reply = client.get(f"{STATE}/rows", params=ONE)
    assert (reply.status_code, reply.json()) == (status, {"errors": [str(failure)]})


def test_pages_of_others_do_not_read_state_nor_run_epochs_again(client: TestClient, cluster: FakeCluster) -> None:
    foreign = {"Origin": "https://evil.example"}
    assert client.get(STATE, headers=foreign).status_code == 403
    body = {"operator": "ledger"}
    assert client.post(f"/jobs/{RUNNING}/flott/preview", json=body, headers=foreign).status_code == 403
    assert cluster.questions == []


def test_a_preview_is_triggered_and_asked_for(
    client: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer: Future[Any] = Future()
    asked = []

    def inspect(job_id: str, question: Any) -> Future[Any]:
        asked.append(question)
        return answer

    monkeypatch.setattr(cluster, "inspect", inspect)
    path = f"/jobs/{RUNNING}/flott/preview"
    body = {"operator": "ledger", "side": "received", "limit": 5, "triggerId": "A" * 32}
    for _ in range(2):  # a repeated request does not run the epoch twice
        reply = client.post(path, json=body)
        assert (reply.status_code, reply.json()) == (202, {"request-id": "a" * 32})
    assert asked == [PreviewRecords("ledger", "received", None, 5)]
    assert client.get(f"{path}/{'a' * 32}").json() == {"status": {"id": "IN_PROGRESS"}, "operation": None}
    records = {"epoch": 2, "operator": "ledger", "side": "received", "count": 0, "records": [], "truncated": False}
    answer.set_result({**records, "failure": None})
    done = client.get(f"{path}/{'a' * 32}").json()
    assert (done["status"], done["operation"]["epoch"]) == ({"id": "COMPLETED"}, 2)
    assert client.get(f"{path}/{'b' * 32}").status_code == 404


@pytest.mark.parametrize(
    "body", [{}, {"operator": ""}, {"operator": "x", "side": "both"}, {"operator": "x", "limit": 0}, {"operator": 7}]
)
def test_a_preview_of_another_form_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    assert client.post(f"/jobs/{RUNNING}/flott/preview", json=body).status_code == 400
