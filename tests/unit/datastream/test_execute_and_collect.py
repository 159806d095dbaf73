"""Results cross from a job's thread to the program, against an executor whose job is a script.

Where a thread could be blocked for ever, the wait has a limit: a deadlock is a failed test.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flott import execution
from flott.common._savepoint_format import SavepointFormatType
from flott.common._watermark_report import WatermarkReport
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_client import JobClient
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.datastream import DataStream, StreamExecutionEnvironment
from flott.datastream._collect import CAPACITY, CloseableIterator, Handover
from flott.datastream.connectors.callable import CallableSink
from flott.datastream.connectors.collect import CollectSink
from flott.errors import JobCancelledError, JobFailedError, ProgramError
from flott.graph.specs import SinkSpec
from flott.graph.stream_graph import StreamGraph

PATIENCE = 10.0

#: What a job does: called with its client and its collect sink, in the job's thread.
Script = Callable[["ScriptedJob", CollectSink[Any]], None]


class ScriptedJob(JobClient):
    """A job that runs a script and can be cancelled between two deliveries."""

    def __init__(self, graph: StreamGraph, script: Script):
        self.graph = graph
        self.cancelled = threading.Event()
        self.result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._script = script
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._deliver()
        except Exception as failure:
            self.result.set_exception(failure)
        else:
            self.result.set_result(JobExecutionResult(JobID("0" * 32), 1))

    def _deliver(self) -> None:
        sinks = [node.spec.sink for node in self.graph.nodes if isinstance(node.spec, SinkSpec)]
        for sink in sinks:
            if isinstance(sink, CallableSink):
                sink.deliver(0, ["other"])
        (collect,) = [sink for sink in sinks if isinstance(sink, CollectSink)]
        self._script(self, collect)

    def check(self) -> None:
        if self.cancelled.is_set():
            raise JobCancelledError("The job was cancelled.")

    def cancel(self) -> CompletableFuture[None]:
        self.cancelled.set()
        done: CompletableFuture[None] = CompletableFuture()
        self.result.when_done(lambda _: done.set_result(None))
        return done

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self.result

    def get_job_id(self) -> JobID:
        return JobID("0" * 32)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        raise NotImplementedError

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        raise NotImplementedError

    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        raise NotImplementedError

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        raise NotImplementedError

    def rescale(self, parallelism: int, operator: str | None = None) -> CompletableFuture[None]:
        raise NotImplementedError

    def get_checkpoint_directory(self) -> str:
        raise NotImplementedError

    def explain_watermark(self) -> WatermarkReport:
        raise NotImplementedError

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        raise NotImplementedError


class Cluster:
    """Starts the scripted job for whatever is submitted."""

    def __init__(self) -> None:
        self.script: Script = deliver([1, 2, 3])
        self.jobs: list[ScriptedJob] = []

    def execute(self, graph: StreamGraph, configuration: Configuration) -> JobExecutionResult:
        raise NotImplementedError

    def submit(self, graph: StreamGraph, configuration: Configuration) -> JobClient:
        self.jobs.append(ScriptedJob(graph, self.script))
        return self.jobs[-1]


def deliver(*batches: list[Any], failure: Exception | None = None) -> Script:
    def script(job: ScriptedJob, sink: CollectSink[Any]) -> None:
        for batch in batches:
            job.check()
            sink.deliver(0, batch)
        if failure is not None:
            raise failure

    return script


def for_ever(job: ScriptedJob, sink: CollectSink[Any]) -> None:
    number = 0
    while True:
        job.check()
        sink.deliver(0, list(range(number, number + 1000)))
        number += 1000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster()
    monkeypatch.setattr(execution, "executor_of", lambda configuration: made)
    yield made
    for job in made.jobs:
        job.thread.join(PATIENCE)
        assert not job.thread.is_alive(), "the job's thread is blocked"


def test_results_come_in_order_and_then_end(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    cluster.script = deliver([1, 2], [], [3])
    results = env.from_collection([1]).execute_and_collect("my job")
    assert (results.next(), next(results), list(results), list(results)) == (1, 2, [3], [])
    assert cluster.jobs[0].graph.job_name == "my job"
    results.close()
    assert not cluster.jobs[0].cancelled.is_set()


def test_a_failure_comes_behind_the_results_before_it(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    cluster.script = deliver([1], [2], failure=JobFailedError("broken"))
    with env.from_collection([1]).execute_and_collect() as results:
        cluster.jobs[0].thread.join(PATIENCE)
        assert (next(results), next(results)) == (1, 2)
        with pytest.raises(JobFailedError, match="broken"):
            next(results)
        assert list(results) == []


def test_an_unread_result_makes_the_job_wait(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    delivered = []

    def script(job: ScriptedJob, sink: CollectSink[Any]) -> None:
        for number in range(3):
            sink.deliver(0, [number] * CAPACITY)
            delivered.append(number)

    cluster.script = script
    results = env.from_collection([1]).execute_and_collect()
    cluster.jobs[0].thread.join(0.2)
    assert delivered == [0]
    assert sum(1 for _ in results) == 3 * CAPACITY
    cluster.jobs[0].thread.join(PATIENCE)
    assert delivered == [0, 1, 2]


def test_closing_early_cancels_the_job_and_frees_the_thread_that_delivers(
    env: StreamExecutionEnvironment, cluster: Cluster
) -> None:
    cluster.script = for_ever
    with env.from_collection([1]).execute_and_collect() as results:
        assert next(results) == 0
        cluster.jobs[0].thread.join(0.1)  # by now it waits for room
    assert cluster.jobs[0].cancelled.is_set()
    assert isinstance(cluster.jobs[0].result.exception(), JobCancelledError)
    assert list(results) == []
    results.close()


def test_an_exception_in_the_loop_cancels_the_job_and_goes_on(
    env: StreamExecutionEnvironment, cluster: Cluster
) -> None:
    cluster.script = for_ever

    def read() -> None:
        with env.from_collection([1]).execute_and_collect() as results:
            assert 1 // next(results)

    with pytest.raises(ZeroDivisionError):
        read()
    assert cluster.jobs[0].cancelled.is_set()


def test_an_iterator_dropped_unread_does_not_block_its_job(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    cluster.script = deliver(*([[0] * CAPACITY] * 5))
    results = env.from_collection([1]).execute_and_collect()
    del results
    gc.collect()
    cluster.jobs[0].thread.join(PATIENCE)
    assert cluster.jobs[0].result.done()


def test_a_limit_gives_a_list_and_cancels_the_rest(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    cluster.script = for_ever
    stream = env.from_collection([1])
    assert stream.execute_and_collect(limit=3) == [0, 1, 2]
    assert stream.execute_and_collect("named", 1) == [0]
    assert all(job.cancelled.is_set() for job in cluster.jobs)


def test_a_limit_above_the_number_of_results_gives_all(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    assert env.from_collection([1]).execute_and_collect(limit=100) == [1, 2, 3]


def test_a_failure_before_the_limit_is_raised(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    cluster.script = deliver([1], failure=JobFailedError("broken"))
    with pytest.raises(JobFailedError, match="broken"):
        env.from_collection([1]).execute_and_collect(limit=2)
    assert env.from_collection([1]).execute_and_collect(limit=1) == [1]


def test_a_job_cancelled_by_somebody_else_ends_with_an_exception(
    env: StreamExecutionEnvironment, cluster: Cluster
) -> None:
    cluster.script = for_ever
    results = env.from_collection([1]).execute_and_collect()
    results.get_job_client().cancel()
    with pytest.raises(JobCancelledError):
        list(results)


def test_the_program_s_other_sinks_work_and_the_program_can_go_on(
    env: StreamExecutionEnvironment, cluster: Cluster
) -> None:
    seen: list[Any] = []
    stream: DataStream[Any] = env.from_collection([1])
    stream.sink_to(CallableSink(seen.append))
    assert list(stream.execute_and_collect()) == [1, 2, 3]
    assert [*map(int, stream.map(str).execute_and_collect())] == [1, 2, 3]
    assert seen == ["other"]
    assert [[node.name for node in job.graph.nodes] for job in cluster.jobs] == [
        ["Source: Collection Source", "Sink: Callable", "Sink: Collect"],
        ["Source: Collection Source", "Map", "Sink: Collect"],
    ]


def test_a_refused_program_keeps_no_trace_of_the_collecting(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    stream = env.from_collection([1]).map(str).set_parallelism(200)
    with pytest.raises(ProgramError, match="above its maximum"):
        stream.execute_and_collect()
    stream.set_parallelism(1)
    with pytest.raises(ProgramError, match="no sink"):
        env.get_stream_graph()


def test_a_job_that_ends_while_it_is_cancelled_is_no_failure(env: StreamExecutionEnvironment, cluster: Cluster) -> None:
    class Hasty(ScriptedJob):
        def cancel(self) -> CompletableFuture[None]:
            self.cancelled.set()
            self.thread.join(PATIENCE)
            return CompletableFuture.failed(RuntimeError("no such job"))

    def script(job: ScriptedJob, sink: CollectSink[Any]) -> None:
        job.cancelled.wait(PATIENCE)

    env.from_collection([1]).sink_to(CollectSink(None))
    job = Hasty(env.get_stream_graph(), script)
    CloseableIterator(Handover[Any](), job).close()
    assert job.result.done()


def test_a_cancellation_that_fails_is_told(env: StreamExecutionEnvironment) -> None:
    class Stubborn(ScriptedJob):
        def cancel(self) -> CompletableFuture[None]:
            return CompletableFuture.failed(RuntimeError("no connection"))

    release = threading.Event()

    def script(job: ScriptedJob, sink: CollectSink[Any]) -> None:
        release.wait(PATIENCE)

    env.from_collection([1]).sink_to(CollectSink(None))
    job = Stubborn(env.get_stream_graph(), script)
    with pytest.raises(RuntimeError, match="no connection"):
        CloseableIterator(Handover[Any](), job).close()
    release.set()
