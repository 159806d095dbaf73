"""What a program can ask of a job it has submitted. An interface: the runtime and the REST client implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

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
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Takes a savepoint and finishes the job; the path of the savepoint.

        ``advance_to_end_of_event_time`` fires all timers and windows first: right for a job that will not continue.
        """

    @abstractmethod
    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Takes a savepoint while the job goes on; its path."""

    @abstractmethod
    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators of the job as of its last completed epoch."""

    @abstractmethod
    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job; done when the job is."""

    @abstractmethod
    def explain_watermark(self) -> WatermarkReport:
        """Which split, operator or source holds event time back, since when, and what would release it.

        Answers while the job runs and after its end; ``print`` it, or look at its ``holds``. Not in PyFlink.
        """
