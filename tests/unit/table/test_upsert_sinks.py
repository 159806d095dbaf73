"""Tables that are written by key: what is left in them is the result of the query, whatever the changes were."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from flott.table import ExplainDetail, StreamTableEnvironment
from flott.table._connectors import registry
from flott.table._sql.errors import SqlError
from flott.testing.harness import in_process
from tests.unit.table import changelog_tables
from tests.unit.table.test_queries_against_sqlite import random_changes

#: Queries by the number of their columns that are the key of the table.
QUERIES = (
    (1, "SELECT k, COUNT(*) AS n FROM a GROUP BY k"),
    (1, "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) AS x WHERE n < 3"),
    (1, "SELECT k, SUM(v) AS n FROM a GROUP BY k HAVING COUNT(*) <> 2"),
    (1, "SELECT id, k FROM a WHERE v > 2"),
    (1, "SELECT a.id, b.v FROM a JOIN b ON a.k = b.id"),
    (1, "SELECT a.id, b.v FROM a LEFT JOIN b ON a.k = b.id AND b.v > 1"),
    (1, "SELECT x.k, y.n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) AS x JOIN"
        " (SELECT k, SUM(v) AS n FROM b GROUP BY k) AS y ON x.k = y.k WHERE x.n < y.n"),
    (2, "SELECT a.id, b.id AS other FROM a JOIN b ON a.k = b.k"),
    (1, "SELECT id, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM a) AS x"
        " WHERE r = 1"),
    (2, "SELECT k, r, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM a) AS x"
        " WHERE r <= 2"),
    (1, "SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) AS x GROUP BY n"),
)  # fmt: skip


def written(lines: Sequence[str], key: int) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return what a table that replaces rows by key has at the end. It gets no former rows."""
    rows: dict[tuple[str, ...], tuple[str, ...]] = {}
    for line in lines:
        change = line.rpartition("> ")[2]  # the number of the subtask stands before, if there are several
        kind, values = change[:2], tuple(change[3:-1].split(", "))
        assert kind != "-U", line
        if kind == "-D":
            assert rows.pop(values[:key], None) is not None, f"{line} deletes a row that is not there"
        else:
            rows[values[:key]] = values
    return rows


@pytest.mark.parametrize(("key", "query"), QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_table_by_key_ends_with_the_result_of_the_query(
    key: int, query: str, seed: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    random = Random(f"{query} {seed}")
    database = sqlite3.connect(":memory:")
    t_env = StreamTableEnvironment.create(in_process(seed % 2 + 1, flott__epoch__max_records=str(3 + 5 * (seed % 3))))
    t_env.get_config().set("table.exec.mini-batch.enabled", str(seed % 2 == 0).lower())
    for table in "ab":
        changes, rows = random_changes(random, 30, unique=True, updates=seed > 0)
        monkeypatch.setitem(changelog_tables.TABLES, table, [(kind, _known(row)) for kind, row in changes])
        database.execute(f"CREATE TABLE {table} (id INT, k INT, v INT)")
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", map(_known, rows))
        t_env.execute_sql(
            f"CREATE TABLE {table} (id INT PRIMARY KEY NOT ENFORCED, k INT NOT NULL, v INT) WITH"
            f" ('connector' = '{changelog_tables.NAME}', 'data' = '{table}', 'updates' = '{str(seed > 0).lower()}')"
        )
    expected = {tuple(map(_text, row))[:key]: tuple(map(_text, row)) for row in database.execute(query).fetchall()}
    columns = t_env.sql_query(query).get_schema().get_field_names()
    types = ", ".join(f"{name} BIGINT" for name in columns)
    t_env.execute_sql(
        f"CREATE TABLE kept ({types}, PRIMARY KEY ({', '.join(columns[:key])}) NOT ENFORCED) WITH"
        f" ('connector' = '{changelog_tables.NAME}', 'data' = '')"
    )
    t_env.execute_sql(f"INSERT INTO kept {query}").wait()
    assert written(capsys.readouterr().out.splitlines(), key) == expected


def _known(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[0], row[1] or 0, row[2]


def _text(value: Any) -> str:
    return "null" if value is None else str(value)


def test_an_aggregation_sends_no_former_rows_to_a_table_by_key() -> None:
    t_env = StreamTableEnvironment.create(in_process(1))
    t_env.execute_sql("CREATE TABLE t (k INT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    t_env.execute_sql(
        "CREATE TABLE s (k INT PRIMARY KEY NOT ENFORCED, n BIGINT) WITH ('connector' = 'upsert-kafka', 'topic' = 's',"
        " 'properties.bootstrap.servers' = 'x:1', 'key.format' = 'json', 'value.format' = 'json')"
    )
    plan = t_env.explain_sql("INSERT INTO s SELECT k, COUNT(*) FROM t GROUP BY k", ExplainDetail.CHANGELOG_MODE)
    assert "changelogMode=[I,UA])" in plan
    assert "DropUpdateBefore" not in plan
    having = "INSERT INTO s SELECT k, COUNT(*) FROM t GROUP BY k HAVING COUNT(*) < 9"
    assert "DropUpdateBefore" in t_env.explain_sql(having)


@pytest.mark.parametrize(
    ("connector", "conflict", "message"),
    [
        (changelog_tables.NAME, "NOTHING", "ON CONFLICT DO NOTHING is not supported: the last row of a key wins"),
        (changelog_tables.NAME, "ERROR", "ON CONFLICT DO ERROR is not supported"),
        ("print", "DEDUPLICATE", "needs a table that is written by its primary key"),
    ],
)
def test_a_conflict_that_would_be_ignored_is_refused(
    connector: str, conflict: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    t_env = StreamTableEnvironment.create(in_process(1))
    t_env.execute_sql(f"CREATE TABLE kept (a INT PRIMARY KEY NOT ENFORCED, b INT) WITH ('connector' = '{connector}')")
    with pytest.raises(SqlError, match=message):
        t_env.execute_sql(f"INSERT INTO kept SELECT 1, 2 ON CONFLICT DO {conflict}")


def test_the_last_row_of_a_key_wins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    t_env = StreamTableEnvironment.create(in_process(1))
    t_env.execute_sql(
        "CREATE TABLE kept (a INT PRIMARY KEY NOT ENFORCED, b INT) WITH"
        f" ('connector' = '{changelog_tables.NAME}', 'data' = '')"
    )
    t_env.execute_sql("INSERT INTO kept VALUES (1, 2), (1, 3) ON CONFLICT DO DEDUPLICATE").wait()
    assert written(capsys.readouterr().out.splitlines(), 1) == {("1",): ("1", "3")}
