"""Panes over the database: pane -> key -> value. Values are fetched key by key, and scanned when their pane ends."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from flott.runtime.managed_state.backends.rocksdb.paging import KeyedItems
from flott.runtime.managed_state.backends.rocksdb.rows import entry_bytes, lengthy, loads, table_bytes
from flott.runtime.managed_state.backends.rocksdb.store import COMMITTED, PENDING, RowStore
from flott.runtime.managed_state.backends.rocksdb.weighing import Weighing
from flott.runtime.managed_state.encoding import encode_key
from flott.runtime.managed_state.kinds.panes import Marks, Pane, PaneEntry, PaneTable, keys_by_group
from flott.runtime.managed_state.kinds.tables import Delta

#: So many values of a pane that ends are in memory at once.
_PART = 8192


class PagedPane(KeyedItems):
    """The values of one pane by key."""

    __slots__ = ()

    def is_deleted(self, item: Any) -> bool:
        return False  # keys go with their pane, never alone; and they are marked before they are looked at


class PagedPaneTable(PaneTable):
    """One value per pane and key. A pane has a row of its own, so that the open ones are known at once."""

    __slots__ = ("_dropped", "_entry_bytes", "_prefix", "_store", "_weighing")

    def __init__(self, name: str, store: RowStore, max_parallelism: int):
        super().__init__()
        self._store = store
        self._prefix = table_bytes(name)
        self._entry_bytes = entry_bytes(False, max_parallelism)
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

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for pane in self._dropped:
            committed = (loads(found)[0] for _, found in self._store.scan(COMMITTED + self._items(pane)))
            for group, keys in keys_by_group(committed, group_of).items():
                deltas.setdefault(group, [[], []])[1].append((pane, keys))
        for pane in self.panes:
            self._put(pane, self.open(pane)[1], group_of, deltas)
        self.empty()
        return deltas

    def drain_group(self, group: int) -> Delta | None:
        """Of a key group: the keys of panes that are gone, and what was put aside of those that are open."""
        within = group.to_bytes(2, "big")
        delta: Delta = [[], []]
        for pane in self._dropped:
            if keys := [loads(found)[0] for _, found in self._store.scan(COMMITTED + self._items(pane) + within)]:
                delta[1].append((pane, keys))
        for _, named in self._store.scan(PENDING + self._prefix + b"n"):
            pane = loads(named)
            pairs = [loads(found) for _, found in self._store.scan(PENDING + self._items(pane) + within)]
            if pairs:
                delta[0].append((pane, [key for key, _ in pairs], [value for _, value in pairs]))
        return delta if any(delta) else None

    def apply(self, delta: Delta) -> None:
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
