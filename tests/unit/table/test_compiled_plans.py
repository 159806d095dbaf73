"""COMPILE PLAN, EXECUTE PLAN and their methods: a statement is stored, run later, and refused if it fits no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from flott.errors import ProgramError
from flott.table import PlanReference, StreamTableEnvironment
from flott.table._sql.errors import SqlError
from flott.table.udf import udf
from flott.testing.harness import in_process

INSERT = "INSERT INTO s SELECT k, SUM(v) AS n FROM t GROUP BY k"
T = "CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')"
S = "CREATE TABLE s (k INT, n INT) WITH ('connector' = 'print')"


def session(folder: Path, read: str = T, written: str = S) -> StreamTableEnvironment:
    (folder / "t").mkdir(exist_ok=True)
    (folder / "t" / "rows.csv").write_text("1,10\n2,20\n1,5\n")
    t_env = StreamTableEnvironment.create(in_process(1))
    t_env.execute_sql(read.format(folder / "t"))
    t_env.execute_sql(written)
    return t_env


def test_a_plan_of_one_session_runs_in_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    session(tmp_path).execute_sql(f"COMPILE PLAN '{path}' FOR {INSERT}")
    assert capsys.readouterr().out == ""
    session(tmp_path).execute_sql(f"EXECUTE PLAN '{path}'").wait()
    assert capsys.readouterr().out.splitlines() == ["+I[1, 10]", "+I[2, 20]", "-U[1, 10]", "+U[1, 15]"]


def test_a_statement_set_is_stored_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    both = "STATEMENT SET BEGIN INSERT INTO s SELECT k, v FROM t; INSERT INTO s SELECT v, k FROM t WHERE k = 2; END"
    session(tmp_path).execute_sql(f"COMPILE AND EXECUTE PLAN '{path}' FOR {both}").wait()
    expected = ["+I[1, 10]", "+I[1, 5]", "+I[2, 20]", "+I[20, 2]"]
    assert sorted(capsys.readouterr().out.splitlines()) == expected
    session(tmp_path).load_plan(PlanReference.from_file(str(path))).execute().wait()
    assert sorted(capsys.readouterr().out.splitlines()) == expected


def test_the_plan_has_the_operators_of_its_statement(tmp_path: Path) -> None:
    t_env = session(tmp_path)
    plan = t_env.compile_plan_sql(INSERT)
    assert plan.explain() == t_env.explain_sql(INSERT)
    stored = json.loads(plan.as_json_string())
    assert stored["tables"]["default_catalog.default_database.s"] == ["k INT", "n INT"]
    assert str(tmp_path) not in plan.as_json_string()  # options may hold secrets
    again = t_env.load_plan(PlanReference.from_json_string(plan.as_json_string()))
    assert again.as_json_string() == plan.as_json_string()


def test_a_plan_that_exists_is_kept_or_refused(tmp_path: Path) -> None:
    t_env, path = session(tmp_path), tmp_path / "plan.json"
    t_env.execute_sql(f"COMPILE PLAN '{path}' FOR {INSERT}")
    before = path.read_text()
    with pytest.raises(SqlError, match="exists; write IF NOT EXISTS"):
        t_env.execute_sql(f"COMPILE PLAN '{path}' FOR INSERT INTO s SELECT k, v FROM t")
    t_env.execute_sql(f"COMPILE PLAN '{path}' IF NOT EXISTS FOR INSERT INTO s SELECT k, v FROM t")
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("read", "written"),
    [(T.replace("v INT", "v BIGINT"), S), (T, S.replace("n INT", "n BIGINT")), (T.replace("v INT", "v INT, w INT"), S)],
)
def test_a_table_that_has_changed_is_refused_with_both_schemas(read: str, written: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    session(tmp_path).execute_sql(f"COMPILE PLAN '{path}' FOR {INSERT}")
    with pytest.raises(ProgramError, match=r"has changed since the plan was compiled: it has .*plan was made for"):
        session(tmp_path, read, written).execute_sql(f"EXECUTE PLAN '{path}'")


def test_what_cannot_be_stored_or_read_is_refused(tmp_path: Path) -> None:
    t_env = session(tmp_path)
    with pytest.raises(SqlError, match="There is no file"):
        t_env.execute_sql(f"EXECUTE PLAN '{tmp_path / 'nothing.json'}'")
    (tmp_path / "other.json").write_text('{"flinkVersion": "2.3"}')
    with pytest.raises(ProgramError, match="another program has written it"):
        t_env.execute_sql(f"EXECUTE PLAN '{tmp_path / 'other.json'}'")
    unnamed = udf(lambda k: k, result_type="INT")
    pipeline = t_env.from_path("t").select(unnamed(t_env.from_path("t").k), t_env.from_path("t").v).insert_into("s")
    with pytest.raises(ProgramError, match="calls a Python function that has no name"):
        pipeline.compile_plan()
