"""Queries of ``answers.sql``, run in this process: their changelogs, folded, equal the answers of another engine.

The tables have nulls in columns that joins and subqueries compare. What is missing: aggregates over no rows without
GROUP BY, for which a stream has no answer until a row comes.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flott.common.configuration import Configuration
from flott.common.types import RowKind
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.table._environment.session import SqlSession
from flott.table._environment.statements import execute_text, rows_of
from tests.unit.table.plan.random_queries import RandomQueries

duckdb = pytest.importorskip("duckdb")

TABLES: dict[str, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = {
    "t": (
        ("a INT", "b BIGINT", "c VARCHAR"),
        [(1, 10, "x"), (1, 20, "y"), (2, 30, "x"), (None, 40, None), (3, 50, "z"), (2, 5, "y")],
    ),
    "u": (("a INT", "d DOUBLE"), [(1, 1.5), (2, 2.5), (2, 100.0), (4, 0.5), (None, 7.0)]),
}


def queries() -> list[str]:
    text = (Path(__file__).parent / "answers.sql").read_text()
    return [query.strip() for query in text.split(";") if query.strip()]


def literal(value: Any) -> str:
    return "NULL" if value is None else repr(value)


@pytest.fixture(scope="module")
def session() -> SqlSession:
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    configuration.set_string("parallelism.default", "1")
    session = SqlSession(StreamExecutionEnvironment.get_execution_environment(configuration))
    for name, (columns, rows) in TABLES.items():
        names = [column.split()[0] for column in columns]
        casts = ", ".join(f"CAST({column.replace(' ', ' AS ')}) AS {column.split()[0]}" for column in columns)
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
        execute_text(
            session, f"CREATE TEMPORARY VIEW {name} AS SELECT {casts} FROM (VALUES {values}) AS v({', '.join(names)})"
        )
    return session


@pytest.fixture(scope="module")
def database() -> Any:
    database = duckdb.connect()
    for name, (columns, rows) in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        for row in rows:
            database.execute(f"INSERT INTO {name} VALUES ({', '.join(map(literal, row))})")
    return database


def comparable(value: Any) -> Any:
    return round(float(value), 4) if isinstance(value, float | Decimal) else value


def folded(session: SqlSession, query: str) -> Counter[tuple[Any, ...]]:
    """Return the rows that are left when all changes of a query's result were applied."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for row in rows_of(execute_text(session, query)):
        added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        rows[tuple(map(comparable, row))] += 1 if added else -1
    assert all(count >= 0 for count in rows.values()), "a row was taken away that was not there"
    return +rows


@pytest.mark.parametrize("query", queries())
def test_answer_agrees_with_an_independent_engine(query: str, session: SqlSession, database: Any) -> None:
    expected = Counter(tuple(map(comparable, row)) for row in database.execute(query).fetchall())
    assert folded(session, query) == expected


@pytest.mark.parametrize("seed", range(60))
def test_answer_of_a_random_query_agrees(seed: int, session: SqlSession, database: Any) -> None:
    query, _ = RandomQueries(seed).query(2 + seed % 2)
    expected = Counter(tuple(map(comparable, row)) for row in database.execute(query).fetchall())
    assert folded(session, query) == expected, query
