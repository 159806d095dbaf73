"""State of aligned windows: pane -> key -> value, or list. A pane is a stretch of time that is the same for every key.

Windows that are cut alike for all keys end for all keys at once. Held pane by pane, a record costs one lookup by key,
however many panes are open; and the end of a window needs no timer per key.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.errors import CorruptStateError
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.column_bodies import INTS, Cursor, Parts, spell_number
from flott.runtime.managed_state.files.column_records import read_lists, write_lists
from flott.runtime.managed_state.files.section_columns import (
    SectionTypes,
    column,
    read_namespaces,
    write_namespaces,
)
from flott.runtime.managed_state.kinds.table_kind import (
    Conversion,
    Entry,
    GroupOf,
    Paged,
    PagedTable,
    ReturnedShape,
    TableKind,
    Wanted,
    put_or_drop,
)
from flott.runtime.managed_state.paging.items import KeyedItems, Weighing
from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, TablePlace
from flott.runtime.managed_state.paging.rows import entry_bytes, lengthy, loads, table_bytes

#: What names a pane: its start and its end, say.
Pane = Hashable
#: Pane and key, and the value.
PaneEntry = tuple[tuple[Pane, Any], Any]
#: Keys whose value changed, and how much of the value is saved already: nothing, where values are saved whole.
Marks = dict[Any, int]

#: So many values of a pane that ends are in memory at once.
_PART = 8192


class PaneDelta(NamedTuple):
    """Panes with keys and their values beside them, and panes with keys that are gone.

    Of panes of lists a value is ``(position, what was appended there)``.
    """

    put: list[tuple[Pane, list[Any], list[Any]]]
    gone: list[tuple[Pane, list[Any]]]


class PaneTable:
    """One value per pane and key. Delta: :class:`PaneDelta`.

    A key is never removed alone, only its pane as a whole; so of a pane's keys, which stand in the order in which they
    came, the first so many are saved already and the others are new.
    """

    kind: ClassVar[str] = "panes"
    namespaced = False
    __slots__ = ("_gone", "_saved", "changed", "panes")

    def __init__(self) -> None:
        self.panes: dict[Pane, dict[Any, Any]] = {}
        self.changed: dict[Pane, Marks] = {}
        self._saved: dict[Pane, int] = {}  #: pane -> how many of its keys are saved
        self._gone: dict[Pane, list[Any]] = {}  #: pane that was dropped -> its keys that were saved

    def open(self, pane: Pane, keys: Iterable[Any] = ()) -> tuple[dict[Any, Any], Marks]:
        """Return the values of a pane by key, made if it is new, and where to mark the keys that are changed.

        ``keys`` are those about to be looked at: a table over rows fetches them at once.
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
        """Return the next so many saved values, each behind its pane and key, and where to go on: None at the end,
        and to begin. Values may be replaced meanwhile; panes and keys must stay."""
        remaining = self._saved_entries() if cursor is None else cursor
        found = list(islice(remaining, count))
        return found, remaining if len(found) == count else None

    def _saved_entries(self) -> Iterator[PaneEntry]:
        for pane, held in self.panes.items():
            for key, value in held.items():
                yield (pane, key), value

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, PaneDelta]:
        deltas: dict[KeyGroup, PaneDelta] = {}
        for pane, keys in self._gone.items():
            for group, chosen in keys_by_group(keys, group_of).items():
                deltas.setdefault(group, PaneDelta([], [])).gone.append((pane, chosen))
        for pane, marks in self.changed.items():
            self._put(pane, marks, group_of, deltas)
            self._saved[pane] = len(self.panes[pane])
        self.changed.clear()
        self._gone.clear()
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, PaneDelta]:
        deltas: dict[KeyGroup, PaneDelta] = {}
        for pane, held in self.panes.items():
            self._put(pane, dict.fromkeys(held, 0), group_of, deltas)
        return deltas

    def _put(self, pane: Pane, marks: Marks, group_of: GroupOf, deltas: dict[KeyGroup, PaneDelta]) -> None:
        """Add the values of marked keys to the deltas."""
        held = self.panes[pane]
        for group, chosen in keys_by_group(marks, group_of).items():
            deltas.setdefault(group, PaneDelta([], [])).put.append((pane, chosen, [held[key] for key in chosen]))

    def apply(self, delta: PaneDelta) -> None:
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
    def merge(deltas: Iterable[PaneDelta]) -> PaneDelta:
        held: dict[Pane, dict[Any, Any]] = {}
        gone: dict[Pane, dict[Any, None]] = {}
        for put, dropped in deltas:
            for pane, keys in dropped:
                known = held.get(pane, {})
                for key in keys:
                    known.pop(key, None)
                gone.setdefault(pane, {}).update(dict.fromkeys(keys))
            for pane, keys, values in put:
                held.setdefault(pane, {}).update(zip(keys, values, strict=True))
        return PaneDelta(
            [(pane, list(values), list(values.values())) for pane, values in held.items() if values],
            [(pane, list(keys)) for pane, keys in gone.items()],
        )

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

    kind: ClassVar[str] = "list-panes"
    __slots__ = ()

    def _put(self, pane: Pane, marks: Marks, group_of: GroupOf, deltas: dict[KeyGroup, PaneDelta]) -> None:
        held = self.panes[pane]
        for group, chosen in keys_by_group(marks, group_of).items():
            tails = [(marks[key], held[key][marks[key] :]) for key in chosen]
            deltas.setdefault(group, PaneDelta([], [])).put.append((pane, chosen, tails))

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
    def merge(deltas: Iterable[PaneDelta]) -> PaneDelta:
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
        return PaneDelta(
            [(pane, list(tails), list(tails.values())) for pane, tails in held.items() if tails],
            [(pane, list(keys)) for pane, keys in gone.items()],
        )


def keys_by_group(keys: Iterable[Any], group_of: GroupOf) -> dict[KeyGroup, list[Any]]:
    """Return keys by their key group, in each as they came."""
    found: dict[KeyGroup, list[Any]] = {}
    for key in keys:
        group = group_of(key)
        chosen = found.get(group)
        if chosen is None:
            chosen = found[group] = []
        chosen.append(key)
    return found


class PagedPane(KeyedItems):
    """The values of one pane by key."""

    __slots__ = ()

    def is_deleted(self, item: Any) -> bool:
        return False  # keys go with their pane, never alone; and they are marked before they are looked at


class PagedPaneTable(Paged, PaneTable):
    """One value per pane and key. A pane has a row of its own, so that the open ones are known at once."""

    __slots__ = ("_dropped", "_entry_bytes", "_prefix", "_store", "_weighing")

    def __init__(self, place: TablePlace):
        super().__init__()
        self._store = place.store
        self._prefix = table_bytes(place.name)
        self._entry_bytes = entry_bytes(False, place.max_parallelism)
        self._weighing = Weighing()
        self._dropped: list[Pane] = []

    def refresh(self) -> None:
        """The database has changed: find the panes it holds, and forget the names of those that have ended."""
        self.empty()
        for row, found in self._store.scan(COMMITTED + self._prefix + b"n"):
            pane = loads(found)
            held = self._make(pane)
            if held.has_any():
                self.panes[pane] = held
            else:
                self._store.delete(row)
        self._store.flush()

    def _make(self, pane: Pane) -> PagedPane:
        return PagedPane(self._store, self._items(pane), {}, self._entry_bytes)

    def _items(self, pane: Pane) -> bytes:
        return self._prefix + b"i" + lengthy(encode_key(pane))

    def open(self, pane: Pane, keys: Iterable[Any] = ()) -> tuple[dict[Any, Any], Marks]:
        held = self.panes.get(pane)
        if held is None:
            held = self.panes[pane] = self._make(pane)
            held.hidden = True  # what the database holds of it, if anything, was dropped
        assert isinstance(held, PagedPane)
        held.prefetch(set(keys))
        return held, held.changed

    def drop(self, pane: Pane) -> dict[Any, Any]:
        return {key: value for part in self.release(pane) for key, value in part.items()}

    def release(self, pane: Pane) -> Iterator[dict[Any, Any]]:
        held = self.panes.pop(pane, None)
        if held is None:
            return
        assert isinstance(held, PagedPane)
        if not held.hidden:
            self._dropped.append(pane)
        values = held.scan()
        while part := dict(islice(values, _PART)):
            yield part
        if self._store.put_aside:
            self._store.delete_all(PENDING + self._items(pane))

    def _saved_entries(self) -> Iterator[PaneEntry]:
        for pane in list(self.panes):
            for _, found in self._store.scan(COMMITTED + self._items(pane)):
                key, value = loads(found)
                yield (pane, key), value

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, PaneDelta]:
        deltas: dict[KeyGroup, PaneDelta] = {}
        for pane in self._dropped:
            committed = (loads(found)[0] for _, found in self._store.scan(COMMITTED + self._items(pane)))
            for group, keys in keys_by_group(committed, group_of).items():
                deltas.setdefault(group, PaneDelta([], [])).gone.append((pane, keys))
        for pane in self.panes:
            self._put(pane, self.open(pane)[1], group_of, deltas)
        self.empty()
        return deltas

    def drain_group(self, group: KeyGroup) -> PaneDelta | None:
        """Of a key group: the keys of panes that are gone, and what was put aside of those that are open."""
        within = group.to_bytes(2, "big")
        delta = PaneDelta([], [])
        for pane in self._dropped:
            if keys := [loads(found)[0] for _, found in self._store.scan(COMMITTED + self._items(pane) + within)]:
                delta.gone.append((pane, keys))
        for _, named in self._store.scan(PENDING + self._prefix + b"n"):
            pane = loads(named)
            pairs = [loads(found) for _, found in self._store.scan(PENDING + self._items(pane) + within)]
            if pairs:
                delta.put.append((pane, [key for key, _ in pairs], [value for _, value in pairs]))
        return delta if any(delta) else None

    def apply(self, delta: PaneDelta) -> None:
        put, gone = delta
        store, name = self._store, self._entry_bytes
        for pane, keys in gone:
            place = COMMITTED + self._items(pane)
            for key in keys:
                store.delete(place + name(key))
        for pane, keys, values in put:
            store.put(COMMITTED + self._prefix + b"n" + encode_key(pane), pickle.dumps(pane, 5))
            place = COMMITTED + self._items(pane)
            for key, value in zip(keys, values, strict=True):
                store.put(place + name(key), pickle.dumps((key, value), 5))

    def empty(self) -> None:
        super().empty()
        self._dropped.clear()

    def has_changes(self) -> bool:
        return bool(self._dropped) or any(held.changed for held in self._paged())

    def size(self) -> int:
        return sum(1 for held in self._paged() for _ in held)

    def _paged(self) -> Iterator[PagedPane]:
        for held in self.panes.values():
            assert isinstance(held, PagedPane)
            yield held

    # --- room --------------------------------------------------------------------------------------------------------

    def put_aside(self) -> None:
        for pane, held in self.panes.items():
            assert isinstance(held, PagedPane)
            if held.changed:
                self._store.put(PENDING + self._prefix + b"n" + encode_key(pane), pickle.dumps(pane, 5))
                held.put_aside()
            held.let_go()

    def weight(self) -> int:
        return sum(self._weighing.of(held) for held in self._paged())


class PaneKind(TableKind[PaneTable, PaneDelta]):
    """The kind of aligned windows that hold one value per key."""

    name = PaneTable.kind
    of_windows = True

    def make(self, namespaced: bool) -> PaneTable:
        return PaneTable()

    def make_paged(self, place: TablePlace) -> PagedTable | None:
        return PagedPaneTable(place)

    def from_plain(self, plain: Any) -> PaneDelta:
        return PaneDelta(*plain)

    def write(self, types: SectionTypes, delta: PaneDelta, parts: Parts) -> None:
        _write_keys(types, delta.put, parts)
        types.value.write(list(chain.from_iterable(column(2, delta.put))), parts)
        _write_keys(types, delta.gone, parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> PaneDelta:
        panes, keys = _read_keys(types, cursor)
        values = iter(types.value.read(cursor, sum(map(len, keys))))
        put = [(pane, held, list(islice(values, len(held)))) for pane, held in zip(panes, keys, strict=True)]
        return PaneDelta(put, list(zip(*_read_keys(types, cursor), strict=True)))

    def part(self, delta: PaneDelta, wanted: Wanted) -> tuple[PaneDelta, bool]:
        held = [(pane, key, value) for pane, keys, values in delta.put for key, value in zip(keys, values, strict=True)]
        kept: list[tuple[Pane, list[Any], list[Any]]] = [
            (pane, [key], [value]) for pane, key, value in held if wanted(key)
        ]
        return PaneDelta(kept, [(pane, [key]) for pane, keys in delta.gone for key in keys if wanted(key)]), False

    # --- schema ------------------------------------------------------------------------------------------------------

    def walk(self, table: PaneTable, cursor: Any, count: int) -> tuple[list[tuple[Any, Any]], Any]:
        return table.walk(cursor, count)

    def key_of(self, table: PaneTable, entry: Any) -> Any:
        return entry[1]

    def convert(self, table: PaneTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        keys, held = [key for (_, key), _ in entries], [value for _, value in entries]
        for ((pane, key), _), value in zip(entries, conversion.values(held, keys), strict=True):
            _put(table, pane, key, value, conversion.marks)

    # --- rows for users ----------------------------------------------------------------------------------------------

    def entries(self, table: PaneTable) -> Iterator[Entry]:
        for pane, by_key in table.panes.items():
            for key, held in by_key.items():
                yield key, pane, held

    def release(self, table: PaneTable) -> Iterator[Entry]:
        for pane in list(table.panes):
            for key, held in table.drop(pane).items():
                yield key, pane, held

    def transform(self, table: PaneTable, change: Callable[[Any, Any, Any], Any]) -> None:
        for pane, by_key in table.panes.items():
            for key, held in list(by_key.items()):
                put_or_drop(by_key, key, change(key, pane, held))


class ListPaneKind(PaneKind):
    """The kind of aligned windows that hold a list per key. Its tables are in memory with every backend."""

    name = ListPaneTable.kind
    spread = "position"

    def make(self, namespaced: bool) -> ListPaneTable:
        return ListPaneTable()

    def make_paged(self, place: TablePlace) -> PagedTable | None:
        return None

    def write(self, types: SectionTypes, delta: PaneDelta, parts: Parts) -> None:
        _write_keys(types, delta.put, parts)
        tails = list(chain.from_iterable(column(2, delta.put)))
        INTS.write(column(0, tails), parts)
        write_lists(types.value, column(1, tails), parts)
        _write_keys(types, delta.gone, parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> PaneDelta:
        panes, keys = _read_keys(types, cursor)
        count = sum(map(len, keys))
        positions = INTS.read(cursor, count)
        tails = zip(positions, read_lists(types.value, cursor, count), strict=True)
        put: list[tuple[Pane, list[Any], list[Any]]] = [
            (pane, held, list(islice(tails, len(held)))) for pane, held in zip(panes, keys, strict=True)
        ]
        return PaneDelta(put, list(zip(*_read_keys(types, cursor), strict=True)))

    def convert(self, table: PaneTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        for (pane, key), items in entries:
            items[:] = conversion.values(items, [key])
            _put(table, pane, key, items, conversion.marks)

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        return enumerate(held)

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        return [shape.fitting(item) for item in shape.elements(changed)] or None


def _write_keys(types: SectionTypes, panes: Iterable[tuple[Any, ...]], parts: Parts) -> None:
    listed = list(panes)
    parts.append(spell_number(len(listed)))
    write_namespaces(column(0, listed), parts)
    write_lists(types.key, column(1, listed), parts)


def _read_keys(types: SectionTypes, cursor: Cursor) -> tuple[list[Any], list[list[Any]]]:
    count = cursor.number()
    return read_namespaces(cursor, count), read_lists(types.key, cursor, count)


def _put(table: PaneTable, pane: Any, key: Any, value: Any, marks: bool) -> None:
    held, marked = table.open(pane)
    held[key] = value
    if marks:
        marked[key] = 0  # to be saved from its beginning


PANES = PaneKind()
LIST_PANES = ListPaneKind()
