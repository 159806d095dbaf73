"""When an epoch is due: Flink's checkpoint options, and what operators wait for. Pure. Driver side.

An epoch may have to run although no input came. A timer in processing time is due when the clock says so. So is a timer
in event time, downstream of a source (or of ``assign_timestamps_and_watermarks``) in ingestion time, because there
event time follows the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.common import _options as options
from flott.common.configuration import Configuration
from flott.errors import EpochTimeoutError, FlottError, StorageError
from flott.graph.job_graph import ChainedOperator, JobGraph, VertexId
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SourceSpec, TimestampsSpec
from flott.runtime.epoch.report import EpochResult

# --- checkpoint options ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointPolicy:
    """The configured limits. An epoch is a checkpoint, so Flink's options for checkpoints apply to epochs."""

    timeout_ms: int = 600_000
    min_pause_ms: int = 0  #: between the end of an epoch and the start of the next
    min_interval_ms: int = 0  #: between the starts of two epochs
    tolerable_failures: int = 0  #: in a row

    @staticmethod
    def of(configuration: Configuration) -> CheckpointPolicy:
        """Return the configured policy."""
        return CheckpointPolicy(
            options.read(configuration, options.CHECKPOINT_TIMEOUT),
            options.read(configuration, options.CHECKPOINT_MIN_PAUSE),
            options.read(configuration, options.EPOCH_MIN_INTERVAL),
            options.read(configuration, options.TOLERABLE_FAILED_CHECKPOINTS),
        )

    def not_before_ms(self, last_start_ms: int | None, last_end_ms: int | None) -> int:
        """Return the earliest time at which the next epoch may begin, given when the last one began and ended."""
        by_start = 0 if last_start_ms is None else last_start_ms + self.min_interval_ms
        by_end = 0 if last_end_ms is None else last_end_ms + self.min_pause_ms
        return max(by_start, by_end)

    def tolerates(self, failure: FlottError, failed_before: int) -> bool:
        """Return whether only a checkpoint failed, and whether it may be tried again after so many failures."""
        return isinstance(failure, StorageError | EpochTimeoutError) and failed_before < self.tolerable_failures


# --- timers ----------------------------------------------------------------------------------------------------------


def clock_driven(graph: JobGraph) -> frozenset[OperatorId]:
    """Return the operators whose event time is moved by the clock, perhaps among other things."""
    driven: dict[tuple[VertexId, int], bool] = {}
    for vertex in graph.vertices:
        for index, operator in enumerate(vertex.operators):
            if operator.fed_by is not None:
                upstream = driven[vertex.id, operator.fed_by]
            else:
                upstream = any(driven[edge.source, edge.source_operator] for edge in graph.edges_into(vertex.id))
            driven[vertex.id, index] = _sets_time_by_clock(operator, upstream)
    return frozenset(graph.vertex(vertex).operators[index].id for (vertex, index), is_so in driven.items() if is_so)


def _sets_time_by_clock(operator: ChainedOperator, upstream: bool) -> bool:
    spec = operator.node.spec
    return spec.strategy.ingestion_time if isinstance(spec, SourceSpec | TimestampsSpec) else upstream


def next_wakeup(result: EpochResult, driven: frozenset[OperatorId], now_ms: int) -> int | None:
    """Return when the next timer is due after an epoch with this clock; None if no timer waits for the clock."""
    times = [report.wakeup_ms for report in result.reports if report.wakeup_ms is not None]
    for ident in driven:
        for _, outcome in result.of_operator(ident):
            # The watermark is one millisecond behind the clock. A timer that should have fired in this epoch and did
            # not is held back by something else: waking up for it would not help.
            if outcome.next_event_time_ms is not None and outcome.next_event_time_ms + 1 > now_ms:
                times.append(outcome.next_event_time_ms + 1)
    return min(times, default=None)
