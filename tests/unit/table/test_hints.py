"""Hints: how long state is kept, how lookups run, options of tables; and what is said about wrong ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from flott.table._connectors import registry
from flott.table._environment.session import SqlSession
from flott.table._environment.statements import execute_text
from flott.table._plan import operations
from flott.table._plan.physical import walk_steps
from flott.table._sql.errors import SqlError
from flott.table._sql.parser import parse_query
from flott.testing.harness import in_process
from tests.unit.table import changelog_tables

HOUR, DAY = 3_600_000, 86_400_000


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> SqlSession:
    monkeypatch.setitem(registry._MODULES, changelog_tables.NAME, "tests.unit.table.changelog_tables")
    session = SqlSession(in_process(1), {"table.exec.state.ttl": "1 h"})
    for table in "abc":
        monkeypatch.setitem(changelog_tables.TABLES, table, [])
        execute_text(
            session, f"CREATE TABLE {table} (id INT, k INT) WITH ('connector' = 'changes', 'data' = '{table}')"
        )
    execute_text(
        session,
        "CREATE TABLE looked (id INT, name STRING) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:/x.db',"
        " 'table-name' = 'looked')",
    )
    execute_text(session, "CREATE VIEW v AS SELECT * FROM a")
    return session


def operation(session: SqlSession, query: str, of: type[Any]) -> list[Any]:
    """Return the operations of a kind in the physical plan of a query."""
    steps = walk_steps(session.physical(session.resolve(parse_query(query))))
    return [step.operation for step in steps if isinstance(step.operation, of)]


def test_a_join_keeps_each_side_as_long_as_its_hint_says(session: SqlSession) -> None:
    query = "SELECT /*+ STATE_TTL('a' = '1d', 'other' = '2d') */ a.id FROM a JOIN b AS other ON a.k = other.k"
    (join,) = operation(session, query, operations.RegularJoin)
    assert (join.side_ttl_ms, join.ttl_ms) == ((DAY, 2 * DAY), HOUR)


def test_a_hint_concerns_the_joins_of_its_select_only(session: SqlSession) -> None:
    query = (
        "SELECT /*+ STATE_TTL('c' = '3 d') */ x.id FROM (SELECT /*+ STATE_TTL('b' = '2 d') */ a.id, a.k FROM a JOIN b"
        " ON a.k = b.k) AS x JOIN c ON x.k = c.k"
    )
    inner, outer = operation(session, query, operations.RegularJoin)
    assert inner.side_ttl_ms == (None, 2 * DAY)
    assert outer.side_ttl_ms == (None, 3 * DAY)


def test_groups_of_a_table_are_kept_as_long_as_its_hint_says(session: SqlSession) -> None:
    query = "SELECT /*+ STATE_TTL('{}' = '1d') */ k, COUNT(*) FROM {} GROUP BY k"
    for name, source in (("a", "a"), ("x", "a AS x"), ("x", "(SELECT * FROM a) AS x")):
        (groups,) = operation(session, query.format(name, source), operations.GroupAggregate)
        assert groups.ttl_ms == DAY
    (plain,) = operation(session, "SELECT k, COUNT(*) FROM a GROUP BY k", operations.GroupAggregate)
    assert plain.ttl_ms == HOUR


def test_lookups_run_beside_each_other_if_a_hint_says_so(session: SqlSession) -> None:
    query = (
        "SELECT /*+ LOOKUP('table' = 'l', 'async' = '{}', 'capacity' = '3') */ a.id FROM (SELECT *, PROCTIME() AS p"
        " FROM a) AS a JOIN looked FOR SYSTEM_TIME AS OF a.p AS l ON a.id = l.id"
    )
    for asynchronous, parallel in (("true", 3), ("false", 1)):
        (join,) = operation(session, query.format(asynchronous), operations.JoinLookups)
        assert join.lookups.parallel == parallel


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT /*+ STATE_TLL('a' = '1d') */ * FROM a", "There is no hint STATE_TLL. Did you mean 'STATE_TTL'?"),
        ("SELECT /*+ STATE_TTL('x' = '1d') */ k, COUNT(*) FROM a GROUP BY k", "'x', which is no table or alias"),
        ("SELECT /*+ STATE_TTL('a' = 'soon') */ k, COUNT(*) FROM a GROUP BY k", "found 'soon'"),
        ("SELECT /*+ STATE_TTL(a) */ k, COUNT(*) FROM a GROUP BY k", "'table' = 'duration'"),
        ("SELECT /*+ OPTIONS('data' = 'b') */ * FROM a", "belongs behind the name of a table"),
        ("SELECT * FROM a /*+ STATE_TTL('a' = '1d') */", "belongs behind SELECT"),
        ("SELECT * FROM v /*+ OPTIONS('data' = 'b') */", "is a view"),
        ("SELECT /*+ BROADCAST(q) */ * FROM a JOIN b ON a.k = b.k", "The hint BROADCAST names 'q'"),
        ("SELECT /*+ LOOKUP('async' = 'true') */ * FROM a", "needs the option 'table'"),
        ("SELECT /*+ LOOKUP('table' = 'a', 'retry-predicate' = 'lookup_miss') */ * FROM a", "is not supported"),
        ("SELECT /*+ LOOKUP('table' = 'a', 'capcity' = '2') */ * FROM a", "Did you mean 'capacity'?"),
    ],
)
def test_a_hint_that_cannot_have_an_effect_is_refused(query: str, message: str, session: SqlSession) -> None:
    with pytest.raises(SqlError, match=re.escape(message)) as failure:
        session.resolve(parse_query(query))
    assert failure.value.position is not None
