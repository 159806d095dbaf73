"""Queries with windows, from SQL text to rows, run in this process with two subtasks."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from flott.common.configuration import Configuration
from flott.common.types import RowKind
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment
from flott.table._environment.session import SqlSession
from flott.table._environment.statements import execute_text, rows_of

#: Second, item, price.
BIDS = [(1, "a", 5), (3, "b", 7), (2, "a", 1), (8, "a", 9), (11, "b", 2), (12, "b", 2), (19, "a", 4), (31, "b", 6)]
TUMBLE = "TUMBLE(INTERVAL '10' SECOND)"
HOP = "HOP(INTERVAL '10' SECOND, INTERVAL '20' SECOND)"
DAY = datetime(2026, 3, 1)


def at(second: int) -> datetime:
    return DAY + timedelta(seconds=second)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SqlSession:
    folder = tmp_path_factory.mktemp("bids")
    lines = [f"{item},{price},{at(second):%Y-%m-%d %H:%M:%S}" for second, item, price in BIDS]
    (folder / "bids.csv").write_text("\n".join(lines) + "\n")
    configuration = Configuration()
    configuration.set_string("execution.target", "in-process")
    configuration.set_string("parallelism.default", "2")
    session = SqlSession(StreamExecutionEnvironment.get_execution_environment(configuration))
    _create(session, folder)
    return session


def _create(session: SqlSession, folder: Path) -> None:
    execute_text(
        session,
        "CREATE TABLE bid (item STRING, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
        f" WITH ('connector' = 'filesystem', 'path' = '{folder}', 'format' = 'csv')",
    )


def answer(session: SqlSession, query: str) -> list[Any]:
    """The rows that are left of the changelog, sorted."""
    left: list[Any] = []
    for row in rows_of(execute_text(session, query)):
        values = tuple(row._values)
        if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            left.append(values)
        else:
            left.remove(values)
    return sorted(left, key=nulls_first)


def nulls_first(values: tuple[Any, ...]) -> list[Any]:
    return [(value is not None, value) for value in values]


def windows(function: str) -> str:
    return f"TABLE({function.replace('(', '(TABLE bid, DESCRIPTOR(ts), ', 1)})"


def grouped(function: str) -> str:
    return (
        "SELECT item, window_start, window_end, COUNT(*), SUM(price), COUNT(DISTINCT price)"
        f" FROM {windows(function)} GROUP BY item, window_start, window_end"
    )


def row(item: str, start: int, end: int, *values: int) -> tuple[Any, ...]:
    return (item, at(start), at(end), *values)


def test_tumble(session: SqlSession) -> None:
    assert answer(session, grouped(TUMBLE)) == [
        row("a", 0, 10, 3, 15, 3),
        row("a", 10, 20, 1, 4, 1),
        row("b", 0, 10, 1, 7, 1),
        row("b", 10, 20, 2, 4, 1),
        row("b", 30, 40, 1, 6, 1),
    ]


def test_two_phases_give_the_same(session: SqlSession) -> None:
    query = (
        "SELECT item, window_end, COUNT(*), SUM(price), MAX(price)"
        f" FROM {windows(HOP)} GROUP BY item, window_start, window_end"
    )
    assert answer(session, query) == [
        ("a", at(10), 3, 15, 9),
        ("a", at(20), 4, 19, 9),
        ("a", at(30), 1, 4, 4),
        ("b", at(10), 1, 7, 7),
        ("b", at(20), 3, 11, 7),
        ("b", at(30), 2, 4, 2),
        ("b", at(40), 1, 6, 6),
        ("b", at(50), 1, 6, 6),
    ]


def test_cumulate(session: SqlSession) -> None:
    found = answer(session, grouped("CUMULATE(INTERVAL '5' SECOND, INTERVAL '10' SECOND)"))
    assert [one for one in found if one[0] == "b"] == [
        row("b", 0, 5, 1, 7, 1),
        row("b", 0, 10, 1, 7, 1),
        row("b", 10, 15, 2, 4, 1),
        row("b", 10, 20, 2, 4, 1),
        row("b", 30, 35, 1, 6, 1),
        row("b", 30, 40, 1, 6, 1),
    ]


def test_session(session: SqlSession) -> None:
    query = (
        "SELECT item, window_start, window_end, COUNT(*) FROM"
        " TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(ts), INTERVAL '6' SECOND))"
        " GROUP BY item, window_start, window_end"
    )
    assert answer(session, query) == [
        row("a", 1, 14, 3),
        row("a", 19, 25, 1),
        row("b", 3, 9, 1),
        row("b", 11, 18, 2),
        row("b", 31, 37, 1),
    ]


@pytest.mark.parametrize(
    ("partition", "keys", "expected"),
    [
        ("PARTITION BY item", "", [(1, 14, 3), (3, 9, 1), (11, 18, 2), (19, 25, 1), (31, 37, 1)]),
        ("", "item, ", [(1, 18, 3), (1, 18, 3), (19, 25, 1), (31, 37, 1)]),
    ],
)
def test_sessions_are_those_of_their_partition_and_not_of_the_groups(
    session: SqlSession, partition: str, keys: str, expected: list[tuple[int, int, int]]
) -> None:
    query = (
        "SELECT window_start, window_end, COUNT(*) FROM"
        f" TABLE(SESSION(TABLE bid {partition}, DESCRIPTOR(ts), INTERVAL '6' SECOND))"
        f" GROUP BY {keys}window_start, window_end"
    )
    assert answer(session, query) == [(at(start), at(end), count) for start, end, count in expected]


def test_distinct_rows_of_windows_come_once_each_window(session: SqlSession) -> None:
    query = f"SELECT DISTINCT window_start, window_end, item FROM {windows(TUMBLE)}"
    assert "WindowAggregate" in explained(session, query)
    assert answer(session, query) == [
        (at(0), at(10), "a"), (at(0), at(10), "b"), (at(10), at(20), "a"), (at(10), at(20), "b"),
        (at(30), at(40), "b"),
    ]  # fmt: skip


def test_a_join_that_compares_no_windows_is_not_aggregated_by_windows(session: SqlSession) -> None:
    join = f"{windows(TUMBLE)} AS w JOIN bid AS other ON w.item = other.item"
    query = f"SELECT window_start, window_end, COUNT(*) FROM {join} GROUP BY window_start, window_end"
    assert "WindowAggregate" not in explained(session, query)
    assert answer(session, query) == [(at(0), at(10), 16), (at(10), at(20), 12), (at(30), at(40), 4)]


@pytest.mark.parametrize("side", ["l", "r"])
def test_windows_of_both_sides_of_a_window_join_are_windows_of_its_rows(session: SqlSession, side: str) -> None:
    counts = f"SELECT window_start, window_end, COUNT(*) AS n FROM {windows(TUMBLE)} GROUP BY window_start, window_end"
    query = (
        f"SELECT {side}.window_start, {side}.window_end, SUM(l.n + r.n) FROM ({counts}) AS l JOIN ({counts}) AS r"
        " ON l.window_start = r.window_start AND l.window_end = r.window_end"
        f" GROUP BY {side}.window_start, {side}.window_end"
    )
    text = explained(session, query)
    assert "WindowJoin" in text
    assert "GroupAggregate" not in text
    assert answer(session, query) == [(at(0), at(10), 8), (at(10), at(20), 6), (at(30), at(40), 2)]


def explained(session: SqlSession, query: str) -> str:
    found = [row[0] for row in rows_of(execute_text(session, f"EXPLAIN {query}"))]
    return str(found[0])


def test_windows_of_windows_are_joined_with_their_maximum(session: SqlSession) -> None:
    counts = (
        "SELECT item, COUNT(*) AS n, window_start, window_end"
        f" FROM {windows(TUMBLE)} GROUP BY item, window_start, window_end"
    )
    query = (
        f"SELECT c.item, c.n, c.window_end FROM ({counts}) AS c JOIN ("
        f"SELECT MAX(n) AS top, window_start, window_end FROM ({counts}) GROUP BY window_start, window_end) AS m"
        " ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n = m.top"
    )
    assert answer(session, query) == [("a", 3, at(10)), ("b", 1, at(40)), ("b", 2, at(20))]


@pytest.mark.parametrize(("order", "expected"), [("price DESC", [9, 4, 6]), ("ts", [5, 2, 6])])
def test_the_first_row_of_each_window(session: SqlSession, order: str, expected: list[int]) -> None:
    query = (
        "SELECT window_end, price FROM (SELECT *, ROW_NUMBER() OVER"
        f" (PARTITION BY window_start, window_end ORDER BY {order}) AS r"
        f" FROM {windows(TUMBLE)}) WHERE r <= 1"
    )
    assert answer(session, query) == [(at(end), price) for end, price in zip((10, 20, 40), expected, strict=True)]


def test_group_windows_of_old(session: SqlSession) -> None:
    query = (
        "SELECT item, TUMBLE_START(ts, INTERVAL '20' SECOND), TUMBLE_END(ts, INTERVAL '20' SECOND), AVG(price)"
        " FROM bid GROUP BY item, TUMBLE(ts, INTERVAL '20' SECOND)"
    )
    assert answer(session, query) == [row("a", 0, 20, 4), row("b", 0, 20, 3), row("b", 20, 40, 6)]


def test_over(session: SqlSession) -> None:
    query = (
        "SELECT item, price, SUM(price) OVER w, COUNT(*) OVER w, LAG(price) OVER (PARTITION BY item ORDER BY ts)"
        " FROM bid WINDOW w AS (PARTITION BY item ORDER BY ts"
        " RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW)"
    )
    assert answer(session, query) == sorted(
        [
            ("a", 5, 5, 1, None),
            ("a", 1, 6, 2, 5),
            ("a", 9, 15, 3, 1),
            ("a", 4, 4, 1, 9),
            ("b", 7, 7, 1, None),
            ("b", 2, 9, 2, 7),
            ("b", 2, 11, 3, 2),
            ("b", 6, 6, 1, 2),
        ],
        key=nulls_first,
    )


def test_over_in_the_order_of_prices(session: SqlSession) -> None:
    query = "SELECT item, price, SUM(price) OVER (PARTITION BY item ORDER BY price) FROM bid"
    assert answer(session, query) == [
        ("a", 1, 1), ("a", 4, 5), ("a", 5, 10), ("a", 9, 19),
        ("b", 2, 4), ("b", 2, 4), ("b", 6, 10), ("b", 7, 17),
    ]  # fmt: skip
