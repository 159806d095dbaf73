"""GROUP BY from SQL text to changelog, in this process: one change per record, mini-batches, and batch jobs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.table._environment.session import SqlSession
from flott.table._sql.parser import parse_statement
from flott.testing.harness import in_process

ROWS = (
    "(VALUES ('a', 1, 1.5, TRUE), ('b', 2, 2.5, FALSE), ('a', 3, CAST(NULL AS DECIMAL(2, 1)), TRUE),"
    " ('a', 3, 0.5, FALSE), ('c', CAST(NULL AS INT), 1.0, TRUE)) AS t(k, n, d, f)"
)
MINI_BATCH = {"table.exec.mini-batch.enabled": "true"}
BATCH = {"execution.runtime-mode": "batch"}


def changes(query: str, settings: dict[str, str], parallelism: int = 2) -> list[tuple[str, tuple[Any, ...]]]:
    session = SqlSession(in_process(parallelism), settings)
    statement: Any = parse_statement(query)
    rows = session.run_query(session.resolve(getattr(statement, "query", statement))).rows()
    return [(str(row.get_row_kind()), tuple(row)) for row in rows]


def result(query: str, settings: dict[str, str]) -> list[str]:
    held: list[str] = []
    for kind, row in changes(query, settings):
        if kind in ("+I", "+U"):
            held.append(repr(row))
        else:
            held.remove(repr(row))
    return sorted(held)


QUERIES = {
    f"SELECT k, COUNT(*), SUM(n), AVG(n), MIN(d), MAX(n) FROM {ROWS} GROUP BY k": [
        "('a', 3, 7, 2, Decimal('0.5'), 3)",
        "('b', 1, 2, 2, Decimal('2.5'), 2)",
        "('c', 1, None, None, Decimal('1.0'), None)",
    ],
    f"SELECT COUNT(*), SUM(d), COUNT(DISTINCT n), SUM(n) FILTER (WHERE f) FROM {ROWS}": ["(5, Decimal('5.5'), 3, 4)"],
    f"SELECT c, COUNT(*) FROM (SELECT k, COUNT(*) AS c FROM {ROWS} GROUP BY k) GROUP BY c": ["(1, 2)", "(3, 1)"],
    f"SELECT MAX(c), MIN(c) FROM (SELECT k, COUNT(*) AS c FROM {ROWS} GROUP BY k)": ["(3, 1)"],
    f"SELECT DISTINCT n FROM {ROWS}": ["(1,)", "(2,)", "(3,)", "(None,)"],
    f"SELECT k FROM {ROWS} GROUP BY k HAVING SUM(n) > 2": ["('a',)"],
    f"SELECT k, LISTAGG(k), LISTAGG(k, '|') FROM {ROWS} WHERE k <> 'c' GROUP BY k": [
        "('a', 'a,a,a', 'a|a|a')", "('b', 'b', 'b')",
    ],
    "SELECT k, ARRAY_AGG(n), ARRAY_AGG(n IGNORE NULLS), JSON_ARRAYAGG(n NULL ON NULL)"
    f" FROM {ROWS} WHERE k = 'c' GROUP BY k": [
        "('c', [None], None, '[null]')",
    ],
    f"SELECT k, PERCENTILE(n, ARRAY[0.25, 0.5]), COLLECT(DISTINCT n) FROM {ROWS} WHERE k = 'b' GROUP BY k": [
        "('b', [2.0, 2.0], [(2, 1)])",
    ],
}  # fmt: skip


@pytest.mark.parametrize("settings", [{}, MINI_BATCH, BATCH], ids=["every record", "mini-batch", "batch"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_same_result_in_every_mode(query: str, settings: dict[str, str]) -> None:
    assert result(query, settings) == QUERIES[query]


def test_every_record_is_a_change() -> None:
    assert changes(f"SELECT COUNT(*) FROM {ROWS} WHERE k = 'a'", {}) == [
        ("+I", (1,)), ("-U", (1,)), ("+U", (2,)), ("-U", (2,)), ("+U", (3,)),
    ]  # fmt: skip
    assert changes(f"SELECT COUNT(*) FROM {ROWS} WHERE k = 'a'", MINI_BATCH) == [("+I", (3,))]


def test_no_rows_have_a_count_in_batch_jobs_only() -> None:
    query = f"SELECT COUNT(*), SUM(n) FROM {ROWS} WHERE n > 5"
    assert changes(query, BATCH) == [("+I", (0, None))]
    assert changes(query, {}) == []
