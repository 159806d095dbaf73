"""Statements about catalogs and functions: what they say, what they change, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from flott.table import StreamTableEnvironment
from flott.table._sql.errors import SqlError
from flott.testing.harness import in_process


def first(number: int) -> int:
    return number + 1


def second(number: int) -> int:
    return number * 10


@pytest.fixture
def t_env(tmp_path: Path) -> StreamTableEnvironment:
    t_env = StreamTableEnvironment.create(in_process(1))
    t_env.execute_sql(f"CREATE CATALOG c COMMENT 'mine' WITH ('type' = 'file', 'path' = '{tmp_path / 'one'}')")
    return t_env


def rows(t_env: StreamTableEnvironment, statement: str) -> list[tuple[object, ...]]:
    with t_env.execute_sql(statement).collect() as found:
        return [tuple(row) for row in found]


def test_a_catalog_is_described_as_it_was_created(t_env: StreamTableEnvironment, tmp_path: Path) -> None:
    assert rows(t_env, "DESCRIBE CATALOG EXTENDED c") == [
        ("name", "c"),
        ("type", "file"),
        ("comment", "mine"),
        ("option:path", str(tmp_path / "one")),
    ]
    assert rows(t_env, "DESCRIBE CATALOG default_catalog")[1] == ("type", "generic_in_memory")
    ((text,),) = rows(t_env, "SHOW CREATE CATALOG c")
    other = StreamTableEnvironment.create(in_process(1))
    other.execute_sql(str(text))
    assert rows(other, "SHOW CREATE CATALOG c") == [(text,)]


def test_an_altered_catalog_reads_its_new_folder(t_env: StreamTableEnvironment, tmp_path: Path) -> None:
    t_env.execute_sql("USE CATALOG c")
    t_env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    t_env.execute_sql(f"ALTER CATALOG c SET ('path' = '{tmp_path / 'two'}')")
    assert rows(t_env, "SHOW TABLES") == []
    t_env.execute_sql(f"ALTER CATALOG c SET ('path' = '{tmp_path / 'one'}')")
    t_env.execute_sql("ALTER CATALOG c COMMENT 'ours'")
    assert rows(t_env, "SHOW TABLES") == [("t",)]
    assert rows(t_env, "DESCRIBE CATALOG c")[2] == ("comment", "ours")


def test_a_catalog_in_memory_keeps_its_tables_when_it_is_altered(t_env: StreamTableEnvironment) -> None:
    t_env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'blackhole')")
    t_env.execute_sql("ALTER CATALOG default_catalog SET ('x' = 'y')")
    assert rows(t_env, "SHOW TABLES") == [("t",)]
    assert rows(t_env, "DESCRIBE CATALOG EXTENDED default_catalog")[-1] == ("option:x", "y")
    t_env.execute_sql("ALTER CATALOG default_catalog RESET ('x')")
    assert len(rows(t_env, "DESCRIBE CATALOG EXTENDED default_catalog")) == 3


def test_an_altered_function_is_another_one(t_env: StreamTableEnvironment) -> None:
    t_env.execute_sql("USE CATALOG c")
    t_env.execute_sql(f"CREATE FUNCTION f AS '{__name__}.first' LANGUAGE PYTHON")
    assert rows(t_env, "SELECT f(4)") == [(5,)]
    t_env.execute_sql(f"ALTER FUNCTION f AS '{__name__}.second' LANGUAGE PYTHON")
    assert rows(t_env, "SELECT f(4)") == [(40,)]
    t_env.execute_sql("ALTER FUNCTION IF EXISTS nothing AS 'a.b' LANGUAGE PYTHON")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER CATALOG c SET ('type' = 'generic_in_memory')", "cannot be changed"),
        ("ALTER CATALOG c RESET ('type')", "cannot be changed"),
        ("ALTER CATALOG c RESET ('path')", "needs the option 'path'"),
        ("ALTER CATALOG nothing SET ('a' = 'b')", "There is no catalog 'nothing'"),
        ("ALTER FUNCTION nothing AS 'a.b' LANGUAGE PYTHON", "There is no function 'nothing'"),
        ("ALTER TEMPORARY FUNCTION f AS 'a.b' LANGUAGE PYTHON", "drop it and create it again"),
        ("ALTER FUNCTION f AS 'a.b' LANGUAGE JAVA", "written in Python here"),
    ],
)
def test_what_cannot_be_altered_is_refused_with_its_place(
    statement: str, message: str, t_env: StreamTableEnvironment
) -> None:
    with pytest.raises(SqlError, match=message) as failure:
        t_env.execute_sql(statement)
    assert failure.value.position is not None
