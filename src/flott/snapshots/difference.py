"""What is different between two snapshots: which keys came, went and changed, state by state. Driver side.

Nothing is read before it is asked for. Two snapshots are compared key group by key group, so two key groups are in
memory; a key group that both read from the same files is passed over unread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from flott.common._ids import KeyGroup
from flott.errors import StateError
from flott.runtime.managed_state.kinds.table_kind import Entry
from flott.snapshots.listing import text_table
from flott.snapshots.operators import OperatorView
from flott.snapshots.snapshot import Place, StateSnapshot, open_snapshot_at
from flott.snapshots.views import KeyedStateView, OperatorStateView, StateView


class ChangeKind(Enum):
    """What happened to an entry."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True)
class Change:
    """One entry that is different: its key, in windowed state the pair of key and window, and what was and is held."""

    kind: ChangeKind
    key: Any
    before: Any = None
    after: Any = None


@dataclass(frozen=True)
class Counts:
    """How many entries are different."""

    added: int = 0
    removed: int = 0
    changed: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


class StateDifference:
    """What is different in one state. One of the two sides may not have it at all."""

    def __init__(self, operator: str, before: StateView | None, after: StateView | None):
        side = after or before
        assert side is not None
        self.operator = operator  #: uid, or name
        self.name = side.name
        self.kind = side.kind
        self._before = before
        self._after = after
        if before is not None and after is not None and before.kind != after.kind:
            raise StateError(
                f"State {self.name!r} of operator {operator!r} is a {before.kind} in one snapshot and a {after.kind} in"
                " the other: there is nothing to compare."
            )

    def __iter__(self) -> Iterator[Change]:
        """Return all changes, key group by key group. Of operator state that is a list, items that came or went."""
        if isinstance(self._after or self._before, KeyedStateView):
            return self._keyed()
        return self._of_subtasks()

    def added(self) -> Iterator[Any]:
        """Return keys that only the second snapshot has."""
        return (change.key for change in self if change.kind is ChangeKind.ADDED)

    def removed(self) -> Iterator[Any]:
        """Return keys that only the first snapshot has."""
        return (change.key for change in self if change.kind is ChangeKind.REMOVED)

    def changed(self) -> Iterator[Any]:
        """Return keys for which both have something, but not the same."""
        return (change.key for change in self if change.kind is ChangeKind.CHANGED)

    @cached_property
    def counts(self) -> Counts:
        """Return how many entries are different. Reads what may be."""
        found = dict.fromkeys(ChangeKind, 0)
        for change in self:
            found[change.kind] += 1
        return Counts(found[ChangeKind.ADDED], found[ChangeKind.REMOVED], found[ChangeKind.CHANGED])

    def _keyed(self) -> Iterator[Change]:
        before, after = self._before, self._after
        assert before is None or isinstance(before, KeyedStateView)
        assert after is None or isinstance(after, KeyedStateView)
        if before is None or after is None:
            sides = ((before, ChangeKind.REMOVED), (after, ChangeKind.ADDED))
            for side, kind in sides:
                for key, held in side.items() if side is not None else ():
                    yield Change(kind, key, *((held, None) if kind is ChangeKind.REMOVED else (None, held)))
            return
        if before.max_parallelism != after.max_parallelism:
            raise StateError(
                f"Operator {self.operator!r} has {before.max_parallelism} key groups in one snapshot and"
                f" {after.max_parallelism} in the other, so they cannot be compared key group by key group."
            )
        for group in map(KeyGroup, range(before.max_parallelism)):
            if before.files_of(group) != after.files_of(group):
                yield from self._changes(before.entries_of(group), after.entries_of(group), before, after)

    def _changes(
        self, before: list[Entry], after: list[Entry], old: KeyedStateView, new: KeyedStateView
    ) -> Iterator[Change]:
        former = {(key, namespace): held for key, namespace, held in before}
        current = {(key, namespace): held for key, namespace, held in after}
        for entry, held in former.items():
            if entry not in current:
                yield Change(ChangeKind.REMOVED, old.key_of(*entry), old.shown(held))
        for entry, held in current.items():
            if entry not in former:
                yield Change(ChangeKind.ADDED, new.key_of(*entry), after=new.shown(held))
            elif not same(old.shown(former[entry]), new.shown(held)):
                yield Change(ChangeKind.CHANGED, new.key_of(*entry), old.shown(former[entry]), new.shown(held))

    def _of_subtasks(self) -> Iterator[Change]:
        before, after = self._before, self._after
        assert before is None or isinstance(before, OperatorStateView)
        assert after is None or isinstance(after, OperatorStateView)
        former = list(before.items()) if before is not None else []
        current = list(after.items()) if after is not None else []
        if self.kind == "broadcast":
            yield from _map_changes(dict(former), dict(current))
            return
        for item in _more(former, current):
            yield Change(ChangeKind.REMOVED, item, item)
        for item in _more(current, former):
            yield Change(ChangeKind.ADDED, item, after=item)

    def __repr__(self) -> str:
        return f"<difference of {self.kind} state {self.name!r} of operator {self.operator!r}>"


class SnapshotDifference:
    """What is different between two snapshots. ``print`` it, or go through its ``states``."""

    def __init__(self, before: StateSnapshot, after: StateSnapshot):
        self.before = before
        self.after = after

    @cached_property
    def states(self) -> tuple[StateDifference, ...]:
        """Return one for each state that either of them has."""
        before = {operator.id: operator for operator in self.before.operators}
        after = {operator.id: operator for operator in self.after.operators}
        return tuple(
            difference
            for ident in {**before, **after}
            for difference in _of_operator(before.get(ident), after.get(ident))
        )

    def state(self, operator: str, name: str) -> StateDifference:
        """Return what is different in one state of the operator with this uid (or name)."""
        for difference in self.states:
            if (difference.operator, difference.name) == (operator, name):
                return difference
        raise StateError(f"Neither snapshot has a state {name!r} of operator {operator!r}.")

    def __str__(self) -> str:
        titles = ("operator", "state", "kind", "added", "removed", "changed")
        rows = [
            (state.operator, state.name, state.kind, f"{count.added:,}", f"{count.removed:,}", f"{count.changed:,}")
            for state in self.states
            if (count := state.counts)
        ]
        title = f"from {self.before.header}\nto   {self.after.header}"
        return "\n".join([title, "", *(text_table([titles, *rows]) if rows else ["  no difference"])])


def diff(before: StateSnapshot | Place, after: StateSnapshot | Place) -> SnapshotDifference:
    """Return what is different in the second snapshot: keys added, removed and changed, per state, read later."""
    return SnapshotDifference(
        *(side if isinstance(side, StateSnapshot) else open_snapshot_at(side) for side in (before, after))
    )


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, also where a class answers with something else than yes or no."""
    try:
        return bool(one == other)
    except Exception:  # arrays compare element by element, and refuse to be a truth value
        return repr(one) == repr(other)


def _of_operator(before: OperatorView | None, after: OperatorView | None) -> Iterator[StateDifference]:
    side = after or before
    assert side is not None
    former = {state.name: state for state in before.states} if before is not None else {}
    current = {state.name: state for state in after.states} if after is not None else {}
    for name in {**former, **current}:
        yield StateDifference(side.uid or side.name, former.get(name), current.get(name))


def _more(items: list[Any], others: list[Any]) -> Iterator[Any]:
    """Return the items of a list that another does not have, or not as often. They may be unhashable."""
    left = Counter(map(repr, others))
    for item in items:
        if left[repr(item)]:
            left[repr(item)] -= 1
        else:
            yield item


def _map_changes(before: dict[Any, Any], after: dict[Any, Any]) -> Iterator[Change]:
    for key, held in before.items():
        if key not in after:
            yield Change(ChangeKind.REMOVED, key, held)
    for key, held in after.items():
        if key not in before:
            yield Change(ChangeKind.ADDED, key, after=held)
        elif not same(before[key], held):
            yield Change(ChangeKind.CHANGED, key, before[key], held)
