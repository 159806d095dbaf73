"""What a pipelined job does while Spark has not started its tasks: it waits, says how many cores are missing, and what
to do.

Spark starts the tasks of a barrier stage together, or none of them. As long as other jobs hold cores, it only waits. A
stage that is wider than all executors that have registered so far it looks at again after 15 seconds, so the stage is
submitted only when they are there. Driver side.
"""

from __future__ import annotations

import logging
from threading import Event

from flott.errors import WorkerLostError
from flott.runtime.clock import Clock
from flott.runtime.epoch.image import JobImage
from flott.runtime.pipelined.channels import slots_of
from flott.runtime.pipelined.control import SlotLost, TaskWait
from flott.runtime.pipelined.control_server import ControlServer
from flott.runtime.pipelined.waits import waiting_for_slots
from flott.runtime.spark.application import SparkReading
from flott.runtime.spark.executors import SparkExecutors

log = logging.getLogger("flott.job")

#: Nothing is said before: workers need time to start.
PATIENCE_S = 5.0
#: How often Spark is asked.
ASK_EVERY_S = 5.0
#: The same while executors are registering.
REGISTERING_MS = 200


class MissingSlots:
    """Watches one start of the tasks until all its slots are there."""

    def __init__(
        self, executors: SparkExecutors, image: JobImage, server: ControlServer, clock: Clock, timeout_ms: int
    ):
        self._executors = executors
        self._image = image
        self._server = server
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._began = self._asked = clock.monotonic()
        self._reason: str | None = None
        self._is_over = False

    def await_executors(self, ending: Event) -> bool:
        """Wait until executors with enough slots have registered; return whether they have. Called in another thread.

        It ends early when the job ends, or has given up after the timeout.
        """
        needed = slots_of(self._image)
        while self._executors.slots() < needed:
            if self._is_over or self._clock.wait(ending, REGISTERING_MS):
                return False
        return not ending.is_set()

    def waits(self) -> tuple[TaskWait, ...]:
        """Return that tasks wait for slots, if they do. Gives up after the timeout."""
        if self._is_over or self._server.is_complete:
            self._is_over = True
            return ()
        now = self._clock.monotonic()
        waited_ms = int((now - self._began) * 1000)
        if now - self._began < PATIENCE_S and waited_ms < self._timeout_ms:
            return ()
        if self._reason is None or now - self._asked >= ASK_EVERY_S:
            self._asked, before = now, self._reason
            self._reason = self._ask()
            if before is None:
                log.warning("Job %r is waiting: %s.", self._image.job_name, self._reason)
        if waited_ms >= self._timeout_ms:
            self._is_over = True
            reason = f"The job was not given its slots (slot.request.timeout): {self._reason}."
            self._server.add(SlotLost(reason, is_missing=True))
        return waiting_for_slots(self._image, self._reason, waited_ms)

    def _ask(self) -> str:
        try:
            reading = self._executors.read(with_tasks=True)
        except WorkerLostError as error:
            return str(error)
        return missing(slots_of(self._image), reading, str(self._image.job_id))


def missing(needed: int, reading: SparkReading, own_job: str) -> str:
    """Return how many slots are missing, which jobs hold the others, and what to do."""
    holders = sorted(job for job, tasks in reading.tasks.items() if tasks.running and job != own_job)
    held = f" Cores are held by {_jobs(holders)}." if holders else ""
    return (
        f"the pipelined job needs {needed} cores of Spark at the same time and occupies them as long as it runs, but"
        f" {reading.free_slots} of {reading.slots} are free.{held} Cancel another job, give Spark more cores"
        " (spark.master, executors), or lower parallelism.default"
    )


def _jobs(found: list[str]) -> str:
    return f"job {found[0]}" if len(found) == 1 else f"the jobs {', '.join(found)}"
