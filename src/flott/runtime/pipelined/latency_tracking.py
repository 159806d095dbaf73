"""The latency markers of one task: when its sources make one, where it goes, how old those are that come. Task side.

A marker stays in order with records: it leaves behind the buffer that holds those before it. It skips the functions of
a subtask and goes on to one receiver of every edge. The receiver is chosen at random, as in Flink: if all tasks took
turns, some ways through several exchanges would never be measured. The sequence is the same in every run.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum

from flott.graph.job_graph import VertexId
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.epoch.stage_task import StageTask
from flott.runtime.epoch.subtask import Subtask
from flott.runtime.operators.source import SourceOperator
from flott.runtime.pipelined.messages import LatencyMarker


class LatencyGranularity(Enum):
    """Which markers are measured as one, at a subtask of an operator."""

    SINGLE = "single"  #: all
    OPERATOR = "operator"  #: those of one source
    SUBTASK = "subtask"  #: those of one subtask of a source

    def path_of(self, marker: LatencyMarker, subtask: Subtask, operator: int) -> LatencyPath:
        """Return the path of a marker that has come to an operator of a subtask."""
        ident = subtask.slots[operator].described.id
        match self:
            case LatencyGranularity.SINGLE:
                return LatencyPath(ident, subtask.index)
            case LatencyGranularity.OPERATOR:
                return LatencyPath(ident, subtask.index, marker.source)
        return LatencyPath(ident, subtask.index, marker.source, marker.subtask)


@dataclass(frozen=True)
class LatencyRules:
    """The settings of latency markers."""

    interval_ms: int = 0  #: 0: there are none
    granularity: LatencyGranularity = LatencyGranularity.OPERATOR
    history: int = 128  #: so many ages are kept for each path


class _Ages:
    """The ages of markers that have come along a path since the last report."""

    __slots__ = ("count", "last_ms")

    def __init__(self, history: int):
        self.count = 0
        self.last_ms: deque[int] = deque(maxlen=history)

    def add(self, age_ms: int) -> None:
        """Note the age of a marker."""
        self.count += 1
        self.last_ms.append(age_ms)


class LatencyTracking:
    """Makes, passes on and measures the markers of one task."""

    def __init__(self, task: StageTask, rules: LatencyRules):
        self._rules = rules
        self._sources = [subtask for subtask in task.subtasks if isinstance(subtask.operators[0], SourceOperator)]
        self._due_ms: int | None = None
        self._ages: dict[VertexId, dict[LatencyPath, _Ages]] = {subtask.vertex.id: {} for subtask in task.subtasks}
        local = task.image.topology.local_edges
        #: What follows a vertex in this task: a subtask for each edge.
        self._neighbours: dict[VertexId, list[Subtask]] = {subtask.vertex.id: [] for subtask in task.subtasks}
        for subtask in task.subtasks:
            for edge in task.incoming[subtask.vertex.id]:
                if edge.index in local:
                    self._neighbours[edge.source].append(subtask)
        self._choices = {
            edge: random.Random(f"latency markers:{edge}:{subtask.index}")
            for subtask in task.subtasks
            for edge in subtask.partitions
        }

    @property
    def due_ms(self) -> int | None:
        """Return when the sources of the task make their next markers; None: it has none that may read more."""
        return self._due_ms

    def begin(self, now_ms: int) -> None:
        """Begin: the first markers are due at once."""
        self._due_ms = now_ms if self._sources else None

    def is_due(self, now_ms: int) -> bool:
        """Return whether the sources are to make markers."""
        return self._due_ms is not None and self._due_ms <= now_ms

    def make(self, now_ms: int) -> None:
        """Let every source of the task that has not ended make a marker. Markers that were missed are not made up."""
        live = [subtask for subtask in self._sources if not subtask.slots[0].time_out.ended]
        self._due_ms = now_ms + self._rules.interval_ms if live else None
        for subtask in live:
            marker = LatencyMarker(-1, now_ms, subtask.vertex.head.id, subtask.index)
            self.pass_on(marker, subtask, now_ms)

    def pass_on(self, marker: LatencyMarker, subtask: Subtask, now_ms: int) -> None:
        """Note the age of a marker at every operator of a subtask, and send it on along every edge."""
        age_ms, found = now_ms - marker.made_ms, self._ages[subtask.vertex.id]
        for index, operator in enumerate(subtask.operators):
            if not isinstance(operator, SourceOperator):
                path = self._rules.granularity.path_of(marker, subtask, index)
                ages = found.get(path)
                if ages is None:
                    ages = found[path] = _Ages(self._rules.history)
                ages.add(age_ms)
        for neighbour in self._neighbours[subtask.vertex.id]:
            self.pass_on(marker, neighbour, now_ms)
        for edge, partition in subtask.partitions.items():
            if receivers := partition.receivers():
                partition.send_marker(self._choices[edge].choice(receivers), replace(marker, edge=edge))

    def take(self, subtask: Subtask) -> dict[LatencyPath, MarkerAges]:
        """Return the ages of the markers that have come to a subtask since the last call."""
        taken, self._ages[subtask.vertex.id] = self._ages[subtask.vertex.id], {}
        return {path: MarkerAges(ages.count, tuple(ages.last_ms)) for path, ages in taken.items()}
