"""A job on a cluster: the client for the program that submitted it. Client side."""

from __future__ import annotations

import base64
import logging
import pickle
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from flott.client.operations import Pauses, await_operation, trigger
from flott.client.rest_client import RestClient
from flott.common._ids import EpochId
from flott.common._watermark_report import WatermarkReport
from flott.common.completable_future import CompletableFuture
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.datastream.connectors.base import DriverSink
from flott.errors import (
    FlottError,
    JobCancelledError,
    JobEndedError,
    JobFailedError,
    ProgramError,
    UnreachableError,
)
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.ended_job_file import decode_ledger
from flott.runtime.jobmanager.processes.result_spool import pieces_in
from flott.runtime.orders import (
    CancelJob,
    CancelWithSavepoint,
    ExplainWatermark,
    Order,
    OrderingClient,
    StopWithSavepoint,
    TakeCheckpoint,
    TakeSavepoint,
)

log = logging.getLogger("flott.client")

R = TypeVar("R")

#: A job is waited for so long while no JobManager answers; one that takes over has to start Spark first.
_PATIENCE_MS = 5 * 60_000
_RETRY_DELAY_MS = 1000


@dataclass(frozen=True)
class AwaitedSink:
    """A sink of the job whose results this process takes."""

    name: str
    sink: DriverSink[Any]


class RemoteJob(OrderingClient):
    """One job of a cluster."""

    def __init__(
        self,
        client: RestClient,
        job_id: str,
        name: str,
        sinks: tuple[AwaitedSink, ...] = (),
        clock: Clock | None = None,
    ):
        self._client = client
        self._job_id = job_id
        self._name = name
        self._sinks = sinks
        self._arrived = dict.fromkeys((awaited.name for awaited in sinks), 0)
        self._clock: Clock = clock or SystemClock()
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._watching = threading.Lock()
        self._is_watched = False
        if sinks:
            self._watch()

    def get_job_id(self) -> JobID:
        return JobID(self._job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return _answered(self._status)

    def submit(self, order: Order[R]) -> CompletableFuture[R]:
        """Send an order to the JobManager. A thread waits for the answer to an order that takes a while."""
        return self._send(order)

    def _send(self, order: Order[Any]) -> CompletableFuture[Any]:
        match order:
            case CancelJob():
                return self._cancel()
            case ExplainWatermark():
                return _answered(self._watermark_report)
        return self._operation(order)

    def _cancel(self) -> CompletableFuture[None]:
        ended: CompletableFuture[None] = CompletableFuture()
        self.get_job_execution_result().when_done(lambda _: ended.set_result(None))
        with suppress(JobEndedError):  # it ended just before
            self._client.patch(self._path(), mode="cancel")
        return ended

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the values of a job that has ended; while it runs, their texts, because REST shows no more."""
        return _answered(self._accumulators)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        self._watch()
        return self._result

    def get_checkpoint_directory(self) -> str:
        return str(self._client.get(self._path("/flott/result"))["checkpoint-directory"])

    def _watermark_report(self) -> WatermarkReport:
        """Ask while the job runs: a JobManager does not remember the report of a job that has ended."""
        answer = self._client.get(self._path("/flott/watermark-report"))
        report: WatermarkReport = pickle.loads(base64.b64decode(answer["report"]))
        return report

    # ------------------------------------------------------------------------------------------------------- inside

    def _path(self, below: str = "") -> str:
        return f"/jobs/{self._job_id}{below}"

    def _status(self) -> JobStatus:
        return JobStatus[self._client.get(self._path("/status"))["status"]]

    def _accumulators(self) -> dict[str, Any]:
        found = self._client.get(self._path("/flott/result"))
        if found["status"] is not None:
            return _unpickled(found["accumulators"])
        shown = self._client.get(self._path("/accumulators"))["user-task-accumulators"]
        return {entry["name"]: entry["value"] for entry in shown}

    def _operation(self, order: Order[Any]) -> CompletableFuture[Any]:
        """Give an order that takes a while, and wait for its result in a thread."""
        future: CompletableFuture[Any] = CompletableFuture()

        def wait() -> None:
            try:
                operation = trigger(self._client, self._job_id, order)
                future.set_result(_result(order, await_operation(self._client, operation.status_path, self._clock)))
            except BaseException as error:
                future.set_exception(error)

        name = f"flott-{self._job_id[:8]}-{type(order).__name__}"
        threading.Thread(target=wait, name=name, daemon=True).start()
        return future

    def _watch(self) -> None:
        """Start the thread that waits for the end of the job, unless it runs already."""
        with self._watching:
            if self._is_watched:
                return
            self._is_watched = True
        threading.Thread(target=self._follow, name=f"flott-{self._job_id[:8]}", daemon=True).start()

    def _follow(self) -> None:
        try:
            pauses = Pauses(self._clock)
            while (found := self._patiently(lambda: self._client.get(self._path("/flott/result"))))["status"] is None:
                if self._patiently(self._take_results):
                    pauses.start_again()
                pauses.wait()
            while self._patiently(self._take_results):  # what came in the last moment
                pass
            self._result.set_result(self._result_of(found))
        except BaseException as error:
            self._result.set_exception(error)

    def _patiently(self, ask: Callable[[], R]) -> R:
        """Ask again while no JobManager leads, because the next one continues the job."""
        began = self._clock.monotonic()
        while True:
            try:
                return ask()
            except UnreachableError as error:
                if (self._clock.monotonic() - began) * 1000 >= _PATIENCE_MS:
                    raise
                log.warning("The result of job %s is awaited, but: %s", self._job_id, error)
                self._clock.wait(threading.Event(), _RETRY_DELAY_MS)

    def _take_results(self) -> bool:
        """Hand what has arrived to the program's sinks; whether there was something."""
        something = False
        for awaited in self._sinks:
            path = self._path(f"/flott/results/{awaited.name}")
            data = self._client.content(path, after=self._arrived[awaited.name])
            for number, subtask, values in pieces_in(data):
                self._deliver(awaited, subtask, values)
                self._arrived[awaited.name] = number
                something = True
        return something

    def _deliver(self, awaited: AwaitedSink, subtask: int, values: list[Any]) -> None:
        try:
            awaited.sink.deliver(subtask, values)
        except Exception as error:
            with suppress(FlottError):
                self._client.patch(self._path(), mode="cancel")
            raise ProgramError(
                f"A sink of job {self._name!r} could not take the results of a completed epoch, so the job was"
                f" cancelled: {type(error).__name__}: {error}"
            ) from error

    def _result_of(self, found: Mapping[str, Any]) -> JobExecutionResult:
        status = JobStatus[found["status"]]
        if status is JobStatus.CANCELED:
            raise JobCancelledError(f"Job {self._name!r} was cancelled.")
        if status is not JobStatus.FINISHED:
            raise JobFailedError(f"Job {self._name!r} failed.\n\n{found['failure'] or 'The reason is not known.'}")
        ledger = found["ledger"]
        return JobExecutionResult(
            JobID(self._job_id),
            found["net-runtime"],
            _unpickled(found["accumulators"]),
            decode_ledger(base64.b64decode(ledger)) if ledger else (),
            found["metrics"],
        )


def _answered(question: Callable[[], R]) -> CompletableFuture[R]:
    try:
        return CompletableFuture.completed(question())
    except Exception as error:
        return CompletableFuture.failed(error)


def _result(order: Order[Any], outcome: Mapping[str, Any]) -> Any:
    """Return the result of an order that has succeeded."""
    match order:
        case TakeSavepoint() | CancelWithSavepoint() | StopWithSavepoint():
            return str(outcome["location"])
        case TakeCheckpoint():
            return EpochId(outcome["checkpointId"])
    return None


def _unpickled(values: Mapping[str, str]) -> dict[str, Any]:
    return {name: pickle.loads(base64.b64decode(value)) for name, value in values.items()}
