"""The input of a job: its sources, what an epoch reads of them, and when to look again. Driver side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flott.datastream.connectors.base import Pending, SlicePlan
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import EpochInput, Manifest, SourceSnapshot
from flott.runtime.epoch.report import EpochResult
from flott.runtime.jobmaster.alignment import Alignment, align
from flott.runtime.jobmaster.sources import SourceCoordinator
from flott.runtime.jobmaster.time_report import SourceFacts
from flott.runtime.operators.source import SourceAssignment

Slices = dict[OperatorId, SlicePlan]


class JobInput:
    """The source coordinators of one job."""

    def __init__(self, poll_ms: int):
        self._poll_ms = poll_ms
        self._sources: Mapping[OperatorId, SourceCoordinator] = {}

    def open(self, graph: JobGraph, latest: Manifest | None) -> None:
        """Open all sources where a checkpoint left them."""
        self.close()
        sources: dict[OperatorId, SourceCoordinator] = {}
        self._sources = sources
        for vertex in graph.sources:
            coordinator = SourceCoordinator(vertex.head)
            coordinator.open(latest.sources.get(vertex.head.id) if latest is not None else None)
            sources[vertex.head.id] = coordinator

    def close(self) -> None:
        """Close all sources."""
        for coordinator in self._sources.values():
            coordinator.close()

    def rescale(self, graph: JobGraph) -> None:
        """Divide splits among the subtasks there are now."""
        for vertex in graph.sources:
            self._sources[vertex.head.id].rescale(vertex.head)

    # --- rounds, while the job runs pipelined ------------------------------------------------------------------------

    @property
    def coordinators(self) -> Mapping[OperatorId, SourceCoordinator]:
        """Return the coordinator of every source."""
        return self._sources

    def alignments(self, now_ms: int) -> Mapping[OperatorId, Alignment]:
        """Return how far ahead each source of an alignment group may read."""
        return align({i: fact for i, source in self._sources.items() if (fact := source.aligned(now_ms)) is not None})

    @property
    def has_backlog(self) -> bool:
        """Return whether a source had more to read than was last asked for."""
        return any(source.backlog for source in self._sources.values())

    # --- the input of the next epoch ---------------------------------------------------------------------------------

    def fits(self, fixed: EpochInput) -> bool:
        """Return whether a fixed input is one of these sources. Otherwise the program has changed and the input is
        void: nothing that was made of it has ever been visible."""
        return fixed.slices.keys() == self._sources.keys()

    def choose_slices(self, budget: int, now_ms: int) -> Slices:
        """Return what an epoch of at most this many records reads."""
        running = [source for source in self._sources.values() if not source.finished]
        share = max(1, budget // max(len(running), 1))
        alignments = self.alignments(now_ms)
        return {
            ident: source.choose_slices(share, now_ms, alignments.get(ident)) for ident, source in self._sources.items()
        }

    def choose_everything(self, now_ms: int) -> Slices:
        """Return all there is, for the one epoch of a batch job."""
        return {ident: source.choose_everything(now_ms) for ident, source in self._sources.items()}

    def choose_end(self) -> Slices:
        """Return the input of a drain: nothing, and every source ends."""
        return dict.fromkeys(self._sources, SlicePlan(finished=True))

    def held(self) -> dict[OperatorId, frozenset[str]]:
        """Return the splits that were paused since the epoch before."""
        return {ident: source.held for ident, source in self._sources.items() if source.held}

    def has_news(self, slices: Slices) -> bool:
        """Return whether there is anything to read, or a source has just ended."""
        return any(
            plan.slices or (plan.finished and not self._sources[ident].finished) for ident, plan in slices.items()
        )

    def look_again_at(self, slices: Slices, now_ms: int) -> Iterable[int]:
        """Yield when sources without input should be asked again."""
        for plan in slices.values():
            if not plan.finished:
                yield plan.wake_at_ms if plan.wake_at_ms is not None else now_ms + self._poll_ms

    def idle_deadlines(self) -> Iterable[int]:
        """Return the times at which a silent split counts as idle, for which an epoch is due."""
        return [at for source in self._sources.values() if (at := source.idle_deadline_ms()) is not None]

    def could_give_more(self, fixed: EpochInput) -> bool:
        """Return whether there was more to read. What alignment holds back does not count."""
        return any(
            part.backlog and self._sources[ident].alignment.advance_ms is None for ident, part in fixed.slices.items()
        )

    # --- an epoch ----------------------------------------------------------------------------------------------------

    def assign(self, fixed: EpochInput) -> dict[OperatorId, tuple[SourceAssignment, ...]]:
        """Return which subtask reads which slices."""
        return {
            ident: self._sources[ident].assign(slices, fixed.now_ms, fixed.held.get(ident, frozenset()))
            for ident, slices in fixed.slices.items()
        }

    def complete(self, fixed: EpochInput, result: EpochResult) -> None:
        """Advance all sources over the slices that an epoch has read."""
        for ident, coordinator in self._sources.items():
            reports = {split: r for _, outcome in result.of_operator(ident) for split, r in outcome.splits.items()}
            coordinator.complete(fixed.slices[ident], reports, fixed.now_ms, fixed.held.get(ident, frozenset()))

    def acknowledge(self) -> None:
        """Tell all sources that their last snapshots are durable and the output of those is committed."""
        for coordinator in self._sources.values():
            coordinator.acknowledge()

    def snapshot(self) -> dict[OperatorId, SourceSnapshot]:
        """Return a snapshot of all sources."""
        return {ident: coordinator.snapshot() for ident, coordinator in self._sources.items()}

    def pending(self, now_ms: int) -> dict[OperatorId, Pending]:
        """Return what every source has left."""
        return {ident: source.pending(now_ms) for ident, source in self._sources.items()}

    def facts(self, latest: Manifest, graph: JobGraph) -> dict[OperatorId, SourceFacts]:
        """Return what is known about the sources of a checkpoint. From any thread: the mapping is never changed."""
        coordinators = dict(self._sources)
        return {
            ident: SourceFacts(
                snapshot.splits,
                coordinators[ident].alignment.paused if ident in coordinators else frozenset(),
                coordinators[ident].backlog if ident in coordinators else False,
                snapshot.finished,
            )
            for ident, snapshot in latest.sources.items()
            if ident in graph.operators
        }
