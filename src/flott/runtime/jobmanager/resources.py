"""The ResourceManager: Spark's executors as task managers with slots, and why a job waits for one. JobManager side.

A thread asks Spark once a second. All other threads are answered from memory. If Spark does not answer, they see that
by the age of the answer: a task manager's last heartbeat is when Spark last counted it as alive.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Protocol

from flott.common import _cluster_options as cluster_options
from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.runtime.clock import Clock
from flott.runtime.jobmanager.views.job_view import JobView, TaskManagerView
from flott.runtime.spark.application import ExecutorReading, JobTasks, SparkReading

log = logging.getLogger("flott.cluster")

REFRESH_MS = 1000
#: More executors are asked for when tasks have been waiting for slots through so many readings.
PATIENCE = 3
#: A job is said to wait when it was found waiting in so many readings in a row: where many jobs share few slots, each
#: of them waits for moments all the time.
SHORTEST_WAIT = 2


class Executors(Protocol):
    """Where executors come from: ``SparkExecutors``."""

    def read(self) -> SparkReading:
        """Return what Spark has now; may raise."""

    def can_grow(self) -> bool:
        """Return whether Spark may give more executors."""

    def ordered(self) -> int:
        """Return how many executors were requested when the application was started."""

    def request(self, executors: int) -> bool:
        """Ask for so many in all."""


class ResourceManager:
    """What a JobManager's jobs run on."""

    def __init__(self, executors: Executors, configuration: Configuration, clock: Clock):
        self._executors = executors
        self._clock = clock
        self._managed_bytes = options.read(configuration, options.MANAGED_MEMORY)
        self._max_slots = options.read(configuration, cluster_options.MAX_SLOTS)
        self._views: tuple[TaskManagerView, ...] = ()
        self._reading: SparkReading | None = None  #: None: Spark has never answered
        self._master = configuration.get_string("spark.master", "")
        self._asked_for: int | None = None  #: executors in all; None: it is not known yet how many Spark began with
        self._crowded = 0  #: readings in a row in which tasks were waiting
        self._starving: Mapping[str, int] = {}
        self._is_silent = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Read what Spark has, regularly until ``stop``."""
        self.refresh()
        self._thread = threading.Thread(target=self._keep_reading, name="resource-manager", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Do not ask Spark any more."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _keep_reading(self) -> None:
        while not self._clock.wait(self._stop, REFRESH_MS):
            self.refresh()

    def refresh(self) -> None:
        """Ask Spark now. Does not raise: what is known stays, and grows old."""
        try:
            reading = self._executors.read()
            self._views = tuple(
                view_of(executor, self._managed_bytes, self._clock.now_ms()) for executor in reading.executors
            )
            if self._asked_for is None:
                self._asked_for = self._executors.ordered()
            self._reading = reading
            self._starving = starving(self._starving, reading)
            self._grow(reading)
            self._is_silent = False
        except Exception as error:
            if not self._is_silent:  # once, not every second
                log.warning("The executors cannot be read, what is shown of them grows old: %s", error)
            self._is_silent = True

    def task_managers(self) -> Sequence[TaskManagerView]:
        """Return the executors as of Spark's last answer."""
        return self._views

    def waiting(self, jobs: Sequence[JobView]) -> Mapping[str, str]:
        """Return which of these jobs wait for slots, and why, in words."""
        return reasons_to_wait(jobs, self._reading, self._starving, self._asked_for or 0, self._master)

    def _grow(self, reading: SparkReading) -> None:
        pending = sum(tasks.pending for tasks in reading.tasks.values())
        self._crowded = self._crowded + 1 if pending else 0
        if self._crowded < PATIENCE or not self._executors.can_grow():
            return
        running = sum(executor.running_tasks for executor in reading.executors)
        wanted = executors_to_ask_for(running + pending, reading, self._asked_for or 0, self._max_slots)
        if wanted is not None and self._executors.request(wanted):
            log.info("Asked Spark for %d executors in all: %d tasks are waiting for slots.", wanted, pending)
            self._asked_for, self._crowded = wanted, 0


def view_of(executor: ExecutorReading, managed_bytes: int, now_ms: int) -> TaskManagerView:
    """Return an executor as Flink's tools see it. Its id is Spark's, which subtasks and log lines name, too."""
    return TaskManagerView(
        id=executor.id,
        host=executor.host,
        port=executor.port,
        slots=executor.slots,
        free_slots=max(0, executor.slots - executor.running_tasks),
        cores=executor.cores,
        memory_bytes=executor.heap_bytes,
        free_bytes=max(0, executor.heap_bytes - executor.heap_used_bytes),
        managed_bytes=managed_bytes,
        heartbeat_ms=now_ms,
        started_ms=executor.started_ms,
        running_tasks=executor.running_tasks,
        completed_tasks=executor.completed_tasks,
        failed_tasks=executor.failed_tasks,
        metrics=executor.metrics,
        log_urls=executor.log_urls,
        memory_is_peak=executor.heap_is_peak,
    )


def executors_to_ask_for(demand: int, reading: SparkReading, asked_for: int, max_slots: int) -> int | None:
    """Return how many executors are needed for so many tasks at once; None: no more than there are, or were requested.

    Never fewer than before: no executor is taken away. ``max_slots`` bounds the slots of all executors.
    """
    have = len(reading.executors)
    if not have:
        return None  # they are being started, and their size is not known yet
    size = max(1, max(executor.slots for executor in reading.executors))
    wanted = min(-(-demand // size), max_slots // size)
    return wanted if wanted > max(have, asked_for) else None


def starving(before: Mapping[str, int], reading: SparkReading) -> dict[str, int]:
    """Return, by job id, in how many readings in a row none of the job's tasks could run.

    A job with more tasks than slots does not starve: they take turns.
    """
    if reading.free_slots:
        return {}
    return {
        ident: before.get(ident, 0) + 1
        for ident, tasks in reading.tasks.items()
        if tasks.pending and not tasks.running
    }


def reasons_to_wait(
    jobs: Sequence[JobView],
    reading: SparkReading | None,
    starved: Mapping[str, int],
    asked_for: int = 0,
    master: str = "",
) -> dict[str, str]:
    """Return why jobs wait, by job id: other jobs have had all slots for a while, or there are none."""
    live = {job.job_id: job for job in jobs if not job.status.is_globally_terminal_state()}
    if reading is None:
        return dict.fromkeys(live, "Spark has not said yet which executors there are.")
    waiting = [ident for ident in live if starved.get(ident, 0) >= SHORTEST_WAIT]
    if not reading.slots:
        return dict.fromkeys(waiting, _nobody_in_words(asked_for, master))
    return {ident: _in_words(ident, live, reading, asked_for) for ident in waiting}


def _nobody_in_words(asked_for: int, master: str) -> str:
    coming = f" {asked_for} were asked for." if asked_for else ""
    return (
        f"No executor is registered with Spark{f' ({master})' if master else ''}, so there are no slots.{coming} The"
        " job goes on as soon as the master has given one: it needs a machine with enough free cores and memory."
    )


def _in_words(ident: str, jobs: Mapping[str, JobView], reading: SparkReading, asked_for: int) -> str:
    pending = reading.tasks.get(ident, JobTasks()).pending
    busy = [(other, tasks.running) for other, tasks in reading.tasks.items() if tasks.running]
    names = [f"{_name(other, jobs)} ({running})" for other, running in sorted(busy, key=lambda pair: -pair[1])]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} other jobs" if len(names) > 5 else "")
    whose = f" with {shown}" if names else ""
    coming = ""
    if asked_for > len(reading.executors):
        coming = f" {asked_for - len(reading.executors)} more executors were asked for."
    slots = reading.slots
    return (
        f"{'The only slot is' if slots == 1 else f'All {slots} slots are'} busy{whose}; the job asks for"
        f" {min(pending, slots)} of {slots}.{coming}"
    )


def _name(ident: str, jobs: Mapping[str, JobView]) -> str:
    return repr(jobs[ident].name) if ident in jobs else f"job {ident[:8]}"
