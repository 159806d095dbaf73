"""The interface of a JobManager to REST and reporters in its process. ``JobManager`` implements it.

Questions are answered at once, from memory, and may be asked by any thread. Orders are answered by a future, because a
job's process carries them out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, TypeVar

from flott.common.configuration import Configuration
from flott.runtime.jobmanager.inspection.questions import Question
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.views.job_history import JobHistory
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView, TaskManagerView
from flott.runtime.orders import Order

R = TypeVar("R")


class ClusterGateway(Protocol):
    """A JobManager, from inside its process."""

    @property
    def configuration(self) -> Configuration:
        """Return the options that the JobManager was started with."""

    @property
    def started_ms(self) -> int:
        """Return when the JobManager was started."""

    @property
    def log_folder(self) -> Path:
        """Return the folder of the JobManager's logs; those of a job are in ``jobs/<job id>/`` below it."""

    def jobs(self) -> Sequence[JobView]:
        """Return all jobs, running and ended, the newest first."""

    def job(self, job_id: str) -> JobView:
        """Return one job; raise ``JobNotFoundError`` if there is none."""

    def result(self, job_id: str) -> JobResultView | None:
        """Return how a job ended; None while it runs. Raise ``JobNotFoundError`` if there is none."""

    def history(self, job_id: str) -> JobHistory:
        """Return the recent past of a job; raise ``JobNotFoundError`` if there is none."""

    def inspect(self, job_id: str, question: Question) -> Future[dict[str, Any]]:
        """Ask about the state or the records of a job, in a process of its own. Raise ``JobNotFoundError``."""

    def submit(self, submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        """Keep a job and start it; done when it is kept. ``files`` are those the submission names; they are moved."""

    def order(self, job_id: str, order: Order[R]) -> Future[R]:
        """Give an order to a job; its answer. Fails with ``JobEndedError`` if the job has ended.

        ``CancelJob`` is answered when the job was told, and again if the job was cancelled before. An order that ends
        the job with a savepoint is answered when the job has ended.
        """

    def disposed_savepoints(self) -> Collection[str]:
        """Return the paths of the savepoints that this JobManager has deleted last."""
        ...

    def dispose_savepoint(self, path: str) -> Future[None]:
        """Delete a savepoint."""

    def export_savepoint(self, path: str, directory: str) -> Future[str]:
        """Copy a savepoint with all it refers to into a new folder in a directory; the path of the copy."""

    def restore(self, job_id: str, savepoint: str, *, allow_non_restored_state: bool) -> Future[str]:
        """Submit the program of a job that has ended again, from a savepoint; the id of the new job."""

    def task_managers(self) -> Sequence[TaskManagerView]:
        """Return Spark's executors."""

    def shut_down(self) -> None:
        """End the JobManager and stop its jobs where they are. They are kept, and the next one continues them."""
