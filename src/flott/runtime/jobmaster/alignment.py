"""Watermark alignment: which splits must not be read in the next epoch, and how much of the others. Pure. Driver side.

Sources of one group wait for each other, and so do the splits of one source: a split whose watermark is ahead of the
group's slowest by more than the drift is paused until the slowest has caught up. Idle splits do not count,
and finished sources have left. The slowest itself is never paused, so a group cannot lock itself up.

An epoch reads many records at once and pauses no split half way. So the slices of aligned sources are kept so small
that a split moves about one drift per epoch, by the pace of its last slices: in practice no split is further ahead than
twice the drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Generic, TypeVar

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.runtime.checkpoint.manifest import NO_SPLIT

S = TypeVar("S")

#: Records to read of a split whose pace is not known yet.
FIRST_SLICE = 100


@dataclass(frozen=True)
class SplitTime:
    """How far a split has come. One of which nothing was read stands at the lowest watermark."""

    watermark: int = MIN_WATERMARK
    idle: bool = False


@dataclass(frozen=True)
class AlignedSource:
    """What alignment knows of a source that has not finished. One without splits has NO_SPLIT in their place."""

    group: str
    max_drift_ms: int
    splits: Mapping[str, SplitTime] = field(default_factory=lambda: {NO_SPLIT: SplitTime()})


@dataclass(frozen=True)
class Alignment:
    """What a source may read in the next epoch."""

    paused: frozenset[str] = frozenset()  #: splits that are too far ahead of the slowest of their group
    readable: int = 0  #: how many are not
    #: How far, in event time, each of the others may move. None: there is no other split to wait for.
    advance_ms: int | None = None


@dataclass(frozen=True)
class _Front(Generic[S]):
    """The two slowest splits of a group that are waited for, if it has as many: (source, split, watermark)."""

    slowest: list[tuple[S, str, int]]

    def besides(self, source: S, split: str) -> int | None:
        """Return the slowest watermark of all splits but this one."""
        return next((time for *owner, time in self.slowest if owner != [source, split]), None)


def align(sources: Mapping[S, AlignedSource]) -> dict[S, Alignment]:
    """Return how much each source may read, for the sources of all groups."""
    fronts = {group: _front(group, sources) for group in {source.group for source in sources.values()}}
    return {ident: _align_source(ident, source, fronts[source.group]) for ident, source in sources.items()}


def _front(group: str, sources: Mapping[S, AlignedSource]) -> _Front[S]:
    waited_for = (
        (ident, name, split.watermark)
        for ident, source in sources.items()
        if source.group == group
        for name, split in source.splits.items()
        if not split.idle
    )
    return _Front(nsmallest(2, waited_for, key=lambda entry: entry[2]))


def _align_source(ident: S, source: AlignedSource, front: _Front[S]) -> Alignment:
    rooms: dict[str, int | None] = {}
    for name, split in source.splits.items():
        others = front.besides(ident, name)
        if others is None:  # there is no other split, unless the source turns out to have several
            rooms[name] = source.max_drift_ms if name == NO_SPLIT else None
        elif split.watermark <= others + source.max_drift_ms:
            rooms[name] = _room(split.watermark, others, source.max_drift_ms)
    paused = frozenset(source.splits.keys() - rooms.keys())
    return Alignment(paused, len(rooms), min((room for room in rooms.values() if room is not None), default=None))


def _room(watermark: int, others: int, drift_ms: int) -> int:
    """Return how far a split may move: by the drift, or until it is a drift ahead of the next slowest."""
    if watermark == MIN_WATERMARK:
        return drift_ms  # it may turn out to be anywhere
    return max(drift_ms, others + drift_ms - watermark)


def aligned_budget(budget: int, alignment: Alignment, pace: float | None, parallelism: int) -> int:
    """Return how many records a source may read. ``pace``: the most event time that a record spans, if it is known."""
    if alignment.advance_ms is None or (pace is not None and pace * budget <= alignment.advance_ms):
        return budget
    per_split = FIRST_SLICE if pace is None else max(1, int(alignment.advance_ms / pace))
    # Enumerators share a budget out over splits or over subtasks: what is safe with both is the smaller number.
    return min(budget, per_split * max(1, min(alignment.readable, parallelism)))


def next_pace(pace: float | None, advance_ms: int, records: int) -> float:
    """Return the pace of a split after a slice. It rises at once and falls slowly, so that no slice leaps ahead."""
    observed = advance_ms / records
    return observed if pace is None else max(observed, pace / 2)
