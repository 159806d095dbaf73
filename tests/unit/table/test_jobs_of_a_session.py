"""SHOW JOBS, DESCRIBE JOB and STOP JOB: the jobs that a session has started."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from flott.common.job_status import JobStatus
from flott.table import StreamTableEnvironment
from flott.table._sql.errors import SqlError
from flott.testing.harness import in_process


@pytest.fixture
def t_env(tmp_path: Path) -> StreamTableEnvironment:
    options = {
        "execution__checkpointing__dir": str(tmp_path / "checkpoints"),
        "execution__checkpointing__savepoint_dir": str(tmp_path / "savepoints"),
    }
    t_env = StreamTableEnvironment.create(in_process(1, **options))
    t_env.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '5')")
    t_env.execute_sql("CREATE TABLE s (a INT) WITH ('connector' = 'blackhole')")
    return t_env


def rows(t_env: StreamTableEnvironment, statement: str) -> list[tuple[str, ...]]:
    with t_env.execute_sql(statement).collect() as found:
        return [tuple(row) for row in found]


def test_a_job_is_listed_described_and_stopped(t_env: StreamTableEnvironment) -> None:
    assert rows(t_env, "SHOW JOBS") == []
    job = t_env.execute_sql("INSERT INTO s SELECT a FROM t").get_job_client()
    assert job is not None
    name = "insert-into_default_catalog.default_database.s"
    ((ident, shown, status),) = rows(t_env, "SHOW JOBS")
    assert (ident, shown) == (str(job.get_job_id()), name)
    assert status in JobStatus.__members__
    assert rows(t_env, f"DESCRIBE JOB '{ident}'")[0][:2] == (ident, name)
    t_env.execute_sql(f"STOP JOB '{ident}'")
    assert rows(t_env, "SHOW JOBS") == [(ident, name, "CANCELED")]


def test_a_job_is_stopped_with_a_savepoint(t_env: StreamTableEnvironment) -> None:
    job = t_env.execute_sql("INSERT INTO s SELECT a FROM t").get_job_client()
    assert job is not None
    ((path,),) = rows(t_env, f"STOP JOB '{job.get_job_id()}' WITH SAVEPOINT WITH DRAIN")
    assert (Path(path) / "_metadata").is_file()
    assert job.get_job_status().result() is JobStatus.FINISHED


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("STOP JOB 'abc'", "has not started a job 'abc'"),
        ("DESCRIBE JOB 'abc'", "SHOW JOBS lists those that it has"),
        ("STOP JOB 'abc' WITH DRAIN", "part of WITH SAVEPOINT"),
    ],
)
def test_a_job_that_the_session_does_not_know_is_refused(
    statement: str, message: str, t_env: StreamTableEnvironment
) -> None:
    with pytest.raises(SqlError, match=message):
        t_env.execute_sql(statement)
