"""Random queries over random changelogs, folded, against SQLite over the rows that are left."""

from __future__ import annotations

import sqlite3
from collections import Counter
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from flott.table._connectors import registry
from flott.table._environment.session import SqlSession
from flott.table._environment.statements import execute_text
from flott.testing.harness import in_process
from tests.unit.table import changelog_tables

Row = tuple[Any, ...]

QUERIES = (
    "SELECT a.id, a.k, a.v, b.id AS id2, b.v AS v2 FROM a {join} JOIN b ON a.k = b.k",
    "SELECT a.id, a.k, a.v, b.id AS id2, b.v AS v2 FROM a {join} JOIN b ON a.k = b.k AND a.v < b.v",
    "SELECT a.id, b.id AS id2, c.id AS id3 FROM a {join} JOIN b ON a.k = b.k {then} JOIN c ON b.id = c.id",
    "SELECT x.k, y.n FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) x {join} JOIN"
    " (SELECT k, COUNT(*) AS n FROM b GROUP BY k) y ON x.k = y.k",
    "SELECT id, k, v FROM a WHERE k IN (SELECT k FROM b)",
    "SELECT id, k, v FROM a WHERE k NOT IN (SELECT k FROM b)",
    "SELECT id, k, v FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.v < a.v)",
    "SELECT id, k, v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND b.v > a.v)",
    "SELECT id, k, v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k AND b.v > a.v)",
    "SELECT k, v FROM a INTERSECT SELECT k, v FROM b",
    "SELECT k, v FROM a EXCEPT SELECT k, v FROM b",
    "SELECT a.k, COUNT(*) AS n, SUM(b.v) AS s FROM a {join} JOIN b ON a.k = b.k GROUP BY a.k",
    "SELECT * FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM a) WHERE r <= {n}",
    "SELECT k, v FROM (SELECT id, k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS r FROM a)"
    " WHERE r <= {n}",
    "SELECT * FROM (SELECT k, n, ROW_NUMBER() OVER (ORDER BY n DESC, k) AS r FROM"
    " (SELECT k, COUNT(*) AS n FROM a GROUP BY k)) WHERE r <= {n} AND r >= 2",
    "SELECT k, s FROM (SELECT k, SUM(v) AS s FROM a GROUP BY k) ORDER BY s DESC, k LIMIT {n}",
    "SELECT id, k FROM a CROSS JOIN (SELECT MAX(v) AS m FROM b) WHERE v = m",
    "SELECT id, (SELECT MAX(b.v) FROM b WHERE b.k = a.k) AS m FROM a",
)


def random_changes(random: Random, count: int, unique: bool, updates: bool) -> tuple[list[tuple[str, Row]], list[Row]]:
    """Return changes and the rows that they leave."""
    changes: list[tuple[str, Row]] = []
    rows: list[Row] = []
    for number in range(count):
        chance = random.random()
        if updates and rows and chance < 0.25:
            changes.append(("-D", rows.pop(random.randrange(len(rows)))))
        elif updates and rows and chance < 0.45:
            place = random.randrange(len(rows))
            new = (rows[place][0], random.choice([None, 1, 2, 3]), random.randrange(5))
            changes += [("-U", rows[place]), ("+U", new)]
            rows[place] = new
        else:
            name = number if unique else random.randrange(4)
            row = (name, random.choice([None, 1, 2, 3]), random.randrange(5))
            rows.append(row)
            changes.append(("+I", row))
    return changes, rows


def folded(results: Any) -> Counter[Row]:
    """Return the rows that are left; every row that is taken back must be there."""
    held: Counter[Row] = Counter()
    for row in results:
        values = tuple(row)
        if row.get_row_kind().value in (0, 2):
            held[values] += 1
        else:
            assert held[values] > 0, f"{values} is taken back before it came"
            held[values] -= 1
    return +held


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", range(4))
def test_a_folded_changelog_is_the_result_of_the_query(query: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    random = Random(f"{query} {seed}")
    text = query.format(
        join=random.choice(["", "LEFT", "RIGHT", "FULL"]), then=random.choice(["", "LEFT", "FULL"]), n=seed % 3 + 1
    )
    database = sqlite3.connect(":memory:")
    settings = {"table.exec.mini-batch.enabled": random.choice(["true", "false"])}
    session = SqlSession(in_process(seed % 2 + 1), settings)
    for table in "abc":
        unique, updates = random.random() < 0.5, random.random() < 0.7
        changes, rows = random_changes(random, random.choice([0, 3, 20, 40]), unique, updates)
        monkeypatch.setitem(changelog_tables.TABLES, table, changes)
        database.execute(f"CREATE TABLE {table} (id INT, k INT, v INT)")
        database.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
        key = " PRIMARY KEY NOT ENFORCED" if unique else ""
        execute_text(
            session,
            f"CREATE TABLE {table} (id INT{key}, k INT, v INT)"
            f" WITH ('connector' = '{changelog_tables.NAME}', 'data' = '{table}',"
            f" 'updates' = '{str(updates).lower()}')",
        )
    try:
        expected = Counter(database.execute(text).fetchall())
    except sqlite3.OperationalError as error:  # RIGHT and FULL JOIN came with SQLite 3.39
        pytest.skip(str(error))
    assert folded(execute_text(session, text).rows()) == expected
