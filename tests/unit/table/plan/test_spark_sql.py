"""Plans as Spark SQL: the text, and what is refused with its reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from flott.table._connectors.table_source import ChangelogMode, SparkScan
from flott.table._plan import logical
from flott.table._plan.optimize import optimize
from flott.table._plan.spark_sql.printer import spark_query
from flott.table._plan.spark_sql.query import NotExpressible, SparkQuery
from flott.table._plan.spark_sql.types import constant, quoted, spark_type
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    STRING,
    DecimalType,
    LogicalType,
    TimestampType,
    TimeType,
)
from tests.unit.table.plan.small_catalog import resolve


def query_of(text: str, changelog: ChangelogMode = ChangelogMode.INSERT_ONLY) -> SparkQuery:
    def readable(node: logical.Node) -> logical.Node:
        if not isinstance(node, logical.Scan):
            return node
        scan = SparkScan("parquet", (f"/{node.identifier.summary}",))
        return replace(node, source=replace(node.source, spark=lambda source: scan, changelog=changelog))

    return spark_query(optimize(logical.rewritten(resolve(text), readable), streaming=False))


def test_a_projection_and_a_filter() -> None:
    query = query_of("SELECT b + 1, c FROM t WHERE a = 5")
    assert query.text == (
        "SELECT CAST((CAST(c1 AS BIGINT) + CAST(CAST('1' AS INT) AS BIGINT)) AS BIGINT) AS c0, c2 AS c1"
        " FROM (SELECT * FROM (SELECT `a` AS c0, `b` AS c1, `c` AS c2 FROM t0) AS t WHERE (c0 = CAST('5' AS INT))) AS t"
    )
    assert [name for name, _ in query.tables] == ["t0"]
    assert query.schema.names == ("EXPR$0", "c")


def test_aggregates_have_our_types() -> None:
    text = query_of("SELECT a, COUNT(*), SUM(a), AVG(b) FROM t GROUP BY a").text
    assert "CAST(count(1) AS BIGINT)" in text
    assert "CAST(CAST(sum(i.c0) AS INT) AS INT)" in text
    assert "CAST((sum(i.c1) div count(i.c1)) AS BIGINT)" in text
    assert "GROUP BY i.c0" in text


def test_the_order_of_nulls_is_always_written() -> None:
    text = query_of("SELECT a, c FROM t ORDER BY a DESC, c NULLS LAST LIMIT 3").text
    assert text.endswith("ORDER BY c0 DESC NULLS LAST, c1 ASC NULLS LAST LIMIT 3")
    assert "ORDER BY c0 ASC NULLS FIRST" in query_of("SELECT a FROM t ORDER BY a").text


def test_each_table_of_a_join_is_read_by_its_own_name() -> None:
    query = query_of("SELECT t.a, u.e FROM t LEFT JOIN u ON t.a = u.a")
    assert [name for name, _ in query.tables] == ["t0", "t1"]
    assert "LEFT JOIN" in query.text
    assert "ON (l.c0 = r.c0)" in query.text


def test_not_in_knows_nulls() -> None:
    text = query_of("SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)").text
    assert "LEFT ANTI JOIN" in text
    assert "ON ((l.c0 = r.c0) OR (l.c0 = r.c0) IS NULL)" in text


def test_nan_equals_nothing() -> None:
    assert "isnan(c0)" in query_of("SELECT d > 1.5e0 FROM u").text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT CAST(c AS INT) FROM t", "the cast from STRING to INT"),
        ("SELECT CAST(b AS INT) FROM t", "the cast from BIGINT NOT NULL to INT"),
        ("SELECT SPLIT_INDEX(c, 'a', 1) FROM t", "the function SPLIT_INDEX"),
        ("SELECT d, COUNT(*) FROM u GROUP BY d", "GROUP BY of a FLOAT or DOUBLE"),
        ("SELECT MAX(d) FROM u", "the aggregate MAX"),
        ("SELECT LISTAGG(c) FROM t", "the aggregate LISTAGG"),
        ("SELECT c LIKE 'a!_b' ESCAPE '!' FROM t", "the function LIKE"),
    ],
)
def test_what_spark_lacks_is_named(text: str, reason: str) -> None:
    with pytest.raises(NotExpressible, match=reason):
        query_of(text)


def test_a_source_without_a_form_for_spark_is_named() -> None:
    with pytest.raises(NotExpressible, match="the table"):
        spark_query(optimize(resolve("SELECT a FROM t"), streaming=False))


def test_a_changelog_is_not_a_table_of_spark() -> None:
    with pytest.raises(NotExpressible, match="the table"):
        query_of("SELECT a FROM t", ChangelogMode.ALL)


@pytest.mark.parametrize(
    ("value", "of", "text"),
    [
        (None, BIGINT, "CAST(NULL AS BIGINT)"),
        (-(2**63), BIGINT, "CAST('-9223372036854775808' AS BIGINT)"),
        (Decimal("1E+3"), DecimalType(10, 2), "CAST('1000' AS DECIMAL(10, 2))"),
        (float("inf"), DOUBLE, "CAST('inf' AS DOUBLE)"),
        ("it's a \\ back", STRING, "'it\\'s a \\\\ back'"),
        (b"\x00\xff", BYTES, "X'00ff'"),
        (True, BOOLEAN, "TRUE"),
        (date(2020, 2, 29), DATE, "DATE'2020-02-29'"),
        (datetime(2020, 1, 2, 3, 4, 5, 6000), TimestampType(3), "TIMESTAMP_NTZ'2020-01-02 03:04:05.006000'"),
    ],
)
def test_constants(value: Any, of: LogicalType, text: str) -> None:
    assert constant(value, of) == text


def test_types_that_spark_cannot_hold_are_refused() -> None:
    for of in (TimeType(0), TimestampType(9), TimestampType(7)):
        with pytest.raises(NotExpressible):
            spark_type(of)
    assert quoted("a`b") == "`a``b`"
