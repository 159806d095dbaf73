"""The shell at a gateway: in this process, through a socket, cancelled, lost, and against answers in Flink's words."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from flott.cli.sql.executing import StatementRunner, reporting_errors
from flott.cli.sql.gateway_session import RemoteShellSession, session_properties
from flott.client.gateway_client import GatewayClient, GatewayOperation, SqlClientSession, readable_errors
from flott.common.configuration import Configuration
from flott.errors import ClusterError
from flott.rest.gateway.app import SqlGateway
from flott.runtime.clock import SystemClock
from tests.unit.cli.conftest import Ran
from tests.unit.rest.gateway.conftest import UNBOUNDED, Gateway, Serve, gateway, serve

__all__ = ["gateway", "serve"]

URL = "http://localhost:8083"
VALUES = "SELECT * FROM (VALUES (1, 'a', 1.50, CAST(NULL AS DATE)), (2, 'b', 2.25, DATE '2024-05-01')) AS t(n, s, d, w)"


def client_of(gateway: Gateway, **settings: object) -> GatewayClient:
    return GatewayClient(URL, Configuration.of(settings), transport=gateway.http._transport)


def runner_at(gateway: Gateway, *, json: bool = False, interactive: bool = False) -> StatementRunner:
    session = RemoteShellSession(SqlClientSession(client_of(gateway), {}), json=json)
    return StatementRunner(session, io.StringIO(), interactive=interactive, json=json)


def written(runner: StatementRunner) -> str:
    assert isinstance(runner.out, io.StringIO)
    return runner.out.getvalue()


def operations_of(gateway: Gateway) -> list[Any]:
    return [one for session in gateway.sessions._sessions.values() for one in session._operations.values()]


def test_a_result_looks_as_it_does_in_a_shell_without_a_gateway(gateway: Gateway) -> None:
    runner = runner_at(gateway)
    runner.run(VALUES)
    assert written(runner) == (
        "+----+-------------+---+-------+------------+\n"
        "| op |           n | s |     d |          w |\n"
        "+----+-------------+---+-------+------------+\n"
        "| +I |           1 | a |  1.50 |     <NULL> |\n"
        "| +I |           2 | b |  2.25 | 2024-05-01 |\n"
        "+----+-------------+---+-------+------------+\n"
        "2 rows in set\n"
    )
    assert operations_of(gateway) == []  # every result that was read is dropped


def test_json_has_a_document_per_row_with_exact_numbers(gateway: Gateway) -> None:
    runner = runner_at(gateway, json=True)
    runner.run_script(f"CREATE TEMPORARY VIEW v AS {VALUES}; SELECT * FROM v; SHOW VIEWS; SELECT 1e300 AS x;")
    assert written(runner).splitlines() == [
        '{"result":"OK"}',
        '{"op":"+I","row":{"n":1,"s":"a","d":1.50,"w":null}}',
        '{"op":"+I","row":{"n":2,"s":"b","d":2.25,"w":"2024-05-01"}}',
        '{"row":{"view name":"v"}}',
        '{"op":"+I","row":{"x":1E+300}}',
    ]


def test_settings_are_those_of_the_session(gateway: Gateway) -> None:
    runner = runner_at(gateway)
    runner.run_script(f"SET 'execution.runtime-mode' = 'batch'; {VALUES};")
    assert "| op |" not in written(runner)
    assert "2 rows in set" in written(runner)


def test_an_insert_names_its_job_and_is_not_waited_for(gateway: Gateway) -> None:
    runner = runner_at(gateway)
    runner.run_script(
        f"{UNBOUNDED}; CREATE TABLE s (n BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO s SELECT n FROM numbers;"
    )
    assert "Job ID: " in written(runner)
    assert "Complete execution" not in written(runner)


def test_a_plan_is_written_as_lines(gateway: Gateway) -> None:
    runner = runner_at(gateway)
    runner.run("EXPLAIN SELECT 1 AS n")
    assert written(runner).startswith("== Abstract Syntax Tree ==\n")


def test_ctrl_c_cancels_a_query_and_not_the_session(gateway: Gateway) -> None:
    runner = runner_at(gateway, interactive=True)
    runner.run(UNBOUNDED)
    started: list[Any] = []

    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("| +I"):
                started.extend(operations_of(gateway))
                raise KeyboardInterrupt
            return super().write(text)

    runner.out = Interrupted()
    runner.run("SELECT * FROM numbers")
    assert written(runner).endswith("[INFO] Query ended.\n")
    (operation,) = started
    operation.join(120)
    assert not operation.is_active
    runner.out = io.StringIO()
    runner.run("SELECT 1 AS n")
    assert "1 row in set" in written(runner)


def test_ctrl_c_cancels_a_statement_that_has_no_result_yet(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_at(gateway, interactive=True)
    runner.run_script(
        f"{UNBOUNDED}; CREATE TABLE s (n BIGINT) WITH ('connector' = 'blackhole'); SET 'table.dml-sync' = 'true';"
    )
    seen: list[Any] = []

    def interrupted(self: GatewayOperation) -> None:
        seen.extend(operations_of(gateway))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(GatewayOperation, "await_header", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runner.run("INSERT INTO s SELECT n FROM numbers")
    seen[-1].join(120)
    assert not seen[-1].is_active
    runner.run("SELECT 1 AS n")  # the session is free
    assert "1 row in set" in written(runner)


def test_errors_are_the_sentences_of_the_gateway(gateway: Gateway) -> None:
    errors = io.StringIO()
    assert not reporting_errors(lambda: runner_at(gateway).run("SELECT x FROM nowhere"), errors)
    assert errors.getvalue().startswith("[ERROR] ")
    assert "nowhere" in errors.getvalue()
    assert "line 1" in errors.getvalue()


def test_words_are_completed_by_the_gateway(gateway: Gateway) -> None:
    runner = runner_at(gateway)
    runner.run(UNBOUNDED)
    assert runner.session.complete("SELECT * FROM numb") == ["numbers"]


def test_the_token_is_shown_and_its_absence_is_a_sentence(serve: Serve) -> None:
    gateway = serve(**{"flott.rest.token": "open-sesame"})
    with pytest.raises(ClusterError, match=r"asks for an access token and was shown none: set flott\.rest\.token"):
        SqlClientSession(client_of(gateway), {})
    session = SqlClientSession(client_of(gateway, **{"flott.rest.token": "open-sesame"}), {"pipeline.name": "mine"})
    assert session.properties()["pipeline.name"] == "mine"
    session.close()
    assert gateway.sessions._sessions == {}


def test_heartbeats_keep_a_session_open(gateway: Gateway) -> None:
    beats: list[str] = []
    done = threading.Event()

    class Counting(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/heartbeat"):
                beats.append(request.method)
                if len(beats) == 2:
                    done.set()
            return gateway.http._transport.handle_request(request)

    session = SqlClientSession(
        GatewayClient(URL, Configuration(), transport=Counting()), {}, SystemClock(), heartbeat_ms=1
    )
    assert done.wait(120)
    session.close()
    assert set(beats) == {"POST"}


def test_tokens_and_certificates_are_no_settings_of_a_session() -> None:
    given = {"flott.rest.token": "x", "security.ssl.rest.enabled": "true", "parallelism.default": "2"}
    assert session_properties(given) == {"parallelism.default": "2"}


def test_of_a_java_stack_trace_the_last_cause_remains() -> None:
    trace = (
        "<Exception on server side:\norg.apache.flink.table.gateway.api.utils.SqlGatewayException: Failed to fetch.\n"
        "\tat org.apache.flink.Handler.handle(Handler.java:1)\n"
        "Caused by: org.apache.flink.table.api.ValidationException: Object 'nowhere' not found\n\tat x.Y.z(Y.java:2)\n"
        "End of exception on server side>"
    )
    assert readable_errors(["Internal server error.", trace]) == "Object 'nowhere' not found"
    assert readable_errors(["one", "two"]) == "one\ntwo"


# --- a real server ---------------------------------------------------------------------------------------------------


@pytest.fixture
def served() -> Iterator[tuple[SqlGateway, str]]:
    """A gateway that listens on a port of this machine."""
    settings = {"sql-gateway.endpoint.rest.port": "0", "execution.target": "in-process", "flott.progress": "off"}
    server = SqlGateway(Configuration.of(settings))
    url = server.start()
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server, url
    server.stop()
    thread.join(120)


def test_a_command_runs_at_a_gateway_through_a_socket(
    cli: Callable[..., Ran], served: tuple[SqlGateway, str], tmp_path: Path
) -> None:
    server, url = served
    script = tmp_path / "script.sql"
    script.write_text("SELECT n + 1 AS m FROM v;")
    ran = cli("sql", "--gateway", url, "--json", "-e", "CREATE TEMPORARY VIEW v AS SELECT 41 AS n;", "-f", str(script))
    assert ran.code == 0, ran.err
    assert [json.loads(line) for line in ran.out.splitlines()] == [{"result": "OK"}, {"op": "+I", "row": {"m": 42}}]
    assert server._sessions._sessions == {}  # the command closed its session
    failed = cli("sql", "--gateway", url.removeprefix("http://"), "-e", "SELECT 1; SELECT x FROM nowhere; SELECT 2")
    assert (failed.code, "1 row in set" in failed.out) == (1, True)
    assert failed.err.startswith("[ERROR] ")
    batch = cli("sql", "--gateway", url, "--batch", "-e", "SELECT 7 AS n")
    assert "| op |" not in batch.out
    assert "7" in batch.out


def test_a_lost_gateway_is_a_sentence(served: tuple[SqlGateway, str]) -> None:
    server, url = served
    runner = StatementRunner(
        RemoteShellSession(SqlClientSession(GatewayClient(url, Configuration()), {})), io.StringIO()
    )
    server._server.stop()
    errors = io.StringIO()
    assert not reporting_errors(lambda: runner.run("SELECT 1"), errors)
    assert errors.getvalue().startswith(f"[ERROR] The SQL gateway at {url} does not answer any more: ")
    runner.session.close()  # needs no gateway


def test_no_gateway_is_a_sentence_and_an_exit_code(cli: Callable[..., Ran]) -> None:
    ran = cli("sql", "--gateway", "localhost:1", "-e", "SELECT 1")
    assert ran.code == 3
    assert "No SQL gateway answers at http://localhost:1" in ran.err


@pytest.mark.parametrize("address", ["localhost", "ftp://localhost:8083", "localhost:0", "://x", "http://"])
def test_a_wrong_address_is_refused(cli: Callable[..., Ran], address: str) -> None:
    ran = cli("sql", "--gateway", address, "-e", "SELECT 1")
    assert ran.code == 2
    assert "expected HOST:PORT" in ran.err


def test_a_gateway_has_no_target(cli: Callable[..., Ran]) -> None:
    ran = cli("sql", "--gateway", "localhost:1", "--target", "session", "-e", "SELECT 1")
    assert (ran.code, "exclude each other" in ran.err) == (2, True)
