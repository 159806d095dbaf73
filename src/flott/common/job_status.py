"""The states of a job, under Flink's names.

    INITIALIZING ─► CREATED ─► RUNNING ─► FINISHED
                                 │  ▲
                                 ▼  └── RESTARTING
                     FAILING ─► FAILED       CANCELLING ─► CANCELED

SUSPENDED: this driver has released the job, and another may resume it. RECONCILING: exists for compatibility with
Flink. The job master defines the legal transitions; this module only has the names and their properties.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["JobStatus"]


class JobStatus(Enum):
    """The status of a job."""

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
    # It is first in Flink and absent in PyFlink. It comes last, so that PyFlink's numbers do not change.
    INITIALIZING = 10

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job has ended permanently."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Return whether this driver has ended its work for the job."""
        return self is JobStatus.SUSPENDED or self.is_globally_terminal_state()
