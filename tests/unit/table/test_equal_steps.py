"""Steps of a plan that are the same run once; steps that only look alike do not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flott.table import DataTypes, EnvironmentSettings, TableEnvironment
from flott.table._plan.physical import walk_steps
from flott.table._sql.parser import parse_query
from flott.table.expressions import col
from flott.table.udf import udf
from flott.testing.harness import in_process


@pytest.fixture
def environment() -> TableEnvironment:
    return TableEnvironment(in_process(2), EnvironmentSettings.in_streaming_mode())


def rows(environment: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    with environment.execute_sql(query).collect() as found:
        return sorted(tuple(row) for row in found)


def test_constant_rows_of_one_shape_are_not_mixed_up(environment: TableEnvironment) -> None:
    query = "SELECT a.n, b.n FROM (VALUES (0)) AS a(n), (VALUES (4)) AS b(n)"
    assert rows(environment, query) == [(0, 4)]
    assert rows(environment, "SELECT 1 AS x UNION ALL SELECT 2 AS x") == [(1,), (2,)]


def test_tables_of_elements_are_not_mixed_up(environment: TableEnvironment) -> None:
    for name, value in (("a", 1), ("b", 2)):
        environment.create_temporary_view(name, environment.from_elements([(value,)], ["x"]))
    assert rows(environment, "SELECT a.x, b.x FROM a, b") == [(1, 2)]


def test_options_of_a_hint_make_another_source(environment: TableEnvironment) -> None:
    environment.execute_sql(
        "CREATE TABLE t (x BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '2', 'fields.x.kind' = 'sequence',"
        " 'fields.x.start' = '1', 'fields.x.end' = '2')"
    )
    query = "SELECT x FROM t UNION ALL SELECT x FROM t /*+ OPTIONS('fields.x.start' = '11', 'fields.x.end' = '12') */"
    assert rows(environment, query) == [(1,), (2,), (11,), (12,)]


def test_functions_of_one_name_are_not_mixed_up(environment: TableEnvironment) -> None:
    plus = udf(lambda x: x + 1, result_type=DataTypes.BIGINT())
    times = udf(lambda x: x * 10, result_type=DataTypes.BIGINT())
    table = environment.from_elements([(3,)], ["x"]).select(plus(col("x")), times(col("x")))
    with table.execute().collect() as found:
        assert [tuple(row) for row in found] == [(4, 30)]


def test_two_inserts_into_one_table_both_write(
    environment: TableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.execute_sql("CREATE TABLE s (x INT) WITH ('connector' = 'print')")
    inserts = environment.create_statement_set()
    for _ in range(2):
        inserts.add_insert_sql("INSERT INTO s SELECT 7")
    inserts.execute().wait()
    assert Counter(line[-5:] for line in capsys.readouterr().out.splitlines()) == {"+I[7]": 2}


def test_a_table_that_is_read_twice_has_one_source(environment: TableEnvironment) -> None:
    environment.execute_sql("CREATE TABLE t (x BIGINT, y INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5')")
    query = parse_query("SELECT a.x FROM t AS a JOIN t AS b ON a.x = b.x")
    step = environment._session.physical(environment._session.resolve(query))
    sources = [one for one in walk_steps(step) if one.kind == "source"]
    assert len(sources) == 2
    assert len(set(sources)) == 1
