"""State tables over the database: the same interface, the same deltas as the tables in memory.

A table also knows how to put its changes aside when memory is short (``put_aside``), to give them out key group by key
group (``drain_group``), and to apply the deltas of state files to the committed rows (``apply``).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Protocol

from flott.errors import CorruptStateError
from flott.runtime.state.encoding import encode_key
from flott.runtime.state.rocksdb.paging import PagedItems
from flott.runtime.state.rocksdb.rows import EntryBytes, entry_bytes, lengthy, loads, table_bytes
from flott.runtime.state.rocksdb.store import COMMITTED, PENDING, RowStore
from flott.runtime.state.rocksdb.weighing import Weighing
from flott.runtime.state.tables import Delta, ListTable, MapTable, Table, ValueTable


class PagedTable(Table, Protocol):
    """What the backend needs of a table besides."""

    def put_aside(self) -> None:
        """Write the changes of the running epoch to rows of their own and keep nothing in memory."""

    def drain_group(self, group: int) -> Delta | None:
        """The changes of a key group, all of which were put aside."""

    def weight(self) -> int:
        """About how many bytes of memory it takes."""


_GONE = object()

# --- values ----------------------------------------------------------------------------------------------------------


class _Values(PagedItems):
    __slots__ = ("_entry_bytes",)

    def __init__(self, store: RowStore, prefix: bytes, changed: dict[Any, Any], name: EntryBytes):
        super().__init__(store, prefix, changed)
        self._entry_bytes = name

    def row(self, item: Any) -> bytes:
        return self._prefix + self._entry_bytes(item)


class PagedValueTable(ValueTable):
    """One value per entry."""

    __slots__ = ("_prefix", "_store", "_weighing")

    entries: _Values

    def __init__(self, name: str, namespaced: bool, store: RowStore, max_parallelism: int):
        super().__init__(namespaced)
        self._store = store
        self._prefix = table_bytes(name)
        self._weighing = Weighing()
        self.entries = _Values(store, self._prefix, self.changed, entry_bytes(namespaced, max_parallelism))

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


# --- maps and lists: an entry has a row of its own, followed by those of its items -----------------------------------


class _Places:
    """Names the rows of entries that have several: the entry's own, then ``i`` and what tells its items apart."""

    __slots__ = ("_entry_bytes", "prefix")

    def __init__(self, name: str, namespaced: bool, max_parallelism: int):
        self.prefix = table_bytes(name)
        self._entry_bytes = entry_bytes(namespaced, max_parallelism)

    def of(self, entry: Any) -> bytes:
        """The name of an entry's row, without the first byte."""
        encoded = self._entry_bytes(entry)
        return self.prefix + encoded[:2] + lengthy(encoded[2:])

    def entries(self, store: RowStore, kind: bytes) -> Iterator[Any]:
        """The entries that have a row of one kind, committed or pending."""
        return (loads(found)[0] for _, found in self._rows(store, kind))

    def walk(
        self, store: RowStore, opened: _Opened, cursor: bytes | None, count: int
    ) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """The next so many committed entries and what they hold now, and where to go on."""
        rows = list(islice(self._rows(store, COMMITTED, cursor or b""), count + 1))
        entries = [loads(found)[0] for _, found in rows[:count]]
        held = [(entry, opened[entry]) for entry in entries if entry in opened]
        return held, rows[count][0] if len(rows) > count else None

    def _rows(self, store: RowStore, kind: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        for row, found in store.scan(kind + self.prefix, start):
            if len(row) == 11 + int.from_bytes(row[7:11], "big"):
                yield row, found


class _Opened(dict[Any, Any]):
    """Maps or lists in use, by entry, opened when they are asked for. Each entry has one; it may be empty."""

    __slots__ = ("_open", "_stored")

    def __init__(self, open_entry: Callable[[Any], Any], stored: Callable[[], Iterable[Any]]):
        super().__init__()
        self._open = open_entry
        self._stored = stored

    def __missing__(self, entry: Any) -> Any:
        opened = self[entry] = self._open(entry)
        return opened

    def get(self, entry: Any, default: Any = None) -> Any:
        return self[entry] if entry in self else default  # noqa: SIM401 - it is get() that is written here

    def __contains__(self, entry: object) -> bool:
        return self[entry].has_any()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return (entry for entry in dict.fromkeys([*self._stored(), *dict.keys(self)]) if entry in self)

    def items(self) -> Iterator[tuple[Any, Any]]:  # type: ignore[override]
        return ((entry, self[entry]) for entry in self)

    def in_use(self) -> Iterable[tuple[Any, Any]]:
        """Those that were opened."""
        return dict.items(self)


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
        self._places = _Places(name, namespaced, max_parallelism)
        self._weighing = Weighing()
        self.entries: _Opened = _Opened(self._open, self._stored)

    def _open(self, entry: Any) -> PagedMap:
        place = self._places.of(entry)
        opened = PagedMap(self._store, place + b"i", {})
        if self._store.put_aside and (aside := self._store.get(PENDING + place)) is not None:
            opened.hidden = loads(aside)[1]
        return opened

    def _stored(self) -> Iterator[Any]:
        yield from self._places.entries(self._store, COMMITTED)
        if self._store.put_aside:
            yield from self._places.entries(self._store, PENDING)

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """The next so many committed entries and their maps, and where to go on."""
        return self._places.walk(self._store, self.entries, cursor, count)

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
            self.cleared[entry] = None
            if self._store.put_aside:
                self._store.delete_all(PENDING + self._places.of(entry))
                self._store.flush()

    def drain(self, group_of: Callable[[Any], int]) -> dict[int, Delta]:
        deltas: dict[int, Delta] = {}
        for entry, held in self.entries.in_use():
            if held.changed or held.hidden:
                here = dict.__contains__
                removed = [item for item in held.changed if not here(held, item)]
                put = [(item, held[item]) for item in held.changed if here(held, item)]
                deltas.setdefault(group_of(entry), []).append((entry, held.hidden, removed, [], put))
        self.empty()
        return deltas

    def drain_group(self, group: int) -> Delta | None:
        delta: Delta = []
        for row, found in self._store.scan(PENDING + self._places.prefix + group.to_bytes(2, "big")):
            if len(row) == 11 + int.from_bytes(row[7:11], "big"):
                entry, hidden = loads(found)
                delta.append((entry, hidden, [], [], []))
            else:
                match loads(found):
                    case map_key, value:
                        delta[-1][4].append((map_key, value))
                    case (map_key,):
                        delta[-1][2].append(map_key)
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
                for row, _ in store.scan(place):
                    store.delete(row)
            for map_key in removed:
                store.delete(place + b"i" + encode_key(map_key))
            if updated or last:
                store.put(place, pickle.dumps((entry,), 5))
            for map_key, value in (*updated, *last):
                store.put(place + b"i" + encode_key(map_key), pickle.dumps((map_key, value), 5))

    def empty(self) -> None:
        self.entries.clear()
        self.cleared.clear()

    def has_changes(self) -> bool:
        return any(held.changed or held.hidden for _, held in self.entries.in_use())

    def size(self) -> int:
        return sum(1 for _ in self.entries)

    def weight(self) -> int:
        return sum(1024 + self._weighing.of(held) for _, held in self.entries.in_use())


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
        self._places = _Places(name, namespaced, max_parallelism)
        self._touched = 0  #: elements put into lists since they were last let go
        self.entries: _Opened = _Opened(self._open, self._stored)

    def _open(self, entry: Any) -> PagedList:
        return PagedList(self._store, self._places.of(entry))

    def _stored(self) -> Iterator[Any]:
        yield from self._places.entries(self._store, COMMITTED)
        if self._store.put_aside:
            yield from self._places.entries(self._store, PENDING)

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """The next so many committed entries and their lists, and where to go on."""
        return self._places.walk(self._store, self.entries, cursor, count)

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
            self._store.delete_all(PENDING + self._places.of(entry))
            self._store.flush()

    def unite(self, into: Any, others: Iterable[Any]) -> None:
        for other in others:
            if other in self.entries:
                moved = list(self.entries[other])
                self.replace(other, None)
                self.append(into, moved)

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
        for row, found in self._store.scan(PENDING + self._places.prefix + group.to_bytes(2, "big")):
            if len(row) == 11 + int.from_bytes(row[7:11], "big"):
                entry, hidden, start, length = loads(found)
                items: list[Any] = []
                if length == start:
                    _note(delta, entry, hidden, start, items)
            else:
                items += loads(found)
                if len(items) == length - start:
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
            for row, _ in store.scan(COMMITTED + self._places.of(entry)):
                store.delete(row)
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
        longest = [held.tail[-1] for _, held in islice(in_use, 8) if held.tail]
        size = 300 + 3 * max((len(pickle.dumps(element, 5)) for element in longest), default=0)
        return len(self.entries) * 1024 + self._touched * size


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
