"""The states of a job, under Flink's names.

    INITIALIZING ─► CREATED ─► RUNNING ─► FINISHED
                                 │  ▲
                                 ▼  └── RESTARTING
                     FAILING ─► FAILED       CANCELLING ─► CANCELED

SUSPENDED: this driver has let go of the job, another may take it up. RECONCILING: kept for Flink's sake.
Which moves are legal is the job master's table; here are only the names and what they imply.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """Where a job stands."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9
    # Flink has it first, PyFlink not at all: it comes last so that PyFlink's numbers stay as they are.
    INITIALIZING = 10

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether this driver has nothing more to do for the job."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()
