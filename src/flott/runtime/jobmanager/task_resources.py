"""What runs the tasks of a JobManager's jobs: a Spark application, or the processes of the jobs. JobManager side."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.runtime.clock import Clock
from flott.runtime.jobmanager.processes.job_log import rotation_of
from flott.runtime.jobmanager.resources import ResourceManager
from flott.runtime.jobmanager.views.job_view import JobView, TaskManagerView
from flott.runtime.logs.output_file import OutputFile
from flott.runtime.spark.application import SparkAddress

if TYPE_CHECKING:
    from flott.runtime.spark.sharing import SharedApplication

log = logging.getLogger("flott.cluster")


class TaskResources(Protocol):
    """What runs the tasks of all jobs of a JobManager."""

    @property
    def address(self) -> SparkAddress | None:
        """Return where a job's process finds the Spark application; None if it runs its tasks itself."""

    def start(self) -> None:
        """Make it ready for jobs."""

    def restart(self) -> None:
        """Start it again after it has died."""

    def is_alive(self) -> bool:
        """Return whether jobs can run."""

    def bound_output(self) -> None:
        """Truncate its output file if it is too long. The JobManager calls this regularly."""

    def job_gone(self, job_id: str) -> None:
        """Release what is held for a job, because its process has ended."""

    def task_managers(self) -> Sequence[TaskManagerView]:
        """Return the executors."""

    def waiting(self, jobs: Sequence[JobView]) -> Mapping[str, str]:
        """Return the jobs that wait for slots, each with the reason in words."""

    def close(self) -> None:
        """Release everything."""


def make_task_resources(configuration: Configuration, log_folder: Path, clock: Clock) -> TaskResources:
    """Return the resources that ``execution.target`` of the JobManager names."""
    if options.read(configuration, options.TARGET) == "in-process":
        return InProcessTasks(clock)
    return SparkApplication(configuration, log_folder, clock)


class InProcessTasks:
    """No Spark: the process of each job runs its tasks. For tests, and for machines without Java."""

    address: SparkAddress | None = None

    def __init__(self, clock: Clock):
        self._clock = clock
        self._started_ms = clock.now_ms()

    def start(self) -> None:
        pass

    def restart(self) -> None:
        pass

    def is_alive(self) -> bool:
        return True

    def bound_output(self) -> None:
        pass

    def job_gone(self, job_id: str) -> None:
        pass

    def task_managers(self) -> Sequence[TaskManagerView]:
        cores = os.cpu_count() or 1
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        return [
            TaskManagerView(
                "in-process", socket.gethostname(), 0, slots=cores, free_slots=cores, cores=cores, memory_bytes=memory,
                free_bytes=free, managed_bytes=0, heartbeat_ms=self._clock.now_ms(), started_ms=self._started_ms,
            )
        ]  # fmt: skip

    def waiting(self, jobs: Sequence[JobView]) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        pass


class SparkApplication:
    """One Spark application that runs the tasks of all jobs."""

    def __init__(self, configuration: Configuration, log_folder: Path, clock: Clock):
        self._configuration = configuration
        self._log_folder = log_folder
        self._clock = clock
        self._application: SharedApplication | None = None
        self._output: OutputFile | None = None  #: what Spark prints
        self._address: SparkAddress | None = None  #: of the last application, alive or not
        self._resources: ResourceManager | None = None
        self._tidying = ThreadPoolExecutor(max_workers=1, thread_name_prefix="end-workers")
        self._changing = threading.Lock()  #: one is being started or stopped
        self.closed = False  #: no application is started any more

    @property
    def address(self) -> SparkAddress | None:
        return self._address

    def start(self) -> None:
        with self._changing:
            self._start()

    def restart(self) -> None:
        with self._changing:
            self._stop()
            if not self.closed:  # close() has been called, so it would never be stopped
                self._start()

    def _start(self) -> None:
        from flott.runtime.spark.session import log_file_in
        from flott.runtime.spark.sharing import SharedApplication

        settings = {key: text for key, text in self._configuration.to_dict().items() if key.startswith("spark.")}
        settings.setdefault("spark.app.name", f"Flott {self._log_folder.parent.name}")
        self._output = OutputFile(log_file_in(str(self._log_folder)), rotation_of(self._configuration))
        self._application = SharedApplication(settings, self._output.path)
        self._address = self._application.address
        self._resources = ResourceManager(self._application.executors, self._configuration, self._clock)
        self._resources.start()

    def is_alive(self) -> bool:
        application = self._application
        return application is not None and application.is_alive()

    def bound_output(self) -> None:
        if (output := self._output) is not None:
            output.bound()

    def job_gone(self, job_id: str) -> None:
        with suppress(RuntimeError):  # closed meanwhile, and the workers end with the application
            self._tidying.submit(self._end_workers, job_id)

    def _end_workers(self, job_id: str) -> None:
        if (application := self._application) is not None:
            application.end_workers(job_id)

    def task_managers(self) -> Sequence[TaskManagerView]:
        resources = self._resources
        return resources.task_managers() if resources is not None else ()

    def waiting(self, jobs: Sequence[JobView]) -> Mapping[str, str]:
        resources = self._resources
        return resources.waiting(jobs) if resources is not None else {}

    def close(self) -> None:
        self.closed = True
        self._tidying.shutdown(wait=False, cancel_futures=True)
        with self._changing:
            self._stop()

    def _stop(self) -> None:
        application, self._application = self._application, None
        resources, self._resources = self._resources, None
        if resources is not None:
            resources.stop()
        if application is not None:
            application.stop()
