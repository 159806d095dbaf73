"""SQL sessions of a JobManager: forwarding to a real process, its limits, its end. Statements here start no jobs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from flott.client.gateway_client import GatewayClient, SqlClientSession
from flott.common.configuration import Configuration
from flott.errors import ClusterError
from flott.rest.app import create_app
from flott.rest.gateway.mounted import serve as serve_mounted
from flott.rest.http_server import RestServer
from flott.rest.refusal import Refusal
from flott.rest.sql_mount import PassedReply, SqlMount
from flott.runtime.jobmanager.programs import ProgramStore
from flott.runtime.jobmanager.sql_process import EndedProcess, SqlProcess
from flott.runtime.logs.rotation import Rotation
from tests.unit.rest.fake_cluster import FakeCluster
from tests.unit.rest.gateway.conftest import Hand

pytestmark = pytest.mark.xdist_group("sql-process")

ROOT = "/flott/sql"
TOKEN = {"Authorization": "Bearer s3cret"}


@dataclass
class Served:
    """A JobManager made of data, and the real process of its SQL sessions."""

    http: TestClient
    mount: SqlMount
    cluster: FakeCluster
    programs: ProgramStore
    cancelled: list[str] = field(default_factory=list)

    def open(self, **headers: str) -> str:
        reply = self.http.post(f"{ROOT}/sessions", json={"sessionName": "test"}, headers=headers)
        assert reply.status_code == 200, reply.text
        return f"{ROOT}/sessions/{reply.json()['sessionHandle']}"

    def start(self, session: str, statement: str) -> str:
        reply = self.http.post(f"{session}/statements", json={"statement": statement})
        assert reply.status_code == 200, reply.text
        return f"{session}/operations/{reply.json()['operationHandle']}"

    def first_page(self, session: str, statement: str) -> Any:
        address = f"{self.start(session, statement)}/result/0"
        while True:
            reply = self.http.get(address)
            if reply.status_code != 200 or reply.json()["resultType"] != "NOT_READY":
                return reply

    def state(self) -> dict[str, Any]:
        reply = self.http.get(ROOT)
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found


def make(folder: Path, settings: dict[str, str], missing: Sequence[str] = ()) -> Served:
    configuration = Configuration.of(settings)
    cluster = FakeCluster(folder, configuration)
    programs = ProgramStore(folder / "programs", configuration)
    cancelled: list[str] = []

    def start(on_end: Callable[[EndedProcess, Sequence[str]], None]) -> SqlProcess:
        properties = {**programs.connection(), **settings}
        return SqlProcess(lambda: properties, folder / "sql.out", Rotation(1 << 20, 2), on_end)

    mount = SqlMount(configuration, start, cancelled.append, lambda: missing)
    http = TestClient(
        create_app(cluster, programs, sql=mount), base_url="http://localhost:8081", raise_server_exceptions=False
    )
    return Served(http, mount, cluster, programs, cancelled)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def serve(missing: Sequence[str] = (), **settings: str) -> Served:
        served = make(tmp_path, {key.replace("__", "."): value for key, value in settings.items()}, missing)
        made.append(served)
        return served

    yield serve
    for served in made:
        served.mount.close()


@pytest.fixture(scope="module")
def sql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One process for the tests that leave it alive."""
    served = make(tmp_path_factory.mktemp("sql"), {})
    yield served
    served.mount.close()


def test_statements_run_in_a_process_of_their_own(sql: Served) -> None:
    session = sql.open()
    assert sql.first_page(session, "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'datagen')").status_code == 200
    page = sql.first_page(session, "DESCRIBE t").json()
    assert [row["fields"][:2] for row in page["results"]["data"]] == [["a", "INT"], ["b", "STRING"]]
    assert page["nextResultUri"].startswith(f"{ROOT}/v2/sessions/")
    assert sql.http.get(page["nextResultUri"]).json()["resultType"] == "EOS"
    state = sql.state()
    assert state["available"]
    assert state["process"] not in (None, os.getpid())
    assert session.rpartition("/")[2] in {one["sessionHandle"] for one in state["sessions"]}


def test_an_error_comes_with_its_status_and_its_place(sql: Served) -> None:
    reply = sql.first_page(sql.open(), "SELECT\n nosuch FROM (VALUES (1)) AS t(a)")
    assert reply.status_code == 400
    assert "(at line 2, column 2)" in reply.json()["errors"][0]


def test_words_are_suggested(sql: Served) -> None:
    session = sql.open()
    reply = sql.http.post(f"{session}/complete-statement", json={"statement": "SELECT COAL", "position": 11})
    assert "COALESCE" in reply.json()["candidates"]


def test_a_closed_session_is_gone(sql: Served) -> None:
    session = sql.open()
    assert sql.http.delete(session).json() == {"status": "CLOSED"}
    reply = sql.http.post(f"{session}/heartbeat")
    assert reply.status_code == 404
    assert "does not exist" in reply.json()["errors"][0]


def test_every_version_of_the_path_is_answered(sql: Served) -> None:
    for version in ("v1", "v2", "v3", "v4"):
        assert sql.http.get(f"{ROOT}/{version}/info").json()["productName"] == "Flott"


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}])
def test_a_page_of_another_origin_is_refused(sql: Served, headers: dict[str, str]) -> None:
    operation = sql.start(sql.open(), "SHOW CATALOGS")
    for method, path in (
        ("POST", f"{ROOT}/sessions"), ("GET", f"{operation}/result/0"), ("DELETE", operation.partition("/op")[0]),
        ("DELETE", ROOT),
    ):  # fmt: skip
        reply = sql.http.request(method, path, headers=headers)
        assert reply.status_code == 403, (method, path)
    while sql.http.get(f"{operation}/result/0").json()["resultType"] == "NOT_READY":
        pass
    assert sql.http.get(f"{operation}/result/0").json()["results"]["data"], "the result was not moved on"


def test_without_the_token_nothing_is_answered_or_started(serve: Callable[..., Served]) -> None:
    served = serve(flott__rest__token="s3cret")
    for method, path in (("GET", ROOT), ("POST", f"{ROOT}/sessions"), ("GET", f"{ROOT}/sessions/x"), ("DELETE", ROOT)):
        assert served.http.request(method, path).status_code == 401
    assert served.mount.running is None
    served.http.headers.update(TOKEN)
    session = served.open()
    assert served.first_page(session, "SHOW DATABASES").status_code == 200
    settings = served.first_page(session, "SET").text + served.http.get(session).text
    assert "s3cret" not in settings


def test_sessions_are_bounded_in_number(serve: Callable[..., Served]) -> None:
    served = serve(**{"flott.sql.max-sessions": "2"})
    sessions = [served.open(), served.open()]
    refused = served.http.post(f"{ROOT}/sessions", json={})
    assert refused.status_code == 503
    assert "flott.sql.max-sessions" in refused.json()["errors"][0]
    served.http.delete(sessions[0])
    served.open()


def test_a_killed_process_loses_its_sessions_and_the_next_session_starts_another(serve: Callable[..., Served]) -> None:
    served = serve()
    session = served.open()
    killed = served.mount.running
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    reply = served.http.post(f"{session}/statements", json={"statement": "SHOW TABLES"})
    assert reply.status_code == 404
    assert "has ended" in reply.json()["errors"][0]
    wait_for(lambda: served.mount.last_end is not None)
    assert "exit code -9" in served.state()["last-end"]
    again = served.open()
    assert served.first_page(again, "SHOW CATALOGS").status_code == 200
    assert served.mount.running is not None
    assert served.mount.running.pid != killed.pid
    assert served.state()["last-end"] is None


def test_a_session_is_opened_although_the_process_has_just_ended(serve: Callable[..., Served]) -> None:
    served = serve()
    served.open()
    killed = served.mount.running
    assert killed is not None
    os.kill(killed.pid, signal.SIGKILL)
    wait_for(lambda: not killed.is_alive or _is_dead(killed.pid))
    served.open()


@dataclass
class HeldProcess:
    """A process made of a socket: it answers while it is alive, and holds each request until it is told to go on."""

    path: str
    is_alive: bool = True
    pid: int = 1
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    goes_on: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                connection.recv(65536)
                self.asked.release()
                self.goes_on.acquire()
                if self.is_alive:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    def end(self) -> None:
        self.is_alive = False
        self.goes_on.release()


def test_a_request_to_a_lost_process_is_told_so_although_another_one_was_started(tmp_path: Path) -> None:
    started = [HeldProcess(str(tmp_path / name)) for name in ("first", "second")]
    waiting = iter(started)
    mount = SqlMount(Configuration(), lambda on_end: next(waiting), lambda job: None, lambda: ())
    with ThreadPoolExecutor() as threads:

        def ask(path: str, starts: bool) -> Future[PassedReply]:
            return threads.submit(lambda: asyncio.run(mount.forward("POST", path, starts=starts)))

        first, second = started
        first.goes_on.release()
        assert ask("/v2/sessions", True).result().status == 200
        first.asked.acquire()
        lost = ask("/v2/sessions/x/heartbeat", False)
        first.asked.acquire()
        first.is_alive = False
        second.goes_on.release()
        assert ask("/v2/sessions", True).result().status == 200, "another client opens a session meanwhile"
        first.goes_on.release()
        with pytest.raises(Refusal, match="has ended") as refused:
            lost.result()
        assert refused.value.status == 404, "so the client opens another session"
    mount.close()


def test_the_process_is_ended_on_request_and_with_the_jobmanager(serve: Callable[..., Served]) -> None:
    served = serve()
    served.open()
    first = served.mount.running
    assert first is not None
    assert served.http.delete(ROOT).status_code == 200
    assert _is_dead(first.pid)
    assert served.state()["last-end"] is None
    served.open()
    second = served.mount.running
    assert second is not None
    served.mount.close()
    assert _is_dead(second.pid)
    assert not Path(second.path).parent.exists()
    assert served.http.post(f"{ROOT}/sessions", json={}).status_code == 503


@pytest.mark.parametrize(
    ("missing", "settings", "said"),
    [
        (("pyarrow",), {}, "pyarrow"),
        ((), {"web.submit.enable": "false"}, "web.submit.enable"),
        ((), {"flott.sql.max-sessions": "0"}, "flott.sql.max-sessions"),
    ],
)
def test_it_is_said_why_there_is_no_sql(
    serve: Callable[..., Served], missing: Sequence[str], settings: dict[str, str], said: str
) -> None:
    served = serve(missing, **settings)
    state = served.state()
    assert not state["available"]
    assert said in state["reason"]
    assert state["install"] == ("pip install 'flott[sql]'" if missing else None)
    assert served.http.post(f"{ROOT}/sessions", json={}).status_code == 403
    assert served.mount.running is None


def test_a_jobmanager_without_sql_says_so(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    client = TestClient(create_app(cluster, ProgramStore(tmp_path / "p", cluster.configuration)),
                        base_url="http://localhost:8081")  # fmt: skip
    assert client.get(ROOT).json()["available"] is False
    assert client.post(f"{ROOT}/sessions", json={}).status_code == 403


def test_jobs_of_queries_are_cancelled_when_their_process_dies(tmp_path: Path) -> None:
    told: list[tuple[EndedProcess, Sequence[str]]] = []
    code = """if True:
        import socket, sys
        line = socket.socket(fileno=int(sys.argv[2]))
        line.sendall(b"a" * 32 + b"\\n")
        sys.exit(3)
    """
    process = SqlProcess(
        dict, tmp_path / "sql.out", Rotation(1 << 20, 2), lambda *end: told.append(end), command=("-c", code)
    )
    wait_for(lambda: bool(told))
    [(ended, queries)] = told
    assert (ended.code, ended.expected) == (3, False)
    assert queries == ("a" * 32,)
    assert not process.is_alive
    served = make(tmp_path, {})
    served.mount._process_ended(1, ended, queries)
    assert served.cancelled == ["a" * 32]


def test_the_process_ends_without_sessions_and_without_its_jobmanager() -> None:
    clock = Hand()
    steps = iter([0.0, 10.0, 400.0, 401.0, 702.0, 703.0])
    clock.monotonic = lambda: next(steps)  # type: ignore[method-assign]

    class OneSession:
        def __init__(self) -> None:
            self.clock, self.looks = clock, 0

        def expire(self) -> None:
            self.looks += 1

        def opened(self) -> list[int]:
            return [1] if self.looks == 2 else []

    ours, theirs = socket.socketpair()
    with ours, theirs:
        held: Any = OneSession()
        serve_mounted(held, theirs, look_s=0, idle_s=300)
        assert held.looks == 4, "a session at 400 s; nothing at 401 s and 702 s"
        ours.close()
        serve_mounted(held, theirs, look_s=None, idle_s=300)  # type: ignore[arg-type]


def test_a_client_of_the_gateway_api_works_below_the_path(sql: Served) -> None:
    server = RestServer(create_app(sql.cluster, sql.programs, sql=sql.mount), Configuration.of({"rest.port": "0"}))
    port = server.start()
    try:
        client = GatewayClient(f"http://localhost:{port}{ROOT}", Configuration())
        session = SqlClientSession(client, {"pipeline.name": "mine"})
        operation = session.start("SHOW CATALOGS", "JSON")
        operation.await_header()
        assert [row.fields for row in operation.rows()] == [["default_catalog"]]
        assert session.properties()["pipeline.name"] == "mine"
        with pytest.raises(ClusterError, match="nosuch"):
            session.start("DESCRIBE nosuch", "JSON").await_header()
        session.close()
    finally:
        server.stop()


def test_the_jobmanager_imports_nothing_of_the_table_api() -> None:
    import subprocess

    code = """if True:
        import sys
        from flott.rest.app import all_endpoints
        all_endpoints()
        import flott.server
        print([name for name in sys.modules if name.startswith(("flott.table", "numpy", "pyarrow"))])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def wait_for(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not holds():
        pause.wait(0.02)


def _is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
