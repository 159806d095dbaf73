"""What an operator itself reports at the end of an epoch. Task side.

The subtask adds what it knows about the operator from outside: records counted, event time, state files
(``runtime.epoch.report``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flott.datastream.connectors.base import Json
from flott.runtime.operators.lateness import LateCount

if TYPE_CHECKING:
    from flott.common._accumulators import Accumulator
    from flott.runtime.operators.source import SplitReport
    from flott.runtime.operators.watermarks import TimeProgress


@dataclass(frozen=True)
class OperatorOutcome:
    """The operator's part of its report. An operator fills in the fields that concern its kind."""

    late: LateCount = field(default_factory=LateCount)  #: records that it refused because they were late
    next_event_time_ms: int | None = None  #: its earliest event-time timer
    progress: TimeProgress | None = None  #: of a watermark generator in the middle of a stream
    splits: Mapping[str, SplitReport] = field(default_factory=dict)  #: of a source: where its splits stand
    committables: list[Json] = field(default_factory=list)  #: of a sink
    results: list[Any] | None = None  #: of a driver sink: the records that the driver gets
    #: What the epoch added to the user's metrics: name -> (how it is combined, number).
    metrics: Mapping[str, tuple[str, int | float]] = field(default_factory=dict)
    accumulators: Mapping[str, Accumulator[Any, Any]] = field(default_factory=dict)  #: the user's
