"""A job that runs in this process: to its end, with everything that must be cleaned up after it. Driver side.

``RunningJob`` runs in the calling thread, ``BackgroundJob`` in a thread of its own and is the client of the job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from flott.common import _options as options
from flott.common._ids import JobId
from flott.common.completable_future import CompletableFuture
from flott.common.configuration import Configuration
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus
from flott.errors import JobCancelledError, JobFailedError
from flott.runtime.checkpoint.retention import outlive
from flott.runtime.checkpoint.store import CheckpointStore
from flott.runtime.clock import Clock
from flott.runtime.entrypoint.job_directory import JobDirectory
from flott.runtime.entrypoint.task_settings import backend_settings
from flott.runtime.epoch.runner import TaskRunner
from flott.runtime.jobmaster.job_master import JobMaster
from flott.runtime.orders import Order, OrderingClient
from flott.runtime.storage import initialize_object_stores, open_storage

R = TypeVar("R")


@dataclass
class RunningJob:
    """A job that is ready to run, and the resources to release when it has ended."""

    master: JobMaster
    directory: JobDirectory
    runner: TaskRunner
    clock: Clock
    #: Called when the job has ended and before its files are deleted, so that a listener can make the end durable.
    on_end: Callable[[JobStatus], None] = lambda status: None

    def run(self) -> JobExecutionResult:
        """Run to the end in this thread; raise unless the job finished."""
        started = self.clock.monotonic()
        status = self.run_to_end()
        if status is JobStatus.FINISHED:
            runtime = int((self.clock.monotonic() - started) * 1000)
            entries = tuple(self.master.ledger.values())
            return JobExecutionResult(
                JobID(self.directory.job_id), runtime, self.master.accumulators, entries, dict(self.master.metrics)
            )
        if status is JobStatus.CANCELED:
            raise JobCancelledError(f"Job {self.master.graph.name!r} was cancelled.")
        raise JobFailedError(f"Job {self.master.graph.name!r} failed.\n\n{self.master.failure}") from None

    def run_to_end(self) -> JobStatus:
        """Run to the end in this thread and clean up; return how the job ended."""
        try:
            return self.master.run()
        finally:
            try:
                self.runner.close()
            finally:
                self.on_end(self.master.history.status)
                self._clean_up(self.master.history.status)

    def _clean_up(self, status: JobStatus) -> None:
        retention = options.read(self.master.configuration, options.CHECKPOINT_RETENTION)
        keep = outlive(status, retention) and not self.directory.temporary
        self.directory.close(keep or self.master.savepoints.checkpoint_is_needed)
        if status is not JobStatus.SUSPENDED:  # another process, perhaps on this machine, continues the job with it
            backend_settings(self.master.configuration).delete_local_state(self.directory.job_id)


def clean_up_after(
    job_id: JobId, name: str, folder: str, configuration: Configuration, status: JobStatus, token: int
) -> None:
    """Delete the checkpoints and the local state of a job whose process died before it could delete them."""
    initialize_object_stores(configuration)
    storage = open_storage(folder, sync=options.read(configuration, options.STORAGE_SYNC))
    if not outlive(status, options.read(configuration, options.CHECKPOINT_RETENTION)) and storage.exists("."):
        directory = JobDirectory(job_id, CheckpointStore(storage, token=token))
        directory.store.claim(name)
        directory.close(keep=False)
    backend_settings(configuration).delete_local_state(job_id)


class BackgroundJob(OrderingClient):
    """A job that runs in a thread of its own, and its client."""

    def __init__(self, job: RunningJob):
        self._job = job
        self._result: CompletableFuture[JobExecutionResult] = CompletableFuture()
        self._thread = threading.Thread(target=self._run, name=f"flott-{job.directory.job_id[:8]}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.set_result(self._job.run())
        except BaseException as error:
            self._result.set_exception(error)

    def join(self) -> None:
        """Wait until the job has ended and every order was answered."""
        self._thread.join()

    def get_job_id(self) -> JobID:
        return JobID(self._job.directory.job_id)

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return CompletableFuture.completed(self._job.master.history.status)

    def submit(self, order: Order[R]) -> CompletableFuture[R]:
        """Hand an order to the job master. The answer to an order that ends the job waits until the job has ended."""
        answer = self._job.master.submit(order)
        return self._once_ended(answer) if order.ends_job else answer

    def _once_ended(self, answer: CompletableFuture[R]) -> CompletableFuture[R]:
        """Return the answer once the job has ended, too; a failure at once, because then the job continues."""
        ended: CompletableFuture[R] = CompletableFuture()

        def answered(done: CompletableFuture[R]) -> None:
            if (failure := done.exception()) is not None:
                ended.set_exception(failure)
            else:
                self._result.when_done(lambda _: ended.set_result(done.result()))

        answer.when_done(answered)
        return ended

    def get_accumulators(self) -> CompletableFuture[dict[str, object]]:
        return CompletableFuture.completed(self._job.master.accumulators)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        return self._result

    def get_operator_records(self) -> dict[str, tuple[int, int]]:
        master = self._job.master
        nodes = {ident: operator.node for ident, operator in master.graph.operators.items()}
        return {
            nodes[ident].uid or nodes[ident].name: counts
            for ident, counts in master.totals.records.items()
            if ident in nodes
        }

    def get_checkpoint_directory(self) -> str:
        return self._job.directory.store.storage.root
