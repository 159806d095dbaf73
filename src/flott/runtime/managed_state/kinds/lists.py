"""A list per entry: list state. An append saves only what was appended."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.column_bodies import INTS, Cursor, Parts
from flott.runtime.managed_state.files.column_records import read_lists, write_lists
from flott.runtime.managed_state.files.section_columns import SectionTypes, column, read_entries, write_entries
from flott.runtime.managed_state.kinds.table_kind import (
    Conversion,
    DeclaredTypes,
    EntryKind,
    GroupOf,
    Paged,
    PagedTable,
    ReturnedShape,
    Wanted,
    elements_of,
)
from flott.runtime.managed_state.paging.entries import OpenedEntries, Places
from flott.runtime.managed_state.paging.items import CONTAINER_BYTES, SAMPLE, object_bytes
from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, RowStore, TablePlace
from flott.runtime.managed_state.paging.rows import loads
from flott.runtime.managed_state.schema.conforming import all_conform, conform_values

#: So many elements of a list stand in one row.
_CHUNK = 128


class ListDelta(NamedTuple):
    """Lists that are saved whole, what was appended to others, and entries that were deleted.

    Appended items say at which position they begin, so appending them twice is the same as once.
    """

    whole: list[tuple[Any, list[Any]]]
    appended: list[tuple[Any, int, list[Any]]]
    deleted: list[Any]


class ListTable:
    """A list per entry. Delta: :class:`ListDelta`."""

    kind: ClassVar[str] = "list"
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

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, ListDelta]:
        deltas: dict[KeyGroup, ListDelta] = {}
        for entry in self.rewritten:
            delta = deltas.setdefault(group_of(entry), ListDelta([], [], []))
            if entry in self.entries:
                delta.whole.append((entry, list(self.entries[entry])))
            else:
                delta.deleted.append(entry)
        for entry, saved in self.saved_lengths.items():
            delta = deltas.setdefault(group_of(entry), ListDelta([], [], []))
            delta.appended.append((entry, saved, self.entries[entry][saved:]))
        self.rewritten.clear()
        self.saved_lengths.clear()
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, ListDelta]:
        deltas: dict[KeyGroup, ListDelta] = {}
        for entry, items in self.entries.items():
            deltas.setdefault(group_of(entry), ListDelta([], [], [])).whole.append((entry, list(items)))
        return deltas

    def apply(self, delta: ListDelta) -> None:
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
    def merge(deltas: Iterable[ListDelta]) -> ListDelta:
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
        return ListDelta(list(held.items()), [(entry, *tail) for entry, tail in tails.items()], list(gone))

    def empty(self) -> None:
        self.entries.clear()
        self.rewritten.clear()
        self.saved_lengths.clear()

    def has_changes(self) -> bool:
        return bool(self.rewritten or self.saved_lengths)

    def size(self) -> int:
        return len(self.entries)


class PagedList:
    """The list of one entry: what is committed, what was put aside, and in memory what came since.

    ``start`` is the length that is committed and counts; with ``hidden`` (the list was replaced) it is 0.
    """

    __slots__ = ("_place", "_store", "hidden", "length", "start", "tail")

    def __init__(self, store: RowStore, place: bytes):
        self._store = store
        self._place = place
        self.tail: list[Any] = []
        self.hidden = False
        self.start = self.length = 0  #: ``length``: without the tail
        if store.put_aside and (aside := store.get(PENDING + place)) is not None:
            _, self.hidden, self.start, self.length = loads(aside)
        elif (found := store.get(COMMITTED + place)) is not None:
            self.start = self.length = loads(found)[1]

    def has_any(self) -> bool:
        return self.length > 0 or bool(self.tail)

    def __len__(self) -> int:
        return self.length + len(self.tail)

    def __iter__(self) -> Iterator[Any]:
        """Return all elements as they are now, fetched as they are asked for."""
        tail = list(self.tail)
        yield from self._chunks(COMMITTED, 0, self.start)
        if self.length > self.start:
            yield from self._chunks(PENDING, self.start, self.length)
        yield from tail

    def _chunks(self, kind: bytes, position: int, stop: int) -> Iterator[Any]:
        if position >= stop:
            return
        for row, found in self._store.scan(kind + self._place + b"i"):
            begin, items = int.from_bytes(row[-8:], "big"), loads(found)
            if begin + len(items) <= position:
                continue  # a longer row, which was written later, holds the same
            if begin > position:
                break
            yield from items[position - begin : stop - begin]
            position = min(begin + len(items), stop)
            if position >= stop:
                return
        raise CorruptStateError(
            f"The local state in {self._store.folder} lacks elements of a list from position {position} to {stop}."
        )

    @property
    def changed(self) -> bool:
        """Return whether this epoch did anything to it."""
        return self.hidden or bool(self.tail) or self.length > self.start


class PagedListTable(Paged, ListTable):
    """A list per entry, in rows of several elements: appended to without being read, iterated without being loaded."""

    __slots__ = ("_places", "_store", "_touched")

    def __init__(self, place: TablePlace):
        super().__init__(place.namespaced)
        self._store = place.store
        self._places = Places(place)
        self._touched = 0  #: elements put into lists since they were last let go
        self.entries: OpenedEntries = OpenedEntries(self._open, self._places.entries)

    def _open(self, entry: Any) -> PagedList:
        return PagedList(self._store, self._places.of(entry))

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """Return the next so many committed entries and their lists, and where to go on."""
        return self._places.walk(self.entries, cursor, count)

    def append(self, entry: Any, items: Iterable[Any]) -> None:
        tail = self.entries[entry].tail
        before = len(tail)
        tail.extend(items)
        self._touched += len(tail) - before

    def replace(self, entry: Any, items: list[Any] | None) -> None:
        held = self.entries[entry]
        held.hidden, held.start, held.length, held.tail = True, 0, 0, list(items or ())
        self._touched += len(held.tail)
        if self._store.put_aside:
            self._places.clear(PENDING, entry)
            self._store.flush()

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, ListDelta]:
        deltas: dict[KeyGroup, ListDelta] = {}
        for entry, held in self.entries.in_use():
            if held.changed:
                delta = deltas.setdefault(group_of(entry), ListDelta([], [], []))
                _note(delta, entry, held.hidden, held.start, held.tail)
        self.empty()
        return deltas

    def drain_group(self, group: KeyGroup) -> ListDelta | None:
        delta = ListDelta([], [], [])
        for is_own, stored in self._places.pending(group):
            if is_own:
                entry, hidden, start, length = stored
                items: list[Any] = []
            else:
                items += stored
            if len(items) == length - start:  # that was the last row of the list
                _note(delta, entry, hidden, start, items)
        return delta if any(delta) else None

    def put_aside(self) -> None:
        store = self._store
        for entry, held in self.entries.in_use():
            if held.changed:
                place = PENDING + self._places.of(entry)
                _put_chunks(store, place, held.length, held.tail)
                store.put(place, pickle.dumps((entry, held.hidden, held.start, len(held)), 5))
        self.empty()

    def apply(self, delta: ListDelta) -> None:
        whole, appended, deleted = delta
        store = self._store
        for entry in (*deleted, *(entry for entry, _ in whole)):
            self._places.clear(COMMITTED, entry)
        for entry, position, items in (*((entry, 0, items) for entry, items in whole), *appended):
            place = COMMITTED + self._places.of(entry)
            _put_chunks(store, place, position, items)
            store.put(place, pickle.dumps((entry, position + len(items)), 5))

    def empty(self) -> None:
        self.entries.clear()
        self._touched = 0

    def has_changes(self) -> bool:
        return any(held.changed for _, held in self.entries.in_use())

    def size(self) -> int:
        return sum(1 for _ in self.entries)

    def weight(self) -> int:
        in_use = self.entries.in_use()
        sizes = [object_bytes(held.tail[-1]) for _, held in islice(in_use, SAMPLE) if held.tail]
        return len(self.entries) * CONTAINER_BYTES + self._touched * max(sizes, default=0)


def _note(delta: ListDelta, entry: Any, replaced: bool, start: int, items: list[Any]) -> None:
    """Add the change of one list to a delta. A list that is new is saved whole, not as appended to nothing."""
    if not replaced and start > 0:
        delta.appended.append((entry, start, items))
    elif items:
        delta.whole.append((entry, items))
    else:
        delta.deleted.append(entry)


def _put_chunks(store: RowStore, place: bytes, position: int, items: list[Any]) -> None:
    for begin in range(0, len(items), _CHUNK):
        row = place + b"i" + (position + begin).to_bytes(8, "big")
        store.put(row, pickle.dumps(items[begin : begin + _CHUNK], 5))


class ListKind(EntryKind[ListTable, ListDelta]):
    """The kind of list state."""

    name = ListTable.kind
    spread = "position"
    ages = True

    def make(self, namespaced: bool) -> ListTable:
        return ListTable(namespaced)

    def make_paged(self, place: TablePlace) -> PagedTable:
        return PagedListTable(place)

    def from_plain(self, plain: Any) -> ListDelta:
        return ListDelta(*plain)

    def write(self, types: SectionTypes, delta: ListDelta, parts: Parts) -> None:
        write_entries(types, column(0, delta.whole), parts)
        write_lists(types.value, column(1, delta.whole), parts)
        write_entries(types, column(0, delta.appended), parts)
        INTS.write(column(1, delta.appended), parts)
        write_lists(types.value, column(2, delta.appended), parts)
        write_entries(types, delta.deleted, parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> ListDelta:
        entries = read_entries(types, cursor)
        whole = list(zip(entries, read_lists(types.value, cursor, len(entries)), strict=True))
        entries = read_entries(types, cursor)
        positions = INTS.read(cursor, len(entries))
        tails = read_lists(types.value, cursor, len(entries))
        return ListDelta(whole, list(zip(entries, positions, tails, strict=True)), read_entries(types, cursor))

    def contents(self, delta: ListDelta) -> list[Any]:
        whole, appended = (items for _, items in delta.whole), (items for _, _, items in delta.appended)
        return list(chain.from_iterable(chain(whole, appended)))

    def part(self, delta: ListDelta, wanted: Wanted) -> tuple[ListDelta, bool]:
        put = [change for change in delta.whole if wanted(change[0])]
        gone = list(filter(wanted, delta.deleted))
        appended = [change for change in delta.appended if wanted(change[0])]
        return ListDelta(put, appended, gone), bool(put or gone)

    # --- schema ------------------------------------------------------------------------------------------------------

    def conform(self, table: ListTable, delta: ListDelta, types: DeclaredTypes) -> ListDelta:
        declared, stamped = types.value, types.stamped
        changes = [*((entry, 0, items) for entry, items in delta.whole), *delta.appended]
        if declared is None or all_conform(declared, [items for _, _, items in changes], stamped):
            return delta
        for place, (entry, position, items) in enumerate(changes):
            converted = conform_values(declared, items, [entry] * len(items), stamped)
            changes[place] = (entry, position, converted)
            if type(table) is ListTable:  # others read what was saved
                table.entries[entry][position : position + len(items)] = converted
        count = len(delta.whole)
        return delta._replace(whole=[(entry, items) for entry, _, items in changes[:count]], appended=changes[count:])

    def convert(self, table: ListTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        for entry, held in entries:
            items = conversion.values(list(held), [entry])
            if conversion.marks:
                table.replace(entry, items)
            else:
                table.entries[entry][:] = items

    # --- time to live ------------------------------------------------------------------------------------------------

    def drop_expired(self, delta: ListDelta, deadline: int, *, detached: bool) -> ListDelta:
        if not detached:  # a copy of the state may go on appending, at positions that count all elements
            return delta
        lists = [(entry, [item for item in items if item[1] > deadline]) for entry, items in delta.whole]
        return delta._replace(whole=[(entry, items) for entry, items in lists if items])

    def remove_expired(self, table: ListTable, entry: Any, held: Any, deadline: int) -> None:
        living = [item for item in held if item[1] > deadline]
        if 2 * len(living) <= len(held):  # the list is saved whole: not for a few elements
            table.replace(entry, living)

    def move(
        self, source: ListTable, target: ListTable, entry: Any, held: Any, convert: Callable[[Any], tuple[Any, ...]]
    ) -> None:
        items = [converted for item in held for converted in convert(item)]
        source.replace(entry, None)
        if items:
            target.replace(entry, items)

    def content(self, held: Any, is_visible: Callable[[Any], bool] | None = None) -> Any:
        return [item[0] for item in held or () if is_visible is None or is_visible(item)]

    def stamped(self, content: Any, before: Any) -> Any:
        stamps = [stamp for _, stamp in before]
        return [(item, stamps[place] if place < len(stamps) else max(stamps)) for place, item in enumerate(content)]

    # --- rows for users ----------------------------------------------------------------------------------------------

    def remove(self, table: ListTable, entry: Any) -> None:
        table.replace(entry, None)

    def taken(self, held: Any) -> Any:
        return list(held)

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        return enumerate(held)

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        return [shape.fitting(item) for item in shape.elements(changed)] or None

    def spread_new(self, key: Any, held: Any) -> Iterable[tuple[Any, Any]]:
        return elements_of(key, held)

    def fill(self, table: ListTable, key: Any, map_key: Any, value: Any) -> None:
        table.entries.setdefault(key, []).append(value)


LISTS = ListKind()
