"""Fields of nested rows that a query does not read are not read from files, and its results stay the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flott.table import EnvironmentSettings, TableEnvironment
from flott.table._plan.logical import Scan, walk
from flott.table._plan.optimize import optimize
from flott.table._sql.parser import parse_query
from flott.table._types.logical import RowType
from flott.testing.harness import in_process

ROWS = [
    {"n": 1, "a": {"x": 1, "y": "one", "z": {"p": 5, "q": 6}}, "t": "2024-01-01 00:00:01"},
    {"n": 2, "a": None, "t": "2024-01-01 00:00:02"},
    {"n": 3, "a": {"x": None, "y": "three", "z": None}, "t": "2024-01-01 00:00:03"},
]


@pytest.fixture
def environment(tmp_path: Path) -> TableEnvironment:
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    made = TableEnvironment(in_process(1), EnvironmentSettings.in_streaming_mode())
    made.execute_sql(
        "CREATE TABLE t (n INT, a ROW<x INT, y STRING, z ROW<p INT, q INT>>, t TIMESTAMP(3), twice AS a.x * 2,"
        f" WATERMARK FOR t AS t) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    return made


@pytest.mark.parametrize(
    ("query", "fields", "rows"),
    [
        ("SELECT n, a.y FROM t", ["y"], [(1, "one"), (2, None), (3, "three")]),
        ("SELECT n FROM t WHERE a.x = 1", ["x"], [(1,)]),
        ("SELECT twice, a.y FROM t WHERE n = 1", ["x", "y"], [(2, "one")]),
        ("SELECT a.z.q FROM t WHERE n = 1", ["z"], [(6,)]),
        ("SELECT a.y, COUNT(*) FROM t WHERE a.x IS NOT NULL GROUP BY a.y", ["x", "y"], [("one", 1)]),
        ("SELECT (a).x, a IS NULL FROM t WHERE n = 2", ["x", "y", "z"], [(None, True)]),
    ],
)
def test_only_fields_that_are_read_are_asked_for(
    environment: TableEnvironment, query: str, fields: list[str], rows: list[tuple[object, ...]]
) -> None:
    plan = optimize(environment._session.resolve(parse_query(query)))
    (scan,) = [node for node in walk(plan) if isinstance(node, Scan)]
    of = scan.source.types[scan.source.names.index("a")]
    assert isinstance(of, RowType)
    assert list(of.names) == fields
    with environment.execute_sql(query).collect() as found:
        assert sorted((tuple(row) for row in found), key=repr) == sorted(rows, key=repr)
