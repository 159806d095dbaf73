"""The REST client: where it asks, what it shows, how long it waits, and what it raises."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from flott.client.rest_client import FormPart, RestClient
from flott.common.configuration import Configuration
from flott.errors import (
    ClusterError,
    ConfigurationError,
    JobEndedError,
    JobNotFoundError,
    SubmissionError,
    UnreachableError,
)
from flott.rest.http_server import RestServer
from flott.runtime.jobmanager.running_file import RunningCluster, remove_running, write_running

JOB = "0123456789abcdef0123456789abcdef"

Handler = Callable[[httpx.Request], httpx.Response]


class PatientClock:
    """Time passes only while somebody waits."""

    def __init__(self) -> None:
        self.waited_ms = 0

    def now_ms(self) -> int:
        return self.waited_ms

    def monotonic(self) -> float:
        return self.waited_ms / 1000

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        self.waited_ms += delay_ms
        return stop.is_set()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FLOTT_HOME", str(tmp_path))
    return tmp_path


def client_of(handler: Handler, clock: PatientClock | None = None, **settings: Any) -> RestClient:
    configuration = Configuration.of({key.replace("__", "-").replace("_", "."): v for key, v in settings.items()})
    return RestClient(configuration, transport=httpx.MockTransport(handler), clock=clock or PatientClock())


def answers(status: int, content: Any) -> Handler:
    return lambda request: httpx.Response(status, json=content)


def refused(times: int, then: Handler) -> Handler:
    left = [times]

    def handle(request: httpx.Request) -> httpx.Response:
        if left[0]:
            left[0] -= 1
            raise httpx.ConnectError("Connection refused", request=request)
        return then(request)

    return handle


def test_a_question_carries_its_path_parameters_and_token() -> None:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json={"jobs": []})

    client = client_of(handle, flott_rest_token="secret", rest_port=9999)
    assert client.get("/jobs", get=["a", "b"], deep=True, left=None) == {"jobs": []}
    assert str(asked[0].url) == "http://localhost:9999/v1/jobs?get=a%2Cb&deep=true"
    assert asked[0].headers["authorization"] == "Bearer secret"


def test_the_token_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    seen: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200, json={})

    client_of(handle, flott_rest_token__file=str(tmp_path / "token")).get("/config")
    assert seen == ["Bearer from-file"]
    with pytest.raises(ConfigurationError, match="token-file cannot be read"):
        client_of(handle, flott_rest_token__file=str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("status", "path", "message", "expected"),
    [
        (404, f"/jobs/{JOB}", f"Job {JOB} not found", JobNotFoundError),
        (404, f"/jobs/{JOB}/vertices/1", "JobVertex 1 not found", ClusterError),
        (404, "/nothing", "Not found: /v1/nothing", ClusterError),
        (409, f"/jobs/{JOB}", "The job has finished.", JobEndedError),
        (400, "/jobs", "This is not the description of a job.", SubmissionError),
        (413, "/jobs", "The request is too large.", SubmissionError),
        (500, "/overview", "It broke.", ClusterError),
        (200, "/overview", "An error by its shape.", ClusterError),
    ],
)
def test_refusals_are_raised_with_the_servers_words(
    status: int, path: str, message: str, expected: type[Exception]
) -> None:
    with pytest.raises(expected) as caught:
        client_of(answers(status, {"errors": [message, "and more"]})).get(path)
    assert type(caught.value) is expected
    assert str(caught.value) == f"{message}\nand more"


def test_a_token_that_is_missing_or_wrong_says_what_to_set() -> None:
    handler = answers(401, {"errors": ["A token is needed."]})
    with pytest.raises(ClusterError, match=r"was shown none: set flott\.rest\.token"):
        client_of(handler).get("/jobs")
    with pytest.raises(ClusterError, match=r"was shown another one: set flott\.rest\.token"):
        client_of(handler, flott_rest_token="old").get("/jobs")


def test_what_is_forbidden_for_another_reason_is_not_blamed_on_the_token() -> None:
    with pytest.raises(ClusterError) as caught:
        client_of(answers(403, {"errors": ["It takes no programs."]})).post("/jars/upload")
    assert str(caught.value) == "It takes no programs."


@pytest.mark.parametrize("token", ["two words", "zwölf", "two\nlines"])
def test_a_token_that_no_request_can_carry_is_refused_before_one_is_sent(token: str) -> None:
    with pytest.raises(ConfigurationError, match="one line of ASCII"):
        client_of(answers(200, {}), flott_rest_token=token)


def test_a_token_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="token-file cannot be read"):
        client_of(answers(200, {}), flott_rest_token__file=str(tmp_path / "token"))


STRANGERS = {
    "a page": httpx.Response(200, text="<html>hello</html>"),
    "bytes": httpx.Response(200, content=b"\xff\xfe"),
    "a text": httpx.Response(200, json="hello"),
    "nothing": httpx.Response(200, json=None),
    "numbers": httpx.Response(200, json=[1, 2]),
    "another object": httpx.Response(200, json={"hello": 1}),
    "an empty answer": httpx.Response(200),
    "a deep object": httpx.Response(200, json={"jobs": {"jobs": {}}}),
    "a login page": httpx.Response(302, headers={"Location": "/login"}),
    "not found": httpx.Response(404, text="Not Found"),
    "a proxy": httpx.Response(502, text="<html>Bad Gateway</html>"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_something_else_at_the_port_is_told_apart(kind: str) -> None:
    with pytest.raises(ClusterError, match=r"http://localhost:8081 answered GET /jobs .* that is no JobManager"):
        client_of(lambda request: STRANGERS[kind]).get("/jobs")["jobs"]["overview"]


@pytest.mark.parametrize("error", [httpx.ReadError, httpx.RemoteProtocolError])
def test_who_hangs_up_at_once_may_speak_tls_or_be_no_jobmanager_at_all(error: type[httpx.TransportError]) -> None:
    def hang_up(request: httpx.Request) -> httpx.Response:
        raise error("Server disconnected.", request=request)

    with pytest.raises(UnreachableError, match=r"speaks no HTTP: Server disconnected\. If it speaks TLS, name it as"):
        client_of(hang_up).get("/jobs")


def test_a_jobmanager_that_answered_before_is_not_taken_for_a_stranger_when_it_hangs_up() -> None:
    replies = [httpx.Response(200, json={})]

    def answer_once(request: httpx.Request) -> httpx.Response:
        if not replies:
            raise httpx.ReadError("Connection reset by peer", request=request)
        return replies.pop()

    client = client_of(answer_once)
    client.get("/overview")
    with pytest.raises(UnreachableError, match="No JobManager answers at"):
        client.get("/overview")


def test_who_is_in_a_hurry_is_answered_at_once() -> None:
    clock = PatientClock()
    transport = httpx.MockTransport(refused(99, answers(200, {})))
    with pytest.raises(UnreachableError):
        RestClient(Configuration(), transport=transport, clock=clock, first_patience_ms=0).get("/overview")
    assert clock.waited_ms == 0


def test_a_cluster_that_never_answered_is_given_a_second_not_a_minute() -> None:
    clock = PatientClock()
    with pytest.raises(UnreachableError, match="flott cluster start"):
        client_of(refused(10_000, answers(200, {})), clock).get("/jobs")
    assert 1000 <= clock.waited_ms <= 1500


def test_a_cluster_that_answered_before_is_waited_for() -> None:
    clock = PatientClock()
    calls = [0]

    def handle(request: httpx.Request) -> httpx.Response:
        calls[0] += 1
        if 1 < calls[0] < 50:
            raise httpx.ConnectError("Connection refused", request=request)
        return httpx.Response(200, json={"call": calls[0]})

    client = client_of(handle, clock)
    assert client.get("/jobs") == {"call": 1}
    assert client.get("/jobs") == {"call": 50}
    assert 5_000 < clock.waited_ms < 30_000


def test_an_order_is_repeated_only_if_it_was_not_sent() -> None:
    clock = PatientClock()
    assert client_of(refused(2, answers(202, {})), clock).post("/jobs/x/stop", json={}) == {}
    sent = [0]

    def lost(request: httpx.Request) -> httpx.Response:
        sent[0] += 1
        raise httpx.ReadError("Connection reset", request=request)

    with pytest.raises(UnreachableError):
        client_of(lost, clock).post("/jobs/x/stop", json={})
    assert sent == [1]
    with pytest.raises(UnreachableError):
        client_of(lost, clock).get("/jobs")
    assert sent[0] > 2


def test_a_standby_is_asked_again_until_somebody_leads() -> None:
    left = [3]

    def handle(request: httpx.Request) -> httpx.Response:
        left[0] -= 1
        return httpx.Response(503, json={"errors": ["Nobody leads."]}) if left[0] else httpx.Response(200, json={})

    assert client_of(handle).get("/overview") == {}


def test_the_address_is_that_of_the_announced_jobmanager_unless_another_is_set(home: Path) -> None:
    folder = home / "clusters" / "default"
    folder.mkdir(parents=True)
    write_running(folder, RunningCluster(4711, "http://localhost:5000/", 0))
    assert (folder / "cluster.json").stat().st_mode & 0o777 == 0o600
    assert client_of(answers(200, {})).url == "http://localhost:5000"
    assert client_of(answers(200, {}), rest_port=1234).url == "http://localhost:1234"
    assert client_of(answers(200, {}), rest_address="::1").url == "http://[::1]:8081"
    with pytest.raises(UnreachableError, match="process 4711"):
        client_of(refused(100, answers(200, {}))).get("/jobs")
    remove_running(folder, 1)
    assert client_of(answers(200, {})).url == "http://localhost:5000"
    remove_running(folder, 4711)
    assert client_of(answers(200, {})).url == "http://localhost:8081"


def test_a_jobmanager_that_came_back_elsewhere_is_found_again(home: Path) -> None:
    folder = home / "clusters" / "default"
    folder.mkdir(parents=True)
    write_running(folder, RunningCluster(1, "http://localhost:5001", 0))

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.port == 5001:
            write_running(folder, RunningCluster(2, "http://localhost:5002", 0))
            raise httpx.ConnectError("Connection refused", request=request)
        return httpx.Response(200, json={"port": request.url.port})

    assert client_of(handle).get("/overview") == {"port": 5002}


def test_files_are_sent_as_a_form() -> None:
    bodies: list[bytes] = []

    def handle(request: httpx.Request) -> httpx.Response:
        bodies.append(request.read())
        assert request.headers["x-run"] == "7"
        return httpx.Response(202, json={"jobid": JOB})

    parts: list[FormPart] = [
        ("submission", "s.json", b"{}"),
        ("file", "a.zip", io.BytesIO(b"PK")),
        ("file", "b.zip", io.BytesIO(b"QQ")),
    ]
    assert client_of(handle).post_form("/jobs", parts, {"X-Run": "7"}) == {"jobid": JOB}
    assert bodies[0].count(b'name="file"') == 2
    assert b'filename="b.zip"' in bodies[0]


def test_text_comes_as_it_is_and_in_pieces() -> None:
    client = client_of(lambda request: httpx.Response(200, text="line 1\nline 2\n"))
    assert client.text("/jobmanager/log") == "line 1\nline 2\n"
    with client.stream_text("/jobmanager/log") as pieces:
        assert "".join(pieces) == "line 1\nline 2\n"
    with (
        pytest.raises(ClusterError, match="File not found"),
        client_of(answers(404, {"errors": ["File not found."]})).stream_text("/jobmanager/logs/x") as pieces,
    ):
        pytest.fail("there is nothing to read")


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    configuration = Configuration.of({"security.ssl.rest.enabled": True, "flott.rest.ssl.ca": str(tmp_path / "no.pem")})
    with pytest.raises(ConfigurationError, match=r"no\.pem"):
        RestClient(configuration)


def test_with_high_availability_the_leader_is_asked_and_the_next_one_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders: list[SimpleNamespace | None] = [
        None,
        SimpleNamespace(token=1, address="http://one:1"),
        SimpleNamespace(token=2, address="http://two:2"),
    ]
    resigned: list[bool] = []
    election = SimpleNamespace(
        leader=lambda: leaders.pop(0) if len(leaders) > 1 else leaders[0], resign=lambda: resigned.append(True)
    )
    module = SimpleNamespace(make_election=lambda configuration: election)
    monkeypatch.setitem(sys.modules, "flott.runtime.jobmanager.leadership", SimpleNamespace(election=module))
    monkeypatch.setitem(sys.modules, "flott.runtime.jobmanager.leadership.election", module)

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.host == "one":
            raise httpx.ConnectError("Connection refused", request=request)
        return httpx.Response(200, json={"host": request.url.host})

    with client_of(handle, high__availability_type="filesystem", rest_port=5) as client:
        assert client.get("/overview") == {"host": "two"}
        assert client.url == "http://two:2"
    assert resigned == [True]


def test_a_cluster_without_a_leader_is_waited_for_and_then_told(monkeypatch: pytest.MonkeyPatch) -> None:
    election = SimpleNamespace(leader=lambda: None, resign=lambda: None)
    module = SimpleNamespace(make_election=lambda configuration: election)
    monkeypatch.setitem(sys.modules, "flott.runtime.jobmanager.leadership", SimpleNamespace(election=module))
    monkeypatch.setitem(sys.modules, "flott.runtime.jobmanager.leadership.election", module)
    clock = PatientClock()
    with pytest.raises(UnreachableError, match="no leading JobManager"):
        client_of(answers(200, {}), clock, high__availability_type="zookeeper").get("/overview")
    assert 30_000 <= clock.waited_ms < 31_000


def test_the_client_speaks_tls_and_shows_its_certificate(tmp_path: Path) -> None:
    for name in ("server", "client"):
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost"]
        subprocess.run(["openssl", "req", "-x509", *key, *files, *names], check=True, capture_output=True)

    def settings(own: str, other: str, **more: Any) -> Configuration:
        values = {"certificate": f"{own}.pem", "key": f"{own}.key", "ca": f"{other}.pem"}
        tls = {f"flott.rest.ssl.{key}": str(tmp_path / value) for key, value in values.items()}
        mutual = {"security.ssl.rest.enabled": True, "security.ssl.rest.authentication-enabled": True}
        return Configuration.of({**tls, **mutual, **more})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({"path": scope["path"]})(scope, receive, send)

    server = RestServer(app, settings("server", "client", **{"rest.port": 0}))
    port = server.start()
    try:
        with RestClient(settings("client", "server", **{"rest.port": port})) as client:
            assert client.get("/overview") == {"path": "/v1/overview"}
        with (
            RestClient(settings("client", "client", **{"rest.port": port}), clock=PatientClock()) as distrustful,
            pytest.raises(UnreachableError, match=r"flott\.rest\.ssl\.ca"),
        ):
            distrustful.get("/overview")
    finally:
        server.stop()
