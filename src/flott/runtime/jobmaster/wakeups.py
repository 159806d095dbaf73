"""When a job must run an epoch though no input came: what operators wait for. Pure. Driver side.

A timer in processing time is due when the clock says so. So is one in event time, downstream of a source (or of
``assign_timestamps_and_watermarks``) in ingestion time, because there event time follows the clock.
"""

from __future__ import annotations

from flott.graph.job_graph import ChainedOperator, JobGraph, VertexId
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SourceSpec, TimestampsSpec
from flott.runtime.epoch.report import EpochResult


def clock_driven(graph: JobGraph) -> frozenset[OperatorId]:
    """Operators whose event time is moved, perhaps among other things, by the clock."""
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
    """The next wake-up after an epoch with this clock."""
    times = [report.wakeup_ms for report in result.reports if report.wakeup_ms is not None]
    for ident in driven:
        for _, outcome in result.of_operator(ident):
            # The watermark is one millisecond behind the clock. A timer that should have fired in this epoch and did
            # not is held back by something else: waking up for it would not help.
            if outcome.next_event_time_ms is not None and outcome.next_event_time_ms + 1 > now_ms:
                times.append(outcome.next_event_time_ms + 1)
    return min(times, default=None)
