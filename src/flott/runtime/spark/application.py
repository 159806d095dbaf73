"""What other processes know about a Spark application: where it is, and how its executors are doing.

Data: this module imports nothing from Spark, so that a JobManager can use it before it has started one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SparkAddress:
    """How another process of this machine connects to the application."""

    port: int
    secret: str
    python: str  #: the interpreter of the workers
    archives: tuple[str, ...]  #: names of the Python archives every worker needs

    def __repr__(self) -> str:
        return f"SparkAddress({self.port})"  # not the secret


@dataclass(frozen=True)
class ExecutorReading:
    """One executor that Spark counts as alive. In local mode it is the driver."""

    id: str
    host: str
    port: int
    slots: int  #: tasks that can run at the same time
    cores: int
    running_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    started_ms: int = 0
    heap_bytes: int = 0  #: the maximum of the JVM's heap
    heap_used_bytes: int = 0
    heap_is_peak: bool = True  #: the size is the largest so far: Spark reports no other of executors elsewhere
    metrics: Mapping[str, int | float] = field(default_factory=dict)  #: by Flink's names where it has them
    log_urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobTasks:
    """The tasks of a job that run or wait."""

    running: int = 0
    pending: int = 0  #: those that wait for a slot

    def plus(self, other: JobTasks) -> JobTasks:
        """Return the sum of both."""
        return JobTasks(self.running + other.running, self.pending + other.pending)


@dataclass(frozen=True)
class SparkReading:
    """All executors, and the tasks that run on them."""

    executors: tuple[ExecutorReading, ...] = ()
    #: By job id. They are only read when no slot is free, because it takes Spark some time.
    tasks: Mapping[str, JobTasks] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Return the slots of all executors."""
        return sum(executor.slots for executor in self.executors)

    @property
    def free_slots(self) -> int:
        """Return the slots in which no task runs."""
        return sum(max(0, executor.slots - executor.running_tasks) for executor in self.executors)
