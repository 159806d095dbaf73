"""Jobs that are handed over as a form: what is taken, what is refused, and where files go."""

from __future__ import annotations

import errno
import io
import os
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from flott.errors import ClusterError
from flott.runtime.jobmanager.job_store import JobStore
from flott.runtime.jobmanager.submission import JobFile, JobSubmission
from tests.unit.rest.fake_cluster import FakeCluster

JOB = "f" * 32


def description(*files: str, **changes: Any) -> bytes:
    submission = JobSubmission(
        JOB, "a job", {"parallelism.default": "2"}, b"", tuple(JobFile(f, "python") for f in files)
    )
    text = submission.description().decode()
    for old, new in changes.items():
        text = text.replace(old, new)
    return text.encode()


def form(described: bytes, *files: tuple[str, bytes], graph: bytes = b"pickled") -> list[Any]:
    parts = [("submission", ("submission", described)), ("graph", ("graph", graph))]
    return parts + [("file", (name, content)) for name, content in files]


def test_a_job_is_taken_with_its_graph_and_files(client: TestClient, cluster: FakeCluster) -> None:
    large = bytes(range(256)) * 20_000  # beyond what is kept in memory while it comes in
    reply = client.post("/v1/jobs", files=form(description("a.py", "b.zip"), ("a.py", b"x = 1"), ("b.zip", large)))
    assert (reply.status_code, reply.json()) == (202, {"jobUrl": f"/jobs/{JOB}", "jobid": JOB})
    assert cluster.submissions[JOB].graph == b"pickled"
    assert cluster.submissions[JOB].configuration == {"parallelism.default": "2"}
    assert cluster.uploads[JOB] == {"a.py": b"x = 1", "b.zip": large}


def test_parts_may_be_fields_instead_of_files(client: TestClient, cluster: FakeCluster) -> None:
    parts = {"submission": (None, description()), "graph": (None, b"pickled")}
    assert client.post("/jobs", files=parts).status_code == 202
    assert cluster.submissions[JOB].graph == b"pickled"


def test_the_form_of_flinks_own_client_is_refused_with_a_sentence(client: TestClient) -> None:
    parts = {
        "request": ("r", b'{"jobGraphFileName": "x"}'),
        "file_0": ("plan", b"\xac\xed"),
        "file_1": ("a.jar", b"PK"),
    }
    reply = client.post("/v1/jobs", files=parts)
    assert reply.status_code == 400
    assert "Java program" in reply.json()["errors"][0]
    assert "flott run" in reply.json()["errors"][0]


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (form(b"not json"), "not the description of a job"),
        (form(b"[]"), "not the description of a job"),
        (form(b'{"version": 9}'), "another version"),
        (form(description(), graph=b"")[:1], "no part 'graph'"),
        (form(description())[1:], "no part 'submission'"),
        (form(description("a.py")), "were not sent: a.py"),
        (form(description(), ("a.py", b"")), "not one of the job's files"),
        (form(description("a.py"), ("../a.py", b"")), "not one of the job's files"),
        (form(description("a.py"), ("a.py", b"1"), ("a.py", b"2")), "not one of the job's files"),
        (form(description("../../evil.py"), ("../../evil.py", b"x")), "plain name without folders"),
        (form(description("..\\\\evil.py")), "plain name without folders"),
        (form(description(**{JOB: "../../../tmp"})), "32 hexadecimal digits"),
        (form(description(**{'"name": "a job"': '"name": 5'})), "The name of a job is of type str, found '5'"),
        (form(description(**{'"batch": false': '"batch": "no"'})), "The batch of a job is of type bool"),
        (form(description(**{'"parallelism": 1': '"parallelism": "x"'})), "The parallelism of a job is of type int"),
    ],
)
def test_what_cannot_be_run_is_refused(client: TestClient, cluster: FakeCluster, parts: list[Any], says: str) -> None:
    reply = client.post("/jobs", files=parts)
    assert reply.status_code == 400
    assert says in reply.json()["errors"][0]
    assert cluster.submissions == {}


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{}"),
        ("", b""),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", b"garbage"),
        ("multipart/form-data; boundary=b", b"--b\r\n\r\n\r\n--b--"),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="graph"\r\n\r\nno end'),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="\xff"\r\n\r\nx\r\n--b--'),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"X: y\r\n" * 10_000 + b"\r\nx\r\n--b--"),
        (
            "multipart/form-data; boundary=b; charset=nonsense",
            b'--b\r\nContent-Disposition: form-data; name="\xe4"\r\n\r\n',
        ),
    ],
)
def test_a_form_that_is_none_is_refused(client: TestClient, content_type: str, body: bytes) -> None:
    for path in ("/jobs", "/jars/upload"):
        reply = client.post(path, content=body, headers={"Content-Type": content_type} if content_type else {})
        assert reply.status_code == 400, reply.text
        assert list(reply.json()) == ["errors"]


def test_too_many_parts_are_refused(client: TestClient) -> None:
    assert client.post("/jobs", files=[("file", (f"{n}", b"")) for n in range(1100)]).status_code == 400


def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_job_that_the_cluster_has_no_room_for_is_answered_with_507_and_what_to_do(
    client: TestClient, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JobStore(tmp_path / "jobs")

    def submit(submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        answer: Future[None] = Future()
        try:
            store.keep(submission, files)
        except ClusterError as error:
            answer.set_exception(error)
        return answer

    monkeypatch.setattr(cluster, "submit", submit)
    monkeypatch.setattr(os, "fsync", full)
    reply = client.post("/jobs", files=form(description("a.py"), ("a.py", b"x = 1")))
    assert reply.status_code == 507
    [message] = reply.json()["errors"]
    assert f"could not be kept in {tmp_path / 'jobs'}: No space left on device. Nothing of it was kept: free" in message
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.parametrize("where", ["while it comes in", "when it is put together"])
def test_a_job_or_program_that_does_not_fit_into_the_temporary_folder_is_answered_with_507(
    client: TestClient, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "incoming"))
    (tmp_path / "incoming").mkdir()
    if where == "while it comes in":
        monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", full)
    else:
        monkeypatch.setattr(shutil, "copyfileobj", full)
    large = b"x" * 3_000_000  # beyond what is kept in memory
    replies = [
        client.post("/jobs", files=form(description("a.py"), ("a.py", large))),
        client.post("/jars/upload", files={"jarfile": ("a.py", large)}),
    ]
    second = "incoming" if where == "while it comes in" else "programs"
    for reply, folder in zip(replies, ("incoming", second), strict=True):
        assert reply.status_code == 507, reply.text
        [message] = reply.json()["errors"]
        assert f"does not fit into {tmp_path / folder}" in message
        assert "free space there and send it again" in message
    assert cluster.submissions == {}
    assert [list((tmp_path / folder).iterdir()) for folder in ("incoming", "programs")] == [[], []]


def test_a_program_that_the_cluster_has_no_room_for_is_answered_with_507_and_leaves_nothing(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("replace", "mkdir"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            reply = client.post("/jars/upload", files={"jarfile": ("a.py", b"pass")})
        assert reply.status_code == 507, reply.text
        assert f"no room for programs in {tmp_path / 'programs'}" in reply.json()["errors"][0]
        assert list((tmp_path / "programs").iterdir()) == []


def test_an_upload_beyond_the_limit_is_refused_while_it_comes_in(serve: Any, cluster: FakeCluster) -> None:
    client = serve(**{"rest.server.max-content-length": "64 kb"})
    reply = client.post("/jobs", files=form(description("a.py"), ("a.py", b"x" * 100_000)))
    assert reply.status_code == 413

    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += 1000
            assert self.given < 10_000_000, "the whole body was read"
            return b"x" * 1000

    endless = Endless()
    head = b'--b\r\nContent-Disposition: form-data; name="graph"; filename="g"\r\n\r\n'

    def chunks() -> Any:
        yield head
        while endless.given < 1_000_000:
            yield endless.read()

    reply = client.post("/jobs", content=chunks(), headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert reply.status_code == 413
    assert cluster.submissions == {}
