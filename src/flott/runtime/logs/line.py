"""Lines that user functions print and log, as they travel from a task to the driver. Data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LogLimits:
    """How much of what a task says in one epoch is sent to the driver. The rest is counted."""

    lines: int = 1000
    characters: int = 256 * 1024
    level: str = "INFO"  #: of the root logger in a worker, unless the program sets another


@dataclass(frozen=True)
class LogLine:
    """One thing a task said: a printed line or a logged message, which may have several lines."""

    time_ms: int
    level: str  #: Python's name of it
    logger: str
    message: str
    stream: str | None = None  #: stdout or stderr, if it was printed
    task: str = ""  #: the name of the vertex
    operator: str | None = None  #: the name of the operator; None if it is not known
    subtask: int = 0
    parallelism: int = 1


@dataclass(frozen=True)
class TaskLog:
    """What one task said in one epoch."""

    epoch: int
    attempt: int
    host: str
    executor: str  #: Spark's id of it
    worker: int  #: process id
    lines: tuple[LogLine, ...]
