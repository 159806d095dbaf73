"""The interface between a job master and what executes the job's tasks. Driver side.

    JobMaster -- deploy(image), run(plan), stop(reason) --> TaskRunner
    JobMaster <------ events: TasksLogged, EpochEnded ----- TaskRunner

Two runners exist, and both execute one epoch for each call of ``run``: ``flott.runtime.spark.runner`` as a Spark job,
``flott.runtime.epoch.local_runner`` in the calling thread. Nothing here says that a call ends with its epoch: a runner
whose tasks run continuously reports :class:`EpochEnded` whenever its tasks have saved their state, and returns when it
is stopped or its input has ended.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from flott.common._ids import EpochId
from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.report import EpochResult
from flott.runtime.epoch.wire import FAILURE, LOG, REPORT, Row
from flott.runtime.logs.line import TaskLog
from flott.runtime.managed_state.files.compaction import CompactionOrder
from flott.runtime.managed_state.files.file_sequence import StateFile

# --- what a runner reports -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TasksLogged:
    """Tasks have written log records, whether they succeeded or failed."""

    logs: tuple[TaskLog, ...]


@dataclass(frozen=True)
class EpochEnded:
    """All tasks have reported the end of an epoch, or why they could not complete it."""

    epoch: EpochId
    result: EpochResult


#: Events are passed to the caller of ``run``, in its thread, before ``run`` returns.
RunnerEvent = TasksLogged | EpochEnded
OnEvent = Callable[[RunnerEvent], None]


@dataclass(frozen=True)
class TaskProgress:
    """How many tasks of a running epoch have finished."""

    done: int
    total: int  #: tasks of all stages


@dataclass(frozen=True)
class RunnerStatus:
    """What a runner knows about itself at this moment."""

    progress: TaskProgress | None = None  #: of the running epoch; None if it is not known
    slots: int | None = None  #: how many tasks run at the same time; None if there is no limit


class StopReason(Enum):
    """Why an execution is stopped, which decides whether another one may follow."""

    JOB_CANCELLED = "the job was cancelled"  #: ``run`` fails now, and whenever it is called again
    EPOCH_TIMED_OUT = "the epoch took too long"  #: ``run`` fails now, and may be called again


# --- runners ---------------------------------------------------------------------------------------------------------


class StateCompactor(Protocol):
    """Writes several state files as one, while tasks run. Called from threads other than that of ``run``."""

    def compact(self, orders: Sequence[CompactionOrder], purpose: str) -> list[StateFile]:
        """Return one new file for each order. There is at most one call for a purpose at a time.

        An implementation that may try several times appends to the name of an order's target. Raises if any order
        fails. The caller then deletes the files that were written.
        """

    def stop(self, purpose: str) -> None:
        """Make the running call for a purpose raise, and all later ones. May be called from any thread."""


class TaskRunner(Protocol):
    """Executes the tasks of one job."""

    @property
    def compactor(self) -> StateCompactor:
        """Return what compacts the state files of this job, on the same workers."""

    def deploy(self, image: JobImage) -> None:
        """Make a job image known to the workers. Called before the first ``run`` and whenever the graph changes."""

    def run(self, plan: EpochPlan, on_event: OnEvent) -> None:
        """Execute tasks from the state and the input that the plan names, and report events.

        Raises :class:`~flott.errors.WorkerLostError` if the workers failed, not the job's functions, and if it is
        stopped. Failures of the job's functions are part of an :class:`EpochEnded`.
        """

    def stop(self, reason: StopReason) -> None:
        """Stop the execution. ``run`` then raises. May be called from any thread."""

    def status(self) -> RunnerStatus:
        """Return what is known at this moment. May be called from any thread."""

    def close(self) -> None:
        """Release everything that ``deploy`` took."""


def run_epoch(
    runner: TaskRunner, plan: EpochPlan, on_logs: Callable[[tuple[TaskLog, ...]], None] = lambda logs: None
) -> EpochResult:
    """Execute one epoch on a runner and return its result."""
    ended: list[EpochResult] = []

    def on_event(event: RunnerEvent) -> None:
        match event:
            case TasksLogged(logs):
                on_logs(logs)
            case EpochEnded(_, result):
                ended.append(result)

    runner.run(plan, on_event)
    (result,) = ended
    return result


def report_epoch(epoch: EpochId, rows: Iterable[Row], on_event: OnEvent) -> EpochResult:
    """Report the rows that reached the driver at the end of an epoch as events, and return its result."""
    reports, failures, logs = [], [], []
    for row in rows:
        if row[2] == REPORT:
            reports.append(pickle.loads(row[6]))
        elif row[2] == FAILURE:
            failures.append(pickle.loads(row[6]))
        elif row[2] == LOG:
            logs.append(pickle.loads(row[6]))
    if logs:
        on_event(TasksLogged(tuple(logs)))
    result = EpochResult(tuple(reports), tuple(failures))
    on_event(EpochEnded(epoch, result))
    return result
