"""Programs through REST: upload, list, run with arguments in either form, plan, delete."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from flott.rest.endpoints import programs as endpoints
from flott.rest.endpoints.programs import run_request
from flott.rest.refusal import Refusal
from flott.runtime.jobmanager import programs as module
from flott.runtime.jobmanager.programs import ProgramRun, ProgramStore, RunRequest


def upload(client: TestClient, name: str = "prog.py", content: bytes = b"pass") -> str:
    reply = client.post("/jars/upload", files={"jarfile": (name, content, "application/x-java-archive")})
    assert reply.status_code == 200, reply.text
    assert reply.json()["status"] == "success"
    return str(reply.json()["filename"]).rpartition("/")[2]


def test_a_program_is_uploaded_listed_and_deleted(client: TestClient) -> None:
    ident = upload(client)
    [file] = client.get("/jars").json()["files"]
    assert (file["id"], file["name"], file["entry"]) == (ident, "prog.py", [{"name": "prog", "description": None}])
    assert client.get("/jars").json()["address"] == "http://localhost:8081"
    assert client.delete(f"/jars/{ident}").json() == {}
    assert client.get("/jars").json()["files"] == []
    assert client.delete(f"/jars/{ident}").status_code == 400


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jar", b"PK"), ("a.zip", b"x"), ("..", b""), ("../../x.txt", b""), ("", b"x"), (".py", b"")],
)
def test_what_is_no_program_is_refused(client: TestClient, tmp_path: Path, name: str, content: bytes) -> None:
    reply = client.post("/jars/upload", files={"jarfile": (name, content)})
    assert reply.status_code == 400
    assert client.post("/jars/upload", files={"other": ("a.py", b"")}).status_code == 400
    assert list((tmp_path / "programs").iterdir()) == []


def test_paths_in_ids_lead_nowhere(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "victim.py").write_text("x")
    for ident in ("..%2Fvictim.py", "%2e%2e", "..%5C..", "%00", "x" * 3000):
        assert client.delete(f"/jars/{ident}").status_code == 400
        assert client.post(f"/jars/{ident}/run", json={}).status_code == 400
    assert (tmp_path / "victim.py").exists()


def test_programs_are_refused_if_uploads_are_off(serve: Callable[..., TestClient]) -> None:
    client = serve(**{"web.submit.enable": False})
    for method, path in (("GET", "/jars"), ("POST", "/jars/upload"), ("POST", "/jars/x/run"), ("DELETE", "/jars/x")):
        assert client.request(method, path).status_code == 403


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ({}, {}, RunRequest()),
        (
            {"entry-class": "a.b", "parallelism": 2, "program-args": "x 'y z'", "savepointPath": "/s"},
            {"entryClass": None, "parallelism": None, "programArgs": None},
            RunRequest(("x", "y z"), "a.b", 2, "/s"),
        ),
        (
            {"parallelism": 2, "programArg": ["q"]},
            {"parallelism": "4", "programArgsList": ["a", "b c"], "allowNonRestoredState": True, "entryClass": ""},
            RunRequest(("a", "b c"), None, 4, None, True),
        ),
        (
            {},
            {"flinkConfiguration": {"a": "b"}, "claimMode": "CLAIM"},
            RunRequest(claim_mode="CLAIM", configuration={"a": "b"}),
        ),
        ({"parallelism": 2}, {"parallelism": ""}, RunRequest()),
    ],
)
def test_how_to_run_is_read_from_query_and_body(
    query: dict[str, Any], body: dict[str, Any], expected: RunRequest
) -> None:
    assert run_request(query, body) == expected


def test_arguments_that_are_no_words_are_refused() -> None:
    for body in ({"programArgs": "'open"}, {"programArgsList": ["a\0b"]}):
        with pytest.raises(Refusal):
            run_request({}, body)


def test_a_program_that_submits_nothing_is_an_error_with_its_own_words(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RUNNER", (sys.executable, "-c", "raise ValueError('my fault')"))
    reply = client.post(f"/jars/{upload(client)}/run", json={})
    assert reply.status_code == 500
    assert "submitted no job" in reply.json()["errors"][0]
    assert "my fault" in reply.json()["errors"][0]


def test_the_plan_of_a_program_is_told_by_get_and_by_post(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, json; open(os.environ['FLOTT_PLAN_FILE'], 'w').write(json.dumps({'plan': {'nodes': []}}))"
    monkeypatch.setattr(module, "RUNNER", (sys.executable, "-c", code))
    ident = upload(client)
    assert client.get(f"/jars/{ident}/plan?parallelism=1").json() == {"plan": {"nodes": []}}
    assert client.post(f"/jars/{ident}/plan", json={"parallelism": "1"}).json() == {"plan": {"nodes": []}}
    assert client.get(f"/jars/{ident}/plan?parallelism=x").status_code == 400
    assert (
        client.post(f"/jars/{ident}/run", json={"flinkConfiguration": {"parallelism.default": "x"}}).status_code == 400
    )


def test_a_program_that_comes_to_nothing_is_ended(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RUNNER", (sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(endpoints, "RUN_TIMEOUT", 0.2)
    monkeypatch.setattr(endpoints, "PLAN_TIMEOUT", 0.2)
    started: list[ProgramRun] = []
    begin = ProgramStore._begin

    def remember(self: ProgramStore, *arguments: Any, **named: Any) -> ProgramRun:
        started.append(begin(self, *arguments, **named))
        return started[-1]

    monkeypatch.setattr(ProgramStore, "_begin", remember)
    ident = upload(client)
    for path in (f"/jars/{ident}/run", f"/jars/{ident}/plan"):
        reply = client.post(path, json={})
        assert reply.status_code == 500
        assert "reached no job within" in reply.json()["errors"][0]
    assert all(run.ended.wait(120) for run in started)
