"""The real server on a real socket: ports, TLS, limits, bytes that are no request, and a program's whole way."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flott.common.configuration import Configuration
from flott.errors import ClusterError, ConfigurationError
from flott.rest import http_server as module
from flott.rest.app import create_app
from flott.rest.http_server import RestServer
from flott.runtime.jobmanager.programs import ProgramStore
from tests.unit.rest.fake_cluster import RUNNING, FakeCluster

Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server with these settings; its port."""
    running: list[RestServer] = []

    def start(cluster: FakeCluster | None = None, **settings: Any) -> int:
        configuration = Configuration.of({"rest.port": 0, **settings})
        cluster = cluster or FakeCluster(tmp_path, configuration)
        programs = ProgramStore(tmp_path / "programs", configuration)
        server = RestServer(create_app(cluster, programs), configuration)
        running.append(server)
        port = server.start()
        programs.reachable_at("localhost", port)
        return port

    yield start
    for server in running:
        server.stop()


def exchange(port: int, *sent: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        for part in sent:
            connection.sendall(part)
        received = b""
        while part := connection.recv(65536):
            received += part
        return received


def request(method: str, path: str, body: bytes = b"", close: bool = True, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, *(["Connection: close"] if close else []), "", ""]).encode() + body


def test_it_answers_as_flinks_client_asks(start: Start) -> None:
    answer = exchange(start(), request("GET", "/v1/jobs", b"{}"))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-type: application/json; charset=UTF-8" in head
    assert b"uvicorn" not in head
    assert json.loads(body)["jobs"]


def test_a_body_that_nobody_wants_does_not_spoil_the_next_request(start: Start) -> None:
    both = request("GET", "/jobs", b"{}" * 1000, False) + request("GET", f"/jobs/{RUNNING}/yarn-cancel", b"{}")
    answer = exchange(start(), both)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert answer.count(b"HTTP/1.1 202") == 1


def test_a_chunked_body_is_taken(start: Start) -> None:
    head = b"POST /jobs/%s/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    answer = exchange(start(), head % RUNNING.encode(), b'e\r\n{"drain": true\r\n', b"1\r\n}\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 202")


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50,
        b"GET\r\n\r\n",
        b"\x00" * 200 + b"\r\n\r\n",
        b"GET /jobs HTTP/1.1\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_in_the_form_of_an_error(start: Start, garbage: bytes) -> None:
    port = start()
    head, _, body = exchange(port, garbage).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert list(json.loads(body)) == ["errors"]
    assert httpx.get(f"http://localhost:{port}/jobs").status_code == 200


def test_headers_that_are_too_long_are_refused(start: Start) -> None:
    answer = exchange(start(), request("GET", "/jobs", b"", True, "X: " + "y" * 40_000))
    assert answer.startswith(b"HTTP/1.1 431")


def test_headers_that_never_end_are_not_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEADER_TIMEOUT", 0.2)
    assert exchange(start(), b"GET /jobs HTTP/1.1\r\nHost: local") == b""


def test_a_target_with_bytes_beyond_ascii_is_answered(start: Start) -> None:
    for path in ("/jobs/%FF%FE/yarn-cancel", "/taskmanagers/%E4%00/log", "/jobmanager/logs/%F0%9F%98%80", "/%"):
        assert exchange(start(), request("GET", path)).split()[1] in (b"400", b"404")


def test_a_port_that_is_taken_is_an_error_that_says_so(start: Start, tmp_path: Path) -> None:
    port = start()
    with pytest.raises(ClusterError, match=r"rest\.port"):
        start(**{"rest.port": port})


def test_it_does_not_listen_beyond_loopback_unprotected(start: Start) -> None:
    with pytest.raises(ConfigurationError, match="could run programs as you"):
        start(**{"rest.bind-address": "0.0.0.0"})


def test_it_stops(start: Start, tmp_path: Path) -> None:
    configuration = Configuration.of({"rest.port": 0})
    server = RestServer(create_app(FakeCluster(tmp_path), ProgramStore(tmp_path / "p", configuration)), configuration)
    port = server.start()
    assert httpx.get(f"http://localhost:{port}/jobs").status_code == 200
    server.stop()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://localhost:{port}/jobs")
    server.stop()


# ------------------------------------------------------------------------------------------------------------------ TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost that signs itself, and a stranger's."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("own", "stranger"):
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        name_of_it = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
        subprocess.run(["openssl", "req", "-x509", *curve, *name_of_it, *files], check=True, capture_output=True)
    return folder


def tls(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "security.ssl.rest.enabled": True,
        "flott.rest.ssl.certificate": str(folder / "own.pem"),
        "flott.rest.ssl.key": str(folder / "own.key"),
        "flott.rest.ssl.ca": str(folder / "own.pem"),
        **more,
    }


def test_requests_are_encrypted(start: Start, certificates: Path) -> None:
    port = start(**tls(certificates))
    trusting = ssl.create_default_context(cafile=certificates / "own.pem")
    assert httpx.get(f"https://localhost:{port}/jobs", verify=trusting).status_code == 200
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://localhost:{port}/jobs")


def test_mutual_tls_lets_only_those_in_who_show_a_certificate(start: Start, certificates: Path) -> None:
    port = start(**tls(certificates, **{"security.ssl.rest.authentication-enabled": True}))
    for name, welcome in ((None, False), ("stranger", False), ("own", True)):
        context = ssl.create_default_context(cafile=certificates / "own.pem")
        if name:
            context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
        if welcome:
            assert httpx.get(f"https://localhost:{port}/jobs", verify=context).status_code == 200
        else:
            with pytest.raises(httpx.TransportError):
                httpx.get(f"https://localhost:{port}/jobs", verify=context)


def test_tls_without_its_files_is_an_error(start: Start, certificates: Path) -> None:
    for settings in (
        {"security.ssl.rest.enabled": True},
        tls(certificates, **{"flott.rest.ssl.key": "/nowhere"}),
        tls(certificates, **{"flott.rest.ssl.key": str(certificates / "stranger.key")}),
    ):
        with pytest.raises(ConfigurationError, match=r"flott\.rest\.ssl"):
            start(**settings)


# ------------------------------------------------------------------------------------------------------------- programs

PROGRAM = b"""
import sys
from flott.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(lambda x: x + 1).print()
env.execute(sys.argv[1])
"""


def test_a_program_that_is_uploaded_submits_its_job(start: Start, tmp_path: Path) -> None:
    settings = {"flott.rest.token": "s3cret", "rest.port": 0}
    cluster = FakeCluster(tmp_path, Configuration.of(settings))
    with httpx.Client(
        base_url=f"http://localhost:{start(cluster, **settings)}",
        headers={"Authorization": "Bearer s3cret"},
        timeout=60,
    ) as client:
        uploaded = client.post("/v1/jars/upload", files={"jarfile": ("tiny.py", PROGRAM)}).json()
        ident = uploaded["filename"].rpartition("/")[2]
        plan = client.get(f"/v1/jars/{ident}/plan?program-args=planned&parallelism=2").json()
        assert plan["plan"]["name"] == "planned"
        assert plan["plan"]["nodes"][0]["id"]
        assert cluster.submissions == {}
        body = {
            "programArgsList": ["a job"],
            "parallelism": "2",
            "flinkConfiguration": {"execution.attached": "false"},
        }
        answer = client.post(f"/v1/jars/{ident}/run", json=body)
        assert answer.status_code == 200, answer.text
        submission = cluster.submissions[answer.json()["jobid"]]
        assert submission.name == "a job"
        assert submission.configuration["parallelism.default"] == "2"
        assert "s3cret" not in submission.description().decode()


def test_no_answer_waits_for_the_clients_acknowledgement_of_its_head() -> None:
    with module.bind("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
