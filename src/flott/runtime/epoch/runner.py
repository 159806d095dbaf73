"""The one door to a carrier: run an epoch's plan, bring back its result. Driver side."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.wire import FAILURE, REPORT, SAID, Row
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.file_sequence import StateFile


@dataclass(frozen=True)
class TaskProgress:
    """How far a running epoch is."""

    done: int  #: tasks that are finished
    total: int  #: tasks of all stages


class EpochRunner(Protocol):
    """Runs the epochs of one job."""

    def install(self, image: JobImage) -> None:
        """Make a job's image known to the workers; called before its first epoch and when the graph changes."""

    def run(self, plan: EpochPlan) -> EpochResult:
        """Run one epoch. Raises :class:`~flott.errors.WorkerLostError` if the carrier failed, not the job."""

    def progress(self) -> TaskProgress | None:
        """How far the running epoch is, asked from any thread; None if nobody knows."""

    def slots(self) -> int | None:
        """How many tasks run at the same time; None if the carrier sets no limit."""

    def cancel(self) -> None:
        """Stop the epoch that is running, from another thread; ``run`` then raises."""

    def interrupt(self) -> None:
        """Stop the epoch that is running, from another thread; ``run`` then raises, and may be called again."""

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        """Compact state files, beside the epochs: called from other threads than ``run``, for one purpose at a time.

        A carrier may add to the name of a target, because it may try several times. Raises if any order fails; what
        was written by then is the caller's to delete.
        """

    def cancel_compaction(self, purpose: str) -> None:
        """Stop the compactions for a purpose, at work or yet to come, from another thread; ``compact`` then raises."""

    def close(self) -> None:
        """Release what ``install`` took."""


def gather(rows: Iterable[Row]) -> EpochResult:
    """The result of an epoch from the rows that reached the driver."""
    reports, failures, logs = [], [], []
    for row in rows:
        if row[2] == REPORT:
            reports.append(pickle.loads(row[6]))
        elif row[2] == FAILURE:
            failures.append(pickle.loads(row[6]))
        elif row[2] == SAID:
            logs.append(pickle.loads(row[6]))
    return EpochResult(tuple(reports), tuple(failures), tuple(logs))
