"""Cancel, savepoint, stop, checkpoint, rescale: which orders the JobManager is given, and how their outcome is told."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from flott.common._savepoint_format import SavepointFormatType
from flott.errors import JobRestartingError, UnreachableError
from flott.rest.endpoints.orders import _all_of
from flott.runtime.orders import CancelJob, CancelWithSavepoint, Order, RescaleJob, StopWithSavepoint, TakeSavepoint
from tests.unit.rest.fake_cluster import CANCELED, FAILED, FINISHED, RUNNING, SOURCE, UNKNOWN, WINDOW, FakeCluster
from tests.unit.runtime.jobmanager.jobs import wait_for

IN_PROGRESS = {"status": {"id": "IN_PROGRESS"}, "operation": None}


def completed(operation: dict[str, Any]) -> dict[str, Any]:
    return {"status": {"id": "COMPLETED"}, "operation": operation}


# --------------------------------------------------------------------------------------------------------------- cancel


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", f"/jobs/{RUNNING}"),
        ("PATCH", f"/jobs/{RUNNING}?mode=cancel"),
        ("GET", f"/jobs/{RUNNING}/yarn-cancel"),
        ("POST", f"/applications/{RUNNING}/cancel"),
    ],
)
def test_a_job_is_cancelled(client: TestClient, cluster: FakeCluster, method: str, path: str) -> None:
    reply = client.request(method, path)
    assert (reply.status_code, reply.json()) == (202, {})
    assert cluster.orders == [(RUNNING, CancelJob())]


def test_cancelling_again_is_fine_and_cancelling_what_has_ended_otherwise_is_a_conflict(client: TestClient) -> None:
    assert client.patch(f"/jobs/{CANCELED}").status_code == 202
    for job, status in ((FINISHED, "FINISHED"), (FAILED, "FAILED")):
        reply = client.patch(f"/jobs/{job}?mode=cancel")
        assert reply.status_code == 409
        assert f"terminal state ({status})" in reply.json()["errors"][0]


def test_the_mode_stop_is_gone(client: TestClient, cluster: FakeCluster) -> None:
    reply = client.patch(f"/jobs/{RUNNING}?mode=stop", follow_redirects=False)
    assert reply.status_code == 308
    assert list(reply.json()) == ["errors"]
    assert "location" not in reply.headers
    assert client.patch(f"/jobs/{RUNNING}?mode=explode").status_code == 400
    assert cluster.orders == []


def test_a_clients_heartbeat_is_taken(client: TestClient) -> None:
    path = "clientHeartbeat"
    assert client.patch(f"/jobs/{RUNNING}/{path}", json={"expiredTimestamp": 1}).status_code == 202
    assert client.patch(f"/jobs/{UNKNOWN}/{path}", json={"expiredTimestamp": 1}).status_code == 404


# ----------------------------------------------------------------------------------------------------------- savepoints


def test_a_savepoint_is_triggered_and_its_path_is_asked_for(client: TestClient, cluster: FakeCluster) -> None:
    cluster.held = True
    body = {"target-directory": "/s", "cancel-job": False, "formatType": "CANONICAL", "triggerId": None}
    reply = client.post(f"/v1/jobs/{RUNNING}/savepoints", json=body)
    assert reply.status_code == 202
    assert list(reply.json()) == ["request-id"]
    path = f"/v1/jobs/{RUNNING}/savepoints/{reply.json()['request-id']}"
    assert client.get(path).json() == IN_PROGRESS
    cluster.release()
    assert client.get(path).json() == completed({"location": f"/s/savepoint-{RUNNING[:6]}"})
    assert (
        client.get(path.upper().replace("/V1/JOBS", "/v1/jobs").replace("SAVEPOINTS", "savepoints")).status_code == 200
    )
    assert cluster.orders == [(RUNNING, TakeSavepoint("/s"))]


@pytest.mark.parametrize(
    ("path", "body", "order"),
    [
        ("savepoints", {"cancel-job": True}, CancelWithSavepoint()),
        ("savepoints", {"formatType": "NATIVE"}, TakeSavepoint(format=SavepointFormatType.NATIVE)),
        ("stop", {"targetDirectory": "/s", "drain": False}, StopWithSavepoint(target="/s")),
        ("stop", {"drain": True, "triggerId": None}, StopWithSavepoint(drain=True)),
        ("stop", {}, StopWithSavepoint()),
    ],
)
def test_orders_are_read_from_the_body(
    client: TestClient, cluster: FakeCluster, path: str, body: dict[str, Any], order: Order[str]
) -> None:
    ident = client.post(f"/jobs/{RUNNING}/{path}", json=body).json()["request-id"]
    assert cluster.orders == [(RUNNING, order)]
    # Both are asked for in the same place.
    assert "location" in client.get(f"/jobs/{RUNNING}/savepoints/{ident}").json()["operation"]


def test_a_trigger_with_the_same_id_starts_nothing_more(client: TestClient, cluster: FakeCluster) -> None:
    ident = "AB" * 16
    for _ in range(3):
        reply = client.post(f"/jobs/{RUNNING}/savepoints", json={"triggerId": ident})
        assert (reply.status_code, reply.json()) == (202, {"request-id": ident.lower()})
    assert len(cluster.orders) == 1


def test_concurrent_triggers_with_the_same_id_start_one_operation(client: TestClient, cluster: FakeCluster) -> None:
    barrier = threading.Barrier(8)

    def trigger() -> None:
        barrier.wait()
        client.post(f"/jobs/{RUNNING}/stop", json={"triggerId": "cd" * 16})

    threads = [threading.Thread(target=trigger) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cluster.orders) == 1


@pytest.mark.parametrize("job", [UNKNOWN, FINISHED])
@pytest.mark.parametrize("what", ["savepoints", "stop", "checkpoints"])
def test_a_failure_is_told_by_the_status_not_by_the_trigger(client: TestClient, job: str, what: str) -> None:
    reply = client.post(f"/jobs/{job}/{what}", json={})
    assert reply.status_code == 202
    place = "savepoints" if what == "stop" else what
    outcome = client.get(f"/jobs/{job}/{place}/{reply.json()['request-id']}").json()
    assert outcome["status"] == {"id": "COMPLETED"}
    cause = outcome["operation"]["failureCause" if what == "checkpoints" else "failure-cause"]
    assert cause["class"] == f"flott.errors.{'JobNotFoundError' if job == UNKNOWN else 'JobEndedError'}"
    assert job in cause["stack-trace"]
    assert cause["serialized-throwable"].startswith("rO0AB")


def test_an_order_that_fails_later_is_told_too(client: TestClient, cluster: FakeCluster) -> None:
    cluster.held = True
    ident = client.post(f"/jobs/{RUNNING}/savepoints", json={}).json()["request-id"]
    cluster.release(OSError("disk full"))
    cause = client.get(f"/jobs/{RUNNING}/savepoints/{ident}").json()["operation"]["failure-cause"]
    assert (cause["class"], cause["stack-trace"]) == ("builtins.OSError", "builtins.OSError: disk full")


@pytest.mark.parametrize("error", [JobRestartingError("no process"), UnreachableError("it ends")])
def test_a_question_that_can_be_answered_later_is_told_to_come_back(
    client: TestClient, cluster: FakeCluster, error: Exception
) -> None:
    cluster.held = True
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(client.get, f"/jobs/{RUNNING}/flott/watermark")
        wait_for(lambda: cluster.promises)
        cluster.release(error)
    assert (reply.result().status_code, reply.result().json()) == (503, {"errors": [str(error)]})


def test_an_order_that_a_jobmanager_drops_when_it_ends_is_told_to_come_back(
    client: TestClient, cluster: FakeCluster
) -> None:
    cluster.held = True
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(client.patch, f"/jobs/{RUNNING}")
        wait_for(lambda: cluster.promises)
        assert cluster.promises[0].cancel()
    assert reply.result().status_code == 503
    assert "is ending" in reply.result().json()["errors"][0]


def test_an_unknown_trigger_is_not_found_nor_one_of_another_job_or_kind(client: TestClient) -> None:
    ident = client.post(f"/jobs/{RUNNING}/savepoints", json={}).json()["request-id"]
    for path in (
        f"/jobs/{RUNNING}/savepoints/{UNKNOWN}",
        f"/jobs/{FINISHED}/savepoints/{ident}",
        f"/jobs/{RUNNING}/checkpoints/{ident}",
        f"/savepoint-disposal/{ident}",
    ):
        reply = client.get(path)
        assert reply.status_code == 404
        assert list(reply.json()) == ["errors"]


def test_a_checkpoint_is_answered_with_its_number(client: TestClient, cluster: FakeCluster) -> None:
    body = {"checkpointType": "CONFIGURED", "triggerId": None}
    reply = client.post(f"/jobs/{RUNNING}/checkpoints", json=body)
    assert reply.status_code == 202
    outcome = client.get(f"/jobs/{RUNNING}/checkpoints/{reply.json()['request-id']}")
    assert outcome.json() == completed({"checkpointId": 8})


def test_a_savepoint_is_disposed_of(client: TestClient, cluster: FakeCluster) -> None:
    reply = client.post("/savepoint-disposal", json={"savepoint-path": "/s/1"})
    assert reply.status_code == 200
    assert client.get(f"/savepoint-disposal/{reply.json()['request-id']}").json() == completed({})
    assert cluster.orders == [("dispose", "/s/1")]
    assert client.post("/savepoint-disposal", json={}).status_code == 400


def test_a_savepoint_is_exported(client: TestClient, cluster: FakeCluster) -> None:
    reply = client.post("/flott/savepoint-export", json={"savepoint-path": "/s/1", "target-directory": "/backup"})
    assert reply.status_code == 202
    outcome = client.get(f"/flott/savepoint-export/{reply.json()['request-id']}")
    assert outcome.json() == completed({"location": "/backup/copy"})
    assert cluster.orders == [("export", "/s/1", "/backup")]
    assert client.post("/flott/savepoint-export", json={"savepoint-path": "/s/1"}).status_code == 400


def test_a_job_is_restored_from_a_savepoint(client: TestClient, cluster: FakeCluster) -> None:
    for allow in (None, True):
        body = {"savepoint-path": "/s/1", "allow-non-restored-state": allow}
        reply = client.post(f"/jobs/{FINISHED}/flott/restore", json=body)
        assert (reply.status_code, reply.json()) == (202, {"jobid": "f" * 32})
    assert cluster.orders == [("restore", FINISHED, "/s/1", False), ("restore", FINISHED, "/s/1", True)]
    assert client.post(f"/jobs/{UNKNOWN}/flott/restore", json={"savepoint-path": "/s/1"}).status_code == 404
    assert client.post(f"/jobs/{FINISHED}/flott/restore", json={}).status_code == 400


# -------------------------------------------------------------------------------------------------------------- rescale


def test_a_job_or_an_operator_is_rescaled(client: TestClient, cluster: FakeCluster) -> None:
    for query in ("parallelism=3", "parallelism=4&operator=numbers-uid"):
        reply = client.patch(f"/jobs/{RUNNING}/rescaling?{query}")
        assert reply.status_code == 202
        assert client.get(f"/jobs/{RUNNING}/rescaling/{reply.json()['request-id']}").json() == completed({})
    assert cluster.orders == [(RUNNING, RescaleJob(3)), (RUNNING, RescaleJob(4, "numbers-uid"))]


@pytest.mark.parametrize("query", ["", "parallelism=0", "parallelism=-1", "parallelism=x", "parallelism=99999999"])
def test_a_parallelism_that_cannot_be_is_refused(client: TestClient, cluster: FakeCluster, query: str) -> None:
    assert client.patch(f"/jobs/{RUNNING}/rescaling?{query}").status_code == 400
    assert cluster.orders == []


def bounds(upper: int, lower: int = 1) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


def test_requirements_are_told_and_changed_by_vertex(client: TestClient, cluster: FakeCluster) -> None:
    path = f"/jobs/{RUNNING}/resource-requirements"
    assert client.get(path).json() == {SOURCE: bounds(2), WINDOW: bounds(2)}
    assert client.put(path, json={SOURCE: bounds(2), WINDOW: bounds(2)}).json() == {}
    assert cluster.orders == []
    assert client.put(path, json={SOURCE: bounds(4), WINDOW: bounds(4)}).status_code == 200
    assert cluster.orders == [(RUNNING, RescaleJob(4))]
    cluster.orders.clear()
    reply = client.put(path, json={WINDOW: bounds(3)})
    assert cluster.orders == [(RUNNING, RescaleJob(3, "21" * 16)), (RUNNING, RescaleJob(3, "22" * 16))]
    assert client.get(f"/jobs/{RUNNING}/rescaling/{reply.json()['request-id']}").json() == completed({})


@pytest.mark.parametrize("seed", range(20))
def test_all_of_several_orders_are_told_however_they_coincide(seed: int) -> None:
    futures: list[Future[None]] = [Future() for _ in range(200)]
    together: list[Future[None]] = []
    barrier = threading.Barrier(3)

    def end(some: list[Future[None]]) -> None:
        barrier.wait()
        for future in some:
            future.set_result(None)

    threads = [threading.Thread(target=end, args=(futures[start::2],)) for start in (0, 1)]
    for thread in threads:
        thread.start()
    barrier.wait()
    together.append(_all_of(futures))
    for thread in threads:
        thread.join()
    assert together[0].result(120) is None


def test_one_of_several_orders_that_fails_is_told(client: TestClient) -> None:
    futures: list[Future[None]] = [Future() for _ in range(3)]
    together = _all_of(futures)
    for future in futures:
        future.set_exception(OSError("full"))
    with pytest.raises(OSError, match="full"):
        together.result(120)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({UNKNOWN: bounds(2)}, 404),
        ({SOURCE: bounds(500)}, 400),
        ({SOURCE: bounds(2, lower=3)}, 400),
        ({SOURCE: bounds(0)}, 400),
        ({SOURCE: {}}, 400),
        ([1], 400),
    ],
)
def test_requirements_that_cannot_be_are_refused(
    client: TestClient, cluster: FakeCluster, body: Any, status: int
) -> None:
    assert client.put(f"/jobs/{RUNNING}/resource-requirements", json=body).status_code == status
    assert cluster.orders == []


# ------------------------------------------------------------------------------------------------------------ the rest


def test_who_holds_event_time_back_is_told(client: TestClient) -> None:
    reply = client.get(f"/jobs/{RUNNING}/flott/watermark")
    assert reply.status_code == 200
    assert reply.json()["holds"][0]["cause"] == "SILENT"
    assert reply.json()["places"][0]["inputs"][0]["holds"] is True
    assert "Split 0 is silent." in reply.json()["text"]
    assert client.get(f"/jobs/{FINISHED}/flott/watermark").status_code == 409


def test_the_job_manager_is_ended(client: TestClient, cluster: FakeCluster) -> None:
    assert client.delete("/cluster").status_code == 200
    assert cluster.orders == [("shut down",)]
