"""What REST, reporters and the command line may ask of a JobManager. An interface: ``JobManager`` implements it.

Questions are answered at once, from memory, and may be asked by any thread. Orders are answered by a future, because a
job's process carries them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol, TypeVar

from flott.common.configuration import Configuration
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView, TaskManagerView
from flott.runtime.orders import Order

R = TypeVar("R")


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

    def order(self, job_id: str, order: Order[R]) -> Future[R]:
        """Give an order to a job; its answer. Fails with ``JobEndedError`` if the job has ended.

        ``CancelJob`` is answered when the job was told, and again if the job was cancelled before. An order that ends
        the job with a savepoint is answered when the job has ended.
        """

    def dispose_savepoint(self, path: str) -> Future[None]:
        """Delete a savepoint."""

    def task_managers(self) -> Sequence[TaskManagerView]:
        """Spark's executors."""

    def shut_down(self) -> None:
        """End the JobManager, and its jobs where they stand: they are kept and go on with the next one."""
