"""What a program can ask of a job it has submitted. An interface: the runtime and the REST client implement it."""

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
    """One job, from outside."""

    @abstractmethod
    def get_job_id(self) -> JobID:
        """The id of the job."""

    @abstractmethod
    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Where the job stands now."""

    @abstractmethod
    def cancel(self) -> CompletableFuture[None]:
        """Ends the job; done when it has ended."""

    @abstractmethod
    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Takes a savepoint and finishes the job; the path of the savepoint, once the job has ended.

        ``advance_to_end_of_event_time`` ends all sources and fires all timers and windows first: right for a job that
        will not continue. Without it the job stops between two epochs, with its windows open, and can be continued
        from the savepoint. If the savepoint fails the job goes on. ``format_type`` is not in PyFlink.
        """

    @abstractmethod
    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Takes a savepoint and cancels the job; the path of the savepoint, once the job has ended.

        If the savepoint fails the job goes on. Not in PyFlink.
        """

    @abstractmethod
    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Takes a savepoint of the last completed epoch while the job goes on; its path.

        A folder of its own is made in ``savepoint_directory``, or in ``execution.checkpointing.savepoint-dir``. A
        savepoint that fails is told by the future and does not harm the job. ``format_type`` is not in PyFlink.
        """

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators of the job as of its last completed epoch."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job; done when the job is."""

    @abstractmethod
    def rescale(self, parallelism: int, operator: str | None = None) -> CompletableFuture[None]:
        """Changes the parallelism of the job, or of one operator by its uid (or id or name), while the job runs.

        It takes effect with the next epoch: the job is not restarted, nothing is read again and no result changes.
        Done when the first epoch with the new parallelism is complete. Operators that have a parallelism of their own
        keep it unless they are named. A new run of the program begins with the program's parallelism. Not in PyFlink.
        """

    @abstractmethod
    def get_checkpoint_directory(self) -> str:
        """The job's own directory, where its checkpoints are: ``flott.state.open()`` reads them. Not in PyFlink."""

    @abstractmethod
    def explain_watermark(self) -> WatermarkReport:
        """Which split, operator or source holds event time back, since when, and what would release it.

        Answers while the job runs and after its end; ``print`` it, or look at its ``holds``. Not in PyFlink.
        """
