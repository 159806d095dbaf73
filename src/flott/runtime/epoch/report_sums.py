"""What a subtask did over several checkpoints, as one report. Pure. Driver side.

When a checkpoint of a pipelined job fails, tasks run on. The next one that is completed has to account for everything
since the last completed one: counts are added up, and what says where a subtask stands is that of the last report.
Committables and results for the driver are not merged here. They are handed over by checkpoint, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flott.common._ids import SubtaskIndex
from flott.graph.job_graph import VertexId
from flott.metrics._engine_metrics import Combine, Scope, find
from flott.metrics.metricbase import combine
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.epoch.report import EpochResult, OperatorReport, SubtaskReport
from flott.runtime.operators.source import SplitReport

Measures = Mapping[str, int | float]
Edges = Mapping[int, tuple[int, int]]
Metrics = Mapping[str, tuple[str, int | float]]
Latencies = Mapping[LatencyPath, MarkerAges]


def whole_of(result: EpochResult) -> EpochResult:
    """Return a result whose reports account for the failed checkpoints before it, too."""
    if not result.earlier:
        return result
    summed: dict[tuple[VertexId, SubtaskIndex], SubtaskReport] = {}
    for part in result.parts:
        for report in part.reports:
            place = (report.vertex, report.subtask)
            summed[place] = _sum(summed[place], report) if place in summed else report
    return replace(result, reports=tuple(summed.values()), earlier=())


def _sum(before: SubtaskReport, after: SubtaskReport) -> SubtaskReport:
    return replace(
        after,
        operators={
            ident: _operator(before.operators[ident], report) if ident in before.operators else report
            for ident, report in after.operators.items()
        },
        busy_seconds=before.busy_seconds + after.busy_seconds,
        started_ms=before.started_ms,
        measures=_measures(Scope.TASK, before.measures, after.measures),
        edges=_edges(before.edges, after.edges),
        latencies=_latencies(before.latencies, after.latencies),
    )


def _operator(before: OperatorReport, after: OperatorReport) -> OperatorReport:
    return replace(
        after,
        splits=added_splits(before.splits, after.splits),
        records_in=before.records_in + after.records_in,
        records_out=before.records_out + after.records_out,
        late=before.late.plus(after.late),
        measures=_measures(Scope.OPERATOR, before.measures, after.measures),
        metrics=_metrics(before.metrics, after.metrics),
        written_bytes=before.written_bytes + after.written_bytes,
    )


def added_splits(before: Mapping[str, SplitReport], after: Mapping[str, SplitReport]) -> dict[str, SplitReport]:
    """Return the reports of splits over a longer time: where each stands now, and how many records it gave."""
    total = dict(before)
    for split, report in after.items():
        earlier = before.get(split)
        total[split] = report if earlier is None else replace(report, records=earlier.records + report.records)
    return total


def _edges(before: Edges, after: Edges) -> dict[int, tuple[int, int]]:
    added = {edge: before.get(edge, (0, 0)) for edge in before.keys() | after.keys()}
    for edge, (records, size) in after.items():
        added[edge] = added[edge][0] + records, added[edge][1] + size
    return added


def _latencies(before: Latencies, after: Latencies) -> dict[LatencyPath, MarkerAges]:
    total = dict(before)
    for path, ages in after.items():
        total[path] = total[path].plus(ages) if path in total else ages
    return total


def _measures(scope: Scope, before: Measures, after: Measures) -> dict[str, int | float]:
    total = dict(before)
    for name, number in after.items():
        row = find(scope, name)
        mode = Combine.LAST if row is None or name not in before else row.epochs
        total[name] = mode.of((total.get(name, number), number))
    return total


def _metrics(before: Metrics, after: Metrics) -> dict[str, tuple[str, int | float]]:
    numbers = {name: number for name, (_, number) in before.items()}
    combine(numbers, after)
    modes = {name: mode for name, (mode, _) in (*before.items(), *after.items())}
    return {name: (modes[name], number) for name, number in numbers.items()}
