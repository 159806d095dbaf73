"""State tables of the hash-map backend: what one named state of one operator subtask holds, and what changed in it.

A table keeps its entries in a plain dict and remembers which of them changed since the last snapshot. Only the changes
are saved; the cost of an epoch grows with the keys it touches, never with the keys held. Three shapes:

    ValueTable   entry -> value                 value, reducing and aggregating state
    ListTable    entry -> list                  list state; an append saves only what was appended
    MapTable     entry -> dict                  map state; a put saves only that map entry

An *entry* is the key, or ``(key, namespace)`` in a namespaced table. Changes travel as plain lists and tuples
(:data:`Delta`), which is what ``state.files`` writes. A delta is exact, including the order in which a map is iterated,
and *repeatable*: several deltas merged into one may be applied to a copy that already contains the first few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flott.errors import CorruptStateError

#: One table's changes of one key group, as plain data; its inner shape belongs to the table's kind.
Delta = list[Any]


class Table(Protocol):
    """What snapshots, restores and merges need of a table."""

    kind: str
    namespaced: bool

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        """The changes since the last call, by key group; forgets them."""

    def dump(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        """Everything, by key group, as the changes that would rebuild it from nothing."""

    def apply(self, delta: Delta) -> None:
        """Apply changes that another copy of the table drained or dumped."""

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        """Several deltas of one key group, oldest first, as one. Takes the deltas over: they may be changed."""

    def empty(self) -> None:
        """Forget everything. The containers stay the same objects, because handles of the program point at them."""

    def has_changes(self) -> bool:
        """Whether anything changed since the last ``drain``."""

    def size(self) -> int:
        """Number of entries."""


class ValueTable:
    """One value per entry. Delta: ``[entries, values, deleted entries]``."""

    kind = "value"
    __slots__ = ("changed", "entries", "namespaced")

    def __init__(self, namespaced: bool = False):
        self.namespaced = namespaced
        self.entries: dict[Any, Any] = {}
        self.changed: dict[Any, None] = {}

    def discard(self, entry: Any) -> None:
        """Delete an entry, if it is there; its value may be None."""
        if entry in self.entries:
            del self.entries[entry]
            self.changed[entry] = None

    def unite(self, into: Any, others: Iterable[Any], merge: Callable[[Any, Any], Any]) -> None:
        """Merge the values of some entries, which are deleted, into that of another."""
        entries = self.entries
        for other in others:
            if other in entries:
                moved = entries[other]
                self.discard(other)
                entries[into] = merge(entries[into], moved) if into in entries else moved
                self.changed[into] = None

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas = self._collect(self.changed, group_of)
        self.changed.clear()
        return deltas

    def dump(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        return self._collect(self.entries, group_of)

    def _collect(self, chosen: Iterable[Any], group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        entries = self.entries
        for entry in chosen:
            group = group_of(entry)
            delta = deltas.get(group)
            if delta is None:
                delta = deltas[group] = [[], [], []]
            if entry in entries:
                delta[0].append(entry)
                delta[1].append(entries[entry])
            else:
                delta[2].append(entry)
        return deltas

    def apply(self, delta: Delta) -> None:
        put, values, deleted = delta
        self.entries.update(zip(put, values, strict=True))
        for entry in deleted:
            self.entries.pop(entry, None)

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        held: dict[Any, Any] = {}
        gone: dict[Any, None] = {}
        for put, values, deleted in deltas:
            for entry, value in zip(put, values, strict=True):
                held[entry] = value
                gone.pop(entry, None)
            for entry in deleted:
                held.pop(entry, None)
                gone[entry] = None
        return [list(held), list(held.values()), list(gone)]

    def empty(self) -> None:
        self.entries.clear()
        self.changed.clear()

    def has_changes(self) -> bool:
        return bool(self.changed)

    def size(self) -> int:
        return len(self.entries)


class ListTable:
    """A list per entry. Delta: ``[[(entry, whole list)], [(entry, position, appended)], deleted entries]``.

    Appended items say where they begin, so appending them twice is the same as once.
    """

    kind = "list"
    __slots__ = ("entries", "namespaced", "rewritten", "saved_lengths")

    def __init__(self, namespaced: bool = False):
        self.namespaced = namespaced
        self.entries: dict[Any, list[Any]] = {}
        self.rewritten: dict[Any, None] = {}  #: entries to be saved whole
        self.saved_lengths: dict[Any, int] = {}  #: entries appended to, and how much of them is saved already

    def append(self, entry: Any, items: Iterable[Any]) -> None:
        """Append to an entry, creating it if need be."""
        held = self.entries.get(entry)
        if held is None:
            self.replace(entry, list(items))
            return
        if entry not in self.rewritten and entry not in self.saved_lengths:
            self.saved_lengths[entry] = len(held)
        held.extend(items)

    def replace(self, entry: Any, items: list[Any] | None) -> None:
        """Set an entry to a list of its own, or delete it with ``None``."""
        self.saved_lengths.pop(entry, None)
        self.rewritten[entry] = None
        if items:
            self.entries[entry] = items
        else:
            self.entries.pop(entry, None)

    def unite(self, into: Any, others: Iterable[Any]) -> None:
        """Append the lists of some entries, which are deleted, to that of another."""
        for other in others:
            if (held := self.entries.get(other)) is not None:
                moved = list(held)  # before it is emptied: it may be read from elsewhere as it is asked for
                self.replace(other, None)
                self.append(into, moved)

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry in self.rewritten:
            delta = deltas.setdefault(group_of(entry), [[], [], []])
            if entry in self.entries:
                delta[0].append((entry, list(self.entries[entry])))
            else:
                delta[2].append(entry)
        for entry, saved in self.saved_lengths.items():
            delta = deltas.setdefault(group_of(entry), [[], [], []])
            delta[1].append((entry, saved, self.entries[entry][saved:]))
        self.rewritten.clear()
        self.saved_lengths.clear()
        return deltas

    def dump(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry, items in self.entries.items():
            deltas.setdefault(group_of(entry), [[], [], []])[0].append((entry, list(items)))
        return deltas

    def apply(self, delta: Delta) -> None:
        whole, appended, deleted = delta
        for entry, items in whole:
            self.entries[entry] = items
        for entry, position, items in appended:
            held = self.entries.setdefault(entry, [])
            if len(held) < position:
                raise CorruptStateError(
                    f"State files do not fit together: one continues the list of {entry!r} at position {position}, but"
                    f" those before it hold {len(held)} items."
                )
            held[position:] = items
        for entry in deleted:
            self.entries.pop(entry, None)

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        held: dict[Any, list[Any]] = {}
        tails: dict[Any, tuple[int, list[Any]]] = {}
        gone: dict[Any, None] = {}
        for whole, appended, deleted in deltas:
            for entry, items in whole:
                held[entry] = items
                tails.pop(entry, None)
                gone.pop(entry, None)
            for entry, position, items in appended:
                start, known = (0, held[entry]) if entry in held else tails.setdefault(entry, (position, []))
                known[position - start :] = items
            for entry in deleted:
                held.pop(entry, None)
                tails.pop(entry, None)
                gone[entry] = None
        return [list(held.items()), [(entry, *tail) for entry, tail in tails.items()], list(gone)]

    def empty(self) -> None:
        self.entries.clear()
        self.rewritten.clear()
        self.saved_lengths.clear()

    def has_changes(self) -> bool:
        return bool(self.rewritten or self.saved_lengths)

    def size(self) -> int:
        return len(self.entries)


class MapTable:
    """A dict per entry. Delta: ``[(entry, cleared first, removed map keys, updated items, items at the end)]``.

    Updated items keep their place in the dict. The others are removed, if they are there, and put at the end in the
    order given; so a rebuilt dict has its keys in the order of the live one, however often a delta is applied.
    """

    kind = "map"
    __slots__ = ("cleared", "entries", "namespaced", "put", "removed")

    def __init__(self, namespaced: bool = False):
        self.namespaced = namespaced
        self.entries: dict[Any, dict[Any, Any]] = {}
        self.cleared: dict[Any, None] = {}
        self.removed: dict[Any, dict[Any, None]] = {}
        self.put: dict[Any, dict[Any, None]] = {}

    def put_item(self, entry: Any, map_key: Any, value: Any) -> None:
        """Set one item of an entry's map."""
        held = self.entries.get(entry)
        if held is None:
            held = self.entries[entry] = {}
        held[map_key] = value
        marks = self.put.get(entry)
        if marks is None:
            marks = self.put[entry] = {}
        marks[map_key] = None

    def remove_item(self, entry: Any, map_key: Any) -> None:
        """Remove one item of an entry's map, if it is there."""
        held = self.entries.get(entry)
        if held is None or map_key not in held:
            return
        del held[map_key]
        if not held:
            del self.entries[entry]
        if marks := self.put.get(entry):
            marks.pop(map_key, None)
        self.removed.setdefault(entry, {})[map_key] = None

    def clear_entry(self, entry: Any) -> None:
        """Drop an entry's whole map."""
        if self.entries.pop(entry, None) is not None:
            self.put.pop(entry, None)
            self.removed.pop(entry, None)
            self.cleared[entry] = None

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry in {**self.cleared, **self.removed, **self.put}:
            held = self.entries.get(entry)
            if held is None:  # also if its items were removed one by one
                deltas.setdefault(group_of(entry), []).append((entry, True, [], [], []))
                continue
            marks = self.put.get(entry, {})
            last = _last_keys(held, marks)
            change = (
                entry,
                entry in self.cleared,
                [map_key for map_key in self.removed.get(entry, ()) if map_key not in last],
                [(map_key, held[map_key]) for map_key in marks if map_key not in last],
                [(map_key, held[map_key]) for map_key in last],
            )
            deltas.setdefault(group_of(entry), []).append(change)
        self.cleared.clear()
        self.removed.clear()
        self.put.clear()
        return deltas

    def dump(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry, held in self.entries.items():
            deltas.setdefault(group_of(entry), []).append((entry, True, [], [], list(held.items())))
        return deltas

    def apply(self, delta: Delta) -> None:
        for entry, cleared, removed, updated, last in delta:
            held = {} if cleared else self.entries.get(entry, {})
            if held:
                for map_key in removed:
                    held.pop(map_key, None)
                for map_key, _ in last:
                    held.pop(map_key, None)
            held.update(updated)
            held.update(last)
            if held:
                self.entries[entry] = held
            else:
                self.entries.pop(entry, None)

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        merged: dict[Any, _MapChange] = {}
        for delta in deltas:
            for entry, cleared, removed, updated, last in delta:
                if cleared or entry not in merged:
                    merged[entry] = _MapChange(cleared)
                merged[entry].add(removed, updated, last)
        return [(entry, *change.parts()) for entry, change in merged.items()]

    def empty(self) -> None:
        self.entries.clear()
        self.cleared.clear()
        self.removed.clear()
        self.put.clear()

    def has_changes(self) -> bool:
        return bool(self.cleared or self.removed or self.put)

    def size(self) -> int:
        return len(self.entries)


class _MapChange:
    """What several deltas, one after the other, do to one map."""

    __slots__ = ("cleared", "last", "removed", "updated")

    def __init__(self, cleared: bool):
        self.cleared = cleared
        self.removed: dict[Any, None] = {}
        self.updated: dict[Any, Any] = {}
        self.last: dict[Any, Any] = {}

    def add(self, removed: Iterable[Any], updated: Iterable[Any], last: Iterable[Any]) -> None:
        for map_key in removed:
            self.updated.pop(map_key, None)
            self.last.pop(map_key, None)
            self.removed[map_key] = None
        for map_key, value in updated:
            (self.last if map_key in self.last else self.updated)[map_key] = value
        for map_key, value in last:
            self.removed.pop(map_key, None)
            self.updated.pop(map_key, None)
            self.last.pop(map_key, None)  # it moves to the end
            self.last[map_key] = value

    def parts(self) -> tuple[bool, list[Any], list[Any], list[Any]]:
        return self.cleared, list(self.removed), list(self.updated.items()), list(self.last.items())


def _last_keys(held: dict[Any, Any], marks: dict[Any, None]) -> dict[Any, None]:
    """The keys at the end of a map that were put in this epoch, in order: all new ones, and any just before them."""
    last = []
    for map_key in reversed(held):
        if map_key not in marks:
            break
        last.append(map_key)
    return dict.fromkeys(reversed(last))
