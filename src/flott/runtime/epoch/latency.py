"""How old latency markers were when they reached operators: as tasks report it to the driver. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from flott.graph.operator_ids import OperatorId


class LatencyPath(NamedTuple):
    """The ways whose latency is measured as one: from sources to a subtask of an operator."""

    operator: OperatorId
    subtask: int
    source: OperatorId | None = None  #: None: from any source
    source_subtask: int | None = None  #: None: from any of its subtasks


@dataclass(frozen=True)
class MarkerAges:
    """The ages of the markers that have come along a path."""

    count: int
    last_ms: tuple[int, ...]  #: of the last of them, oldest first

    def plus(self, later: MarkerAges) -> MarkerAges:
        """Return these ages and those of markers that came later."""
        return MarkerAges(self.count + later.count, self.last_ms + later.last_ms)
