"""Keeps the tasks of a job on their executors: asks Spark what is there, and gives RDDs preferences. Driver side.

``flott.runtime.epoch.placement`` decides. Spark follows the preferences as long as an executor has a free core within
``spark.locality.wait``. What it ran elsewhere is seen in the reports of the tasks. The slots of pipelined jobs prefer
the executors where their tasks were, and epochs those where slots were: a job that changes its mode stays where it is.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext

from flott.errors import WorkerLostError
from flott.runtime.epoch.placement import (
    ExecutorSlots,
    Placement,
    TaskHomes,
    encode_homes,
    executors_in,
    place,
    place_slots,
)
from flott.runtime.epoch.report import EpochResult, TaskPlace
from flott.runtime.epoch.topology import Topology
from flott.runtime.spark.executors import SparkExecutors
from flott.runtime.spark.preferred_executors import PreferredExecutors, executor_location
from flott.runtime.spark.session import is_local

log = logging.getLogger("flott.spark")

T = TypeVar("T")


@dataclass(frozen=True)
class PlacedStages:
    """A placement in the form in which Spark takes it. Without a placement, Spark chooses executors."""

    placement: Placement = field(default_factory=Placement)
    executors: tuple[ExecutorSlots, ...] = ()  #: all that were there
    text: str = ""  #: the placement for workers, so that they release tasks that are no longer theirs
    preferences: PreferredExecutors | None = None
    anchors: tuple[Any, ...] = ()  #: for each stage

    def prefer(self, stage: int, rdd: RDD[T]) -> RDD[T]:
        """Return the RDD of a stage's input with the preferences of its tasks."""
        if self.preferences is None:
            return rdd
        return self.preferences.prefer(self.anchors[stage], rdd)


class TaskPlacement:
    """The placement of one job on the executors of an application.

    ``decide`` is called by one thread at a time, and so are the methods for slots. ``note`` may be called meanwhile by
    another thread.
    """

    def __init__(self, executors: SparkExecutors, preferences: PreferredExecutors, turn: int):
        self._executors = executors
        self._preferences = preferences
        self._turn = turn
        self._widths: tuple[int, ...] = ()
        self._topology: Topology | None = None
        self._present: tuple[ExecutorSlots, ...] = ()
        self._ran_on: TaskHomes = {}
        self._current = PlacedStages()
        self._lock = threading.Lock()  #: of what ``decide`` and the methods for slots have in common
        self._hosts: dict[str, str] = {}  #: of all executors so far
        #: Whether slots have run since the last decision on epochs, which then are to run elsewhere.
        self.is_outdated = False

    @staticmethod
    def on(context: SparkContext, turn: int) -> TaskPlacement | None:
        """Return the placement on an application; None on a local master, where the driver runs all tasks."""
        if is_local(str(context.master)):
            return None
        try:
            preferences = PreferredExecutors(context)
        except (Py4JError, TypeError, ValueError) as error:  # a Spark with another Scala
            log.warning("Subtasks do not stay with their executors: this Spark has no way to prefer one: %s", error)
            return None
        return TaskPlacement(SparkExecutors(context), preferences, turn)

    def deploy(self, topology: Topology) -> None:
        """Place the tasks of another topology from now on. Tasks with the same position keep their home."""
        self._topology = topology
        self._widths = tuple(stage.width for stage in topology.stages)
        self._ran_on = {}

    def note(self, result: EpochResult, placed: PlacedStages) -> bool:
        """Note where the tasks of an epoch ran, and return whether any ran away from home."""
        assert self._topology is not None
        self._ran_on = executors_in(result, self._topology)
        known = {executor.id for executor in self._present}
        homes = placed.placement.homes
        return any(homes.get(task, ran) != ran for task, ran in self._ran_on.items() if ran in known)

    def decide(self) -> PlacedStages:
        """Return the placement for the next epoch."""
        with self._lock:
            self.is_outdated = False
            self._look()
            placement = place(self._widths, self._present, self._current.placement, self._ran_on, self._turn)
            if placement != self._current.placement or self._present != self._current.executors:
                self._current = self._make(placement)
            return self._current

    def prefer_slots(self, rdd: RDD[T], slots: int) -> RDD[T]:
        """Return an RDD with a partition for each slot with the preferences of the slots, as far as there are any."""
        with self._lock:
            self._look()
            tasks_at = {**self._current.placement.homes, **self._ran_on}
            found = place_slots(slots, self._present, tasks_at, self._hosts)
            if not any(found):
                return rdd
            locations = [
                None if one is None else executor_location(one.host, one.executor) if one.executor else one.host
                for one in found
            ]
            try:
                return self._preferences.prefer(self._preferences.anchor(locations), rdd)
            except (Py4JError, OSError) as error:
                log.warning("The slots of a pipelined job run where Spark puts them: %s", error)
                return rdd

    def note_slots(self, places: Mapping[int, TaskPlace]) -> None:
        """Note where the slots of a pipelined job have run."""
        with self._lock:
            self._look()
            known = {slot: place.executor for slot, place in places.items() if place.executor in self._hosts}
            ran = {(stage, slot): at for stage, width in enumerate(self._widths) for slot, at in known.items()
                   if slot < width}  # fmt: skip
            self._ran_on = {**self._ran_on, **ran}
            self.is_outdated |= bool(ran)

    def _look(self) -> None:
        """Read the executors if others are there. To read them takes much longer than to see that none has changed."""
        try:
            if self._executors.ids() != {executor.id for executor in self._present}:
                read = self._executors.read().executors
                self._present = tuple(ExecutorSlots(one.id, one.host, one.slots) for one in read)
                self._hosts |= {one.id: one.host for one in self._present}
        except WorkerLostError:  # the epoch itself will tell
            pass

    def _make(self, placement: Placement) -> PlacedStages:
        if not placement.homes:
            return PlacedStages()
        hosts = {executor.id: executor.host for executor in self._present}
        stages = [placement.of_stage(stage) for stage in range(len(self._widths))]
        anchors = tuple(
            self._preferences.anchor([executor_location(hosts[home], home) for home in homes]) for homes in stages
        )
        text = encode_homes(placement, self._present)
        return PlacedStages(placement, self._present, text, self._preferences, anchors)
