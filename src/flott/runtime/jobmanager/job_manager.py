"""The JobManager: the Dispatcher, the one Spark application all jobs share, and its executors. JobManager side."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.runtime.checkpoint.savepoint_files import dispose_savepoint, export_savepoint
from flott.runtime.clock import Clock, SystemClock
from flott.runtime.jobmanager.dispatcher import Dispatcher
from flott.runtime.jobmanager.folders import ClusterFolders
from flott.runtime.jobmanager.inspection.inspectors import Inspectors
from flott.runtime.jobmanager.inspection.questions import Question
from flott.runtime.jobmanager.submission import JobSubmission
from flott.runtime.jobmanager.task_resources import TaskResources, make_task_resources
from flott.runtime.jobmanager.views.job_history import JobHistory
from flott.runtime.jobmanager.views.job_view import JobResultView, JobView, TaskManagerView
from flott.runtime.orders import Order
from flott.runtime.storage import initialize_object_stores

log = logging.getLogger("flott.cluster")

R = TypeVar("R")

#: How often it is looked whether the Spark application is still there.
_WATCH_SECONDS = 1.0
#: How many deleted savepoints are remembered, so that jobs no longer offer them.
_DISPOSED = 1000


class JobManager:
    """The gateway of a cluster (``flott.runtime.jobmanager.gateway``), and what is behind it."""

    def __init__(self, configuration: Configuration, *, token: int = 0, clock: Clock | None = None):
        self.configuration = configuration
        self.folders = ClusterFolders.of(configuration)
        self._clock: Clock = clock or SystemClock()
        self.started_ms = self._clock.now_ms()
        self._token = token
        self.resources: TaskResources = make_task_resources(configuration, self.folders.logs, self._clock)
        self.dispatcher = Dispatcher(
            configuration,
            self.folders,
            self._clock,
            token,
            spark=lambda: self.resources.address,
            on_gone=self.resources.job_gone,
        )
        self._work = ThreadPoolExecutor(max_workers=4, thread_name_prefix="jobmanager")
        self._inspectors = Inspectors()
        self._ended = threading.Event()
        self._closing = threading.Lock()
        self._disposed: deque[str] = deque(maxlen=_DISPOSED)  #: paths of the savepoints that were deleted last

    # --- its life ----------------------------------------------------------------------------------------------------

    def start(self) -> int:
        """Start what runs the tasks of jobs, and continue the jobs that an earlier JobManager left; return how many."""
        self.resources.start()
        recovered = self.dispatcher.recover()
        threading.Thread(target=self._watch, name="resources-watch", daemon=True).start()
        return recovered

    def _watch(self) -> None:
        while not self._ended.wait(_WATCH_SECONDS):
            self.resources.bound_output()
            if self.resources.is_alive():
                continue
            log.error("The Spark application has ended. It is started again; all jobs continue from their checkpoints.")
            try:
                self.resources.restart()
                self.dispatcher.restart_processes()
            except Exception:
                log.exception("Spark could not be started again, which is tried later.")

    @property
    def ended(self) -> threading.Event:
        """Return the event that is set once the JobManager is to end."""
        return self._ended

    def shut_down(self) -> None:
        self._ended.set()

    def close(self, *, at_once: bool = False) -> None:
        """End jobs where they stand, and Spark. ``at_once``: another JobManager leads, so nothing is waited for."""
        self._ended.set()
        with self._closing:
            self._inspectors.close()
            self.dispatcher.close(at_once=at_once)
            self._work.shutdown(wait=False, cancel_futures=True)
            self.resources.close()

    # --- the gateway -------------------------------------------------------------------------------------------------

    @property
    def log_folder(self) -> Path:
        return self.folders.logs

    def jobs(self) -> Sequence[JobView]:
        views = self.dispatcher.jobs()
        waiting = self.resources.waiting([view for view in views if not view.status.is_terminal_state()])
        return [_waits(view, waiting) for view in views] if waiting else views

    def job(self, job_id: str) -> JobView:
        view = self.dispatcher.job(job_id)
        if view.status.is_terminal_state():
            return view
        return _waits(view, self.resources.waiting(self.dispatcher.running()))  # the reason names other jobs

    def result(self, job_id: str) -> JobResultView | None:
        return self.dispatcher.result(job_id)

    def history(self, job_id: str) -> JobHistory:
        return self.dispatcher.history(job_id)

    def inspect(self, job_id: str, question: Question) -> Future[dict[str, Any]]:
        return self._inspectors.ask(self.dispatcher.subject(job_id), question)

    def submit(self, submission: JobSubmission, files: Mapping[str, Path]) -> Future[None]:
        return self.dispatcher.submit(submission, files)

    def order(self, job_id: str, order: Order[R]) -> Future[R]:
        return self.dispatcher.order(job_id, order)

    def disposed_savepoints(self) -> Collection[str]:
        return tuple(self._disposed)

    def dispose_savepoint(self, path: str) -> Future[None]:
        return self._work.submit(self._dispose, path)

    def _dispose(self, path: str) -> None:
        initialize_object_stores(self.configuration)
        dispose_savepoint(path, sync=options.read(self.configuration, options.STORAGE_SYNC))
        self._disposed.append(path)

    def export_savepoint(self, path: str, directory: str) -> Future[str]:
        return self._work.submit(self._export, path, directory)

    def _export(self, path: str, directory: str) -> str:
        initialize_object_stores(self.configuration)
        return export_savepoint(path, directory, sync=options.read(self.configuration, options.STORAGE_SYNC))

    def restore(self, job_id: str, savepoint: str, *, allow_non_restored_state: bool) -> Future[str]:
        return self._work.submit(self.dispatcher.submit_again, job_id, savepoint, allow_non_restored_state)

    def task_managers(self) -> Sequence[TaskManagerView]:
        return self.resources.task_managers()


def _waits(view: JobView, waiting: Mapping[str, str]) -> JobView:
    reason: Any = waiting.get(view.job_id)
    return replace(view, waiting_for=reason) if reason else view
