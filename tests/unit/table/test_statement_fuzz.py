"""Thousands of statements that are wrong in some way, run in a session: each works, or a sentence names its place.

Queries and INSERTs are planned up to the operators (EXPLAIN); all other statements run.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

pytest.importorskip("pyarrow")

from flott.errors import ConfigurationError, ProgramError
from flott.table._environment.session import SqlSession
from flott.table._environment.statements import execute_text
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError, SqlSyntaxError
from flott.table._sql.parser import parse_statements
from flott.testing.harness import in_process
from tests.unit.table.plan.test_resolve_fuzz import TOKEN, mutated, words_by_kind

STATEMENTS = """
CREATE TABLE x ( a INT , ts TIMESTAMP(3) , c AS a + 1 , WATERMARK FOR ts AS ts - INTERVAL '5' SECOND ,
  PRIMARY KEY ( a ) NOT ENFORCED ) WITH ( 'connector' = 'datagen' , 'number-of-rows' = '3' )
CREATE TABLE x ( a INT ) PARTITIONED BY ( a ) WITH ( 'connector' = 'filesystem' , 'path' = 'p' , 'format' = 'json' )
CREATE TABLE x ( k AS UPPER ( b ) ) WITH ( 'connector' = 'print' ) LIKE d ( INCLUDING ALL OVERWRITING OPTIONS )
CREATE OR REPLACE TEMPORARY VIEW vv ( p , q ) AS SELECT a , b FROM d WHERE a > 1
ALTER TABLE d ADD ( z INT FIRST , y STRING AFTER a )
ALTER TABLE d MODIFY ( a BIGINT AFTER b )
ALTER TABLE d DROP ( b )
ALTER TABLE d RENAME a TO aa
ALTER TABLE d SET ( 'number-of-rows' = '4' )
ALTER TABLE d RESET ( 'number-of-rows' )
ALTER VIEW w AS SELECT 1 AS one
ALTER VIEW w RENAME TO w2
ALTER DATABASE default_database SET ( 'a' = 'b' )
CREATE DATABASE IF NOT EXISTS db1 COMMENT 'x' WITH ( 'a' = 'b' )
DROP DATABASE db1 CASCADE
CREATE CATALOG c1 WITH ( 'type' = 'generic_in_memory' )
USE CATALOG c1
USE db1
SHOW TABLES FROM default_database LIKE 'd%'
SHOW COLUMNS FROM d
SHOW CREATE TABLE d
SHOW USER FUNCTIONS
DESCRIBE EXTENDED d
DESCRIBE CATALOG default_catalog
DESCRIBE JOB 'abc'
STOP JOB 'abc' WITH SAVEPOINT
CREATE TEMPORARY SYSTEM FUNCTION ff AS 'math.sqrt' LANGUAGE PYTHON
DROP TEMPORARY FUNCTION IF EXISTS ff
SET 'table.exec.state.ttl' = '1 h'
RESET 'table.exec.state.ttl'
EXECUTE PLAN 'nothing.json'
TRUNCATE TABLE d
DELETE FROM d WHERE a = 1
DROP TABLE IF EXISTS d
DROP VIEW w
INSERT INTO s ( b , a ) SELECT b , a FROM d
SELECT window_start , COUNT ( * ) FROM TABLE ( HOP ( TABLE e , DESCRIPTOR ( ts ) , INTERVAL '5' SECOND ,
  INTERVAL '10' SECOND ) ) GROUP BY window_start , window_end
SELECT * FROM ( SELECT * , ROW_NUMBER ( ) OVER ( PARTITION BY a ORDER BY ts DESC ) AS r FROM e ) WHERE r <= 3
SELECT e.a , d.b FROM e JOIN d ON e.a = d.a AND e.ts BETWEEN d.ts - INTERVAL '1' HOUR AND d.ts
SELECT a , SUM ( a ) OVER ( PARTITION BY b ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW )
  FROM e
SELECT a , CAST ( b AS DECIMAL ( 10 , 2 ) ) , JSON_VALUE ( b , '$.x' RETURNING INT ) FROM d WHERE b LIKE 'x%'
SELECT b , LISTAGG ( b , ',' ) , COUNT ( DISTINCT a ) FILTER ( WHERE a > 1 ) FROM d
  GROUP BY GROUPING SETS ( ( b ) , ( ) )
SELECT d.a , t.x FROM d CROSS JOIN UNNEST ( ARRAY [ a , 1 ] ) AS t ( x )
SELECT e.a , v.b FROM e LEFT JOIN d FOR SYSTEM_TIME AS OF e.ts AS v ON e.a = v.a
SELECT /*+ STATE_TTL ( 'd' = '1 h' ) */ d.a FROM d JOIN e ON d.a = e.a ORDER BY a LIMIT 3
"""


def statements() -> list[list[str]]:
    return [TOKEN.findall(text) for text in STATEMENTS.replace("\n  ", " ").strip().splitlines()]


def new_session() -> SqlSession:
    session = SqlSession(in_process(1))
    columns = "a INT, b STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    generated = "WITH ('connector' = 'datagen', 'number-of-rows' = '3')"
    execute_text(session, f"CREATE TABLE d ({columns}, PRIMARY KEY (a) NOT ENFORCED) {generated}")
    execute_text(session, f"CREATE TABLE e ({columns}) {generated}")
    execute_text(session, "CREATE TABLE s (a INT, b STRING) WITH ('connector' = 'blackhole')")
    execute_text(session, "CREATE VIEW w AS SELECT a FROM d")
    return session


def outcome(text: str) -> str:
    """Return what became of a statement; anything but a result or a sentence is raised."""
    try:
        parsed = parse_statements(text)
    except SqlError as error:
        return described(error)
    if len(parsed) == 1 and isinstance(parsed[0], sql.SqlQueryStatement | sql.SqlInsert):
        text = f"EXPLAIN {text}"
    try:
        list(execute_text(new_session(), text).rows())
    except SqlError as error:
        return described(error) if len(parsed) == 1 else "refused"
    except (ProgramError, ConfigurationError):
        return "refused"  # what a connector or the planner says about the whole statement
    return "done"


def described(error: SqlError) -> str:
    """Return that an error names its place and shows it."""
    assert error.position is not None, error
    assert "^" in str(error), error
    return "syntax" if isinstance(error, SqlSyntaxError) else "refused"


@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_statement_works_or_is_refused_with_a_sentence(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a statement may write a file
    random, pool = Random(seed), statements()
    words = words_by_kind(pool)
    outcomes: dict[str, int] = {}
    for _ in range(600):
        text = mutated(random, pool, words)
        try:
            found = outcome(text)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for: {text}") from error
        outcomes[found] = outcomes.get(found, 0) + 1
    # The mutations are of some use only if many statements reach the session.
    assert outcomes["refused"] > 100
    assert outcomes["done"] > 50


def test_a_column_behind_one_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SqlError, match=r"AFTER 'nowhere': there is no such column\. There is: a, b, ts"):
        execute_text(new_session(), "ALTER TABLE d ADD (z INT AFTER nowhere)")
