"""The executor of ``execution.target: remote``: it submits jobs to the JobManager of a cluster. Client side."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from flott.client.packaging import Package, package
from flott.client.remote_job import AwaitedSink, RemoteJob
from flott.client.rest_client import FormPart, RestClient
from flott.common import _cluster_options as cluster_options
from flott.common.configuration import Configuration
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.datastream.connectors.base import DriverSink
from flott.errors import JobNotFoundError, ProgramError, SubmissionError, UnreachableError
from flott.graph.specs import SinkSpec
from flott.graph.stream_graph import StreamGraph
from flott.runtime.jobmanager.processes.result_spool import RemoteSink
from flott.runtime.jobmanager.programs import RUN_HEADER, RUN_VARIABLE

log = logging.getLogger("flott.client")

#: Called with the id and the name of each job that this process submits, in the thread that submits it.
Watcher = Callable[[str, str], None]

_watchers: list[Watcher] = []


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of every job that this process submits meanwhile; ``flott run`` shows their progress."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def tell_watchers(job_id: str, name: str) -> None:
    """Tell the watchers that this process has submitted a job."""
    for watcher in tuple(_watchers):
        watcher(job_id, name)


def make_executor(target: str) -> RemoteExecutor:
    """Return the executor for jobs that run on a cluster."""
    return RemoteExecutor()


class RemoteExecutor:
    """Submits jobs through REST."""

    def execute(self, graph: StreamGraph, configuration: Configuration) -> JobExecutionResult:
        """Submit a job and wait for it; without ``execution.attached``, do not wait."""
        if not configuration.get(cluster_options.ATTACHED):
            return DetachedJobResult(self._submit(graph, configuration).get_job_id(), 0)
        job = self._submit(graph, configuration)
        try:
            return job.get_job_execution_result().result()
        except KeyboardInterrupt:
            if not _watchers:  # a watcher tells it
                log.warning("The job continues without this program: `flott cancel %s` ends it.", job.get_job_id())
            raise

    def submit(self, graph: StreamGraph, configuration: Configuration) -> JobClient:
        """Submit a job and return once the JobManager has it."""
        return self._submit(graph, configuration)

    def _submit(self, graph: StreamGraph, configuration: Configuration) -> RemoteJob:
        graph, sinks = await_results(graph)
        if sinks and not configuration.get(cluster_options.ATTACHED):
            raise ProgramError(
                "execute_and_collect(), preview() and a CallableSink bring results to this program, which does not wait"
                " for its job: set execution.attached to true, or write to another sink."
            )
        made = package(graph, configuration)
        client = RestClient(configuration)
        _send(client, made)
        log.info("Job %r has been submitted with JobID %s.", made.submission.name, made.submission.job_id)
        tell_watchers(made.submission.job_id, made.submission.name)
        return RemoteJob(client, made.submission.job_id, made.submission.name, sinks)


class DetachedJobResult(JobExecutionResult):
    """The result of execute() for a job that it does not wait for: the job's id, and nothing else."""

    __slots__ = ()

    def get_net_runtime(self) -> int:
        raise self._refused("get_net_runtime")

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        raise self._refused("get_accumulator_result")

    def get_all_accumulator_results(self) -> dict[str, Any]:
        raise self._refused("get_all_accumulator_results")

    def get_metrics(self) -> dict[str, int | float]:
        raise self._refused("get_metrics")

    def get_late_records(self) -> Any:
        raise self._refused("get_late_records")

    def __str__(self) -> str:
        return f"Job has been submitted with JobID {self.job_id}"

    @staticmethod
    def _refused(method: str) -> ProgramError:
        return ProgramError(
            f"{method}() found a job that was submitted without waiting for it, so there is no result yet. Set"
            " execution.attached to true, or ask the client that execute_async() returns."
        )


def await_results(graph: StreamGraph) -> tuple[StreamGraph, tuple[AwaitedSink, ...]]:
    """Replace the sinks that deliver in this process by stand-ins; return the graph, and these sinks."""
    sinks: list[AwaitedSink] = []
    nodes = []
    for node in graph.nodes:
        spec = node.spec
        if isinstance(spec, SinkSpec) and isinstance(spec.sink, DriverSink) and spec.sink.stays_in_program:
            awaited = AwaitedSink(f"{len(sinks)}", spec.sink)
            sinks.append(awaited)
            node = replace(node, spec=replace(spec, sink=RemoteSink(spec.sink, awaited.name)))
        nodes.append(node)
    return (replace(graph, nodes=tuple(nodes)), tuple(sinks)) if sinks else (graph, ())


def _send(client: RestClient, made: Package) -> None:
    submission = made.submission
    headers = {RUN_HEADER: run} if (run := os.environ.get(RUN_VARIABLE)) else None
    client.get("/config")  # fails before anything large is sent if there is no JobManager
    with ExitStack() as files:
        parts: list[FormPart] = [
            ("submission", "submission.json", submission.description()),
            ("graph", "graph.pickle", submission.graph),
            *(("file", name, files.enter_context(open(path, "rb"))) for name, path in made.files.items()),
        ]
        try:
            client.post_form("/jobs", parts, headers)
        except UnreachableError:
            # The answer was lost, perhaps with the leader. If the next leader has the job, it was accepted.
            try:
                client.get(f"/jobs/{submission.job_id}/status")
            except JobNotFoundError as error:
                raise SubmissionError(
                    f"The JobManager went away while it was given the job {submission.name!r}, which has not arrived:"
                    " submit it again."
                ) from error
