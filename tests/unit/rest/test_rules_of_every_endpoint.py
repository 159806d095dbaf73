"""What holds whatever is asked: prefixes, ids, errors, types of content, sizes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

from flott.rest import app as app_module
from flott.rest.app import Routes, all_endpoints, json_response
from flott.rest.endpoint import Endpoint, Query
from flott.rest.refusal import Refusal
from flott.runtime.orders import CancelJob
from tests.unit.rest.fake_cluster import RUNNING, TASK_MANAGER, UNKNOWN, FakeCluster

JSON = "application/json; charset=UTF-8"


def test_jobs_are_listed_with_and_without_a_version_and_a_slash_at_the_end(client: TestClient) -> None:
    replies = [client.get(path) for path in ("/jobs", "/v1/jobs", "/jobs/", "/v1/jobs/")]
    assert {reply.status_code for reply in replies} == {200}
    assert {reply.headers["content-type"] for reply in replies} == {JSON}
    assert all(reply.json() == replies[0].json() for reply in replies)
    assert {"id": RUNNING, "status": "RUNNING"} in replies[0].json()["jobs"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/jobs"),
        ("GET", "/v1/v1/jobs"),
        ("GET", "/no-such-thing"),
        ("POST", "/jobs/overview"),
        ("DELETE", "/jobs"),
        ("OPTIONS", "/jobs"),
        ("GET", "//jobs"),
        ("GET", "/jobs//"),
        ("GET", f"/jobs/{RUNNING}/savepoints"),
        ("TRACE", "/jobs"),
        ("BREW", "/jobs"),
    ],
)
def test_an_unknown_path_or_method_is_not_found(client: TestClient, method: str, path: str) -> None:
    reply = client.request(method, f"http://localhost:8081{path}")
    assert reply.status_code == 404
    assert list(reply.json()) == ["errors"]
    assert reply.headers["content-type"] == JSON


@pytest.mark.parametrize("path", ["xyz", RUNNING[:-1], RUNNING + "0", "%00", "..", "%2e%2e%2f" + RUNNING, "ä" * 32])
def test_a_malformed_id_is_refused(client: TestClient, path: str) -> None:
    reply = client.patch(f"/jobs/{path}?mode=cancel")
    assert reply.status_code in (400, 404)
    assert list(reply.json()) == ["errors"]


def test_ids_may_be_in_upper_case(client: TestClient, cluster: FakeCluster) -> None:
    assert client.patch(f"/jobs/{RUNNING.upper()}").status_code == 202
    assert cluster.orders == [(RUNNING, CancelJob())]


def test_task_manager_ids_are_decoded(client: TestClient) -> None:
    encoded = TASK_MANAGER.replace(":", "%3A")
    assert client.get(f"/taskmanagers/{encoded}/log").status_code == 200
    assert client.get(f"/taskmanagers/{TASK_MANAGER}/log").status_code == 200
    unknown = client.get("/taskmanagers/nosuch/log")
    assert (unknown.status_code, unknown.json()) == (404, {"errors": ["No TaskExecutor registered under nosuch."]})


def test_an_encoded_slash_does_not_separate(client: TestClient, cluster: FakeCluster) -> None:
    (cluster.folder / "secret.txt").write_text("secret")
    for path in ("..%2Fsecret.txt", "%2e%2e%2Fsecret.txt", "..%5Csecret.txt", "%2Fetc%2Fpasswd"):
        reply = client.get(f"/jobmanager/logs/{path}")
        assert (reply.status_code, reply.json()) == (404, {"errors": ["File not found."]})


def test_an_unknown_job_is_not_found(client: TestClient) -> None:
    reply = client.patch(f"/jobs/{UNKNOWN}?mode=cancel")
    assert (reply.status_code, reply.json()) == (404, {"errors": [f"Job {UNKNOWN} not found"]})


def test_a_get_may_carry_a_body_as_flinks_client_sends_it(client: TestClient) -> None:
    assert client.request("GET", "/v1/jobs", content=b"{}").status_code == 200
    assert client.request("PATCH", f"/v1/jobs/{RUNNING}?mode=cancel", content=b"{}").status_code == 202
    assert client.request("GET", "/v1/jobs", content=b"not json").status_code == 200


def test_head_is_get_without_a_body(client: TestClient) -> None:
    assert client.head("/jobs").status_code == 200


def test_every_reply_may_be_read_by_pages_of_others_and_orders_are_theirs_not_to_give(client: TestClient) -> None:
    assert client.get("/jobs").headers["access-control-allow-origin"] == "*"
    assert client.get("/nowhere").headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'["x"]', "should be an object"),
        (b"{", "JSON"),
        (b"\xff\xfe", "JSON"),
        (b"[" * 100_000, "JSON"),
        (b'{"cancel-job": {}}', "cancel-job"),
        (b'{"target-directory": 7}', "target-directory"),
        (b'{"formatType": "XML"}', "formatType"),
        (b'{"triggerId": "abc"}', "triggerId"),
        (b"null", "should be an object"),
    ],
)
def test_a_body_of_another_form_is_refused_with_a_reason(client: TestClient, body: bytes, says: str) -> None:
    reply = client.post(f"/jobs/{RUNNING}/savepoints", content=body)
    assert reply.status_code == 400
    [message] = reply.json()["errors"]
    assert says in message
    assert "Traceback" not in message


def test_unknown_fields_and_an_empty_body_are_welcome(client: TestClient) -> None:
    assert client.post(f"/jobs/{RUNNING}/savepoints", content=b'{"x": [1]}').status_code == 202
    assert client.post(f"/jobs/{RUNNING}/savepoints", content=b"").status_code == 202


def test_a_body_that_is_too_large_is_refused(serve: Callable[..., TestClient]) -> None:
    client = serve(**{"rest.server.max-content-length": "1 kb"})
    large = b'{"target-directory": "' + b"x" * 2000 + b'"}'

    def chunks() -> Iterator[bytes]:
        yield from (large[i : i + 100] for i in range(0, len(large), 100))

    for content in (large, chunks()):  # with its length in a header, and without
        reply = client.post(f"/jobs/{RUNNING}/savepoints", content=content)
        assert reply.status_code == 413
        assert "rest.server.max-content-length" in reply.json()["errors"][0]


def test_a_json_body_has_a_limit_of_its_own(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "MAX_JSON_BODY", 100)
    assert client.post(f"/jobs/{RUNNING}/savepoints", content=b'{"x": "' + b"y" * 100 + b'"}').status_code == 413


def test_an_unexpected_error_is_told_without_a_trace_and_logged_with_it(
    client: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("the sky is falling")

    monkeypatch.setattr(cluster, "jobs", broken)
    reply = client.get("/jobs")
    assert (reply.status_code, reply.json()) == (500, {"errors": ["the sky is falling"]})
    assert "Traceback" in caplog.text


def test_numbers_that_are_none_become_texts() -> None:
    content = {"a": math.nan, "b": [math.inf, -math.inf, 1.5], "c": {"d": (math.nan,)}}
    reply = json.loads(bytes(json_response(content).body))
    assert reply == {"a": "NaN", "b": ["Infinity", "-Infinity", 1.5], "c": {"d": ["NaN"]}}


def test_text_that_is_not_unicode_does_not_break_an_answer() -> None:
    assert json.loads(bytes(json_response({"a": "x\udcff"}).body)) == {"a": "x?"}


def test_a_literal_segment_goes_before_a_parameter() -> None:
    def row(path: str) -> Endpoint:
        return Endpoint("GET", path, lambda call: {}, dict, "", "")

    config, trigger = row("/jobs/:jobid/checkpoints/config"), row("/jobs/:jobid/checkpoints/:triggerid")
    routes = Routes.of([trigger, config])
    assert routes.find("GET", ["jobs", "1", "checkpoints", "config"]) == (config, ["1"])
    assert routes.find("GET", ["jobs", "1", "checkpoints", "2"]) == (trigger, ["1", "2"])
    with pytest.raises(ValueError, match="twice"):
        Routes.of([config, config])


def test_every_endpoint_of_every_table_is_reached(client: TestClient) -> None:
    table = all_endpoints()
    routes = Routes.of(table)
    for endpoint in table:
        segments = [part for part in endpoint.path.split("/") if part]
        found = routes.find(endpoint.method, ["x" if part.startswith(":") else part for part in segments])
        assert found is not None
        assert found[0] is endpoint


@pytest.mark.parametrize(
    ("query", "texts", "value"),
    [
        (Query("n", int, 5), [], 5),
        (Query("n", int, 5), ["7"], 7),
        (Query("b", bool, False), ["True"], True),
        (Query("l", list), ["a,b", "c"], ["a", "b", "c"]),
        (Query("l", list), [], []),
        (Query("s", str, "x"), ["y"], "y"),
    ],
)
def test_query_parameters_are_read_by_their_kind(query: Query, texts: list[str], value: object) -> None:
    assert query.parse(texts) == value


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (Query("n", int), "x"),
        (Query("n", int), "1.5"),
        (Query("n", int), "٣"),
        (Query("n", int), "9" * 5000),
        (Query("n", int, minimum=1), "0"),
        (Query("n", int, maximum=1), "2"),
        (Query("b", bool), "yes"),
        (Query("s", str, choices=("a",)), "b"),
    ],
)
def test_query_parameters_of_another_kind_are_refused(query: Query, text: str) -> None:
    with pytest.raises(Refusal, match=f"query parameter {query.name}") as refused:
        query.parse([text])
    assert refused.value.status == 400
