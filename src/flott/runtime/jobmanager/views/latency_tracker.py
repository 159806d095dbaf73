"""Tracks the ages of latency markers, by the way they came, and makes histograms of them. Driver side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import sqrt

from flott.graph.job_graph import JobGraph
from flott.runtime.epoch.latency import LatencyPath, MarkerAges
from flott.runtime.jobmanager.views.checkpoint_tracker import percentile
from flott.runtime.jobmanager.views.job_view import LatencyView
from flott.runtime.jobmaster.listener import SubtaskStatistics

#: The quantiles of a histogram, as Flink's reporters write them.
QUANTILES = ("0.5", "0.75", "0.9", "0.95", "0.98", "0.99", "0.999")


class LatencyHistogram:
    """The last ages of the markers of one path."""

    def __init__(self, history: int):
        self._last_ms: deque[int] = deque(maxlen=history)
        self._count = 0
        self._view: LatencyView | None = None  #: of these ages, once it was asked for

    def add(self, ages: MarkerAges) -> None:
        """Add the ages of further markers."""
        self._last_ms.extend(ages.last_ms)
        self._count += ages.count
        self._view = None

    def view(self, path: LatencyPath) -> LatencyView:
        """Return the histogram as a view."""
        if self._view is None:
            self._view = histogram_of(path, self._count, sorted(self._last_ms))
        return self._view


class LatencyTracker:
    """Tracks the latency of a job. ``history``: so many markers count for each path, the last ones."""

    def __init__(self, history: int):
        self._history = history
        self._histograms: dict[LatencyPath, LatencyHistogram] = {}

    def lay_out(self, graph: JobGraph) -> None:
        """Forget paths that the graph does not have any more."""
        widths = {ident: operator.node.parallelism for ident, operator in graph.operators.items()}

        def exists(path: LatencyPath) -> bool:
            from_there = path.source is None or (path.source_subtask or 0) < widths.get(path.source, 0)
            return from_there and path.subtask < widths.get(path.operator, 0)

        self._histograms = {path: found for path, found in self._histograms.items() if exists(path)}

    def add(self, subtasks: Iterable[SubtaskStatistics]) -> None:
        """Add what subtasks have measured up to a checkpoint."""
        for subtask in subtasks:
            for path, ages in subtask.latencies.items():
                found = self._histograms.get(path)
                if found is None:
                    found = self._histograms[path] = LatencyHistogram(self._history)
                found.add(ages)

    def forget(self) -> None:
        """Forget everything: the tasks that have measured it are gone."""
        self._histograms.clear()

    def view(self) -> tuple[LatencyView, ...]:
        """Return the histograms of all paths."""
        return tuple(found.view(path) for path, found in self._histograms.items())


def histogram_of(path: LatencyPath, count: int, ordered: Sequence[int]) -> LatencyView:
    """Return the histogram of ages in ascending order.

    >>> histogram_of(LatencyPath("counts", 0), 3, [10, 20, 60]).mean
    30.0
    """
    mean = sum(ordered) / len(ordered)
    deviations = sum((age - mean) ** 2 for age in ordered)
    return LatencyView(
        path.operator,
        path.subtask,
        path.source,
        path.source_subtask,
        count,
        ordered[0],
        ordered[-1],
        mean,
        sqrt(deviations / (len(ordered) - 1)) if len(ordered) > 1 else 0.0,
        {quantile: percentile(ordered, float(quantile)) for quantile in QUANTILES},
    )
