"""The one door from the API to the runtime: hand over a stream graph, get a result or a client back.

The API never imports the runtime. It finds an executor by the name in ``execution.target``, as Flink does, and loads it
only then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from flott.common._options import TARGET, read

if TYPE_CHECKING:
    from flott.common.configuration import Configuration
    from flott.common.job_client import JobClient
    from flott.common.job_execution_result import JobExecutionResult
    from flott.graph.stream_graph import StreamGraph

#: The values of ``execution.target`` and the module that makes each executor.
_EXECUTORS = {
    "spark": "flott.runtime.entrypoint.executors",
    "in-process": "flott.runtime.entrypoint.executors",
    "remote": "flott.client.remote_executor",
}

#: The variable that names a file for the program's plan, which is wanted instead of a job.
PLAN_VARIABLE = "FLOTT_PLAN_FILE"

_started = False
_instead: list[JobExecutor] = []  #: takes all jobs, for a tool that runs a program to see what it would do


class JobExecutor(Protocol):
    """Runs jobs somewhere."""

    def execute(self, graph: StreamGraph, configuration: Configuration) -> JobExecutionResult:
        """Run a job in the calling thread until it ends; raises if it does not finish."""

    def submit(self, graph: StreamGraph, configuration: Configuration) -> JobClient:
        """Start a job and return at once."""


class BatchQueries(Protocol):
    """Runs queries of batch mode where the data is, without a job."""

    def run(self, query: Any, configuration: Configuration) -> Any:
        """Run a query (``flott.table._plan.spark_sql.query.SparkQuery``) and return its rows as an Arrow table."""


def batch_queries_of(configuration: Configuration) -> BatchQueries | None:
    """Return what runs queries of batch mode for the executor of a configuration; None: they run as jobs."""
    if _instead or os.environ.get(PLAN_VARIABLE) or read(configuration, TARGET) != "spark":
        return None
    global _started
    _started = True
    return cast(BatchQueries, import_module("flott.runtime.spark.batch_queries").SparkBatchQueries())


def executor_of(configuration: Configuration) -> JobExecutor:
    """The executor a configuration asks for."""
    global _started
    _started = True
    if _instead:
        return _instead[-1]
    target = read(configuration, TARGET)
    module = "flott.client.plan_executor" if os.environ.get(PLAN_VARIABLE) else _EXECUTORS[target]
    return cast(JobExecutor, import_module(module).make_executor(target))


@contextmanager
def taken_over(executor: JobExecutor) -> Iterator[None]:
    """Jobs that are started in this process meanwhile go to this executor, whatever their target says."""
    _instead.append(executor)
    try:
        yield
    finally:
        _instead.remove(executor)


def was_asked() -> bool:
    """Whether this process has run a job, or tried to."""
    return _started
