"""The input of a job: its sources, what an epoch reads of them, and when to look again. Driver side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flott.datastream.connectors.base import Pending, SlicePlan
from flott.graph.job_graph import JobGraph
from flott.graph.operator_ids import OperatorId
from flott.runtime.checkpoint.manifest import InputPlan, Manifest, SourceSnapshot
from flott.runtime.epoch.report import EpochResult
from flott.runtime.jobmaster.alignment import align
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
        """Be where a checkpoint was."""
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

    # --- plan --------------------------------------------------------------------------------------------------------

    def fits(self, plan: InputPlan) -> bool:
        """Whether a plan is one for these sources. Otherwise the program has changed, and the plan is void: nothing
        that was made of it has ever been visible."""
        return plan.slices.keys() == self._sources.keys()

    def plan(self, budget: int, now_ms: int) -> Slices:
        """What an epoch of so many records reads."""
        running = [source for source in self._sources.values() if not source.finished]
        share = max(1, budget // max(len(running), 1))
        facts = {i: fact for i, source in self._sources.items() if (fact := source.aligned(now_ms)) is not None}
        alignments = align(facts)
        return {ident: source.plan(share, now_ms, alignments.get(ident)) for ident, source in self._sources.items()}

    def plan_everything(self, now_ms: int) -> Slices:
        """All there is, in one epoch."""
        return {ident: source.plan_everything(now_ms) for ident, source in self._sources.items()}

    def plan_the_end(self) -> Slices:
        """Nothing more, for ever."""
        return dict.fromkeys(self._sources, SlicePlan(finished=True))

    def held(self) -> dict[OperatorId, frozenset[str]]:
        """The splits that were paused since the epoch before."""
        return {ident: source.held for ident, source in self._sources.items() if source.held}

    def has_news(self, slices: Slices) -> bool:
        """Whether there is anything to read, or a source that has just come to its end."""
        return any(
            plan.slices or (plan.finished and not self._sources[ident].finished) for ident, plan in slices.items()
        )

    def look_again_at(self, slices: Slices, now_ms: int) -> Iterable[int]:
        """When sources that gave nothing should be asked again."""
        for plan in slices.values():
            if not plan.finished:
                yield plan.wake_at_ms if plan.wake_at_ms is not None else now_ms + self._poll_ms

    def idle_deadlines(self) -> Iterable[int]:
        """Times at which a silent split counts as idle, which is news."""
        return [at for source in self._sources.values() if (at := source.idle_deadline_ms()) is not None]

    def could_give_more(self, plan: InputPlan) -> bool:
        """Whether more was there than was read. What alignment keeps from being read says nothing about that."""
        return any(
            part.backlog and self._sources[ident].alignment.advance_ms is None for ident, part in plan.slices.items()
        )

    # --- an epoch ----------------------------------------------------------------------------------------------------

    def assign(self, plan: InputPlan) -> dict[OperatorId, tuple[SourceAssignment, ...]]:
        """Which subtask reads which slices."""
        return {
            ident: self._sources[ident].assign(slices, plan.now_ms, plan.held.get(ident, frozenset()))
            for ident, slices in plan.slices.items()
        }

    def complete(self, plan: InputPlan, result: EpochResult) -> None:
        """The epoch has read its slices."""
        for ident, coordinator in self._sources.items():
            reports = {split: r for _, outcome in result.of_operator(ident) for split, r in outcome.splits.items()}
            coordinator.complete(plan.slices[ident], reports, plan.now_ms, plan.held.get(ident, frozenset()))

    def snapshot(self) -> dict[OperatorId, SourceSnapshot]:
        """All sources as they are now."""
        return {ident: coordinator.snapshot() for ident, coordinator in self._sources.items()}

    def pending(self, now_ms: int) -> dict[OperatorId, Pending]:
        """What every source has left."""
        return {ident: source.pending(now_ms) for ident, source in self._sources.items()}

    def facts(self, latest: Manifest, graph: JobGraph) -> dict[OperatorId, SourceFacts]:
        """What is known about the sources of a checkpoint, from any thread: the mapping is replaced, never changed."""
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
