"""Which split, operator or source holds event time back: facts of a job in, a report out. Pure. Driver side.

The facts are those of the last complete checkpoint (watermarks, idleness and last records of splits are part of it),
and some that live in the driver's memory: which splits alignment pauses, whether a backlog waits, and since when a
watermark has not moved. In a new run of the driver that begins with its first epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from flott.common._ids import EpochId
from flott.common._watermark_report import (
    SPLITS_SHOWN,
    Hold,
    HoldCause,
    TimePlace,
    WatermarkReport,
    sentence_text,
)
from flott.common.watermark_strategy import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    BoundedOutOfOrdernessFactory,
    MonotonousGenerator,
    WatermarkStrategy,
)
from flott.graph.job_graph import ChainedOperator, JobGraph
from flott.graph.operator_ids import OperatorId
from flott.graph.specs import SinkSpec, SourceSpec, TimestampsSpec
from flott.runtime.checkpoint.manifest import NO_SPLIT, OperatorSnapshot, SubtaskSnapshot
from flott.runtime.epoch.gate import combine
from flott.runtime.jobmaster.hold_words import HoldFacts, describe
from flott.runtime.jobmaster.ledger import is_timed
from flott.runtime.operators.operator import EventTime
from flott.runtime.operators.watermarks import TimeProgress

T = TypeVar("T")

#: A split whose last record is not older than this is being read.
RECENT_MS = 1_000

#: An operator, or a split of a source (or a subtask of a generator in the middle of a stream).
Place = tuple[OperatorId, str | None]
#: How far event time is at a place, and since when it has stood there.
Standings = Mapping[Place, tuple[int, int]]


@dataclass(frozen=True)
class SourceFacts:
    """One source."""

    splits: Mapping[str, TimeProgress] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    backlog: bool = False
    finished: bool = False


@dataclass(frozen=True)
class TimeSnapshot:
    """All that a report is made of."""

    graph: JobGraph
    now_ms: int
    epoch: EpochId | None = None  #: the last complete one
    sources: Mapping[OperatorId, SourceFacts] = field(default_factory=dict)
    operators: Mapping[OperatorId, OperatorSnapshot] = field(default_factory=dict)
    standings: Standings = field(default_factory=dict)


def explain(snapshot: TimeSnapshot) -> WatermarkReport:
    """Return what decides how far event time is."""
    if not snapshot.epoch:
        hold = Hold(HoldCause.NOT_STARTED, "", MIN_WATERMARK, None, "No epoch is complete yet: nothing has a time.", "")
        return WatermarkReport(snapshot.graph.name, snapshot.now_ms, 0, (), (hold,))
    return _Explanation(snapshot).report()


def note_standings(before: Standings, snapshot: TimeSnapshot) -> dict[Place, tuple[int, int]]:
    """Return since when event time has not moved, for every place, after one more epoch."""
    explanation = _Explanation(snapshot)
    reached: dict[Place, int] = {(ident, None): time.watermark for ident, time in explanation.times.items()}
    for ident, parts in explanation.parts.items():
        reached |= {(ident, name): progress.watermark for name, progress in parts.items()}
    return {
        place: before[place] if place in before and before[place][0] == watermark else (watermark, snapshot.now_ms)
        for place, watermark in reached.items()
    }


class _Explanation:
    """One report in the making."""

    def __init__(self, snapshot: TimeSnapshot):
        self._snapshot = snapshot
        self._graph = snapshot.graph
        self._inputs = _inputs(snapshot.graph)
        #: What the time of an operator that makes time is made of.
        self.parts: dict[OperatorId, Mapping[str, TimeProgress]] = {}
        self.times: dict[OperatorId, EventTime] = {}
        for ident, operator in self._graph.operators.items():
            self.times[ident] = self._time(ident, operator)

    def report(self) -> WatermarkReport:
        sinks = [op for op in self._graph.operators.values() if isinstance(op.node.spec, SinkSpec)]
        holders: dict[Place, None] = {}
        for sink in sinks:
            holders |= dict.fromkeys(self._holders(sink.id))
        holds: dict[Place, Hold] = {}
        for place in holders:
            self._explain(place, holds)
        seen: set[OperatorId] = set()
        places = tuple(self._place(sink.id, holds.keys(), seen) for sink in sinks)
        snapshot = self._snapshot
        return WatermarkReport(self._graph.name, snapshot.now_ms, snapshot.epoch or 0, places, _gathered(holds))

    # --- how far event time is ---------------------------------------------------------------------------------------

    def _time(self, ident: OperatorId, operator: ChainedOperator) -> EventTime:
        spec, upstream = operator.node.spec, combine([self.times[each] for each in self._inputs[ident]])
        if isinstance(spec, SourceSpec):
            facts = self._snapshot.sources.get(ident, SourceFacts())
            if facts.finished:
                return EventTime(MAX_WATERMARK, ended=True)
            self.parts[ident] = facts.splits
        elif upstream.ended:
            return upstream
        elif isinstance(spec, TimestampsSpec):
            self.parts[ident] = {
                str(index): subtask.progress or TimeProgress(subtask.watermark)
                for index, subtask in enumerate(self._subtasks(ident))
            }
        else:
            return EventTime(max(upstream.watermark, self._reported(ident)), upstream.idle)
        made = combine([EventTime(part.watermark, part.idle) for part in self.parts[ident].values()])
        return EventTime(max(made.watermark, self._reported(ident)), made.idle)

    def _subtasks(self, ident: OperatorId) -> tuple[SubtaskSnapshot, ...]:
        snapshot = self._snapshot.operators.get(ident)
        return snapshot.subtasks if snapshot is not None else ()

    def _reported(self, ident: OperatorId) -> int:
        """Return what every subtask has reached: event time does not go back, even where its sources did."""
        return min((subtask.watermark for subtask in self._subtasks(ident)), default=MIN_WATERMARK)

    # --- who is the slowest ------------------------------------------------------------------------------------------

    def _holders(self, ident: OperatorId) -> Iterator[Place]:
        """Return where the time of an operator comes from: the slowest places that count, or all if all are idle."""
        if self.times[ident].ended or (ident in self.parts and not self.parts[ident]):
            yield ident, None
            return
        if ident in self.parts:
            times = {part: EventTime(p.watermark, p.idle) for part, p in self.parts[ident].items()}
            yield from ((ident, part) for part in _slowest(times))
            return
        for each in _slowest({each: self.times[each] for each in self._inputs[ident]}):
            yield from self._holders(each)

    # --- why ---------------------------------------------------------------------------------------------------------

    def _explain(self, place: Place, holds: dict[Place, Hold]) -> None:
        if place in holds:
            return
        ident, part = place
        holds[place] = self._hold(ident, part)
        if holds[place].cause is HoldCause.PAUSED:
            for blocker in self._blockers(ident):
                self._explain(blocker, holds)

    def _blockers(self, ident: OperatorId) -> Iterator[Place]:
        """Return the slowest splits of a source's alignment group."""
        group = self._strategy(ident).alignment_group
        times = {
            (other, split): EventTime(progress.watermark, progress.idle)
            for other, facts in self._snapshot.sources.items()
            if self._strategy(other).alignment_group == group
            and self._strategy(other).generator_factory is not None
            and not facts.finished
            for split, progress in facts.splits.items()
        }
        yield from _slowest(times)

    def _strategy(self, ident: OperatorId) -> WatermarkStrategy:
        spec = self._graph.operators[ident].node.spec
        assert isinstance(spec, SourceSpec | TimestampsSpec)
        return spec.strategy

    def _hold(self, ident: OperatorId, part: str | None) -> Hold:
        cause, snapshot = self._cause(ident, part), self._snapshot
        standing = snapshot.standings.get((ident, part))
        progress = self.parts.get(ident, {}).get(part or NO_SPLIT, TimeProgress())
        facts = HoldFacts(
            operator=self._graph.operators[ident].node.name,
            part=None if not part else f"split {part}" if ident in snapshot.sources else f"subtask {part}",
            watermark=self.times[ident].watermark if part is None else progress.watermark,
            since_ms=standing[1] if standing is not None else None,
            active_at_ms=progress.active_at_ms,
            strategy=self._strategy(ident) if ident in self.parts else WatermarkStrategy(),
            now_ms=snapshot.now_ms,
        )
        finding, remedy = describe(cause, facts)
        texts = sentence_text(finding), sentence_text(remedy)
        return Hold(cause, facts.operator, facts.watermark, facts.since_ms, *texts, part or None, finding, remedy)

    def _cause(self, ident: OperatorId, part: str | None) -> HoldCause:
        if part is None or self.times[ident].ended:
            return HoldCause.END_OF_INPUT if self.times[ident].ended else HoldCause.NEVER_READ
        strategy, progress = self._strategy(ident), self.parts[ident][part]
        facts = self._snapshot.sources.get(ident, SourceFacts())
        if strategy.ingestion_time:
            return HoldCause.FOLLOWS_CLOCK
        if strategy.generator_factory is None:
            return HoldCause.NO_WATERMARKS
        if progress.idle:
            return HoldCause.ALL_IDLE
        if part in facts.paused:
            return HoldCause.PAUSED
        if part == NO_SPLIT:
            return HoldCause.NO_SPLIT
        if progress.generator is None:
            return HoldCause.NEVER_READ
        if progress.watermark == MIN_WATERMARK and _is_built_in(strategy):
            return HoldCause.NO_TIMESTAMPS if strategy.timestamp_assigner is None else HoldCause.NEVER_READ
        if progress.watermark == MIN_WATERMARK:
            return HoldCause.SILENT_GENERATOR
        if not _is_built_in(strategy) and self._records_but_no_watermarks(ident, part, progress):
            return HoldCause.SILENT_GENERATOR
        if facts.backlog:
            return HoldCause.BACKLOG
        age = self._snapshot.now_ms - (progress.active_at_ms or 0)
        return HoldCause.SLOWEST if age < RECENT_MS else HoldCause.SILENT

    def _records_but_no_watermarks(self, ident: OperatorId, part: str, progress: TimeProgress) -> bool:
        _, since = self._snapshot.standings.get((ident, part), (0, self._snapshot.now_ms))
        return progress.active_at_ms is not None and progress.active_at_ms > since

    # --- the tree ----------------------------------------------------------------------------------------------------

    def _place(self, ident: OperatorId, holds: Collection[Place], seen: set[OperatorId]) -> TimePlace:
        inputs = [self._visible(each) for each in self._inputs[ident]]
        name, time = self._graph.operators[ident].node.name, self.times[ident]
        if ident in seen:
            return TimePlace(f"{name} (see above)", time.watermark, time.idle, id=str(ident))
        seen.add(ident)
        inner = tuple(self._place(each, holds, seen) for each in dict.fromkeys(inputs))
        if not time.ended:
            inner += tuple(self._part_places(ident, holds))
        since = self._snapshot.standings.get((ident, None))
        since_ms = since[1] if since else None
        return TimePlace(name, time.watermark, time.idle, since_ms=since_ms, inputs=inner, id=str(ident))

    def _visible(self, ident: OperatorId) -> OperatorId:
        """Return the operator, or the one upstream whose time it only passes on."""
        inputs, operator = self._inputs[ident], self._graph.operators[ident]
        if len(inputs) != 1 or ident in self.parts or is_timed(operator) or self.times[ident].ended:
            return ident
        return self._visible(inputs[0]) if self.times[inputs[0]] == self.times[ident] else ident

    def _part_places(self, ident: OperatorId, holds: Collection[Place]) -> Iterator[TimePlace]:
        parts = self.parts.get(ident, {})
        facts = self._snapshot.sources.get(ident)
        word = "subtask" if facts is None else "split"
        by_time = sorted(parts, key=lambda part: ((ident, part) not in holds, parts[part].watermark, part))
        shown = [part for i, part in enumerate(by_time) if i < SPLITS_SHOWN]
        for part in shown:
            since = self._snapshot.standings.get((ident, part))
            yield TimePlace(
                f"{word} {part}" if part != NO_SPLIT else "no split",
                parts[part].watermark,
                parts[part].idle,
                paused=facts is not None and part in facts.paused,
                holds=(ident, part) in holds,
                since_ms=since[1] if since else None,
                id=f"{ident}/{part}",
            )
        if hidden := by_time[len(shown) :]:
            slowest = min(parts[part].watermark for part in hidden)
            yield TimePlace(f"{len(hidden)} more {word}s", slowest, id=f"{ident}/more")


def _gathered(holds: Mapping[Place, Hold]) -> tuple[Hold, ...]:
    """Return one hold for all places of an operator with the same cause, and one for all that has ended."""
    found: dict[tuple[OperatorId | None, HoldCause], list[Hold]] = {}
    for (ident, _), hold in holds.items():
        found.setdefault((None if hold.cause is HoldCause.END_OF_INPUT else ident, hold.cause), []).append(hold)
    return tuple(_together(first, len(more)) for first, *more in found.values())


def _together(hold: Hold, more: int) -> Hold:
    if not more or hold.split is None:
        return hold
    others = f" (And {more} more like it.)"
    return replace(hold, finding=hold.finding + others, finding_parts=(*hold.finding_parts, others))


def _inputs(graph: JobGraph) -> dict[OperatorId, list[OperatorId]]:
    """Return the operators that feed each operator."""
    inputs: dict[OperatorId, list[OperatorId]] = {}
    for vertex in graph.vertices:
        for operator in vertex.operators:
            if operator.fed_by is not None:
                inputs[operator.id] = [vertex.operators[operator.fed_by].id]
            else:
                edges = graph.edges_into(vertex.id)
                inputs[operator.id] = [graph.vertex(e.source).operators[e.source_operator].id for e in edges]
    return inputs


def _slowest(times: Mapping[T, EventTime]) -> list[T]:
    """Return those that are waited for and are furthest behind; all, if none is waited for."""
    active = {place: time for place, time in times.items() if not time.idle}
    if not active:
        return list(times)
    lowest = min(time.watermark for time in active.values())
    return [place for place, time in active.items() if time.watermark == lowest]


def _is_built_in(strategy: WatermarkStrategy) -> bool:
    factory = strategy.generator_factory
    return factory is MonotonousGenerator or isinstance(factory, BoundedOutOfOrdernessFactory)
