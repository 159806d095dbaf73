"""A dict per entry: map state. A put saves only that item of the map."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

from flott.common._ids import KeyGroup
from flott.errors import StateError
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.files.column_bodies import BOOLEANS, Cursor, Parts
from flott.runtime.managed_state.files.column_records import read_lists, write_lists
from flott.runtime.managed_state.files.section_columns import (
    SectionTypes,
    column,
    read_entries,
    read_items,
    write_entries,
    write_items,
)
from flott.runtime.managed_state.kinds.table_kind import (
    Conversion,
    DeclaredTypes,
    EntryKind,
    GroupOf,
    Paged,
    PagedTable,
    ReturnedShape,
    Wanted,
)
from flott.runtime.managed_state.paging.entries import OpenedEntries, Places
from flott.runtime.managed_state.paging.items import CONTAINER_BYTES, PagedItems, Weighing
from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, TablePlace
from flott.runtime.managed_state.paging.rows import loads
from flott.runtime.managed_state.schema.conforming import all_conform, conform_values

_Items = list[tuple[Any, Any]]
#: An entry, whether its map is cleared first, removed map keys, updated items, and items at the end of the map.
MapChange = tuple[Any, bool, list[Any], _Items, _Items]
MapDelta = list[MapChange]


class MapTable:
    """A dict per entry. Delta: :data:`MapDelta`.

    Updated items keep their place in the dict. The others are removed, if they are there, and put at the end in the
    order given; so a rebuilt dict has its keys in the order of the live one, however often a delta is applied.
    """

    kind: ClassVar[str] = "map"
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

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, MapDelta]:
        deltas: dict[KeyGroup, MapDelta] = {}
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

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, MapDelta]:
        deltas: dict[KeyGroup, MapDelta] = {}
        for entry, held in self.entries.items():
            deltas.setdefault(group_of(entry), []).append((entry, True, [], [], list(held.items())))
        return deltas

    def apply(self, delta: MapDelta) -> None:
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
    def merge(deltas: Iterable[MapDelta]) -> MapDelta:
        merged: dict[Any, _MergedChange] = {}
        for delta in deltas:
            for entry, cleared, removed, updated, last in delta:
                if cleared or entry not in merged:
                    merged[entry] = _MergedChange(cleared)
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


class _MergedChange:
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
    """Return the keys at the end of a map that were put in this epoch, in order: new ones, and any just before them."""
    last = []
    for map_key in reversed(held):
        if map_key not in marks:
            break
        last.append(map_key)
    return dict.fromkeys(reversed(last))


class PagedMap(PagedItems):
    """The map of one entry: its items are fetched one by one, or scanned. ``hidden``: it was cleared by this epoch."""

    __slots__ = ()

    def row(self, item: Any) -> bytes:
        return self._prefix + encode_key(item)


class PagedMapTable(Paged, MapTable):
    """A map per entry, each item in a row of its own. Maps are iterated in the order of their encoded keys."""

    __slots__ = ("_places", "_store", "_weighing")

    def __init__(self, place: TablePlace):
        super().__init__(place.namespaced)
        self._store = place.store
        self._places = Places(place)
        self._weighing = Weighing()
        self.entries: OpenedEntries = OpenedEntries(self._open, self._places.entries)

    def _open(self, entry: Any) -> PagedMap:
        place = self._places.of(entry)
        opened = PagedMap(self._store, place + b"i", {})
        if self._store.put_aside and (aside := self._store.get(PENDING + place)) is not None:
            opened.hidden = loads(aside)[1]
        return opened

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """Return the next so many committed entries and their maps, and where to go on."""
        return self._places.walk(self.entries, cursor, count)

    def put_item(self, entry: Any, map_key: Any, value: Any) -> None:
        held = self.entries[entry]
        held[map_key] = value
        held.changed[map_key] = None

    def remove_item(self, entry: Any, map_key: Any) -> None:
        held = self.entries[entry]
        if map_key in held:
            dict.__delitem__(held, map_key)
            held.changed[map_key] = None

    def clear_entry(self, entry: Any) -> None:
        held = self.entries[entry]
        if held.has_any():
            held.clear()
            if self._store.put_aside:
                self._places.clear(PENDING, entry)
                self._store.flush()

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, MapDelta]:
        deltas: dict[KeyGroup, MapDelta] = {}
        for entry, held in self.entries.in_use():
            if held.changed or held.hidden:
                here = dict.__contains__
                removed = [item for item in held.changed if not here(held, item)]
                put = [(item, held[item]) for item in held.changed if here(held, item)]
                change = (entry, held.hidden, removed, [], put) if put or held.has_any() else _gone(entry)
                deltas.setdefault(group_of(entry), []).append(change)
        self.empty()
        return deltas

    def drain_group(self, group: KeyGroup) -> MapDelta | None:
        delta: MapDelta = []
        for is_own, stored in self._places.pending(group):
            match stored:
                case entry, hidden if is_own:
                    delta.append((entry, hidden, [], [], []))
                case map_key, value:
                    delta[-1][4].append((map_key, value))
                case (map_key,):
                    delta[-1][2].append(map_key)
        # All rows of the epoch are put aside by now: a map that is opened is as the epoch leaves it.
        delta = [change if change[4] or self._open(change[0]).has_any() else _gone(change[0]) for change in delta]
        return delta or None

    def put_aside(self) -> None:
        for entry, held in self.entries.in_use():
            if held.changed or held.hidden:
                self._store.put(PENDING + self._places.of(entry), pickle.dumps((entry, held.hidden), 5))
                held.put_aside()
        self.empty()

    def apply(self, delta: MapDelta) -> None:
        store = self._store
        for entry, cleared, removed, updated, last in delta:
            place = COMMITTED + self._places.of(entry)
            if cleared:
                self._places.clear(COMMITTED, entry)
            for map_key in removed:
                store.delete(place + b"i" + encode_key(map_key))
            if updated or last:
                store.put(place, pickle.dumps((entry,), 5))
            for map_key, value in (*updated, *last):
                store.put(place + b"i" + encode_key(map_key), pickle.dumps((map_key, value), 5))

    def empty(self) -> None:
        self.entries.clear()

    def has_changes(self) -> bool:
        return any(held.changed or held.hidden for _, held in self.entries.in_use())

    def size(self) -> int:
        return sum(1 for _ in self.entries)

    def weight(self) -> int:
        return sum(CONTAINER_BYTES + self._weighing.of(held) for _, held in self.entries.in_use())


def _gone(entry: Any) -> MapChange:
    """Return the change of a map that has no item left: its entry must not stay behind."""
    return entry, True, [], [], []


class MapKind(EntryKind[MapTable, MapDelta]):
    """The kind of map state."""

    name = MapTable.kind
    spread = "map_key"
    ages = True
    has_map_keys = True
    new_columns = ("key", "map_key", "value")

    def make(self, namespaced: bool) -> MapTable:
        return MapTable(namespaced)

    def make_paged(self, place: TablePlace) -> PagedTable:
        return PagedMapTable(place)

    def from_plain(self, plain: Any) -> MapDelta:
        return plain  # type: ignore[no-any-return]

    def write(self, types: SectionTypes, delta: MapDelta, parts: Parts) -> None:
        write_entries(types, column(0, delta), parts)
        BOOLEANS.write(column(1, delta), parts)
        write_lists(types.map_key, column(2, delta), parts)
        write_items(types, column(3, delta), parts)
        write_items(types, column(4, delta), parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> MapDelta:
        entries = read_entries(types, cursor)
        count = len(entries)
        cleared = BOOLEANS.read(cursor, count)
        removed = read_lists(types.map_key, cursor, count)
        updated = read_items(types, cursor, count)
        return list(zip(entries, cleared, removed, updated, read_items(types, cursor, count), strict=True))

    def contents(self, delta: MapDelta) -> list[Any]:
        items = chain.from_iterable((*updated, *last) for _, _, _, updated, last in delta)
        return [value for _, value in items]

    def part(self, delta: MapDelta, wanted: Wanted) -> tuple[MapDelta, bool]:
        part = [change for change in delta if wanted(change[0])]
        return part, any(cleared for _, cleared, *_ in part)

    # --- schema ------------------------------------------------------------------------------------------------------

    def conform(self, table: MapTable, delta: MapDelta, types: DeclaredTypes) -> MapDelta:
        value, map_key = types.value, types.map_key
        parts = [items for _, _, _, updated, last in delta for items in (updated, last)]
        values_fit = value is None or all_conform(
            value, [[held for _, held in items] for items in parts], types.stamped
        )
        keys_fit = map_key is None or all_conform(map_key, [[key for key, _ in items] for items in parts], False)
        if values_fit and keys_fit:
            return delta
        conformed: MapDelta = []
        for entry, cleared, removed, updated, last in delta:
            fitting = [_conform_items(entry, items, types) for items in (updated, last)]
            conformed.append((entry, cleared, removed, fitting[0], fitting[1]))
            if type(table) is MapTable:
                renamed = dict(zip((key for key, _ in (*updated, *last)), chain(*fitting), strict=True))
                held = table.entries[entry]
                items = [renamed.get(key, (key, held_value)) for key, held_value in held.items()]
                held.clear()
                held.update(items)
        return conformed

    def convert(self, table: MapTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        for entry, held in entries:
            map_keys = conversion.map_keys(list(held), [entry])
            values = conversion.values(list(held.values()), [entry])
            items = dict(zip(map_keys, values, strict=True))
            if conversion.marks:
                table.clear_entry(entry)
                for map_key, value in items.items():
                    table.put_item(entry, map_key, value)
            else:
                table.entries[entry] = items

    # --- time to live ------------------------------------------------------------------------------------------------

    def drop_expired(self, delta: MapDelta, deadline: int, *, detached: bool) -> MapDelta:
        maps = [
            (entry, cleared, removed, _living(updated, deadline), _living(last, deadline))
            for entry, cleared, removed, updated, last in delta
        ]
        return [change for change in maps if change[3] or change[4]]

    def remove_expired(self, table: MapTable, entry: Any, held: Any, deadline: int) -> None:
        stamps = {map_key: stamp for map_key, (_, stamp) in held.items()}
        if all(stamp <= deadline for stamp in stamps.values()):
            table.clear_entry(entry)
            return
        for map_key, stamp in stamps.items():
            if stamp <= deadline:
                table.remove_item(entry, map_key)

    def move(
        self, source: MapTable, target: MapTable, entry: Any, held: Any, convert: Callable[[Any], tuple[Any, ...]]
    ) -> None:
        pairs = list(held.items())
        source.clear_entry(entry)
        for map_key, value in pairs:
            for converted in convert(value):
                target.put_item(entry, map_key, converted)

    def content(self, held: Any, is_visible: Callable[[Any], bool] | None = None) -> Any:
        items = () if held is None else held.items()
        return {key: item[0] for key, item in items if is_visible is None or is_visible(item)}

    def stamped(self, content: Any, before: Any) -> Any:
        stamps = {name: stamp for name, (_, stamp) in before.items()}
        latest = max(stamps.values())
        return {name: (item, stamps.get(name, latest)) for name, item in content.items()}

    # --- rows for users ----------------------------------------------------------------------------------------------

    def remove(self, table: MapTable, entry: Any) -> None:
        table.clear_entry(entry)

    def taken(self, held: Any) -> Any:
        return dict(held.items())

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        return held.items()  # type: ignore[no-any-return]

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        if not isinstance(changed, Mapping):
            raise shape.refusal(changed, "a dict")
        return {shape.map_key(name): shape.fitting(item) for name, item in changed.items()} or None

    def spread_new(self, key: Any, held: Any) -> Iterable[tuple[Any, Any]]:
        if not isinstance(held, Mapping):
            raise StateError(f"A dict of map states has a dict for every key, found {held!r} for {key!r}.")
        return held.items()

    def fill(self, table: MapTable, key: Any, map_key: Any, value: Any) -> None:
        table.entries.setdefault(key, {})[map_key] = value


def _conform_items(entry: Any, items: _Items, types: DeclaredTypes) -> _Items:
    blamed = [entry] * len(items)
    keys, values = [key for key, _ in items], [held for _, held in items]
    if types.map_key is not None:
        keys = conform_values(types.map_key, keys, blamed, False)
    if types.value is not None:
        values = conform_values(types.value, values, blamed, types.stamped)
    return list(zip(keys, values, strict=True))


def _living(items: _Items, deadline: int) -> _Items:
    return [item for item in items if item[1][1] > deadline]


MAPS = MapKind()
