"""What the SQL shell does with statements: scripts, results, errors, completions."""

from __future__ import annotations

import io

import pytest

from flott.cli.sql.executing import Leave, StatementRunner, reporting_errors
from flott.cli.sql.results import show_live
from flott.cli.sql.shell import is_complete
from flott.cli.sql.statement_session import LocalSession
from flott.common.types import Row, RowKind
from flott.errors import FlottError
from flott.table import EnvironmentSettings, TableEnvironment
from flott.table._environment.completions import completions
from flott.table._types.logical import INT, row_type
from flott.testing.harness import in_process


@pytest.fixture
def environment() -> TableEnvironment:
    return TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())


@pytest.fixture
def runner(environment: TableEnvironment) -> StatementRunner:
    return StatementRunner(LocalSession(environment), io.StringIO())


def written(runner: StatementRunner) -> str:
    assert isinstance(runner.out, io.StringIO)
    return runner.out.getvalue()


def test_a_script_runs_its_statements_in_order(runner: StatementRunner) -> None:
    runner.run_script(
        "CREATE TEMPORARY VIEW v AS SELECT * FROM (VALUES (1, 'a;b'), (2, 'c')) AS t(n, s);\n"
        "-- a comment; not a statement\n"
        "SELECT s FROM v WHERE n = 1;"
    )
    assert "Execute statement succeeded" in written(runner)
    assert "a;b" in written(runner)
    assert "1 row in set" in written(runner)


def test_changes_are_written_with_their_kinds(runner: StatementRunner) -> None:
    runner.run("SELECT k, COUNT(*) FROM (VALUES (1), (1)) AS t(k) GROUP BY k")
    lines = [line for line in written(runner).splitlines() if line.startswith(("| +", "| -"))]
    assert [line[2:4] for line in lines] == ["+I", "-U", "+U"]


def test_an_insert_of_a_script_is_waited_for(runner: StatementRunner) -> None:
    runner.run_script("CREATE TABLE s (k INT) WITH ('connector' = 'blackhole'); INSERT INTO s VALUES (1);")
    assert "Job ID: " in written(runner)
    assert "Complete execution" in written(runner)


def test_an_error_is_a_sentence_with_its_place_and_ends_the_script(runner: StatementRunner) -> None:
    errors = io.StringIO()
    assert not reporting_errors(lambda: runner.run_script("SELECT nothing FROM missing; SELECT 1;"), errors)
    assert errors.getvalue().startswith("[ERROR] ")
    assert "line 1" in errors.getvalue()
    assert "Traceback" not in errors.getvalue()
    assert written(runner) == ""


def test_settings_are_seen_by_later_statements(runner: StatementRunner) -> None:
    runner.run("SET 'table.local-time-zone' = 'Asia/Tokyo'")
    assert runner.session.setting("table.local-time-zone", "") == "Asia/Tokyo"
    runner.run("RESET 'table.local-time-zone'")
    assert runner.session.setting("table.local-time-zone", "default") == "default"


@pytest.mark.parametrize("text", ["QUIT;", "exit", " Quit ;"])
def test_quit_leaves(runner: StatementRunner, text: str) -> None:
    with pytest.raises(Leave):
        runner.run(text)


def test_a_file_that_is_missing_is_an_error_and_not_the_end(runner: StatementRunner) -> None:
    errors = io.StringIO()
    assert not reporting_errors(lambda: runner.run("SOURCE 'nowhere.sql'"), errors)
    assert "nowhere.sql" in errors.getvalue()


@pytest.mark.parametrize(
    ("text", "complete"), [("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';'", False), ("", True)]
)
def test_a_statement_is_complete_at_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_names_of_tables_columns_functions_and_words_are_completed(environment: TableEnvironment) -> None:
    environment.execute_sql("CREATE TABLE orders (customer STRING) WITH ('connector' = 'datagen')")
    assert "orders" in completions("SELECT * FROM ord", environment)
    assert "customer" in completions("SELECT * FROM orders WHERE cust", environment)
    assert "UPPER" in completions("SELECT upp", environment)
    assert "SELECT" in completions("sel", environment)


def test_a_live_result_is_the_table_as_it_stands() -> None:
    out = io.StringIO()
    show_live([Row(7)], row_type({"n": INT}), out)
    assert "7" in out.getvalue()
    assert "1 rows after 1 changes" in out.getvalue()
    out = io.StringIO()
    show_live([Row(7), Row(8), Row.of_kind(RowKind.DELETE, 7)], row_type({"n": INT}), out)
    assert "1 rows after 3 changes" in out.getvalue()


def test_an_unknown_statement_is_refused(runner: StatementRunner) -> None:
    with pytest.raises(FlottError):
        runner.run("FROBNICATE everything")
