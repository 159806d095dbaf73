"""Batch mode on the columnar operators: final rows only, whatever a step takes back on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flott.common.types import RowKind
from flott.errors import ProgramError
from flott.table import EnvironmentSettings, TableEnvironment
from flott.testing.harness import in_process

A = [(1, "a"), (2, "b"), (2, "c"), (None, "d")]
B = [(2, "x"), (2, "y"), (3, "z"), (None, "n")]


@pytest.fixture
def environment() -> TableEnvironment:
    made = TableEnvironment(in_process(2), EnvironmentSettings.in_batch_mode())
    made.create_temporary_view("a", made.from_elements(A, ["k", "v"]))
    made.create_temporary_view("b", made.from_elements(B, ["k", "w"]))
    return made


def rows(environment: TableEnvironment, query: str) -> Counter[tuple[Any, ...]]:
    with environment.execute_sql(query).collect() as found:
        all_rows = list(found)
    assert all(row.get_row_kind() is RowKind.INSERT for row in all_rows)
    return Counter(tuple(row) for row in all_rows)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT v, w FROM a FULL JOIN b ON a.k = b.k",
            [("a", None), ("b", "x"), ("b", "y"), ("c", "x"), ("c", "y"), ("d", None), (None, "z"), (None, "n")],
        ),
        (
            "SELECT v, w FROM a RIGHT JOIN b ON a.k = b.k AND w = 'x'",
            [("b", "x"), ("c", "x"), (None, "y"), (None, "z"), (None, "n")],
        ),
        ("SELECT v FROM a WHERE k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)", [("a",)]),
        ("SELECT v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)", [("a",), ("d",)]),
        ("SELECT k FROM a INTERSECT ALL SELECT k FROM b", [(2,), (2,), (None,)]),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", [(1,)]),
        (
            "SELECT v FROM (SELECT v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM a) WHERE n = 1",
            [("a",), ("c",), ("d",)],
        ),
        ("SELECT COUNT(*), COUNT(w) FROM a FULL JOIN b ON a.k = b.k", [(8, 6)]),
        ("SELECT v FROM a ORDER BY v DESC LIMIT 2", [("d",), ("c",)]),
    ],
)  # fmt: skip
def test_only_final_rows_are_given(
    environment: TableEnvironment, query: str, expected: list[tuple[Any, ...]]
) -> None:
    assert rows(environment, query) == Counter(expected)


def test_an_insert_only_sink_takes_the_final_rows(
    environment: TableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.execute_sql("CREATE TABLE s (v STRING, w STRING) WITH ('connector' = 'print')")
    environment.execute_sql("INSERT INTO s SELECT v, w FROM a FULL JOIN b ON a.k = b.k").wait()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert all("+I[" in line for line in lines)


def test_unbounded_input_is_refused(environment: TableEnvironment) -> None:
    environment.execute_sql("CREATE TABLE endless (x INT) WITH ('connector' = 'datagen')")
    with pytest.raises(ProgramError, match="never ends"):
        environment.execute_sql("SELECT COUNT(*) FROM endless")
