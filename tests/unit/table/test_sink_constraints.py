"""NOT NULL columns and the lengths of texts: what becomes of rows that a table cannot hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from flott.common.types import Row
from flott.errors import ConfigurationError, JobFailedError
from flott.runtime.operators.columnar.enforce_constraints import DROPPED_ROWS
from flott.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from flott.table._plan.logical import Schema
from flott.table._plan.operations import EnforceConstraints, LengthRule
from flott.table._types import logical as types
from flott.testing.harness import in_process
from tests.unit.table.columnar.operator_cluster import OperatorCluster

NOT_NULL = "table.exec.sink.not-null-enforcer"
TYPE_LENGTH = "table.exec.sink.type-length-enforcer"
NESTED = "table.exec.sink.nested-constraint-enforcer"


def environment(batch: bool = False) -> TableEnvironment:
    settings = EnvironmentSettings.in_batch_mode() if batch else EnvironmentSettings.in_streaming_mode()
    return TableEnvironment(in_process(1), settings)


def insert(t_env: TableEnvironment, columns: str, query: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the rows that a table with these columns gets."""
    t_env.execute_sql(f"CREATE TABLE s ({columns}) WITH ('connector' = 'print')")
    capsys.readouterr()
    t_env.execute_sql(f"INSERT INTO s {query}").wait()
    return capsys.readouterr().out.splitlines()


ONE_NULL = "SELECT a, NULLIF(a, 2) FROM (VALUES 1, 2, 3) AS t(a)"


@pytest.mark.parametrize("batch", [False, True])
def test_a_null_in_a_column_that_is_not_null_fails_the_job(batch: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JobFailedError, match=rf"Column 'b' of .*\.s is NOT NULL.*'{NOT_NULL}' = 'DROP'"):
        insert(environment(batch), "a INT, b INT NOT NULL", ONE_NULL, capsys)


def test_a_key_is_not_null_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(JobFailedError, match="Column 'b'"):
        insert(environment(), "a INT, b INT, PRIMARY KEY (b) NOT ENFORCED", ONE_NULL, capsys)


def test_such_rows_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = environment()
    t_env.get_config().set(NOT_NULL, "DROP")
    assert insert(t_env, "a INT, b INT NOT NULL", ONE_NULL, capsys) == ["+I[1, 1]", "+I[3, 3]"]


def test_a_column_that_may_be_null_is_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    found = insert(environment(), "a INT NOT NULL, b INT, c AS a + 1", ONE_NULL, capsys)
    assert found == ["+I[1, 1]", "+I[2, null]", "+I[3, 3]"]


def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    schema = Schema(("a", "b"), (types.INT, types.STRING))
    rules = EnforceConstraints(output=schema, table="t", not_null=(0, 1), drop_nulls=True, lengths=())
    cluster = OperatorCluster(rules, [schema], [(0,)], tmp_path)
    rows = [(0, (1, "x")), (0, (None, "y")), (2, (2, None)), (3, (None, None)), (3, (4, "z"))]
    assert cluster.epoch([rows]) == [(0, (1, "x")), (3, (4, "z"))]
    assert cluster.metrics == {DROPPED_ROWS: 3}


LONG_AND_SHORT = "SELECT v, v, b, b FROM (VALUES (CAST('äbcd' AS STRING), x'010203'), ('e', x'04')) AS t(v, b)"
LIMITED = "c CHAR(2), v VARCHAR(3), d BINARY(2), w VARBINARY(2)"


def test_values_are_made_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = environment()
    t_env.get_config().set(TYPE_LENGTH, "TRIM_PAD")
    found = insert(t_env, LIMITED, LONG_AND_SHORT, capsys)
    assert found == ["+I[äb, äbc, [1, 2], [1, 2]]", "+I[e , e, [4, 0], [4]]"]


def test_a_source_may_give_longer_values_than_it_declares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text('{"v": "abcdef"}\n{"v": null}\n')
    for mode, expected in (("IGNORE", "+I[abcdef]"), ("TRIM_PAD", "+I[abc]")):
        t_env = environment()
        t_env.get_config().set(TYPE_LENGTH, mode)
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json'"
        t_env.execute_sql(f"CREATE TABLE t (v VARCHAR(3)) WITH ({options})")
        assert insert(t_env, "v VARCHAR(3)", "SELECT v FROM t", capsys) == [expected, "+I[null]"]


@pytest.mark.parametrize(
    ("columns", "query", "said"),
    [
        ("v VARCHAR(3)", "SELECT CAST('abcd' AS STRING)", r"'v' of .* is VARCHAR\(3\).*length 4"),
        ("v CHAR(3)", "SELECT CAST('ab' AS STRING)", r"'v' of .* is CHAR\(3\).*length 2"),
        ("v VARBINARY(1)", "SELECT x'0102'", r"'v' of .* is VARBINARY\(1\).*length 2"),
        ("v BINARY(3)", "SELECT x'0102'", r"'v' of .* is BINARY\(3\).*length 2"),
    ],
)
def test_a_wrong_length_may_fail_the_job(
    columns: str, query: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    t_env = environment()
    t_env.get_config().set(TYPE_LENGTH, "ERROR")
    with pytest.raises(JobFailedError, match=said):
        insert(t_env, columns, query, capsys)


def test_values_that_fit_pass(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = environment()
    t_env.get_config().set(TYPE_LENGTH, "ERROR")
    query = "SELECT 'ab', CAST('abc' AS STRING), x'0102', x''"
    assert insert(t_env, LIMITED, query, capsys) == ["+I[ab, abc, [1, 2], []]"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (NOT_NULL, "FAIL", "ERROR or DROP, found 'FAIL'"),
        (TYPE_LENGTH, "TRIM", "IGNORE or TRIM_PAD or ERROR, found 'TRIM'"),
        (NESTED, "FIELDS", "IGNORE or ROWS or ROWS_AND_COLLECTIONS, found 'FIELDS'"),
    ],
)
def test_other_values_are_refused(key: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    t_env = environment()
    t_env.get_config().set(key, value)
    with pytest.raises(ConfigurationError, match=said):
        insert(t_env, "a INT", "SELECT 1", capsys)


def test_a_length_rule_knows_its_kind() -> None:
    from flott.table._plan.physical import length_rules

    columns = [types.CharType(2), types.STRING, types.VarCharType(3), types.INT]
    assert length_rules(columns, "ERROR") == (LengthRule(0, 2, True, False), LengthRule(2, 3, False, False))
    assert length_rules(columns, "IGNORE") == ()


def test_a_stream_that_a_table_becomes_is_not_checked() -> None:
    t_env = StreamTableEnvironment.create(in_process(1))
    stream = t_env.to_data_stream(t_env.sql_query("SELECT CAST(NULL AS INT) AS a"))
    with stream.execute_and_collect() as found:
        assert list(found) == [Row(a=None)]


# --- values inside of values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("IGNORE", ["1", "null", "null", "5", "6"]),
        ("ROWS", ["1", "null", "5", "6"]),
        ("ROWS_AND_COLLECTIONS", ["1", "6"]),
    ],
)
def test_nulls_inside_of_values_are_found(mode: str, expected: list[str], tmp_path: Path) -> None:
    row = types.RowType((types.RowField("a", types.INT.as_nullable(False)), types.RowField("b", types.VarCharType(2))))
    schema = Schema(
        ("r", "l", "m"),
        (
            row,
            types.ArrayType(types.INT.as_nullable(False)),
            types.MapType(types.STRING.as_nullable(False), types.INT.as_nullable(False)),
        ),
    )
    loose = Schema(
        schema.names,
        (
            types.RowType((types.RowField("a", types.INT), types.RowField("b", types.STRING))),
            types.ArrayType(types.INT),
            types.MapType(types.STRING.as_nullable(False), types.INT),
        ),
    )
    nested = () if mode == "IGNORE" else tuple(enumerate(schema.types))
    rules = EnforceConstraints(
        output=loose, table="t", not_null=(), drop_nulls=True, lengths=(), nested=nested,
        collections=mode == "ROWS_AND_COLLECTIONS",
    )  # fmt: skip
    cluster = OperatorCluster(rules, [loose], [(0,)], tmp_path)
    rows = [
        (0, ({"a": 1, "b": "abc"}, [1, 2], [("k", 1)])),
        (0, ({"a": None, "b": "d"}, [3], [])),
        (0, (None, [4, None], [("k", 2)])),
        (0, ({"a": 5, "b": None}, None, [("k", None)])),
        (0, ({"a": 6, "b": "xyz"}, [], None)),
    ]
    found = [values[0] for _, values in cluster.epoch([rows])]
    assert [str(one and one["a"]).replace("None", "null") for one in found] == expected


def test_lengths_inside_of_values_are_made_to_fit(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = environment()
    t_env.get_config().set(NESTED, "ROWS_AND_COLLECTIONS")
    t_env.get_config().set(TYPE_LENGTH, "TRIM_PAD")
    query = (
        "SELECT ROW(CAST(v AS STRING)), ARRAY[CAST(v AS STRING)], MAP['k', CAST(v AS STRING)] FROM (VALUES 'abcd') t(v)"
    )
    columns = "r ROW<c CHAR(6)>, l ARRAY<VARCHAR(2)>, m MAP<STRING, VARCHAR(3)>"
    assert insert(t_env, columns, query, capsys) == ["+I[+I[abcd  ], [ab], {k=abc}]"]


def test_a_null_field_that_must_not_be_null_fails_with_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    t_env = environment()
    t_env.get_config().set(NESTED, "ROWS")
    query = "SELECT ROW(NULLIF(a, 2)) FROM (VALUES 1, 2) t(a)"
    with pytest.raises(JobFailedError, match=r"Column 'r\.x' of .*\.s is NOT NULL"):
        insert(t_env, "r ROW<x INT NOT NULL>", query, capsys)
