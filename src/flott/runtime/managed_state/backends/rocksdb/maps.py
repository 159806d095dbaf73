"""Map state over the database: one row per item, so that an item is read without the map it is in."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from flott.runtime.managed_state.backends.rocksdb.paging import CONTAINER_BYTES, PagedItems
from flott.runtime.managed_state.backends.rocksdb.places import OpenedEntries, Places
from flott.runtime.managed_state.backends.rocksdb.rows import loads
from flott.runtime.managed_state.backends.rocksdb.store import COMMITTED, PENDING, RowStore
from flott.runtime.managed_state.backends.rocksdb.weighing import Weighing
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.kinds.tables import Delta, MapTable


class PagedMap(PagedItems):
    """The map of one entry: its items are fetched one by one, or scanned. ``hidden``: it was cleared by this epoch."""

    __slots__ = ()

    def row(self, item: Any) -> bytes:
        return self._prefix + encode_key(item)


class PagedMapTable(MapTable):
    """A map per entry, each item in a row of its own. Maps are iterated in the order of their encoded keys."""

    __slots__ = ("_places", "_store", "_weighing")

    def __init__(self, name: str, namespaced: bool, store: RowStore, max_parallelism: int):
        super().__init__(namespaced)
        self._store = store
        self._places = Places(name, namespaced, store, max_parallelism)
        self._weighing = Weighing()
        self.entries: OpenedEntries = OpenedEntries(self._open, self._places.entries)

    def _open(self, entry: Any) -> PagedMap:
        place = self._places.of(entry)
        opened = PagedMap(self._store, place + b"i", {})
        if self._store.put_aside and (aside := self._store.get(PENDING + place)) is not None:
            opened.hidden = loads(aside)[1]
        return opened

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """The next so many committed entries and their maps, and where to go on."""
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

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry, held in self.entries.in_use():
            if held.changed or held.hidden:
                here = dict.__contains__
                removed = [item for item in held.changed if not here(held, item)]
                put = [(item, held[item]) for item in held.changed if here(held, item)]
                change = (entry, held.hidden, removed, [], put) if put or held.has_any() else _gone(entry)
                deltas.setdefault(group_of(entry), []).append(change)
        self.empty()
        return deltas

    def drain_group(self, group: int) -> Delta | None:
        delta: Delta = []
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

    def apply(self, delta: Delta) -> None:
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


def _gone(entry: Any) -> tuple[Any, ...]:
    """The change of a map that has no item left: its entry must not stay behind."""
    return entry, True, [], [], []
