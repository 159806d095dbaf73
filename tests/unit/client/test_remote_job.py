"""Jobs handed to a cluster: submitted through the REST application, and followed by their clients."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from flott.client import remote_executor
from flott.client.remote_executor import DetachedJobResult, RemoteExecutor
from flott.client.remote_job import RemoteJob
from flott.client.rest_client import RestClient
from flott.common._late_records import LedgerEntry
from flott.common._savepoint_format import SavepointFormatType
from flott.common.configuration import Configuration
from flott.common.job_status import JobStatus
from flott.datastream.connectors.callable import CallableSink
from flott.errors import (
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    ProgramError,
    SavepointError,
    SubmissionError,
    UnreachableError,
)
from flott.rest.app import create_app
from flott.runtime.jobmanager.ended_job_file import encode_ledger
from flott.runtime.jobmanager.processes.graph_pickle import unpickle_graph
from flott.runtime.jobmanager.processes.result_spool import ResultSpool
from flott.runtime.jobmanager.programs import ProgramStore
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import FailureView, JobResultView, JobView
from flott.runtime.orders import (
    CancelJob,
    CancelWithSavepoint,
    ExplainWatermark,
    Order,
    RescaleJob,
    StopWithSavepoint,
    TakeCheckpoint,
    TakeSavepoint,
)
from flott.testing import in_process
from tests.unit.client.test_rest_client import PatientClock
from tests.unit.rest import fake_cluster
from tests.unit.rest.fake_cluster import CANCELED, FAILED, FINISHED, RUNNING, UNKNOWN, FakeCluster


class TakingCluster(FakeCluster):
    """Takes jobs in, and ends each as it was told to."""

    taken: tuple[JobSubmission, dict[str, bytes]] | None = None
    ends_with: Callable[[str], JobResultView] | None = None
    ended: JobResultView | None = None

    def submit(self, submission: JobSubmission, files: Any) -> Future[None]:
        self.taken = (submission, {name: path.read_bytes() for name, path in files.items()})
        if self.ends_with is not None:
            self.ended = self.ends_with(submission.job_id)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def job(self, job_id: str) -> JobView:
        if self.taken is not None and job_id == self.taken[0].job_id:
            return fake_cluster.running_job(job_id)
        return super().job(job_id)

    def result(self, job_id: str) -> JobResultView | None:
        if self.taken is not None and job_id == self.taken[0].job_id:
            return self.ended
        return super().result(job_id)


@pytest.fixture
def cluster(tmp_path: Path) -> TakingCluster:
    return TakingCluster(tmp_path)


@pytest.fixture
def rest(cluster: TakingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RestClient:
    """A client of the application; executors get the same."""
    server = TestClient(create_app(cluster, ProgramStore(tmp_path / "programs", cluster.configuration)))

    def forward(request: httpx.Request) -> httpx.Response:
        headers = {**request.headers, "host": "localhost:8081"}
        reply = server.request(request.method, str(request.url), content=request.read(), headers=headers)
        return httpx.Response(reply.status_code, content=reply.content, headers={"content-type": "application/json"})

    def connected(configuration: Configuration) -> RestClient:
        return RestClient(configuration, transport=httpx.MockTransport(forward))

    monkeypatch.setattr(remote_executor, "RestClient", connected)
    return connected(Configuration())


def finished(job_id: str) -> JobResultView:
    return JobResultView(
        job_id,
        JobStatus.FINISHED,
        1234,
        accumulators={"count": pickle.dumps(7)},
        ledger=encode_ledger((LedgerEntry("Window", 3),)),
        metrics={"Map.seen": 3},
    )


def a_graph(name: str = "numbers") -> Any:
    env = in_process(1)
    env.from_collection([1, 2, 3]).map(str).print()
    return env.get_stream_graph(job_name=name)


def remote(**settings: Any) -> Configuration:
    return Configuration.of({"execution.target": "remote", "parallelism.default": 3, **settings})


def test_a_job_is_sent_whole_and_waited_for(cluster: TakingCluster, rest: RestClient) -> None:
    cluster.ends_with = finished
    result = RemoteExecutor().execute(a_graph(), remote())
    assert cluster.taken is not None
    submission, _ = cluster.taken
    assert (submission.name, submission.job_id) == ("numbers", str(result.get_job_id()))
    assert submission.configuration == {"parallelism.default": "3"}
    assert [node.name for node in unpickle_again(submission.graph).nodes] == [
        "Source: Collection Source",
        "Map",
        "Sink: Print",
    ]
    assert result.get_net_runtime() == 1234
    assert result.get_all_accumulator_results() == {"count": 7}
    assert result.get_late_records() == (LedgerEntry("Window", 3),)
    assert result.get_metrics() == {"Map.seen": 3}


def unpickle_again(data: bytes) -> Any:
    """In this process, whose own main module must stay."""
    import sys

    main = sys.modules["__main__"]
    try:
        return unpickle_graph(data)
    finally:
        sys.modules["__main__"] = main


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [(JobStatus.FAILED, JobFailedError, "the card"), (JobStatus.CANCELED, JobCancelledError, "was cancelled")],
)
def test_a_job_that_does_not_finish_raises_as_it_would_here(
    cluster: TakingCluster, rest: RestClient, status: JobStatus, error: type[Exception], text: str
) -> None:
    failure = FailureView("UserCodeError", "the card", 0) if status is JobStatus.FAILED else None
    cluster.ends_with = lambda job_id: JobResultView(job_id, status, 1, failure=failure)
    with pytest.raises(error, match=text):
        RemoteExecutor().execute(a_graph(), remote())


def test_a_detached_job_is_not_waited_for_and_has_no_results(cluster: TakingCluster, rest: RestClient) -> None:
    result = RemoteExecutor().execute(a_graph(), remote(**{"execution.attached": False}))
    assert isinstance(result, DetachedJobResult)
    assert cluster.taken is not None
    assert str(result.get_job_id()) == cluster.taken[0].job_id
    for ask in (result.get_net_runtime, result.get_all_accumulator_results, result.get_metrics):
        with pytest.raises(ProgramError, match=r"execution\.attached"):
            ask()


def test_results_for_the_program_come_back_in_order(
    cluster: TakingCluster, rest: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    env = in_process(1)
    env.from_collection([1]).sink_to(CallableSink(seen.append))
    job = RemoteExecutor().submit(env.get_stream_graph(), remote())
    assert cluster.taken is not None
    spool = ResultSpool(cluster.log_folder / "jobs" / cluster.taken[0].job_id / "results")
    spool.begin("0")
    spool.put("0", 0, [1, 2])
    spool.put("0", 1, [])
    spool.put("0", 1, [3])
    cluster.ended = finished(cluster.taken[0].job_id)
    job.get_job_execution_result().result(120)
    assert seen == [1, 2, 3]


def test_a_sink_of_the_program_that_raises_cancels_the_job(cluster: TakingCluster, rest: RestClient) -> None:
    env = in_process(1)
    env.from_collection([1]).sink_to(CallableSink(lambda value: 1 / 0))
    cancelled = threading.Event()

    def order(job_id: str, order: Order[Any]) -> Future[None]:
        assert order == CancelJob()
        cancelled.set()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    cluster.order = order  # type: ignore[method-assign]
    job = RemoteExecutor().submit(env.get_stream_graph(), remote())
    assert cluster.taken is not None
    spool = ResultSpool(cluster.log_folder / "jobs" / cluster.taken[0].job_id / "results")
    spool.begin("0")
    spool.put("0", 0, [1])
    assert cancelled.wait(120)
    with pytest.raises(ProgramError, match="ZeroDivisionError"):
        job.get_job_execution_result().result(120)


def test_results_for_a_program_that_does_not_wait_are_refused(cluster: TakingCluster, rest: RestClient) -> None:
    env = in_process(1)
    env.from_collection([1]).sink_to(CallableSink(print))
    with pytest.raises(ProgramError, match=r"execution\.attached"):
        RemoteExecutor().submit(env.get_stream_graph(), remote(**{"execution.attached": False}))
    assert cluster.taken is None


def test_a_run_of_an_uploaded_program_is_named(
    cluster: TakingCluster, rest: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[tuple[str, str]] = []
    monkeypatch.setattr(ProgramStore, "submitted", lambda self, run, job: learnt.append((run, job)))
    monkeypatch.setenv("FLOTT_PROGRAM_RUN", "run-7")
    job = RemoteExecutor().submit(a_graph(), remote())
    assert learnt == [("run-7", str(job.get_job_id()))]


def test_an_answer_that_was_lost_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = {"yes": True}

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            raise httpx.ReadError("Connection reset", request=request)
        if request.url.path.endswith("/status"):
            job_id = request.url.path.split("/")[3]
            if arrived["yes"]:
                return httpx.Response(200, json={"status": "RUNNING"})
            return httpx.Response(404, json={"errors": [f"Job {job_id} not found"]})
        return httpx.Response(200, json={})

    transport = httpx.MockTransport(handle)
    monkeypatch.setattr(remote_executor, "RestClient", lambda made: RestClient(made, transport=transport))
    assert RemoteExecutor().submit(a_graph(), remote()).get_job_status().result() is JobStatus.RUNNING
    arrived["yes"] = False
    with pytest.raises(SubmissionError, match="submit it again"):
        RemoteExecutor().submit(a_graph(), remote())


def test_nobody_there_is_found_out_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOTT_HOME", str(tmp_path))
    with pytest.raises(UnreachableError, match="No JobManager answers"):
        RemoteExecutor().submit(a_graph(), remote(**{"rest.port": 1}))


def test_who_waits_for_a_job_waits_for_the_next_jobmanager_too(caplog: pytest.LogCaptureFixture) -> None:
    clock = PatientClock()
    silent_until = 100_000

    def handle(request: httpx.Request) -> httpx.Response:
        if 0 < clock.waited_ms < silent_until:
            raise httpx.ConnectError("Connection refused", request=request)
        ended = clock.waited_ms > 0
        known = {"net-runtime": 1, "accumulators": {}, "failure": None, "ledger": "", "metrics": {}}
        return httpx.Response(200, json={"status": "FINISHED" if ended else None, **known})

    rest = RestClient(Configuration(), transport=httpx.MockTransport(handle), clock=clock)
    assert RemoteJob(rest, RUNNING, "a job", clock=clock).get_job_execution_result().result(120).net_runtime_ms == 1
    assert "is awaited, but" in caplog.text
    clock.waited_ms, silent_until = 0, 10_000_000
    with pytest.raises(UnreachableError):
        RemoteJob(rest, RUNNING, "a job", clock=clock).get_job_execution_result().result(120)
    assert 300_000 <= clock.waited_ms < 400_000


# ---- orders ----------------------------------------------------------------------------------------------------------


def job_of(rest: RestClient, job_id: str = RUNNING) -> RemoteJob:
    return RemoteJob(rest, job_id, "a job")


def test_questions_are_answered(cluster: TakingCluster, rest: RestClient) -> None:
    job = job_of(rest)
    assert job.get_job_status().result() is JobStatus.RUNNING
    assert job.get_checkpoint_directory() == cluster.job(RUNNING).checkpoint_directory
    assert job.explain_watermark() == cluster.outcome(RUNNING, ExplainWatermark())
    with pytest.raises(JobNotFoundError):
        job_of(rest, UNKNOWN).get_job_status().result()


def test_orders_reach_the_jobmanager_as_they_were_given(cluster: TakingCluster, rest: RestClient) -> None:
    job = job_of(rest)
    orders: list[tuple[str, Order[Any]]] = []

    def order(job_id: str, order: Order[Any]) -> Future[Any]:
        orders.append((job_id, order))
        done: Future[Any] = Future()
        done.set_result(None if isinstance(order, RescaleJob) else "/savepoints/1")
        return done

    cluster.order = order  # type: ignore[method-assign]
    native = SavepointFormatType.NATIVE
    assert job.trigger_savepoint("/s", native).result(120) == "/savepoints/1"
    assert job.stop_with_savepoint(True).result(120) == "/savepoints/1"
    assert job.stop_with_savepoint(False, "/s").result(120) == "/savepoints/1"
    assert job.cancel_with_savepoint("/s").result(120) == "/savepoints/1"
    job.rescale(4, "numbers-uid").result(120)
    job.rescale(2).result(120)
    assert orders == [
        (RUNNING, TakeSavepoint("/s", native)),
        (RUNNING, StopWithSavepoint(drain=True)),
        (RUNNING, StopWithSavepoint(drain=False, target="/s")),
        (RUNNING, CancelWithSavepoint("/s")),
        (RUNNING, RescaleJob(4, "numbers-uid")),
        (RUNNING, RescaleJob(2)),
    ]


@pytest.mark.parametrize(
    "order",
    [
        TakeSavepoint(),
        TakeSavepoint("/s", SavepointFormatType.NATIVE),
        CancelWithSavepoint("/s"),
        StopWithSavepoint(),
        StopWithSavepoint(True, "/s", SavepointFormatType.NATIVE),
        TakeCheckpoint(),
        RescaleJob(3),
        RescaleJob(3, "numbers-uid"),
        ExplainWatermark(),
        CancelJob(),
    ],
)
def test_every_order_reaches_the_gateway_as_the_same_value(
    cluster: TakingCluster, rest: RestClient, order: Order[Any]
) -> None:
    answer = job_of(rest).submit(order)
    if not isinstance(order, CancelJob):  # that one waits for the end of the job
        assert answer.result(120) == cluster.outcome(RUNNING, order)
    assert cluster.orders == [(RUNNING, order)]


def test_an_order_that_fails_raises_what_it_was(cluster: TakingCluster, rest: RestClient) -> None:
    def order(job_id: str, order: Order[Any]) -> Future[Any]:
        failed: Future[Any] = Future()
        failed.set_exception(SavepointError("The disk is full."))
        return failed

    cluster.order = order  # type: ignore[method-assign]
    with pytest.raises(SavepointError, match=r"^The disk is full\.$"):
        job_of(rest).trigger_savepoint("/s").result(120)


def test_cancelling_ends_when_the_job_has_ended(cluster: TakingCluster, rest: RestClient) -> None:
    results: dict[str, JobResultView] = {}
    before = cluster.result
    cluster.result = lambda job_id: results.get(job_id) or before(job_id)  # type: ignore[method-assign]

    def order(job_id: str, order: Order[Any]) -> Future[None]:
        assert order == CancelJob()
        results[job_id] = JobResultView(job_id, JobStatus.CANCELED, 5)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    cluster.order = order  # type: ignore[method-assign]
    job = job_of(rest)
    job.cancel().result(120)
    with pytest.raises(JobCancelledError):
        job.get_job_execution_result().result(120)


@pytest.mark.parametrize("job_id", [FINISHED, FAILED, CANCELED])
def test_a_job_that_has_ended_can_be_cancelled_without_harm(rest: RestClient, job_id: str) -> None:
    job_of(rest, job_id).cancel().result(120)


def test_accumulators_are_texts_while_the_job_runs_and_values_afterwards(
    cluster: TakingCluster, rest: RestClient
) -> None:
    running = replace(fake_cluster.running_job(), accumulators={"count": ("IntCounter", "7")})
    cluster.job = lambda job_id: running  # type: ignore[method-assign]
    assert job_of(rest).get_accumulators().result() == {"count": "7"}
    cluster.result = lambda job_id: finished(job_id)  # type: ignore[method-assign]
    assert job_of(rest).get_accumulators().result() == {"count": 7}


def test_what_is_fetched_once_is_gone_when_it_is_asked_for_again(cluster: TakingCluster, rest: RestClient) -> None:
    folder = cluster.log_folder / "jobs" / RUNNING / "results"
    spool = ResultSpool(folder)
    spool.begin("0")
    spool.put("0", 0, ["a"])
    path = f"/jobs/{RUNNING}/flott/results/0"
    first = rest.content(path)
    assert first
    assert rest.content(path) == first
    number = int(next((folder / "0").iterdir()).name)
    assert rest.content(path, after=number) == b""
    assert list((folder / "0").iterdir()) == []


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2f..%2fjobs", "x", "0%00"])
def test_no_name_leads_out_of_the_results(rest: RestClient, name: str) -> None:
    with pytest.raises(Exception, match=r"sink|Not found|not found"):
        rest.content(f"/jobs/{RUNNING}/flott/results/{name}")


def test_the_job_waits_for_a_slow_program_until_it_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flott.runtime.jobmanager.processes import result_spool

    monkeypatch.setattr(result_spool, "CAPACITY_BYTES", 100)
    spool = ResultSpool(tmp_path)
    spool.begin("0")
    spool.put("0", 0, ["x" * 200])
    waiting = threading.Thread(target=spool.put, args=("0", 0, ["second"]))
    waiting.start()
    (first,) = result_spool.pieces_in(result_spool.fetch(tmp_path / "0", 0))
    assert first[2] == ["x" * 200]
    result_spool.fetch(tmp_path / "0", first[0])
    waiting.join(120)
    ((_, _, values),) = result_spool.pieces_in(result_spool.fetch(tmp_path / "0", first[0]))
    assert values == ["second"]
    spool.put("0", 0, ["y" * 200])
    blocked = threading.Thread(target=spool.put, args=("0", 0, ["never"]))
    blocked.start()
    spool.close()
    blocked.join(120)
    assert not blocked.is_alive()


def test_a_job_whose_process_was_lost_does_not_go_on_as_if_no_result_were_missing(tmp_path: Path) -> None:
    first = ResultSpool(tmp_path)
    first.begin("0")
    first.begin("0")  # the job restarts in its process, after a failure that left nothing behind
    with pytest.raises(ProgramError, match="Run the program again"):
        ResultSpool(tmp_path).begin("0")


def test_a_job_that_another_jobmanager_goes_on_with_does_not_lose_results_silently(tmp_path: Path):
    ResultSpool(tmp_path / "logs of the first", marks=tmp_path).begin("0")
    with pytest.raises(ProgramError, match="was lost"):
        ResultSpool(tmp_path / "logs of the second", marks=tmp_path).begin("0")
