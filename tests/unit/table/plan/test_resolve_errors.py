"""Wrong queries: the sentence says what was found and what is there, at the place of the mistake."""

from __future__ import annotations

import pytest

from flott.table._sql.errors import SqlError
from tests.unit.table.plan.small_catalog import resolve, resolve_into

#: A query, the column (from 1) of the mistake in its only line, and a part of the message.
MISTAKES = [
    ("SELECT aa FROM t", 8, "Column 'aa' is not known. Did you mean 'a'? There is: a, b, c."),
    ("SELECT t.z FROM t", 8, "Column 't.z' is not known"),
    ("SELECT v.a FROM t", 8, "Table 'v' is not in FROM. There is: t."),
    ("SELECT v.* FROM t", 8, "Table 'v' is not in FROM"),
    ("SELECT a FROM event", 15, "Table 'event' is not known. Did you mean 'events'?"),
    ("SELECT UPER(c) FROM t", 8, "Function 'UPER' is not known. Did you mean 'UPPER'?"),
    ("SELECT a FROM t, u", 8, "Column 'a' is ambiguous. It is a column of cat.db.t and of cat.db.u"),
    ("SELECT 1 FROM t, t", 16, "FROM has two tables called 't'"),
    ("SELECT a FROM t WHERE COUNT(*) > 1", 23, "The aggregate COUNT cannot stand in WHERE. Use HAVING"),
    ("SELECT SUM(COUNT(*)) FROM t", 12, "cannot stand in the arguments of the aggregate SUM"),
    ("SELECT a, b FROM t GROUP BY a", 11, "Column 'b' is neither in GROUP BY nor inside an aggregate"),
    ("SELECT a, COUNT(*) FROM t", 8, "Column 'a' stands beside an aggregate without being in GROUP BY"),
    ("SELECT a FROM t GROUP BY SUM(b)", 26, "The aggregate SUM cannot stand in GROUP BY"),
    ("SELECT a + 'x' FROM t", 10, "+ cannot be called with (INT, CHAR(1) NOT NULL)"),
    ("SELECT a FROM t WHERE b", 23, "The condition of WHERE is BIGINT NOT NULL, expected BOOLEAN"),
    ("SELECT CASE WHEN a THEN 1 END FROM t", 8, "The condition of WHEN is INT, expected BOOLEAN"),
    ("SELECT CASE WHEN TRUE THEN 1 ELSE DATE '2020-01-01' END", 8, "The results of CASE have no common type"),
    ("SELECT SUM(c) FROM t", 8, "SUM cannot be called with (STRING)"),
    ("SELECT MAX(a, b) FROM t", 8, "MAX takes 1 arguments, found 2"),
    ("SELECT CAST(a AS ARRAY<INT>) FROM t", 8, "CAST from INT to ARRAY<INT> is not supported"),
    ("SELECT a FROM t ORDER BY 2", 26, "ORDER BY 2 is out of range: the SELECT has 1 columns"),
    ("SELECT DISTINCT a FROM t ORDER BY b", 35, "ORDER BY of a SELECT DISTINCT may use only its columns"),
    ("SELECT a FROM t LIMIT -1", None, "LIMIT"),
    ("SELECT *", 8, "* stands for no column"),
    ("SELECT a FROM t UNION SELECT a, d FROM u", 17, "UNION combines queries of 1 and of 2 columns"),
    ("VALUES (1), (2, 3)", 13, "A row of VALUES has 2 columns, the first one has 1"),
    ("SELECT * FROM t LEFT JOIN u USING (b)", 17, "USING: the right table has no column 'b'"),
    ("SELECT * FROM t AS x (p, q)", 17, "x lists 2 columns, its query has 3"),
    ("SELECT (SELECT a, d FROM u) FROM t", 8, "A query that is a value must have one column, found 2"),
    ("SELECT a FROM t WHERE a IN (SELECT a, d FROM u)", 25, "1 values are compared with a query of 2 columns"),
    ("SELECT a FROM t WHERE a IN (SELECT f FROM u)", 25, "INT cannot be compared with BOOLEAN NOT NULL"),
    ("SELECT ROW_NUMBER() FROM t", 8, "ROW_NUMBER needs OVER"),
    ("SELECT RANK() OVER (PARTITION BY a) FROM t", 8, "RANK needs ORDER BY in OVER"),
    ("SELECT SUM(b) OVER w FROM t", 20, "Window 'w' is not known"),
    ("SELECT ABS(a) OVER (ORDER BY a) FROM t", 8, "ABS is not an aggregate, OVER cannot be used with it"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(a), INTERVAL '1' DAY))", 37, "TUMBLE needs a time attribute"),
    ("SELECT * FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts)))", 21, "SIZE is missing"),
    ("SELECT COUNT(*) FROM t GROUP BY TUMBLE(a, INTERVAL '1' DAY)", 40, "TUMBLE needs a time attribute"),
    ("SELECT TUMBLE_START(ts, INTERVAL '2' DAY) FROM events GROUP BY TUMBLE(ts, INTERVAL '1' DAY)", 8, "differs"),
    ("SELECT py_split(c) FROM t", 8, "py_split gives rows: use it in FROM as LATERAL TABLE(py_split(...))"),
    ("SELECT * FROM t, LATERAL TABLE(py_add(a, b))", None, "FROM needs a table function"),
    ("SELECT py_add(c, b) FROM t", 8, "Argument 1 of function py_add is STRING, expected BIGINT"),
    ("SELECT py_add(a) FROM t", 8, "Function py_add takes 2 arguments"),
    ("SELECT * FROM nested, UNNEST(id)", 23, "UNNEST takes an array, a map or a multiset, found INT"),
    ("SELECT r.w FROM nested", 8, "The row has no field 'w'"),
    ("SELECT a.b FROM t", 8, "Only a ROW has fields"),
    ("SELECT * FROM events e JOIN rates FOR SYSTEM_TIME AS OF e.id AS r ON e.kind = r.currency", 29, "time attribute"),
    ("SELECT * FROM loop", 15, "contains itself"),
    ("SELECT DATE '2020-13-01'", 8, "expected a value in the form 'yyyy-MM-dd'"),
    ("SELECT INTERVAL '1:2' DAY", 8, "does not fit its units"),
    ("SELECT GROUPING(a) FROM t GROUP BY b", 8, "must be a key of GROUP BY"),
    (
        "SELECT a, (SELECT SUM(d) FROM u WHERE u.a > t.a) FROM t",
        11,
        "needs conditions of the form inner column = outer column",
    ),
    ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (X) DEFINE X AS TRUE)", None, "MATCH_RECOGNIZE"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "column", "message"), MISTAKES)
def test_mistake_is_told_with_its_place(query: str, column: int | None, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        resolve(query)
    assert message in str(caught.value)
    if column is not None:
        assert caught.value.position is not None
        assert (caught.value.position.line, caught.value.position.column) == (1, column)


WRONG_INSERTS = [
    ("INSERT INTO sink SELECT c, c, 1 FROM t", "Column 'a' is BIGINT, the query gives STRING for it. Use CAST("),
    ("INSERT OVERWRITE sink SELECT a, c, 1 FROM t", "cat.db.sink cannot be overwritten: its connector only adds rows"),
    ("INSERT INTO sink SELECT a, c FROM t", "The query has 2 columns (a INT, c STRING), cat.db.sink needs 3"),
    ("INSERT INTO sink (a, s) SELECT a, c FROM t", "Column 'n' is NOT NULL and the INSERT gives no value for it"),
    ("INSERT INTO sink (a, x) SELECT a, c FROM t", "The table has no column 'x'"),
    ("INSERT INTO sink (a, a) SELECT a, a FROM t", "INSERT lists the column 'a' twice"),
    ("INSERT INTO events (id, doubled) SELECT a, a FROM t", "Column 'doubled' is computed or virtual"),
    ("INSERT INTO v1 SELECT 1, 2", "cat.db.v1 is a view, INSERT needs a table"),
    ("INSERT INTO parts PARTITION (v = 1) SELECT 'x'", "The table is not partitioned by 'v'"),
    ("INSERT INTO nowhere SELECT 1", "Table 'nowhere' is not known"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "message"), WRONG_INSERTS)
def test_wrong_insert_names_the_column(statement: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        resolve_into(statement)
    assert message in str(caught.value)
