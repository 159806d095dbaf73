"""The best rows of each group while rows come and go. Pure.

Rows are *places*: numbers in the order of all rows at hand, the best first, no two equal. ``NONE`` is larger than all.

``settle``   rows only come: each rank is a filter. The better of the row at a rank and the one that comes stays, and
             the other goes on to the next rank; for all groups and rows at once this is a running minimum.
``follow``   rows come and go: a sorted list for each group.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

import numpy as np

from flott.runtime.operators.columnar.key_codes import Flags, Ints, begins, ends

NONE = np.iinfo(np.int64).max


@dataclass
class RankChanges:
    """At each rank the place before and after a change; ``NONE`` where there is no row."""

    steps: list[Ints] = field(default_factory=list)  #: the row that caused the change
    ranks: list[Ints] = field(default_factory=list)
    before: list[Ints] = field(default_factory=list)
    after: list[Ints] = field(default_factory=list)

    def add(self, steps: Ints, ranks: Ints, before: Ints, after: Ints) -> None:
        """Add changes."""
        self.steps.append(steps)
        self.ranks.append(ranks)
        self.before.append(before)
        self.after.append(after)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Return all changes by step and rank."""
        if not self.steps:
            none = np.zeros(0, np.int64)
            return none, none, none, none
        steps, ranks, before, after = map(np.concatenate, (self.steps, self.ranks, self.before, self.after))
        order = np.lexsort((ranks, steps))
        return steps[order], ranks[order], before[order], after[order]


def settle(
    tops: Ints, groups: Ints, steps: Ints, places: Ints, bound: int, first_rank: int, changes: RankChanges
) -> tuple[Ints, Ints, Ints]:
    """Let rows come in, sorted by group and then as they come.

    ``tops`` (groups x ranks) is changed in place. Changes at ranks from ``first_rank`` on are added. Returned are the
    steps that got in, and of all steps that pushed a row out, the step and that row.
    """
    entered: list[Ints] = []
    moving, rows, by = places, steps, groups
    offset = np.int64(bound + 1)
    for rank in range(tops.shape[1]):
        if not len(moving):
            break
        starts = begins(by)
        number = np.cumsum(starts) - 1
        held = np.minimum(tops[by[starts], rank], bound)
        keyed = moving - number * offset
        first = np.flatnonzero(starts)
        keyed[first] = np.minimum(keyed[first], held - number[first] * offset)
        best = np.minimum.accumulate(keyed) + number * offset
        before = np.empty_like(best)
        before[1:] = best[:-1]
        before[first] = held
        changed = moving < before
        last = ends(starts)
        tops[by[last], rank] = best[last]
        at = np.flatnonzero(changed)
        if len(at):
            entered.append(rows[at])
            if rank + 1 >= first_rank:
                former = np.where(before[at] == bound, NONE, before[at])
                changes.add(rows[at], np.full(len(at), rank + 1, np.int64), former, moving[at])
        passed = np.maximum(moving, before)
        on = np.flatnonzero(passed < bound)
        moving, rows, by = passed[on], rows[on], by[on]
    tops[tops == bound] = NONE
    inside = np.unique(np.concatenate(entered)) if entered else np.zeros(0, np.int64)
    return inside, rows, moving


def merged(tops: Ints, groups: Ints, places: Ints) -> Ints:
    """Return the best rows of each group after rows have come, whatever their order."""
    width = tops.shape[1]
    held = np.flatnonzero(tops.ravel() != NONE)
    all_groups = np.concatenate([held // width, groups])
    all_places = np.concatenate([tops.ravel()[held], places])
    order = np.lexsort((all_places, all_groups))
    all_groups, all_places = all_groups[order], all_places[order]
    starts = begins(all_groups)
    rank = np.arange(len(order)) - np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))
    best = rank < width
    found = np.full_like(tops, NONE)
    found[all_groups[best], rank[best]] = all_places[best]
    return found


def follow(
    lists: list[list[int]],
    alive: dict[int, list[int]],
    groups: list[int],
    added: list[bool],
    places: list[int],
    names: list[int],
    end: int,
    replaces: bool,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Let rows come and go; return step, rank (from 1), place before and place after of every change up to a rank.

    ``alive`` has the places of rows by their name: what goes is the first one that came. ``replaces``: a row that comes
    takes the place of one with its name.
    """
    steps: list[int] = []
    ranks: list[int] = []
    before: list[int] = []
    after: list[int] = []
    none = int(NONE)
    for step, (group, add, place, name) in enumerate(zip(groups, added, places, names, strict=True)):
        members = lists[group]
        known = alive.setdefault(name, [])
        if add and not (replaces and known):
            at = bisect_left(members, place)
            members.insert(at, place)
            known.append(place)
            former = members[at + 1 : end + 1]
            current = members[at:end]
        elif known:
            gone = known.pop(0)
            if add:  # the new row takes the place of the one that goes, in one step
                at, former = 0, members[:end]
                del members[bisect_left(members, gone)]
                known.append(place)
                members.insert(bisect_left(members, place), place)
            else:
                at = bisect_left(members, gone)
                former = members[at:end]
                del members[at]
            current = members[at:end]
        else:
            continue
        for rank, (old, new) in enumerate(_pairs(former, current, none), at + 1):
            if old != new and rank <= end:
                steps.append(step)
                ranks.append(rank)
                before.append(old)
                after.append(new)
    return steps, ranks, before, after


def _pairs(former: list[int], current: list[int], none: int) -> zip[tuple[int, int]]:
    missing = len(current) - len(former)
    if missing > 0:
        former = former + [none] * missing
    elif missing < 0:
        current = current + [none] * -missing
    return zip(former, current, strict=True)


def promising(tops: Ints, groups: Ints, places: Ints) -> Flags:
    """Return which rows are better than the last of the best rows of their group."""
    return np.asarray(places < tops[groups, -1])
