"""What other processes know about a Spark application: where it is, and how its executors are doing.

Data: this module imports nothing from Spark, so that a JobManager can use it before it has started one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SparkAddress:
    """Where another process of this machine finds the application."""

    port: int
    secret: str
    python: str  #: the interpreter of the workers
    archives: tuple[str, ...]  #: names of the Python archives every worker needs

    def __repr__(self) -> str:
        return f"SparkAddress({self.port})"  # the secret is nobody's business


@dataclass(frozen=True)
class ExecutorReading:
    """One executor that Spark counts as alive; in local mode the driver, which is the only one then."""

    id: str
    host: str
    port: int
    slots: int  #: tasks that can run at the same time
    cores: int
    running_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    started_ms: int = 0
    heap_bytes: int = 0  #: what the JVM may take
    heap_used_bytes: int = 0  #: the most it took, as far as Spark reports it
    metrics: Mapping[str, int | float] = field(default_factory=dict)  #: by Flink's names where it has them
    log_urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class JobTasks:
    """The tasks of a job's stages that Spark has begun or could begin."""

    running: int = 0
    pending: int = 0  #: for want of a slot

    def plus(self, other: JobTasks) -> JobTasks:
        """Both together."""
        return JobTasks(self.running + other.running, self.pending + other.pending)


@dataclass(frozen=True)
class SparkReading:
    """All executors, and what keeps them busy."""

    executors: tuple[ExecutorReading, ...] = ()
    #: By job id. Only looked for when no slot is free, because it costs Spark something.
    tasks: Mapping[str, JobTasks] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """Of all executors together."""
        return sum(executor.slots for executor in self.executors)

    @property
    def free_slots(self) -> int:
        """Those that no task runs in."""
        return sum(max(0, executor.slots - executor.running_tasks) for executor in self.executors)
