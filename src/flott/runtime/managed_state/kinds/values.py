"""One value per entry: value, reducing and aggregating state.

An *entry* is the key, or ``(key, namespace)`` in a namespaced table. Only the entries that changed are saved.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from itertools import islice, repeat
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.runtime.managed_state.files.column_bodies import Cursor, Parts
from flott.runtime.managed_state.files.section_columns import SectionTypes, read_entries, write_entries
from flott.runtime.managed_state.kinds.table_kind import (
    Conversion,
    DeclaredTypes,
    EntryKind,
    GroupOf,
    Paged,
    PagedTable,
    Wanted,
)
from flott.runtime.managed_state.paging.items import KeyedItems, Weighing
from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, TablePlace
from flott.runtime.managed_state.paging.rows import entry_bytes, loads, table_bytes
from flott.runtime.managed_state.schema.conforming import conform_values

#: What stands for the value of a deleted entry. A tuple, so that values are still numbers, texts and tuples with it.
_GONE: Any = ("gone",)


class ValueDelta(NamedTuple):
    """Entries with their new values beside them, and entries that were deleted."""

    entries: list[Any]
    values: list[Any]
    deleted: list[Any]


class TakenValues(NamedTuple):
    """Entries that changed, and their values at one moment."""

    entries: list[Any]
    values: list[Any]

    def contents(self) -> list[Any]:
        return self.values

    def size(self) -> int:
        return len(self.entries)

    def group(self, start: int, stop: int, group_of: GroupOf, deltas: dict[KeyGroup, ValueDelta]) -> None:
        for entry, value in zip(self.entries[start:stop], self.values[start:stop], strict=True):
            group = group_of(entry)
            delta = deltas.get(group)
            if delta is None:
                delta = deltas[group] = ValueDelta([], [], [])
            if value is _GONE:
                delta.deleted.append(entry)
            else:
                delta.entries.append(entry)
                delta.values.append(value)


class ValueTable:
    """One value per entry. Delta: :class:`ValueDelta`."""

    kind: ClassVar[str] = "value"
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

    def take(self) -> TakenValues:
        changed = list(self.changed)
        self.changed.clear()
        return TakenValues(changed, list(map(self.entries.get, changed, repeat(_GONE))))

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, ValueDelta]:
        deltas = self._collect(self.changed, group_of)
        self.changed.clear()
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, ValueDelta]:
        return self._collect(self.entries, group_of)

    def _collect(self, chosen: Iterable[Any], group_of: GroupOf) -> dict[KeyGroup, ValueDelta]:
        deltas: dict[KeyGroup, ValueDelta] = {}
        entries = self.entries
        for entry in chosen:
            group = group_of(entry)
            delta = deltas.get(group)
            if delta is None:
                delta = deltas[group] = ValueDelta([], [], [])
            if entry in entries:
                delta.entries.append(entry)
                delta.values.append(entries[entry])
            else:
                delta.deleted.append(entry)
        return deltas

    def apply(self, delta: ValueDelta) -> None:
        put, values, deleted = delta
        self.entries.update(zip(put, values, strict=True))
        for entry in deleted:
            self.entries.pop(entry, None)

    @staticmethod
    def merge(deltas: Iterable[ValueDelta]) -> ValueDelta:
        held: dict[Any, Any] = {}
        gone: dict[Any, None] = {}
        for put, values, deleted in deltas:
            for entry, value in zip(put, values, strict=True):
                held[entry] = value
                gone.pop(entry, None)
            for entry in deleted:
                held.pop(entry, None)
                gone[entry] = None
        return ValueDelta(list(held), list(held.values()), list(gone))

    def empty(self) -> None:
        self.entries.clear()
        self.changed.clear()

    def has_changes(self) -> bool:
        return bool(self.changed)

    def size(self) -> int:
        return len(self.entries)


class PagedValueTable(Paged, ValueTable):
    """One value per entry, in a row of its own."""

    __slots__ = ("_prefix", "_store", "_weighing")

    entries: KeyedItems

    def __init__(self, place: TablePlace):
        super().__init__(place.namespaced)
        self._store = store = place.store
        self._prefix = table_bytes(place.name)
        self._weighing = Weighing()
        name = entry_bytes(place.namespaced, place.max_parallelism)
        self.entries = KeyedItems(store, self._prefix, self.changed, name)

    def apply(self, delta: ValueDelta) -> None:
        put, values, deleted = delta
        store, row = self._store, self.entries.row
        for entry, value in zip(put, values, strict=True):
            store.put(COMMITTED + row(entry), pickle.dumps((entry, value), 5))
        for entry in deleted:
            store.delete(COMMITTED + row(entry))

    def prefetch(self, keys: set[Any]) -> None:
        if not self.namespaced:
            self.entries.prefetch(keys)

    def put_aside(self) -> None:
        self.entries.put_aside()
        self.empty()

    def drain_group(self, group: KeyGroup) -> ValueDelta | None:
        delta = ValueDelta([], [], [])
        for _, found in self._store.scan(PENDING + self._prefix + group.to_bytes(2, "big")):
            match loads(found):
                case entry, value:
                    delta.entries.append(entry)
                    delta.values.append(value)
                case (entry,):
                    delta.deleted.append(entry)
        return delta if delta.entries or delta.deleted else None

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """Return the next so many committed entries with their present values, and where to go on."""
        rows = list(islice(self._store.scan(COMMITTED + self._prefix, cursor or b""), count + 1))
        found = []
        for _, stored in rows[:count]:
            entry, value = loads(stored)
            if self._store.put_aside or entry in self.changed:
                value = self.entries.get(entry, _GONE)
            if value is not _GONE:
                found.append((entry, value))
        return found, rows[count][0] if len(rows) > count else None

    def empty(self) -> None:
        self.entries.let_go()

    def weight(self) -> int:
        return self._weighing.of(self.entries)


class ValueKind(EntryKind[ValueTable, ValueDelta]):
    """The kind of value, reducing and aggregating state."""

    name = ValueTable.kind
    ages = True

    def make(self, namespaced: bool) -> ValueTable:
        return ValueTable(namespaced)

    def make_paged(self, place: TablePlace) -> PagedTable:
        return PagedValueTable(place)

    def from_plain(self, plain: Any) -> ValueDelta:
        return ValueDelta(*plain)

    def write(self, types: SectionTypes, delta: ValueDelta, parts: Parts) -> None:
        write_entries(types, delta.entries, parts)
        types.value.write(delta.values, parts)
        write_entries(types, delta.deleted, parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> ValueDelta:
        entries = read_entries(types, cursor)
        return ValueDelta(entries, types.value.read(cursor, len(entries)), read_entries(types, cursor))

    def contents(self, delta: ValueDelta) -> list[Any]:
        return delta.values

    def part(self, delta: ValueDelta, wanted: Wanted) -> tuple[ValueDelta, bool]:
        put = [(entry, value) for entry, value in zip(delta.entries, delta.values, strict=True) if wanted(entry)]
        gone = list(filter(wanted, delta.deleted))
        return ValueDelta([entry for entry, _ in put], [value for _, value in put], gone), bool(put or gone)

    # --- schema ------------------------------------------------------------------------------------------------------

    def conform(self, table: ValueTable, delta: ValueDelta, types: DeclaredTypes) -> ValueDelta:
        if types.value is None:
            return delta
        converted = conform_values(types.value, delta.values, delta.entries, types.stamped)
        if converted is delta.values:
            return delta
        held = table.entries
        for entry, value, fitting in zip(delta.entries, delta.values, converted, strict=True):
            if held.get(entry) is value:  # else it has changed since the delta was taken
                held[entry] = fitting
        return delta._replace(values=converted)

    def convert(self, table: ValueTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        names, held = [entry for entry, _ in entries], [value for _, value in entries]
        for entry, old, new in zip(names, held, conversion.values(held, names), strict=True):
            if new is None and old is not None:
                table.discard(entry)  # as a program does that sets a value to None
                continue
            table.entries[entry] = new
            if conversion.marks:
                table.changed[entry] = None

    # --- time to live ------------------------------------------------------------------------------------------------

    def drop_expired(self, delta: ValueDelta, deadline: int, *, detached: bool) -> ValueDelta:
        pairs = [pair for pair in zip(delta.entries, delta.values, strict=True) if pair[1][1] > deadline]
        return ValueDelta([entry for entry, _ in pairs], [stamped for _, stamped in pairs], delta.deleted)

    def remove_expired(self, table: ValueTable, entry: Any, held: Any, deadline: int) -> None:
        if held[1] <= deadline:
            table.discard(entry)

    def move(
        self, source: ValueTable, target: ValueTable, entry: Any, held: Any, convert: Callable[[Any], tuple[Any, ...]]
    ) -> None:
        source.discard(entry)
        for converted in convert(held):
            target.entries[entry] = converted
            target.changed[entry] = None

    def content(self, held: Any, is_visible: Callable[[Any], bool] | None = None) -> Any:
        return held[0] if held is not None and (is_visible is None or is_visible(held)) else None

    def stamped(self, content: Any, before: Any) -> Any:
        return content, before[1]

    # --- rows for users ----------------------------------------------------------------------------------------------

    def remove(self, table: ValueTable, entry: Any) -> None:
        table.discard(entry)

    def fill(self, table: ValueTable, key: Any, map_key: Any, value: Any) -> None:
        table.entries[key] = value


VALUES = ValueKind()
