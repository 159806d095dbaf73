"""EXPLAIN: the plan, its changelog, estimated rows, the execution plan as JSON, advice, and the rows of a job."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")

from flott.table import ExplainDetail, StreamTableEnvironment
from flott.testing.harness import in_process

QUERY = "SELECT k, COUNT(*) AS n FROM t WHERE v > 1 GROUP BY k"
INSERT = "INSERT INTO s SELECT k, v FROM t WHERE v > 1"


@pytest.fixture
def t_env() -> StreamTableEnvironment:
    t_env = StreamTableEnvironment.create(in_process(2))
    rows = t_env.from_elements([(1, 1), (1, 2), (2, 3), (3, 4)], ["k", "v"])
    t_env.create_temporary_view("t", rows)
    t_env.execute_sql("CREATE TABLE s (k BIGINT, v BIGINT) WITH ('connector' = 'blackhole')")
    return t_env


def test_every_step_has_its_changelog_and_an_estimate_of_its_rows(t_env: StreamTableEnvironment) -> None:
    text = t_env.explain_sql(QUERY, ExplainDetail.CHANGELOG_MODE, ExplainDetail.ESTIMATED_COST)
    plan = text.split("== Optimized Physical Plan ==")[1].split("==")[0]
    assert "GroupAggregate(groupBy=[k], select=[k, EXPR$0], changelogMode=[I,UB,UA]): rowcount = 1\n" in plan
    assert "where=[>($1, 1)], changelogMode=[I]): rowcount = 2\n" in plan
    assert "changelogMode=[I]): rowcount = 4\n" in plan
    assert "rowcount" not in t_env.explain_sql(QUERY)


def test_the_execution_plan_is_that_of_the_program(t_env: StreamTableEnvironment) -> None:
    text = t_env.explain_sql(QUERY, ExplainDetail.JSON_EXECUTION_PLAN)
    nodes = json.loads(text.split("== Physical Execution Plan ==")[1])["nodes"]
    assert any("GroupAggregate" in node["type"] for node in nodes)


def test_advice_names_the_step_and_the_remedy(t_env: StreamTableEnvironment) -> None:
    text = t_env.explain_sql(QUERY, ExplainDetail.PLAN_ADVICE)
    assert "advice[1]: GroupAggregate(" in text
    assert "table.exec.mini-batch.enabled" in text
    assert "No available advice" in t_env.explain_sql(INSERT, ExplainDetail.PLAN_ADVICE)


def test_the_rows_of_a_job_are_shown_beside_its_steps(t_env: StreamTableEnvironment) -> None:
    assert "Rows of job" not in t_env.explain_sql(INSERT)
    result = t_env.execute_sql(INSERT)
    result.wait()
    client = result.get_job_client()
    assert client is not None
    text = t_env.explain_sql(INSERT)
    rows = text.split(f"== Rows of job {client.get_job_id()} (FINISHED) ==")[1]
    assert "where=[>($1, 1)]): rows in = 4, out = 3\n" in rows
    assert "Rows of job" not in t_env.explain_sql("INSERT INTO s SELECT k, v FROM t WHERE v > 2")


def test_the_rows_of_a_query_are_shown_too(t_env: StreamTableEnvironment) -> None:
    with t_env.execute_sql(QUERY).collect() as rows:
        assert len(list(rows)) == 3
    assert "GroupAggregate(groupBy=[k], select=[k, EXPR$0]): rows in = 3, out = 3\n" in t_env.explain_sql(QUERY)
