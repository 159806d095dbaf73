"""OVER in batch mode against DuckDB: every function and frame, with nulls, equal keys and partitions of one row."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from flott.errors import JobFailedError
from flott.table import DataTypes, EnvironmentSettings, TableEnvironment
from flott.testing.harness import in_process

duckdb = pytest.importorskip("duckdb", reason="DuckDB is the reference")

TYPES = DataTypes.ROW(
    [
        DataTypes.FIELD("id", DataTypes.INT()),
        DataTypes.FIELD("p", DataTypes.STRING()),
        DataTypes.FIELD("o", DataTypes.INT()),
        DataTypes.FIELD("v", DataTypes.BIGINT()),
        DataTypes.FIELD("s", DataTypes.STRING()),
        DataTypes.FIELD("t", DataTypes.BIGINT()),
    ]
)

FUNCTIONS = [
    *("ROW_NUMBER()", "RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(1)", "NTILE(3)", "NTILE(50)"),
    *("LAG(v)", "LAG(s, 2)", "LAG(v, 1, -7)", "LEAD(v)", "LEAD(s, 2, 'none')", "LEAD(v, 0)"),
]
#: DuckDB sums integers as HUGEINT, so both results are compared as BIGINT.
AGGREGATES = [
    *("COUNT(*)", "COUNT(v)", "CAST(SUM(v) OVER w AS BIGINT)", "MIN(v)", "MAX(s)", "FIRST_VALUE(s)", "LAST_VALUE(s)"),
    *("COUNT(*) FILTER (WHERE v > 0)",),
]
FRAMES = [
    "",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]


def make_rows(seed: int, count: int = 40) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    return [
        (
            number,
            chance.choice(["a", "b", None, f"only {number}"]),
            chance.choice([None, *range(6)]),
            chance.choice([None, *range(-5, 6)]),
            chance.choice([None, "x", "yy", "z"]),
            number * 100,
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def engines() -> tuple[TableEnvironment, Any]:
    made = TableEnvironment(in_process(2), EnvironmentSettings.in_batch_mode())
    rows = make_rows(7)
    made.create_temporary_view("r", made.from_elements(rows, TYPES))
    reference = duckdb.connect()
    reference.execute("CREATE TABLE r (id INT, p VARCHAR, o INT, v BIGINT, s VARCHAR, t BIGINT)")
    reference.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?)", rows)
    return made, reference


def both(engines: tuple[TableEnvironment, Any], query: str) -> tuple[Counter[Any], Counter[Any]]:
    environment, reference = engines
    with environment.execute_sql(query).collect() as found:
        own = Counter(tuple(row) for row in found)
    # Flink's FIRST_VALUE and LAST_VALUE pass over nulls.
    query = query.replace("_VALUE(s)", "_VALUE(s IGNORE NULLS)")
    return own, Counter(reference.execute(query).fetchall())


@pytest.mark.parametrize("order", ["o, id", "o DESC NULLS LAST, id DESC"])
def test_ranks_and_neighbours_are_those_of_duckdb(engines: tuple[TableEnvironment, Any], order: str) -> None:
    nulls = order if "NULLS" in order else order.replace("o,", "o NULLS FIRST,")
    calls = ", ".join(f"{call} OVER (PARTITION BY p ORDER BY {nulls})" for call in FUNCTIONS)
    own, expected = both(engines, f"SELECT id, {calls} FROM r")
    assert own == expected


def test_rows_that_are_equal_in_order_share_a_rank(engines: tuple[TableEnvironment, Any]) -> None:
    calls = ("RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()")
    text = ", ".join(f"{call} OVER (PARTITION BY p ORDER BY o NULLS FIRST)" for call in calls)
    own, expected = both(engines, f"SELECT id, {text} FROM r")
    assert own == expected


@pytest.mark.parametrize("frame", FRAMES)
def test_aggregates_of_every_frame_are_those_of_duckdb(engines: tuple[TableEnvironment, Any], frame: str) -> None:
    calls = ", ".join(call if "OVER" in call else f"{call} OVER w" for call in AGGREGATES)
    window = f"PARTITION BY p ORDER BY o NULLS FIRST, id {frame}"
    own, expected = both(engines, f"SELECT id, {calls} FROM r WINDOW w AS ({window})")
    assert own == expected


@pytest.mark.parametrize("frame", FRAMES[:3])
def test_distinct_values_are_counted_once(engines: tuple[TableEnvironment, Any], frame: str) -> None:
    window = f"PARTITION BY p ORDER BY o NULLS FIRST, id {frame}"
    call = f"COUNT(DISTINCT v) OVER ({window})"
    own, expected = both(engines, f"SELECT id, {call} FROM r")
    assert own == expected


@pytest.mark.parametrize("direction", ["", "DESC"])
@pytest.mark.parametrize("bounds", ["1 PRECEDING AND CURRENT ROW", "2 PRECEDING AND 1 FOLLOWING"])
def test_a_range_of_numbers_is_measured_in_values(
    engines: tuple[TableEnvironment, Any], direction: str, bounds: str
) -> None:
    window = f"PARTITION BY p ORDER BY o {direction} NULLS LAST RANGE BETWEEN {bounds}"
    own, expected = both(engines, f"SELECT id, COUNT(*) OVER ({window}), MIN(v) OVER ({window}) FROM r")
    assert own == expected


def test_a_range_of_time_is_an_interval() -> None:
    environment = TableEnvironment(in_process(2), EnvironmentSettings.in_batch_mode())
    environment.create_temporary_view("r", environment.from_elements(make_rows(3, 12), TYPES))
    query = (
        "SELECT id, COUNT(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '0.2' SECOND PRECEDING AND CURRENT ROW)"
        " FROM (SELECT id, TO_TIMESTAMP_LTZ(t, 3) AS ts FROM r)"
    )
    with environment.execute_sql(query).collect() as found:
        assert sorted(tuple(row) for row in found) == [(number, min(number + 1, 3)) for number in range(12)]


def test_no_partition_is_one_partition(engines: tuple[TableEnvironment, Any]) -> None:
    own, expected = both(engines, "SELECT id, LEAD(id) OVER (ORDER BY id), COUNT(*) OVER () FROM r")
    assert own == expected


def test_a_range_over_text_is_refused_with_what_to_do(engines: tuple[TableEnvironment, Any]) -> None:
    query = "SELECT COUNT(*) OVER (ORDER BY s RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM r"
    result = engines[0].execute_sql(query)
    with pytest.raises(JobFailedError, match="Use ROWS, or order by another column"), result.collect() as found:
        list(found)
