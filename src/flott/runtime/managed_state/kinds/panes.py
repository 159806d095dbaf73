"""State of aligned windows: pane -> key -> value. A pane is a stretch of time that is the same for every key.

Windows that are cut alike for all keys end for all keys at once. Held pane by pane, a record costs one lookup by key,
however many panes are open; and the end of a window needs no timer per key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import islice
from typing import Any

from flott.errors import CorruptStateError
from flott.runtime.managed_state.kinds.tables import Delta

#: What names a pane: its start and its end, say.
Pane = Hashable
#: Pane and key, and the value.
PaneEntry = tuple[tuple[Pane, Any], Any]
#: Keys whose value changed, and how much of the value is saved already: nothing, where values are saved whole.
Marks = dict[Any, int]


class PaneTable:
    """One value per pane and key. Delta: ``[[(pane, keys, values)], [(pane, keys that are gone)]]``.

    A key is never removed alone, only its pane as a whole; so of a pane's keys, which stand in the order in which they
    came, the first so many are saved already and the others are new.
    """

    kind = "panes"
    namespaced = False
    __slots__ = ("_gone", "_saved", "changed", "panes")

    def __init__(self) -> None:
        self.panes: dict[Pane, dict[Any, Any]] = {}
        self.changed: dict[Pane, Marks] = {}
        self._saved: dict[Pane, int] = {}  #: pane -> how many of its keys are saved
        self._gone: dict[Pane, list[Any]] = {}  #: pane that was dropped -> its keys that were saved

    def open(self, pane: Pane, keys: Iterable[Any] = ()) -> tuple[dict[Any, Any], Marks]:
        """The values of a pane by key, made if it is new, and where to mark the keys that are changed.

        ``keys`` are those about to be looked at, for whom it is good to know.
        """
        held = self.panes.get(pane)
        if held is None:
            held = self.panes[pane] = {}
        marks = self.changed.get(pane)
        if marks is None:
            marks = self.changed[pane] = {}
        return held, marks

    def drop(self, pane: Pane) -> dict[Any, Any]:
        """Forget a pane; returns what it held."""
        held = self.panes.pop(pane, {})
        self.changed.pop(pane, None)
        if saved := self._saved.pop(pane, 0):
            self._gone.setdefault(pane, []).extend(islice(held, saved))
        return held

    def release(self, pane: Pane) -> Iterator[dict[Any, Any]]:
        """Forget a pane; gives what it held, in parts that fit into memory and come in the order of key groups."""
        yield self.drop(pane)

    def walk(
        self, cursor: Iterator[PaneEntry] | None, count: int
    ) -> tuple[list[PaneEntry], Iterator[PaneEntry] | None]:
        """The next so many values that are saved, each behind its pane and key, and where to go on: None at the end,
        and to begin. Values may be replaced meanwhile; panes and keys must stay."""
        remaining = self._saved_entries() if cursor is None else cursor
        found = list(islice(remaining, count))
        return found, remaining if len(found) == count else None

    def _saved_entries(self) -> Iterator[PaneEntry]:
        for pane, held in self.panes.items():
            for key, value in held.items():
                yield (pane, key), value

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for pane, keys in self._gone.items():
            for group, chosen in keys_by_group(keys, group_of).items():
                deltas.setdefault(group, [[], []])[1].append((pane, chosen))
        for pane, marks in self.changed.items():
            self._put(pane, marks, group_of, deltas)
            self._saved[pane] = len(self.panes[pane])
        self.changed.clear()
        self._gone.clear()
        return deltas

    def dump(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for pane, held in self.panes.items():
            self._put(pane, dict.fromkeys(held, 0), group_of, deltas)
        return deltas

    def _put(self, pane: Pane, marks: Marks, group_of: Callable[[Any], int], deltas: dict[int, Delta]) -> None:
        """Add the values of marked keys to the deltas."""
        held = self.panes[pane]
        for group, chosen in keys_by_group(marks, group_of).items():
            deltas.setdefault(group, [[], []])[0].append((pane, chosen, [held[key] for key in chosen]))

    def apply(self, delta: Delta) -> None:
        put, gone = delta
        reopened = [(pane, keys) for pane, keys, _ in put if any(pane == dropped for dropped, _ in gone)]
        for pane, keys in (*gone, *reopened):  # a pane that was opened again has its keys in their new order
            held = self.panes.get(pane, {})
            for key in keys:
                held.pop(key, None)
            if not held:
                self.panes.pop(pane, None)
                self._saved.pop(pane, None)
            else:
                self._saved[pane] = len(held)
        for pane, keys, values in put:
            held = self.panes.setdefault(pane, {})
            self._fill(held, keys, values)
            self._saved[pane] = len(held)

    def _fill(self, held: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
        """Put what a delta holds into a pane."""
        held.update(zip(keys, values, strict=True))

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        held: dict[Pane, dict[Any, Any]] = {}
        gone: dict[Pane, dict[Any, None]] = {}
        for put, dropped in deltas:
            for pane, keys in dropped:
                values = held.get(pane, {})
                for key in keys:
                    values.pop(key, None)
                gone.setdefault(pane, {}).update(dict.fromkeys(keys))
            for pane, keys, values in put:
                held.setdefault(pane, {}).update(zip(keys, values, strict=True))
        return [
            [(pane, list(values), list(values.values())) for pane, values in held.items() if values],
            [(pane, list(keys)) for pane, keys in gone.items()],
        ]

    def empty(self) -> None:
        self.panes.clear()
        self.changed.clear()
        self._saved.clear()
        self._gone.clear()

    def has_changes(self) -> bool:
        return bool(self._gone) or any(self.changed.values())

    def size(self) -> int:
        return sum(map(len, self.panes.values()))


class ListPaneTable(PaneTable):
    """A list per pane and key, which only grows. In a delta a value is ``(position, what was appended there)``.

    So an epoch saves what it appends, however long the list is, and appending it twice is the same as once.
    """

    kind = "list-panes"
    __slots__ = ()

    def _put(self, pane: Pane, marks: Marks, group_of: Callable[[Any], int], deltas: dict[int, Delta]) -> None:
        held = self.panes[pane]
        for group, chosen in keys_by_group(marks, group_of).items():
            tails = [(marks[key], held[key][marks[key] :]) for key in chosen]
            deltas.setdefault(group, [[], []])[0].append((pane, chosen, tails))

    def _fill(self, held: dict[Any, Any], keys: list[Any], values: list[Any]) -> None:
        for key, (position, items) in zip(keys, values, strict=True):
            elements = held.setdefault(key, [])
            if len(elements) < position:
                raise CorruptStateError(
                    f"State files do not fit together: one continues the list of {key!r} at position {position}, but"
                    f" those before it hold {len(elements)} items."
                )
            elements[position:] = items

    @staticmethod
    def merge(deltas: Iterable[Delta]) -> Delta:
        held: dict[Pane, dict[Any, tuple[int, list[Any]]]] = {}
        gone: dict[Pane, dict[Any, None]] = {}
        for put, dropped in deltas:
            for pane, keys in dropped:
                tails = held.get(pane, {})
                for key in keys:
                    tails.pop(key, None)
                gone.setdefault(pane, {}).update(dict.fromkeys(keys))
            for pane, keys, values in put:
                tails = held.setdefault(pane, {})
                for key, (position, items) in zip(keys, values, strict=True):
                    start, known = tails.setdefault(key, (position, []))
                    known[position - start :] = items
        return [
            [(pane, list(tails), list(tails.values())) for pane, tails in held.items() if tails],
            [(pane, list(keys)) for pane, keys in gone.items()],
        ]


def keys_by_group(keys: Iterable[Any], group_of: Callable[[Any], int]) -> dict[int, list[Any]]:
    """Keys by their key group, in each as they came."""
    found: dict[int, list[Any]] = {}
    for key in keys:
        group = group_of(key)
        chosen = found.get(group)
        if chosen is None:
            chosen = found[group] = []
        chosen.append(key)
    return found
