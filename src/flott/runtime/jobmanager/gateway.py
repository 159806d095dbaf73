"""What REST, reporters and the command line may ask of a JobManager. An interface: ``JobManager`` implements it.

Questions are answered at once, from memory, and may be asked by any thread. Orders are answered by a future, because a
job's process carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from flott.common._savepoint_format import SavepointFormatType
from flott.common._watermark_report import WatermarkReport
from flott.common.configuration import Configuration
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView, TaskManagerView


class Afterwards(Enum):
    """What becomes of the job once its savepoint is taken."""

    GO_ON = "go on"
    STOP = "stop"  #: finished, windows left open
    DRAIN = "drain"  #: finished, after event time has been brought to its end
    CANCEL = "cancel"


@dataclass(frozen=True)
class SavepointOrder:
    """A savepoint somebody wants."""

    directory: str | None = None  #: None: the one that is configured
    format: SavepointFormatType = SavepointFormatType.CANONICAL
    afterwards: Afterwards = Afterwards.GO_ON


class ClusterGateway(Protocol):
    """A JobManager, from inside its process."""

    @property
    def configuration(self) -> Configuration:
        """What it was started with."""

    @property
    def started_ms(self) -> int:
        """When."""

    @property
    def log_folder(self) -> Path:
        """Its own logs: files directly in here; those of a job in ``jobs/<job id>/``."""

    def jobs(self) -> Sequence[JobView]:
        """All jobs it knows, running and ended, the newest first."""

    def job(self, job_id: str) -> JobView:
        """One of them; raises ``JobNotFoundError``."""

    def result(self, job_id: str) -> JobResultView | None:
        """How a job ended; None while it runs. Raises ``JobNotFoundError``."""

    def submit(self, submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        """Keep a job and start it; done when it is kept. ``files`` are those the submission names; they are moved."""

    def cancel(self, job_id: str) -> Future[None]:
        """Ask a job to end; done when it was asked. Fails with ``JobEndedError`` if it finished or failed before."""

    def savepoint(self, job_id: str, order: SavepointOrder) -> Future[str]:
        """Take a savepoint; its path. With an order to end the job, done when it has ended."""

    def checkpoint(self, job_id: str) -> Future[int]:
        """Complete an epoch now, with or without input; its number."""

    def rescale(self, job_id: str, parallelism: int, operator: str | None = None) -> Future[None]:
        """Change the parallelism of a job, or of one operator; done when the first epoch with it is complete."""

    def explain_watermark(self, job_id: str) -> Future[WatermarkReport]:
        """Who holds event time back."""

    def dispose_savepoint(self, path: str) -> Future[None]:
        """Delete a savepoint."""

    def task_managers(self) -> Sequence[TaskManagerView]:
        """Spark's executors."""

    def shut_down(self) -> None:
        """End the JobManager, and its jobs where they stand: they are kept and go on with the next one."""
