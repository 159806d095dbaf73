"""The job status machine: Flink's states, and every legal move in one table. Pure.

    INITIALIZING ─► CREATED ─► RUNNING ──────────────────► FINISHED
         │            │        │  ▲ │ └─► FAILING ───────► FAILED
         │            │        ▼  │ └──► CANCELLING ─────► CANCELED
         │            │     RESTARTING ─► (CANCELLING, FAILING, SUSPENDED)
         └────────────┴─► (FAILING, CANCELLING, SUSPENDED)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flott.common.job_status import JobStatus

_LEAVING = {JobStatus.FAILING, JobStatus.CANCELLING, JobStatus.SUSPENDED}

MOVES: dict[JobStatus, set[JobStatus]] = {
    JobStatus.INITIALIZING: {JobStatus.CREATED, *_LEAVING},
    JobStatus.CREATED: {JobStatus.RUNNING, *_LEAVING},
    JobStatus.RUNNING: {JobStatus.RESTARTING, JobStatus.FINISHED, *_LEAVING},
    JobStatus.RESTARTING: {JobStatus.RUNNING, *_LEAVING},
    JobStatus.FAILING: {JobStatus.FAILED, JobStatus.CANCELLING},
    JobStatus.CANCELLING: {JobStatus.CANCELED, JobStatus.FAILING},
    JobStatus.FINISHED: set(),
    JobStatus.FAILED: set(),
    JobStatus.CANCELED: set(),
    JobStatus.SUSPENDED: set(),
}


class IllegalMove(Exception):
    """The machine was asked for a move it does not have: a defect of the engine, with the job's recent history."""


@dataclass
class JobStatusHistory:
    """The status of a job and when it reached each one."""

    now_ms: Callable[[], int]
    moves: list[tuple[JobStatus, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.moves.append((JobStatus.INITIALIZING, self.now_ms()))

    @property
    def status(self) -> JobStatus:
        """The current one."""
        return self.moves[-1][0]

    def move(self, to: JobStatus) -> None:
        """Make a legal move."""
        if to not in MOVES[self.status]:
            recent = " -> ".join(status.name for status, _ in self.moves[-6:])
            raise IllegalMove(f"A job cannot go from {self.status.name} to {to.name} (recently: {recent}).")
        self.moves.append((to, self.now_ms()))
        # A job that restarts for months must not remember every single time.
        if len(self.moves) > 200:
            del self.moves[1:100]
