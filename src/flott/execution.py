"""The one door from the API to the runtime: hand over a stream graph, get a result or a client back.

The API never imports the runtime. It finds an executor by the name in ``execution.target``, as Flink does, and loads it
only then.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from flott.common._options import TARGET, read

if TYPE_CHECKING:
    from flott.common.configuration import Configuration
    from flott.common.job_client import JobClient
    from flott.common.job_execution_result import JobExecutionResult
    from flott.graph.stream_graph import StreamGraph

#: The values of ``execution.target`` and the module that makes each executor.
_EXECUTORS = {"spark": "flott.runtime.entrypoint", "in-process": "flott.runtime.entrypoint"}


class JobExecutor(Protocol):
    """Runs jobs somewhere."""

    def execute(self, graph: StreamGraph, configuration: Configuration) -> JobExecutionResult:
        """Run a job in the calling thread until it ends; raises if it does not finish."""

    def submit(self, graph: StreamGraph, configuration: Configuration) -> JobClient:
        """Start a job and return at once."""


def executor_of(configuration: Configuration) -> JobExecutor:
    """The executor a configuration asks for."""
    target = read(configuration, TARGET)
    return cast(JobExecutor, import_module(_EXECUTORS[target]).make_executor(target))
