"""Statements and their results: pages, changelogs, inserts, failures, cancelling."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.rest.gateway.conftest import UNBOUNDED, Gateway


def test_a_query_is_read_page_by_page_and_the_last_page_again(gateway: Gateway) -> None:
    session = gateway.open()
    operation = gateway.run(session, "SELECT n, s FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, s)")
    gateway.sessions.session(session).operation(operation.rpartition("/")[2]).join(120)
    first = gateway.http.get(f"{operation}/result/0").json()
    job = first.pop("jobID")
    assert len(job) == 32
    assert first == {
        "resultType": "PAYLOAD",
        "isQueryResult": True,
        "resultKind": "SUCCESS_WITH_CONTENT",
        "results": {
            "columns": [
                {"name": "n", "logicalType": {"type": "INTEGER", "nullable": False}, "comment": None},
                {"name": "s", "logicalType": {"type": "CHAR", "nullable": False, "length": 1}, "comment": None},
            ],
            "rowFormat": "JSON",
            "data": [{"kind": "INSERT", "fields": [1, "a"]}, {"kind": "INSERT", "fields": [2, "b"]}],
        },
        "nextResultUri": f"{operation}/result/1",
    }
    again = gateway.http.get(f"{operation}/result/0").json()
    assert again["results"]["data"] == first["results"]["data"]
    end = gateway.http.get(f"{operation}/result/1").json()
    assert (end["resultType"], end["results"]["data"], end["jobID"]) == ("EOS", [], job)
    assert "nextResultUri" not in end
    wrong = gateway.http.get(f"{operation}/result/7")
    assert (wrong.status_code, wrong.json()) == (400, {"errors": ["Expecting token to be 1 or 0, but found 7."]})
    assert gateway.http.get(f"{operation}/status").json() == {"status": "FINISHED"}


def test_later_versions_name_the_format_of_rows_in_the_next_address(gateway: Gateway) -> None:
    operation = gateway.run(gateway.open(), "SELECT 1").replace("/v1/", "/v2/")
    address = gateway.http.get(f"{operation}/result/0?rowFormat=PLAIN_TEXT").json()["nextResultUri"]
    assert address.startswith(f"{operation}/result/")
    assert address.endswith("?rowFormat=PLAIN_TEXT")


def test_a_result_that_is_not_ready_says_so(gateway: Gateway) -> None:
    session = gateway.open()
    held = gateway.sessions.session(session)
    before, held._turn = held._turn, type(held._turn)()  # a statement before it that has not run
    blocked = held._turn
    operation = gateway.run(session, "SELECT 1")
    assert gateway.http.get(f"{operation}/result/0").json() == {
        "resultType": "NOT_READY",
        "nextResultUri": f"{operation}/result/0",
    }
    assert gateway.http.get(f"{operation}/status").json()["status"] in ("INITIALIZED", "PENDING")
    blocked.set()
    assert before.is_set()
    assert len(gateway.pages(operation)) >= 2


def test_a_changelog_has_the_kinds_of_its_rows(gateway: Gateway) -> None:
    rows = gateway.rows(gateway.open(), "SELECT k, COUNT(*) FROM (VALUES (1), (1)) AS t(k) GROUP BY k")
    assert rows == [
        {"kind": "INSERT", "fields": [1, 1]},
        {"kind": "UPDATE_BEFORE", "fields": [1, 1]},
        {"kind": "UPDATE_AFTER", "fields": [1, 2]},
    ]


def test_an_insert_gives_its_job_and_writes(gateway: Gateway, tmp_path: Path) -> None:
    session = gateway.open()
    table = f"(n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'csv')"
    gateway.values(session, f"CREATE TABLE written {table}")
    gateway.values(session, "SET 'table.dml-sync' = 'true'")
    page, end = gateway.pages(gateway.run(session, "INSERT INTO written VALUES (1), (2)"))
    assert [column["name"] for column in page["results"]["columns"]] == ["job id"]
    assert page["results"]["data"] == [{"kind": "INSERT", "fields": [page["jobID"]]}]
    assert (page["isQueryResult"], page["resultKind"], end["resultType"]) == (False, "SUCCESS_WITH_CONTENT", "EOS")
    lines = [line for file in tmp_path.rglob("*") if file.is_file() for line in file.read_text().split()]
    assert sorted(lines) == ["1", "2"]


def test_a_statement_without_content_gives_ok(gateway: Gateway) -> None:
    page, _ = gateway.pages(gateway.run(gateway.open(), UNBOUNDED))
    assert (page["resultKind"], page["isQueryResult"]) == ("SUCCESS", False)
    assert page["results"]["data"] == [{"kind": "INSERT", "fields": ["OK"]}]
    assert "jobID" not in page


def test_statements_of_a_session_run_in_order(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.run(session, "CREATE TEMPORARY VIEW v0 AS SELECT 0 AS n")
    for number in range(1, 5):  # each needs the one before it
        gateway.run(session, f"CREATE TEMPORARY VIEW v{number} AS SELECT n + 1 AS n FROM v{number - 1}")
    assert gateway.values(session, "SELECT n FROM v4") == [[4]]


def test_settings_of_a_statement_hold_for_it_only(gateway: Gateway) -> None:
    session = gateway.open()
    path = gateway.run(session, "SET", executionConfig={"pipeline.name": "once"})
    shown = [row["fields"] for page in gateway.pages(path) for row in page["results"]["data"]]
    assert ["pipeline.name", "once"] in shown
    assert "pipeline.name" not in gateway.http.get(f"/v1/sessions/{session}").json()["properties"]


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SELECT nothing FROM (VALUES (1)) AS t(n)", "line 1, column 8"),
        ("SELEC 1", "line 1, column 1"),
        ("SELECT 1; SELECT 2", "one statement"),
    ],
)
def test_a_wrong_statement_is_an_error_with_its_place(gateway: Gateway, statement: str, part: str) -> None:
    session = gateway.open()
    operation = gateway.run(session, statement)
    status, errors = gateway.failure(operation)
    assert (status, len(errors)) == (400, 1)
    assert part in errors[0]
    assert "Traceback" not in errors[0]
    assert gateway.http.get(f"{operation}/status").json() == {"status": "ERROR"}
    assert gateway.values(session, "SELECT 1") == [[1]]  # the session goes on


def test_a_job_that_fails_ends_the_result_with_its_error(gateway: Gateway) -> None:
    operation = gateway.run(gateway.open(), "SELECT 1 / n FROM (VALUES (1), (0)) AS t(n)")
    status, errors = gateway.failure(operation)
    assert status == 500
    assert "Division by zero" in errors[0]
    assert "Traceback" not in errors[0]


def test_a_query_without_end_is_cancelled(gateway: Gateway) -> None:
    session = gateway.open()
    gateway.values(session, UNBOUNDED)
    path = gateway.run(session, "SELECT n FROM numbers")
    operation = gateway.sessions.session(session).operation(path.rpartition("/")[2])
    operation.await_ready()
    assert gateway.http.get(f"{path}/result/0").json()["resultType"] == "PAYLOAD"
    assert gateway.http.post(f"{path}/cancel").json() == {"status": "CANCELED"}
    operation.join(120)
    assert not operation.is_active
    assert gateway.http.get(f"{path}/status").json() == {"status": "CANCELED"}
    assert gateway.http.get(f"{path}/result/1").status_code == 409
    assert gateway.http.delete(f"{path}/close").json() == {"status": "CLOSED"}
    assert gateway.http.get(f"{path}/status").status_code == 404


def test_cancelling_what_has_ended_changes_nothing(gateway: Gateway) -> None:
    session = gateway.open()
    path = gateway.run(session, "SELECT 1")
    gateway.sessions.session(session).operation(path.rpartition("/")[2]).join(120)
    assert gateway.http.post(f"{path}/cancel").json() == {"status": "FINISHED"}
    assert gateway.http.get(f"{path}/result/0").json()["results"]["data"][0]["fields"] == [1]


def test_a_statement_that_waits_is_cancelled_before_it_runs(gateway: Gateway) -> None:
    session = gateway.open()
    held = gateway.sessions.session(session)
    held._turn = blocked = type(held._turn)()
    path = gateway.run(session, "CREATE TEMPORARY VIEW v AS SELECT 1 AS n")
    assert gateway.http.post(f"{path}/cancel").json() == {"status": "CANCELED"}
    blocked.set()
    assert gateway.values(session, "SHOW VIEWS") == []


def test_an_unknown_format_of_rows_is_refused(gateway: Gateway) -> None:
    operation = gateway.run(gateway.open(), "SELECT 1")
    assert gateway.http.get(f"{operation}/result/0?rowFormat=XML").status_code == 400
    assert gateway.http.get(f"{operation}/result/x").status_code == 400


def test_cancelling_an_insert_that_is_awaited_ends_its_job_and_frees_the_session(gateway: Gateway) -> None:
    session = gateway.open(**{"table.dml-sync": "true"})
    gateway.values(session, UNBOUNDED)
    gateway.values(session, "CREATE TABLE s (n BIGINT) WITH ('connector' = 'blackhole')")
    handle = gateway.run(session, "INSERT INTO s SELECT n FROM numbers")
    operation = gateway.sessions.session(session).operation(handle.rpartition("/")[2])
    while operation._awaited is None:  # the statement still starts its job
        assert operation.status.value in ("INITIALIZED", "PENDING", "RUNNING")
    assert gateway.http.post(f"{handle}/cancel").json() == {"status": "CANCELED"}
    operation.join(120)
    assert not operation.is_active
    assert gateway.values(session, "SELECT 1") == [[1]]
