"""Value, reducing and aggregating state over the database: one row per entry."""

from __future__ import annotations

import pickle
from itertools import islice
from typing import Any

from flott.runtime.managed_state.backends.rocksdb.paging import KeyedItems
from flott.runtime.managed_state.backends.rocksdb.rows import entry_bytes, loads, table_bytes
from flott.runtime.managed_state.backends.rocksdb.store import COMMITTED, PENDING, RowStore
from flott.runtime.managed_state.backends.rocksdb.weighing import Weighing
from flott.runtime.managed_state.kinds.tables import Delta, ValueTable

_GONE = object()


class PagedValueTable(ValueTable):
    """One value per entry."""

    __slots__ = ("_prefix", "_store", "_weighing")

    entries: KeyedItems

    def __init__(self, name: str, namespaced: bool, store: RowStore, max_parallelism: int):
        super().__init__(namespaced)
        self._store = store
        self._prefix = table_bytes(name)
        self._weighing = Weighing()
        self.entries = KeyedItems(store, self._prefix, self.changed, entry_bytes(namespaced, max_parallelism))

    def apply(self, delta: Delta) -> None:
        put, values, deleted = delta
        store, row = self._store, self.entries.row
        for entry, value in zip(put, values, strict=True):
            store.put(COMMITTED + row(entry), pickle.dumps((entry, value), 5))
        for entry in deleted:
            store.delete(COMMITTED + row(entry))

    def put_aside(self) -> None:
        self.entries.put_aside()
        self.empty()

    def drain_group(self, group: int) -> Delta | None:
        delta: Delta = [[], [], []]
        for _, found in self._store.scan(PENDING + self._prefix + group.to_bytes(2, "big")):
            match loads(found):
                case entry, value:
                    delta[0].append(entry)
                    delta[1].append(value)
                case (entry,):
                    delta[2].append(entry)
        return delta if delta[0] or delta[2] else None

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """The next so many committed entries and their values, as they are now, and where to go on."""
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
