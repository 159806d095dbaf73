"""SHOW JOBS, DESCRIBE JOB and STOP JOB: the jobs that this session has started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flott.table._environment.result import StatementResult, success, table_of
from flott.table._sql import nodes as sql
from flott.table._sql.errors import SqlError
from flott.table._types.logical import STRING

if TYPE_CHECKING:
    from flott.table._environment.session import SqlSession, StartedJob

_COLUMNS = {"job id": STRING, "job name": STRING, "status": STRING}


def show_jobs(session: SqlSession) -> StatementResult:
    """Return the jobs of the session, the first one first."""
    return table_of(_COLUMNS, [_row(job) for job in session.jobs])


def describe_job(session: SqlSession, statement: sql.SqlDescribeJob) -> StatementResult:
    """Return one job."""
    return table_of(_COLUMNS, [_row(_job(session, statement.job_id, statement))])


def stop_job(session: SqlSession, statement: sql.SqlStopJob) -> StatementResult:
    """End a job; with a savepoint the result is its path."""
    if statement.with_drain and not statement.with_savepoint:
        raise SqlError(
            "WITH DRAIN is a part of WITH SAVEPOINT: a job that is cancelled fires no window.", statement.position
        )
    client = _job(session, statement.job_id, statement).client
    if not statement.with_savepoint:
        client.cancel().result()
        return success()
    path = client.stop_with_savepoint(statement.with_drain).result()
    return table_of({"savepoint path": STRING}, [(path,)])


def _row(job: StartedJob) -> tuple[str, str, str]:
    return str(job.client.get_job_id()), job.name, job.client.get_job_status().result().name


def _job(session: SqlSession, job_id: str, statement: sql.SqlStatement) -> StartedJob:
    for job in session.jobs:
        if str(job.client.get_job_id()) == job_id:
            return job
    raise SqlError(
        f"This session has not started a job '{job_id}'; SHOW JOBS lists those that it has. For others there are"
        " 'flott list' and 'flott stop'.",
        statement.position,
    )
