"""The life of sessions: opened, configured, used, expired, closed, and kept apart."""

from __future__ import annotations

import pytest

from tests.unit.rest.gateway.conftest import UNBOUNDED, Gateway, Serve

MISSING = "00000000-0000-0000-0000-000000000000"


def test_a_session_is_opened_configured_shown_and_closed(gateway: Gateway) -> None:
    session = gateway.open(**{"table.local-time-zone": "Asia/Tokyo"})
    path = f"/v1/sessions/{session}"
    configured = gateway.http.post(f"{path}/configure-session", json={"statement": "SET 'pipeline.name' = 'nightly'"})
    assert (configured.status_code, configured.json()) == (200, {})
    properties = gateway.http.get(path).json()["properties"]
    assert properties["table.local-time-zone"] == "Asia/Tokyo"
    assert properties["pipeline.name"] == "nightly"
    assert gateway.http.post(f"{path}/heartbeat").json() == {}
    assert gateway.http.delete(path).json() == {"status": "CLOSED"}
    for reply in (gateway.http.get(path), gateway.http.delete(path), gateway.http.post(f"{path}/heartbeat")):
        assert reply.status_code == 404
        assert reply.json()["errors"][0].startswith(f"Session '{session}' does not exist.")


def test_a_session_needs_no_body(gateway: Gateway) -> None:
    assert list(gateway.http.post("/v1/sessions").json()) == ["sessionHandle"]


def test_secrets_of_a_session_are_not_shown(gateway: Gateway) -> None:
    session = gateway.open(**{"fs.s3a.secret.key": "hush"})
    assert "hush" not in gateway.http.get(f"/v1/sessions/{session}").text


def test_two_sessions_share_nothing(gateway: Gateway) -> None:
    one, other = gateway.open(), gateway.open()
    gateway.values(one, "CREATE TEMPORARY VIEW v AS SELECT 1 AS n")
    gateway.values(one, "SET 'pipeline.name' = 'mine'")
    assert gateway.values(one, "SELECT n FROM v") == [[1]]
    assert gateway.failure(gateway.run(other, "SELECT n FROM v"))[0] == 400
    assert "pipeline.name" not in gateway.http.get(f"/v1/sessions/{other}").json()["properties"]
    operation = gateway.run(one, "SELECT 1").replace(one, other)
    assert gateway.http.get(f"{operation}/status").status_code == 404  # an operation belongs to its session


def test_a_session_expires_when_it_is_not_used_and_not_before(serve: Serve) -> None:
    gateway = serve(**{"sql-gateway.session.idle-timeout": "10 s"})
    used, idle = gateway.open(), gateway.open()
    gateway.run(idle, UNBOUNDED)
    query = gateway.run(idle, "SELECT * FROM numbers").rpartition("/")[2]
    operation = gateway.sessions.session(idle).operation(query)
    operation.await_ready()
    gateway.clock.now = 10_000
    assert gateway.http.post(f"/v1/sessions/{used}/heartbeat").status_code == 200
    assert gateway.sessions.expire() == []
    gateway.clock.now = 10_001
    assert gateway.http.get(f"/v1/sessions/{idle}").status_code == 404  # also before the sessions are looked through
    assert gateway.sessions.expire() == [idle]
    assert operation.status.value == "CLOSED"
    operation.join(120)
    assert not operation.is_active
    assert gateway.http.get(f"/v1/sessions/{used}").status_code == 200


def test_without_a_time_out_no_session_expires(serve: Serve) -> None:
    gateway = serve(**{"sql-gateway.session.idle-timeout": "0 s"})
    session = gateway.open()
    gateway.clock.now = 10**12
    assert gateway.sessions.expire() == []
    assert gateway.http.get(f"/v1/sessions/{session}").status_code == 200


def test_sessions_and_statements_are_limited(serve: Serve) -> None:
    gateway = serve(**{"sql-gateway.session.max-num": "1", "sql-gateway.worker.threads.max": "1"})
    session = gateway.open()
    refused = gateway.http.post("/v1/sessions")
    assert refused.status_code == 503
    assert "sql-gateway.session.max-num" in refused.json()["errors"][0]
    gateway.http.post(f"/v1/sessions/{session}/configure-session", json={"statement": UNBOUNDED})
    endless = gateway.run(session, "SELECT * FROM numbers")
    reply = gateway.http.post(f"/v1/sessions/{session}/statements", json={"statement": "SELECT 1"})
    assert reply.status_code == 503
    operation = gateway.sessions.session(session).operation(endless.rpartition("/")[2])
    gateway.http.delete(f"{endless}/close")
    operation.join(120)
    assert gateway.values(session, "SELECT 1") == [[1]]


@pytest.mark.parametrize("statement", ["SELECT 1", "INSERT INTO t VALUES (1)", "SHOW TABLES"])
def test_configuring_a_session_takes_no_queries(gateway: Gateway, statement: str) -> None:
    path = f"/v1/sessions/{gateway.open()}/configure-session"
    reply = gateway.http.post(path, json={"statement": statement})
    assert reply.status_code == 400
    assert reply.json()["errors"][0].startswith("configure-session takes statements that change the session")


def test_an_error_of_configuring_is_a_sentence_with_its_place(gateway: Gateway) -> None:
    path = f"/v1/sessions/{gateway.open()}/configure-session"
    reply = gateway.http.post(path, json={"statement": "CREATE TABEL t (n INT)"})
    assert reply.status_code == 400
    assert "line 1, column 8" in reply.json()["errors"][0]


def test_words_are_completed(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.values(session, UNBOUNDED)
    text = "SELECT * FROM numb WHERE n > 1"
    for method in ("GET", "POST"):
        reply = gateway.http.request(
            method, f"/v1/sessions/{session}/complete-statement", json={"statement": text, "position": 18}
        )
        assert reply.json()["candidates"] == ["numbers"]


@pytest.mark.parametrize("version", ["/v1", "/v2", "/v3", "/v4", ""])
def test_all_prefixes_answer(gateway: Gateway, version: str) -> None:
    assert gateway.http.get(f"{version}/info").json()["productName"] == "Flott"
    assert gateway.http.get(f"{version}/api_versions").json() == {"versions": ["V1", "V2", "V3", "V4"]}
    assert gateway.http.get(f"{version}/sessions/{MISSING}").status_code == 404


def test_the_access_token_of_rest_is_asked_for(serve: Serve) -> None:
    gateway = serve(**{"flott.rest.token": "s3cret"})
    assert gateway.http.post("/v1/sessions").status_code == 401
    assert gateway.http.post("/v1/sessions", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_pages_of_another_origin_open_no_session(gateway: Gateway) -> None:
    assert gateway.http.post("/v1/sessions", headers={"Origin": "https://elsewhere.example"}).status_code == 403


def test_a_wrong_body_is_refused(gateway: Gateway) -> None:
    path = f"/v1/sessions/{gateway.open()}/statements"
    for body in ({}, {"statement": 1}, {"statement": "SELECT 1", "executionTimeout": 5}):
        reply = gateway.http.post(path, json=body)
        assert (reply.status_code, list(reply.json())) == (400, ["errors"])
