"""The interface between a job master and what executes a job's tasks continuously. Driver side.

Two forms exist: ``flott.runtime.pipelined.local_pipeline`` in the calling thread, and ``flott.runtime.spark.pipeline``
as one barrier stage of Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flott.runtime.epoch.image import JobImage
from flott.runtime.epoch.plan import EpochPlan
from flott.runtime.epoch.runner import StateCompactor
from flott.runtime.pipelined.control import Command, SlotEvent, SubtaskLoad, TaskWait
from flott.runtime.pipelined.task import TaskRules


@dataclass(frozen=True)
class PipelineStart:
    """What tasks begin with."""

    plan: EpochPlan
    rules: TaskRules
    run: str  #: different for every start of the tasks


class PipelineRunner(Protocol):
    """Executes the tasks of one job continuously. All methods but ``interrupt`` are called by the job's thread."""

    #: Whether tasks work while the driver does something else, so that slices may be open.
    follows_splits: bool

    @property
    def compactor(self) -> StateCompactor:
        """Return what compacts state files while tasks occupy their slots."""

    def check(self, image: JobImage) -> None:
        """Refuse a job that cannot run: too few slots, or a setting that excludes continuous tasks."""

    def start(self, image: JobImage, start: PipelineStart, on_news: Callable[[], None]) -> None:
        """Start the tasks. ``on_news`` is called, from any thread, when ``events`` has something."""

    def send(self, slot: int, command: Command) -> None:
        """Send a command to a slot."""

    def events(self) -> list[SlotEvent]:
        """Return what happened since the last call. In the calling thread, tasks work until nothing is left to do."""

    def waits(self) -> tuple[TaskWait, ...]:
        """Return what tasks have been waiting for, as far as it is known."""

    def take_loads(self) -> tuple[SubtaskLoad, ...]:
        """Return what subtasks have done since their start, of those that have told it since the last call."""

    @property
    def wakeup_ms(self) -> int | None:
        """Return when ``events`` must be called although nothing was sent; None: tasks wake up by themselves."""

    def interrupt(self) -> None:
        """Make tasks that wait for something fail: the job ends. May be called from any thread."""

    def stop(self) -> None:
        """End all tasks, and wait until they have ended. What they have not saved is void."""

    def close(self) -> None:
        """Release everything."""
