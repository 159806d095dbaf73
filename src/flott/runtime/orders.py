"""Orders to a running job: one frozen value per order, the same from REST, command line and program to the JobMaster.

    RestCall ─► ClusterGateway.order ─► Dispatcher ─► pipe ─► JobRunner ─► JobMaster.submit
    JobClient ─────────────────────────────────────────► BackgroundJob.submit ─┘

No part on this way takes an order apart and builds another. ``Order[R]`` names the type of its result: the JobMaster
answers with a future of ``R``. Orders that Flink's REST API knows have a JSON form with Flink's names. Data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from flott.common._ids import EpochId
from flott.common._savepoint_format import SavepointFormatType
from flott.common._watermark_report import WatermarkReport
from flott.common.completable_future import CompletableFuture
from flott.common.job_client import JobClient

R = TypeVar("R")


@dataclass(frozen=True)
class Order(Generic[R]):
    """An order to a job whose result has type ``R``."""

    ends_job: ClassVar[bool] = False  #: whether the job ends if the order succeeds


# --- orders that end the job here ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CancelJob(Order[None]):
    """End the job as CANCELED. The answer comes when the job was told; it fails if the job has ended before."""

    ends_job: ClassVar[bool] = True


@dataclass(frozen=True)
class SuspendJob(Order[None]):
    """Stop at the last checkpoint and keep everything, because another process continues the job."""

    ends_job: ClassVar[bool] = True


# --- snapshots -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TakeCheckpoint(Order[EpochId]):
    """Complete an epoch now, with or without input; the result is its number."""


@dataclass(frozen=True)
class TakeSavepoint(Order[str]):
    """Take a savepoint while the job continues; the result is its path."""

    target: str | None = None  #: a folder that gets a folder for the savepoint; None: the configured one
    format: SavepointFormatType = SavepointFormatType.CANONICAL

    def to_json(self) -> dict[str, Any]:
        """Return the body of ``POST /jobs/:jobid/savepoints``."""
        return {"target-directory": self.target, "cancel-job": False, "formatType": self.format.name}


@dataclass(frozen=True)
class CancelWithSavepoint(Order[str]):
    """Take a savepoint, then end the job as CANCELED. If the savepoint fails, the job continues."""

    ends_job: ClassVar[bool] = True
    target: str | None = None
    format: SavepointFormatType = SavepointFormatType.CANONICAL

    def to_json(self) -> dict[str, Any]:
        """Return the body of ``POST /jobs/:jobid/savepoints``."""
        return {"target-directory": self.target, "cancel-job": True, "formatType": self.format.name}


@dataclass(frozen=True)
class StopWithSavepoint(Order[str]):
    """Take a savepoint, then end the job as FINISHED. If the savepoint fails, the job continues."""

    ends_job: ClassVar[bool] = True
    drain: bool = False  #: bring event time to its end first: all sources end and all windows fire
    target: str | None = None
    format: SavepointFormatType = SavepointFormatType.CANONICAL

    def to_json(self) -> dict[str, Any]:
        """Return the body of ``POST /jobs/:jobid/stop``."""
        return {"targetDirectory": self.target, "drain": self.drain, "formatType": self.format.name}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> StopWithSavepoint:
        """Return the order of a body of ``POST /jobs/:jobid/stop``."""
        return StopWithSavepoint(bool(body.get("drain")), body.get("targetDirectory"), _format(body))


SavepointOrder = TakeSavepoint | CancelWithSavepoint | StopWithSavepoint


def savepoint_from_json(body: Mapping[str, Any]) -> TakeSavepoint | CancelWithSavepoint:
    """Return the order of a body of ``POST /jobs/:jobid/savepoints``."""
    kind = CancelWithSavepoint if body.get("cancel-job") else TakeSavepoint
    return kind(target=body.get("target-directory"), format=_format(body))


def drains(order: SavepointOrder) -> bool:
    """Return whether all sources end and all windows fire before the savepoint."""
    return isinstance(order, StopWithSavepoint) and order.drain


def _format(body: Mapping[str, Any]) -> SavepointFormatType:
    return SavepointFormatType[body.get("formatType") or "CANONICAL"]


# --- other orders ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RescaleJob(Order[None]):
    """Change the parallelism of the job, or of one operator by its uid, id or name.

    The answer comes when the first epoch with the new parallelism is complete.
    """

    parallelism: int
    operator: str | None = None  #: None: all operators that follow the parallelism of the job

    def to_query(self) -> dict[str, Any]:
        """Return the query parameters of ``PATCH /jobs/:jobid/rescaling``."""
        return {"parallelism": self.parallelism, "operator": self.operator}


@dataclass(frozen=True)
class ExplainWatermark(Order[WatermarkReport]):
    """Report which split, operator or source holds event time back."""


@dataclass(frozen=True)
class KeepCheckpoints(Order[None]):
    """Keep at least two checkpoints for some seconds, so that the epoch between them can be run again."""

    seconds: float = 60.0


# --- giving orders ---------------------------------------------------------------------------------------------------


class OrderingClient(JobClient):
    """The methods of a ``JobClient`` that give an order to the job: each builds the order and submits it."""

    @abstractmethod
    def submit(self, order: Order[R]) -> CompletableFuture[R]:
        """Give an order to the job. If the order ends the job, the answer comes when the job has ended."""

    def cancel(self) -> CompletableFuture[None]:
        return self.submit(CancelJob())

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        return self.submit(StopWithSavepoint(advance_to_end_of_event_time, savepoint_directory, format_type))

    def cancel_with_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        return self.submit(CancelWithSavepoint(savepoint_directory, format_type))

    def trigger_savepoint(
        self,
        savepoint_directory: str | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        return self.submit(TakeSavepoint(savepoint_directory, format_type))

    def rescale(self, parallelism: int, operator: str | None = None) -> CompletableFuture[None]:
        return self.submit(RescaleJob(parallelism, operator))

    def explain_watermark(self) -> WatermarkReport:
        return self.submit(ExplainWatermark()).result()
