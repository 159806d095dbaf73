"""Aggregates of bitmaps over rows that come and go, against sets of Python; and objects with named fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from flott.table import StreamTableEnvironment
from flott.table._connectors import registry
from flott.table._sql.errors import SqlError
from flott.testing.harness import in_process
from tests.unit.table import changelog_tables

Sets = list[set[int]]
OPERATIONS: dict[str, Callable[[Sets], set[int]]] = {
    "AND": lambda sets: set.intersection(*sets),
    "OR": lambda sets: set.union(*sets),
    "XOR": lambda sets: reduce(set.symmetric_difference, sets),
}


def text(members: set[int]) -> str:
    return "{" + ",".join(str(member) for member in sorted(members)) + "}"


def last(t_env: StreamTableEnvironment, query: str) -> dict[Any, tuple[Any, ...]]:
    """Return the last row of each key."""
    rows: dict[Any, tuple[Any, ...]] = {}
    with t_env.execute_sql(query).collect() as found:
        for row in found:
            rows.pop(row[0], None)
            if row.get_row_kind().value in (0, 2):
                rows[row[0]] = tuple(row)[1:]
    return rows


@pytest.mark.parametrize("seed", range(4))
def test_bitmaps_of_many_rows_are_combined(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    random = Random(seed)
    rows: list[tuple[int, list[int] | None, int]] = []
    changes: list[tuple[str, tuple[Any, ...]]] = []
    for _ in range(40):
        if rows and seed % 2 and random.random() < 0.3:
            changes.append(("-D", rows.pop(random.randrange(len(rows)))))
        else:
            members = None if random.random() < 0.1 else random.sample(range(6), random.randrange(5))
            rows.append((random.randrange(3), members, random.randrange(-2, 4)))
            changes.append(("+I", rows[-1]))
    monkeypatch.setitem(changelog_tables.TABLES, "b", changes)
    t_env = StreamTableEnvironment.create(in_process(2, flott__epoch__max_records="7"))
    t_env.get_config().set("table.exec.mini-batch.enabled", str(seed > 1).lower())
    t_env.execute_sql(
        f"CREATE TABLE b (k INT, m ARRAY<INT>, v INT) WITH ('connector' = '{changelog_tables.NAME}', 'data' = 'b',"
        f" 'updates' = '{str(seed % 2 == 1).lower()}')"
    )
    combined = ", ".join(
        f"BITMAP_TO_STRING(BITMAP_{name}_AGG(BITMAP_BUILD(m))), BITMAP_{name}_CARDINALITY_AGG(BITMAP_BUILD(m))"
        for name in OPERATIONS
    )
    built = "BITMAP_TO_STRING(BITMAP_BUILD_AGG(v)), BITMAP_BUILD_CARDINALITY_AGG(v)"
    query = f"SELECT k, {combined}, {built} FROM b GROUP BY k"
    expected: dict[int, tuple[Any, ...]] = {}
    for key in {row[0] for row in rows}:
        sets = [set(members) for k, members, _ in rows if k == key and members is not None]
        results = [operation(sets) if sets else None for operation in OPERATIONS.values()]
        results.append({value % (1 << 32) for k, _, value in rows if k == key})
        expected[key] = tuple(
            shown
            for one in results
            for shown in ((None, None) if one is None else (text(one), len(one)))
        )  # fmt: skip
    assert last(t_env, query) == expected


def test_an_object_has_named_fields_that_can_be_changed() -> None:
    t_env = StreamTableEnvironment.create(in_process(1))
    query = (
        "SELECT o.a, o.b, OBJECT_UPDATE(o, 'a', 'new').a, OBJECT_UPDATE(o, 'b', 2).b,"
        " OBJECT_UPDATE(n, 'a', 'x') IS NULL FROM (SELECT OBJECT_OF('com.example.User', 'a', name, 'b', 1) AS o,"
        " CAST(NULL AS STRUCTURED<'com.example.User', a STRING, b INT>) AS n FROM (VALUES 'ann') AS v(name))"
    )
    with t_env.execute_sql(query).collect() as rows:
        assert [tuple(row) for row in rows] == [("ann", 1, "new", 2, True)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("OBJECT_OF('C', 'a')", "class name, field name, value"),
        ("OBJECT_OF('C', 'a', 1, 'a', 2)", "different names"),
        ("OBJECT_OF(CAST(NULL AS STRING), 'a', 1)", "class name"),
        ("OBJECT_UPDATE(OBJECT_OF('C', 'a', 1), 'b', 2)", "it has a"),
        ("OBJECT_UPDATE(1, 'b', 2)", "names are fields of the object"),
        ("BITMAP_BUILD_AGG('x')", "BITMAP_BUILD_AGG cannot be called with (CHAR(1)"),
        ("BITMAP_OR_AGG(1)", "BITMAP_OR_AGG cannot be called with (INT"),
    ],
)
def test_wrong_arguments_are_refused(call: str, message: str) -> None:
    with pytest.raises(SqlError, match=re.escape(message)):
        StreamTableEnvironment.create(in_process(1)).execute_sql(f"SELECT {call}")
