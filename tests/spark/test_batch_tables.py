"""Queries of batch mode on Spark SQL: the results of the operators of streams, and of Spark SQL by itself."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from flott.common.types import RowKind
from flott.datastream import StreamExecutionEnvironment
from flott.errors import ProgramError
from flott.table import EnvironmentSettings, StreamTableEnvironment
from tests.spark.conftest import MakeEnvironment
from tests.spark.scripts.tpch import DECLARED, QUERIES, write_tables

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SALES = {
    "id": ("INT", pa.int32(), [1, 2, 3, 4, 5, 6, 7, None]),
    "big": ("BIGINT", pa.int64(), [2**62, 2**62, -7, 0, None, 3, 5, 8]),
    "n": ("INT", pa.int32(), [2**31 - 1, 5, -7, 2, None, 0, 3, 3]),
    "x": ("DOUBLE", pa.float64(), [1.5, float("nan"), -0.0, 0.0, None, float("inf"), 2.25, -3.5]),
    "money": (
        "DECIMAL(10, 2)", pa.decimal128(10, 2),
        [Decimal("1.25"), Decimal("-3.10"), Decimal("99999999.99"), None, Decimal(0), Decimal("7.77"), Decimal("0.01"),
         Decimal("5.00")],
    ),
    "name": ("STRING", pa.string(), ["a", "B", "it's", "back\\slash", None, "", "übel", "a"]),
    "d": (
        "DATE", pa.date32(),
        [date(2020, 2, 29), date(1969, 12, 31), None, date(2021, 1, 3), date(2020, 1, 1), date(1900, 5, 6),
         date(2020, 2, 29), date(2024, 12, 31)],
    ),
    "ts": (
        "TIMESTAMP(3)", pa.timestamp("ms"),
        [datetime(2020, 2, 29, 1, 2, 3, 456000), datetime(1969, 12, 31, 23, 59, 59, 999000), None,
         datetime(2021, 1, 3), datetime(2020, 1, 1), datetime(1900, 5, 6, 7), datetime(2020, 2, 29),
         datetime(2024, 12, 31)],
    ),
    "good": ("BOOLEAN", pa.bool_(), [True, False, None, True, False, True, None, True]),
}  # fmt: skip

#: Queries that Spark SQL must run, over sales(SALES), other(id INT, label STRING).
ON_SPARK = [
    "SELECT id, n + n, n * 3, big + big, big - 1, n / 2, n % 3, -x, x / 0.0, x * 2, money * 2, money / 3 FROM sales",
    "SELECT id, x FROM sales WHERE x > 1 AND NOT (x < 0)",
    "SELECT id, x = x, x <> x, x >= 2.25, x < 2, x = 0 FROM sales",
    "SELECT name, d, ts, good FROM sales WHERE name = 'it''s' OR name = 'back\\slash' OR ts < TIMESTAMP '1970-01-01'",
    "SELECT id, CASE WHEN good THEN 'yes' WHEN n > 2 THEN name ELSE 'no' END, COALESCE(name, '-') FROM sales",
    "SELECT id, n IS NULL, good IS NOT TRUE, n IN (3, 5) FROM sales",
    "SELECT id, CAST(good AS STRING), CAST(n AS BIGINT), CAST(n AS STRING), CAST(d AS TIMESTAMP(3)) FROM sales",
    "SELECT id, EXTRACT(YEAR FROM d), EXTRACT(MONTH FROM ts), SUBSTRING(name FROM 2 FOR 3) FROM sales",
    "SELECT id, name FROM sales WHERE name LIKE '%a_' OR name LIKE 'a%'",
    "SELECT COUNT(*), COUNT(n), SUM(n), SUM(big), AVG(n), AVG(big), SUM(money), AVG(money), MIN(name) FROM sales",
    "SELECT MAX(ts), MIN(d), MAX(big), MIN(good) FROM sales",
    "SELECT COUNT(*), SUM(n), AVG(n), MIN(money), SUM(money) FROM sales WHERE id > 100",
    "SELECT good, COUNT(DISTINCT name), SUM(n) FILTER (WHERE id > 2), MAX(d) FROM sales GROUP BY good",
    "SELECT good, name, COUNT(*), GROUPING(good) FROM sales GROUP BY ROLLUP (good, name)",
    "SELECT DISTINCT name FROM sales",
    "SELECT s.id, o.label FROM sales AS s JOIN other AS o ON s.id = o.id AND s.n > 2",
    "SELECT s.id, o.label FROM sales AS s LEFT JOIN other AS o ON s.id = o.id",
    "SELECT s.id, o.id, o.label FROM sales AS s FULL JOIN other AS o ON s.id = o.id",
    "SELECT id FROM sales WHERE id IN (SELECT id FROM other) AND EXISTS (SELECT 1 FROM other WHERE other.id = sales.n)",
    "SELECT id FROM sales WHERE id NOT IN (SELECT id FROM other)",
    "SELECT id FROM sales WHERE id NOT IN (SELECT id FROM other WHERE id IS NOT NULL)",
    "SELECT id FROM sales WHERE n > (SELECT AVG(n) FROM sales)",
    "SELECT name FROM sales UNION ALL SELECT label FROM other",
    "SELECT id FROM sales INTERSECT SELECT id FROM other",
    "SELECT n FROM sales EXCEPT ALL SELECT id FROM other",
    "SELECT id, a.name, v.w FROM sales AS a JOIN (VALUES (1, 'one'), (2, 'two')) AS v (k, w) ON a.id = v.k",
    "SELECT good, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY good ORDER BY n DESC, id) AS r FROM sales)"
    " WHERE r <= 2",
]
SORTED = [
    "SELECT name, id FROM sales ORDER BY name, id DESC",
    "SELECT x, id FROM sales ORDER BY x DESC, id LIMIT 5",
    "SELECT id, d FROM sales ORDER BY d DESC NULLS LAST, id OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
]
#: Queries that the operators of streams must run, and what EXPLAIN says of it.
NOT_ON_SPARK = [
    ("SELECT CAST(name AS INT) FROM sales WHERE id = 100", "the cast from STRING to INT"),
    ("SELECT x, COUNT(*) FROM sales GROUP BY x", "GROUP BY of a FLOAT or DOUBLE"),
    ("SELECT SPLIT_INDEX(name, 'a', 0) FROM sales", "the function SPLIT_INDEX"),
    ("SELECT * FROM written", "written"),
]


@pytest.fixture
def t_env(environment: MakeEnvironment, folder: Path) -> StreamTableEnvironment:
    """An environment whose queries run on Spark."""
    return _tables(environment(), folder)


@pytest.fixture
def streams(environment: MakeEnvironment, folder: Path) -> StreamTableEnvironment:
    """An environment whose queries run on the operators of streams."""
    return _tables(environment({"execution.target": "in-process"}), folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    sales = pa.table({name: pa.array(values, type=of) for name, (_, of, values) in SALES.items()})
    other = pa.table({"id": pa.array([1, 2, 3, 3, None, 9], pa.int32()), "label": ["a", "b", "c", "d", "e", None]})
    for name, table in (("sales", sales), ("other", other)):
        (tmp_path / name).mkdir()
        half = table.num_rows // 2
        pq.write_table(table.slice(0, half), tmp_path / name / "part-0.parquet")
        pq.write_table(table.slice(half), tmp_path / name / "part-1.parquet")
    (tmp_path / "written").mkdir()
    (tmp_path / "written" / "a.csv").write_text("1\n2\n")
    return tmp_path


def _tables(environment: StreamExecutionEnvironment, folder: Path) -> StreamTableEnvironment:
    t_env = StreamTableEnvironment.create(environment, EnvironmentSettings.in_batch_mode())
    columns = ", ".join(f"`{column}` {sql}" for column, (sql, _, _) in SALES.items())
    _declare(t_env, "sales", columns, folder / "sales", "parquet")
    _declare(t_env, "other", "id INT, label STRING", folder / "other", "parquet")
    _declare(t_env, "written", "id INT", folder / "written", "csv")
    return t_env


def _declare(t_env: StreamTableEnvironment, name: str, columns: str, path: Path, format: str) -> None:
    t_env.execute_sql(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
    )


def rows_of(t_env: StreamTableEnvironment, query: str) -> list[tuple[Any, ...]]:
    """Return what a query leaves: the operators of streams may take rows back."""
    left: list[tuple[Any, ...]] = []
    with t_env.execute_sql(query).collect() as rows:
        for row in rows:
            values = tuple(map(_comparable, row._values))
            if row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                left.append(values)
            else:
                left.remove(values)
    return left


def _comparable(value: Any) -> Any:
    """NaN equals itself here, and 0.0 differs from -0.0; sums of doubles may differ in their last bits."""
    if isinstance(value, float):
        return repr(value) if math.isnan(value) or value == 0 else float(f"{value:.12g}")
    return value


def runs_on_spark(t_env: StreamTableEnvironment, query: str) -> bool:
    text = t_env.explain_sql(query)
    assert "== Spark SQL ==" in text
    return "Not used" not in text


def test_queries_give_the_rows_of_the_operators_of_streams(
    t_env: StreamTableEnvironment, streams: StreamTableEnvironment
) -> None:
    wrong = []
    for query in ON_SPARK:
        if not runs_on_spark(t_env, query):
            wrong.append((query, t_env.explain_sql(query).rpartition("== Spark SQL ==")[2]))
            continue
        found, expected = rows_of(t_env, query), rows_of(streams, query)
        if Counter(found) != Counter(expected):
            wrong.append((query, found, expected))
    assert not wrong


def test_sorted_queries_give_the_same_rows_in_the_same_order(
    t_env: StreamTableEnvironment, streams: StreamTableEnvironment
) -> None:
    for query in SORTED:
        assert runs_on_spark(t_env, query), query
        assert rows_of(t_env, query) == rows_of(streams, query), query


@pytest.mark.parametrize(("query", "reason"), NOT_ON_SPARK)
def test_what_spark_cannot_express_runs_on_the_operators_of_streams(
    t_env: StreamTableEnvironment, streams: StreamTableEnvironment, query: str, reason: str
) -> None:
    text = t_env.explain_sql(query)
    assert "Not used" in text
    assert reason in text
    assert Counter(rows_of(t_env, query)) == Counter(rows_of(streams, query))


def test_a_table_in_memory_is_read_by_spark(environment: MakeEnvironment) -> None:
    t_env = StreamTableEnvironment.create(environment(), EnvironmentSettings.in_batch_mode())
    t_env.create_temporary_view("t", t_env.from_elements([(1, "a"), (2, None), (1, "c")], ["k", "v"]))
    query = "SELECT k, COUNT(v), MAX(v) FROM t GROUP BY k"
    assert runs_on_spark(t_env, query)
    assert sorted(rows_of(t_env, query)) == [(1, 2, "c"), (2, 0, None)]


def test_a_file_with_another_type_is_left_to_the_own_reader(t_env: StreamTableEnvironment, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([70], pa.int64())}), tmp_path / "other" / "part-2.parquet")
    assert not runs_on_spark(t_env, "SELECT id FROM other")
    assert (70,) in rows_of(t_env, "SELECT id FROM other")


def test_the_program_s_own_spark_session_keeps_its_settings(t_env: StreamTableEnvironment) -> None:
    session = SparkSession.builder.getOrCreate()
    before = (session.conf.get("spark.sql.ansi.enabled"), session.conf.get("spark.sql.session.timeZone"))
    rows_of(t_env, "SELECT id FROM other")
    session = SparkSession.builder.getOrCreate()
    assert (session.conf.get("spark.sql.ansi.enabled"), session.conf.get("spark.sql.session.timeZone")) == before
    assert not session.catalog.listTables()


def test_a_division_by_zero_is_an_error(t_env: StreamTableEnvironment) -> None:
    with pytest.raises(ProgramError, match="Division by zero"):
        rows_of(t_env, "SELECT 10 / n FROM sales")


# --- TPC-H -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    write_tables(folder, 0.01)
    return folder


def test_queries_of_tpch_agree_with_spark(environment: MakeEnvironment, spark: SparkContext, tpch: Path) -> None:
    settings = {"spark.sql.shuffle.partitions": 2}
    t_env = StreamTableEnvironment.create(environment(settings), EnvironmentSettings.in_batch_mode())
    session = SparkSession.builder.getOrCreate().newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")  # 200 tasks for a few rows take seconds
    for name, columns in DECLARED.items():
        _declare(t_env, name, columns, tpch / name, "parquet")
        session.read.parquet(str(tpch / name)).createOrReplaceTempView(name)
    for name, query in QUERIES.items():
        assert runs_on_spark(t_env, query), name
        found = rows_of(t_env, query)
        expected = [tuple(row) for row in session.sql(query).collect()]
        assert found, name
        assert _rounded(found) == _rounded(expected), name


def _rounded(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Averages and quotients have more digits in Flink's types than in Spark's."""
    return [tuple(round(v, 4) if isinstance(v, Decimal | float) else v for v in row) for row in rows]
