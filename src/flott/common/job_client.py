"""The interface of a submitted job for programs. The runtime and the REST client implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from flott.common._savepoint_format import SavepointFormatType
from flott.common._watermark_report import WatermarkReport
from flott.common.completable_future import CompletableFuture
from flott.common.job_execution_result import JobExecutionResult
from flott.common.job_id import JobID
from flott.common.job_status import JobStatus

__all__ = ["JobClient"]


class JobClient(ABC):
    """A client of one job."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """Return the id of the job."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the current status of the job."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job. The future completes when the job has ended."""

    @abstractmethod
    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Take a savepoint and finish the job. The future completes with the path when the job has ended.

        ``advance_to_end_of_event_time`` first ends all sources and fires all timers and windows. Use it for a job that
        will not
        continue. Without it, the job stops between two epochs with its windows open, and can be continued from the
        savepoint.
        If the savepoint fails, the job continues. ``format_type`` is not in PyFlink.
        """

    @abstractmethod
    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Take a savepoint and cancel the job. The future completes with the path when the job has ended.

        If the savepoint fails, the job continues. Not in PyFlink.
        """

    @abstractmethod
    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Take a savepoint of the last completed epoch while the job continues. The future completes with its path.

        A new folder is created in ``savepoint_directory``, or in ``execution.checkpointing.savepoint-dir``. If the
        savepoint
        fails, the future raises the error and the job is not affected. ``format_type`` is not in PyFlink.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the accumulators of the job as of its last completed epoch."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result of the job. The future completes when the job ends."""

    @abstractmethod
    def rescale(self, parallelism: int, operator: str | None = None) -> CompletableFuture[None]:
        """Change the parallelism of the job, or of one operator by its uid, id or name, while the job runs.

        The change takes effect with the next epoch. The job is not restarted, no input is read again, and no result
        changes.
        The future completes with the first epoch that has the new parallelism. Operators with a parallelism of their
        own keep
        it unless they are named. A new run of the program starts with the program's parallelism. Not in PyFlink.
        """

    @abstractmethod
    def get_checkpoint_directory(self) -> str:
        """Return the job's directory with its checkpoints, which ``flott.state.open()`` reads. Not in PyFlink."""

    def get_operator_records(self) -> dict[str, tuple[int, int]] | None:
        """Return how many records each operator took in and sent in completed epochs, by its uid or name.

        The result is None if this client does not know it: that of a job in another process. Not in PyFlink.
        """
        return None

    @abstractmethod
    def explain_watermark(self) -> WatermarkReport:
        """Return which split, operator or source holds event time back, since when, and the remedy.

        It is available while the job runs and after its end. Print it, or examine its ``holds``. Not in PyFlink.
        """
