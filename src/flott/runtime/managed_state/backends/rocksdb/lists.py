"""List state over the database: rows of several elements, appended to without being read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from flott.errors import CorruptStateError
from flott.runtime.managed_state.backends.rocksdb.paging import CONTAINER_BYTES, SAMPLE, object_bytes
from flott.runtime.managed_state.backends.rocksdb.places import OpenedEntries, Places
from flott.runtime.managed_state.backends.rocksdb.rows import loads
from flott.runtime.managed_state.backends.rocksdb.store import COMMITTED, PENDING, RowStore
from flott.runtime.managed_state.kinds.tables import Delta, ListTable

#: So many elements of a list stand in one row.
_CHUNK = 128


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
        """All elements as they are now, fetched as they are asked for."""
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
        """Whether this epoch did anything to it."""
        return self.hidden or bool(self.tail) or self.length > self.start


class PagedListTable(ListTable):
    """A list per entry, in rows of several elements: appended to without being read, iterated without being loaded."""

    __slots__ = ("_places", "_store", "_touched")

    def __init__(self, name: str, namespaced: bool, store: RowStore, max_parallelism: int):
        super().__init__(namespaced)
        self._store = store
        self._places = Places(name, namespaced, store, max_parallelism)
        self._touched = 0  #: elements put into lists since they were last let go
        self.entries: OpenedEntries = OpenedEntries(self._open, self._places.entries)

    def _open(self, entry: Any) -> PagedList:
        return PagedList(self._store, self._places.of(entry))

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """The next so many committed entries and their lists, and where to go on."""
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

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry, held in self.entries.in_use():
            if held.changed:
                delta = deltas.setdefault(group_of(entry), [[], [], []])
                _note(delta, entry, held.hidden, held.start, held.tail)
        self.empty()
        return deltas

    def drain_group(self, group: int) -> Delta | None:
        delta: Delta = [[], [], []]
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

    def apply(self, delta: Delta) -> None:
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


def _note(delta: Delta, entry: Any, replaced: bool, start: int, items: list[Any]) -> None:
    """Add the change of one list to a delta. A list that is new is saved whole, not as appended to nothing."""
    if not replaced and start > 0:
        delta[1].append((entry, start, items))
    elif items:
        delta[0].append((entry, items))
    else:
        delta[2].append(entry)


def _put_chunks(store: RowStore, place: bytes, position: int, items: list[Any]) -> None:
    for begin in range(0, len(items), _CHUNK):
        row = place + b"i" + (position + begin).to_bytes(8, "big")
        store.put(row, pickle.dumps(items[begin : begin + _CHUNK], 5))
