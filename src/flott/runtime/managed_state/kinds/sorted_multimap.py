"""Rows of an entry in the order of a sort key, with range scan and range delete: for joins in time, ranks and patterns.

A sort key is a whole number of 64 bits, a float, a text, bytes, or a tuple of these. Rows with equal sort keys stand in
the order in which they were added. An epoch saves the rows that it added and the ranges that it removed, however many
rows an entry has.

A row is found under its *place*: the bytes of its sort key, which sort as sort keys do, and the row's number. Both
backends order rows by their places, so they give the same order.
"""

from __future__ import annotations

import pickle
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from heapq import merge as merged
from itertools import chain, groupby
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.errors import StateError
from flott.runtime.managed_state.files.column_bodies import INTS, BytesCodec, Cursor, Parts
from flott.runtime.managed_state.files.column_records import read_lists, write_lists
from flott.runtime.managed_state.files.section_columns import SectionTypes, column, read_entries, write_entries
from flott.runtime.managed_state.kinds.table_kind import (
    Conversion,
    DeclaredTypes,
    Entry,
    EntryKind,
    GroupOf,
    Paged,
    PagedTable,
    ReturnedShape,
    Wanted,
)
from flott.runtime.managed_state.paging.entries import OpenedEntries, Places
from flott.runtime.managed_state.paging.items import CONTAINER_BYTES, SAMPLE, object_bytes
from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, RowStore, TablePlace
from flott.runtime.managed_state.paging.rows import loads
from flott.runtime.managed_state.schema.conforming import all_conform, conform_values

#: Before the place of every row, and after it.
LOWEST, HIGHEST = b"", b"\xff"
#: A range of places, from and up to, whose rows were removed.
Cut = tuple[bytes, bytes]
#: The cut of all rows of an entry.
ALL: Cut = (LOWEST, HIGHEST)
#: Place, sort key and value of a row.
SortedRow = tuple[bytes, Any, Any]

_HALF = 1 << 63
_BYTES = BytesCodec()


class SortedDelta(NamedTuple):
    """Ranges of places that are removed first, and rows that are added then, by entry.

    A row that is added twice is there once, because its number tells it apart. A delta names every row that it adds
    and that is there at its end, so applying it over a part of itself gives the same.
    """

    cuts: list[tuple[Any, list[Cut]]]
    added: list[tuple[Any, list[Any], list[int], list[Any]]]  #: entry, sort keys, numbers, values


def order_bytes(sort_key: Any) -> bytes:
    """Return bytes that sort as sort keys do. No sort key's bytes begin with another's."""
    match sort_key:
        case bool():
            pass
        case int() if -_HALF <= sort_key < _HALF:
            return b"i" + (sort_key + _HALF).to_bytes(8, "big")
        case float() if sort_key == sort_key:
            bits = int.from_bytes(struct.pack(">d", sort_key + 0.0), "big")
            return b"f" + (bits ^ (_HALF if bits < _HALF else (1 << 64) - 1)).to_bytes(8, "big")
        case str():
            return b"s" + sort_key.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\xff") + b"\0"
        case bytes():
            return b"b" + bytes(sort_key).replace(b"\0", b"\0\xff") + b"\0"
        case tuple():
            return b"t" + b"".join(map(order_bytes, sort_key)) + b"\0"
    raise StateError(
        f"{sort_key!r} cannot be a sort key. A sort key is a whole number of 64 bits, a float that is a number, a text,"
        " bytes, or a tuple of these."
    )


def _place(sort_key: Any, number: int) -> bytes:
    return order_bytes(sort_key) + number.to_bytes(8, "big")


def _number(place: bytes) -> int:
    return int.from_bytes(place[-8:], "big")


def _bounds(start: Any, stop: Any) -> Cut:
    return LOWEST if start is None else order_bytes(start), HIGHEST if stop is None else order_bytes(stop)


def _with_cut(cuts: list[Cut], cut: Cut) -> None:
    """Add a cut to others; ranges that meet become one."""
    low, high = cut
    apart = [(other_low, other_high) for other_low, other_high in cuts if other_high < low or other_low > high]
    for other_low, other_high in cuts:
        if not (other_high < low or other_low > high):
            low, high = min(low, other_low), max(high, other_high)
    cuts[:] = sorted([*apart, (low, high)])


class SortedRows:
    """The rows of one entry, in memory."""

    __slots__ = ("next", "places", "rows")

    def __init__(self) -> None:
        self.places: list[bytes] = []
        self.rows: dict[bytes, tuple[Any, Any]] = {}  #: place -> sort key, value
        self.next = 0  #: the number of the next row

    def put(self, place: bytes, sort_key: Any, value: Any) -> None:
        """Put a row at its place."""
        if place not in self.rows:
            if not self.places or place > self.places[-1]:
                self.places.append(place)
            else:
                self.places.insert(bisect_left(self.places, place), place)
        self.rows[place] = (sort_key, value)
        self.next = max(self.next, _number(place) + 1)

    def cut(self, cut: Cut) -> list[bytes]:
        """Remove the rows of a range; return their places."""
        first, last = bisect_left(self.places, cut[0]), bisect_left(self.places, cut[1])
        removed = self.places[first:last]
        del self.places[first:last]
        for place in removed:
            del self.rows[place]
        return removed

    def scan(self, cut: Cut = ALL) -> Iterator[SortedRow]:
        """Return the rows of a range, as they are now."""
        first, last = bisect_left(self.places, cut[0]), bisect_left(self.places, cut[1])
        return iter([(place, *self.rows[place]) for place in self.places[first:last]])

    def has_any(self) -> bool:
        """Return whether there is any row."""
        return bool(self.places)


class SortedMultimapTable:
    """Sorted rows per entry. Delta: :class:`SortedDelta`."""

    kind: ClassVar[str] = "sorted-multimap"
    __slots__ = ("added", "cuts", "entries", "namespaced")

    def __init__(self, namespaced: bool = False):
        self.namespaced = namespaced
        self.entries: dict[Any, Any] = {}
        self.added: dict[Any, dict[bytes, None]] = {}  #: places of rows that are not saved yet
        self.cuts: dict[Any, list[Cut]] = {}  #: ranges that held saved rows

    def add(self, entry: Any, sort_key: Any, value: Any) -> None:
        """Add a row to an entry."""
        rows = self.entries.get(entry)
        if rows is None:
            rows = self.entries[entry] = SortedRows()
        self._put(entry, rows, _place(sort_key, rows.next), sort_key, value)

    def _put(self, entry: Any, rows: SortedRows, place: bytes, sort_key: Any, value: Any) -> None:
        rows.put(place, sort_key, value)
        self.added.setdefault(entry, {})[place] = None

    def scan(self, entry: Any, start: Any = None, stop: Any = None) -> Iterator[tuple[Any, Any]]:
        """Return sort keys and values of the rows from ``start`` up to, not including, ``stop``, in order.

        None is no bound. The rows are those of now: the table may change while they are gone through.
        """
        rows = self.entries.get(entry)
        return (
            iter(()) if rows is None else ((sort_key, value) for _, sort_key, value in rows.scan(_bounds(start, stop)))
        )

    def remove_range(self, entry: Any, start: Any = None, stop: Any = None) -> None:
        """Remove the rows from ``start`` up to, not including, ``stop``. None is no bound."""
        self.cut(entry, _bounds(start, stop))

    def cut(self, entry: Any, cut: Cut) -> None:
        """Remove the rows of an entry whose places are in a range."""
        rows = self.entries.get(entry)
        if rows is None:
            return
        added = self.added.get(entry, {})
        removed = rows.cut(cut)
        saved = [place for place in removed if place not in added]
        for place in removed:
            added.pop(place, None)
        if saved:
            _with_cut(self.cuts.setdefault(entry, []), cut)
        if not rows.has_any():
            del self.entries[entry]

    def replace(self, entry: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Replace all rows of an entry by pairs of sort key and value."""
        kept = list(pairs)
        self.cut(entry, ALL)
        for sort_key, value in kept:
            self.add(entry, sort_key, value)

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, SortedDelta]:
        deltas: dict[KeyGroup, SortedDelta] = {}
        for entry in {**self.cuts, **self.added}:
            rows, cuts = self.entries.get(entry), self.cuts.get(entry, [])
            added = [(place, *rows.rows[place]) for place in self.added.get(entry, ())] if rows is not None else []
            if added or cuts:
                _note(deltas.setdefault(group_of(entry), SortedDelta([], [])), entry, cuts, added, rows is not None)
        self.cuts.clear()
        self.added.clear()
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, SortedDelta]:
        deltas: dict[KeyGroup, SortedDelta] = {}
        for entry, rows in self.entries.items():
            _note(deltas.setdefault(group_of(entry), SortedDelta([], [])), entry, [], list(rows.scan()), True)
        return deltas

    def apply(self, delta: SortedDelta) -> None:
        for entry, cuts in delta.cuts:
            if (rows := self.entries.get(entry)) is not None:
                for cut in cuts:
                    rows.cut(cut)
                if not rows.has_any():
                    del self.entries[entry]
        for entry, sort_keys, numbers, values in delta.added:
            rows = self.entries.setdefault(entry, SortedRows())
            for sort_key, number, value in zip(sort_keys, numbers, values, strict=True):
                rows.put(_place(sort_key, number), sort_key, value)

    @staticmethod
    def merge(deltas: Iterable[SortedDelta]) -> SortedDelta:
        cuts: dict[Any, list[Cut]] = {}
        held: dict[Any, SortedRows] = {}
        for delta in deltas:
            for entry, ranges in delta.cuts:
                for cut in ranges:
                    _with_cut(cuts.setdefault(entry, []), cut)
                    if entry in held:
                        held[entry].cut(cut)
            for entry, sort_keys, numbers, values in delta.added:
                rows = held.setdefault(entry, SortedRows())
                for sort_key, number, value in zip(sort_keys, numbers, values, strict=True):
                    rows.put(_place(sort_key, number), sort_key, value)
        result = SortedDelta(list(cuts.items()), [])
        for entry, rows in held.items():
            if rows.has_any():
                _note(result, entry, [], list(rows.scan()), True)
        return result

    def empty(self) -> None:
        self.entries.clear()
        self.added.clear()
        self.cuts.clear()

    def has_changes(self) -> bool:
        return bool(self.cuts) or any(self.added.values())

    def size(self) -> int:
        return len(self.entries)


def _note(delta: SortedDelta, entry: Any, cuts: list[Cut], rows: list[SortedRow], left: bool) -> None:
    """Add the changes of one entry to a delta. ``left``: the entry has rows."""
    if cuts or not left:
        delta.cuts.append((entry, list(cuts) if left else [ALL]))
    if rows:
        numbers = [_number(place) for place, _, _ in rows]
        delta.added.append((entry, column(1, rows), numbers, column(2, rows)))


class PagedSortedRows:
    """The rows of one entry: what is committed and not cut, what was put aside, and in memory what came since."""

    __slots__ = ("_prefix", "_store", "added", "cuts", "next")

    def __init__(self, store: RowStore, place: bytes):
        self._store = store
        self._prefix = place + b"i"
        self.added = SortedRows()
        self.cuts: list[Cut] = []  #: ranges in which committed rows no longer count
        self.next = 0
        if store.put_aside and (aside := store.get(PENDING + place)) is not None:
            _, self.next, self.cuts = loads(aside)
        elif (found := store.get(COMMITTED + place)) is not None:
            self.next = loads(found)[1]

    @property
    def changed(self) -> bool:
        """Return whether the epoch changed anything that is not put aside."""
        return bool(self.cuts) or self.added.has_any()

    def put(self, place: bytes, sort_key: Any, value: Any) -> None:
        """Put a row at its place."""
        self.added.put(place, sort_key, value)
        self.next = max(self.next, self.added.next)

    def cut(self, cut: Cut) -> None:
        """Remove the rows of a range."""
        self.added.cut(cut)
        pending = [row for row, _ in self._stored(PENDING, cut)] if self._store.put_aside else []
        for row in pending:
            self._store.delete(row)
        if pending:
            self._store.flush()
        if next(self._committed(cut), None) is not None:
            _with_cut(self.cuts, cut)

    def scan(self, cut: Cut = ALL) -> Iterator[SortedRow]:
        """Return the rows of a range, as they are now."""
        sources = [_begun(self._committed(cut)), self.added.scan(cut)]
        if self._store.put_aside:
            sources.append(_begun(self._loaded(PENDING, cut)))
        return merged(*sources, key=lambda row: row[0])

    def has_any(self) -> bool:
        """Return whether there is any row."""
        return next(self.scan(), None) is not None

    def _committed(self, cut: Cut) -> Iterator[SortedRow]:
        cuts = list(self.cuts)
        for row in self._loaded(COMMITTED, cut):
            if not any(low <= row[0] < high for low, high in cuts):
                yield row

    def _loaded(self, kind: bytes, cut: Cut) -> Iterator[SortedRow]:
        skipped = 1 + len(self._prefix)
        for row, found in self._stored(kind, cut):
            sort_key, value, _ = loads(found)
            yield row[skipped:], sort_key, value

    def _stored(self, kind: bytes, cut: Cut) -> Iterator[tuple[bytes, bytes]]:
        prefix = kind + self._prefix
        stop = prefix + cut[1]
        for row, found in self._store.scan(prefix, prefix + cut[0]):
            if row >= stop:
                return
            yield row, found


def _begun(rows: Iterator[SortedRow]) -> Iterator[SortedRow]:
    """Return a scan that sees the database of now, not of when its first row is asked for."""
    first = next(rows, None)
    return iter(()) if first is None else chain((first,), rows)


class PagedSortedMultimapTable(Paged, SortedMultimapTable):
    """Sorted rows per entry, each row of the multimap in a row of the database: added and scanned without a load."""

    __slots__ = ("_places", "_store")

    def __init__(self, place: TablePlace):
        super().__init__(place.namespaced)
        self._store = place.store
        self._places = Places(place)
        self.entries: OpenedEntries = OpenedEntries(self._open, self._places.entries)

    def _open(self, entry: Any) -> PagedSortedRows:
        return PagedSortedRows(self._store, self._places.of(entry))

    def walk(self, cursor: bytes | None, count: int) -> tuple[list[tuple[Any, Any]], bytes | None]:
        """Return the next so many committed entries with their rows, and where to go on."""
        return self._places.walk(self.entries, cursor, count)

    def add(self, entry: Any, sort_key: Any, value: Any) -> None:
        rows = self.entries[entry]
        rows.put(_place(sort_key, rows.next), sort_key, value)

    def cut(self, entry: Any, cut: Cut) -> None:
        self.entries[entry].cut(cut)

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, SortedDelta]:
        deltas: dict[KeyGroup, SortedDelta] = {}
        for entry, rows in self.entries.in_use():
            if rows.changed:
                delta = deltas.setdefault(group_of(entry), SortedDelta([], []))
                _note(delta, entry, rows.cuts, list(rows.added.scan()), rows.has_any())
        self.empty()
        return deltas

    def drain_group(self, group: KeyGroup) -> SortedDelta | None:
        delta = SortedDelta([], [])
        found: list[tuple[Any, list[Cut], list[SortedRow]]] = []
        for is_own, stored in self._places.pending(group):
            if is_own:
                entry, _, cuts = stored
                found.append((entry, cuts, []))
            else:
                sort_key, value, number = stored
                found[-1][2].append((_place(sort_key, number), sort_key, value))
        # All rows of the epoch are put aside by now: an entry that is opened is as the epoch leaves it.
        for entry, cuts, rows in found:
            if cuts or rows:
                _note(delta, entry, cuts, rows, bool(rows) or self._open(entry).has_any())
        return delta if delta.cuts or delta.added else None

    def put_aside(self) -> None:
        for entry, rows in self.entries.in_use():
            if rows.changed:
                place = PENDING + self._places.of(entry)
                self._store.put(place, pickle.dumps((entry, rows.next, rows.cuts), 5))
                for at, sort_key, value in rows.added.scan():
                    self._store.put(place + b"i" + at, _dumped(sort_key, value, at))
        self.empty()

    def apply(self, delta: SortedDelta) -> None:
        store = self._store
        for entry, cuts in delta.cuts:
            place = COMMITTED + self._places.of(entry)
            if ALL in cuts:
                self._places.clear(COMMITTED, entry)
                continue
            for low, high in cuts:
                for row, _ in store.scan(place + b"i", place + b"i" + low):
                    if row >= place + b"i" + high:
                        break
                    store.delete(row)
        for entry, sort_keys, numbers, values in delta.added:
            place = COMMITTED + self._places.of(entry)
            store.put(place, pickle.dumps((entry, max(numbers) + 1), 5))
            for sort_key, number, value in zip(sort_keys, numbers, values, strict=True):
                at = _place(sort_key, number)
                store.put(place + b"i" + at, _dumped(sort_key, value, at))

    def empty(self) -> None:
        self.entries.clear()

    def has_changes(self) -> bool:
        return any(rows.changed for _, rows in self.entries.in_use())

    def size(self) -> int:
        return sum(1 for _ in self.entries)

    def weight(self) -> int:
        in_use = [rows.added for _, rows in self.entries.in_use()]
        sample = [object_bytes(rows.rows[rows.places[-1]]) for rows in in_use[:SAMPLE] if rows.places]
        held = sum(len(rows.places) for rows in in_use)
        return len(in_use) * CONTAINER_BYTES + held * max(sample, default=0)


def _dumped(sort_key: Any, value: Any, place: bytes) -> bytes:
    return pickle.dumps((sort_key, value, _number(place)), 5)


class SortedMultimapKind(EntryKind[SortedMultimapTable, SortedDelta]):
    """The kind of sorted multimaps. The declared type of a sort key is that of a map key."""

    name = SortedMultimapTable.kind
    spread = "map_key"
    ages = True
    has_map_keys = True
    new_columns = ("key", "map_key", "value")

    def make(self, namespaced: bool) -> SortedMultimapTable:
        return SortedMultimapTable(namespaced)

    def make_paged(self, place: TablePlace) -> PagedTable:
        return PagedSortedMultimapTable(place)

    def from_plain(self, plain: Any) -> SortedDelta:
        return SortedDelta(*plain)

    def write(self, types: SectionTypes, delta: SortedDelta, parts: Parts) -> None:
        write_entries(types, column(0, delta.cuts), parts)
        for bound in (0, 1):
            write_lists(_BYTES, [column(bound, cuts) for _, cuts in delta.cuts], parts)
        write_entries(types, column(0, delta.added), parts)
        write_lists(types.map_key, column(1, delta.added), parts)
        write_lists(INTS, column(2, delta.added), parts)
        write_lists(types.value, column(3, delta.added), parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> SortedDelta:
        entries = read_entries(types, cursor)
        lows, highs = (read_lists(_BYTES, cursor, len(entries)) for _ in range(2))
        cuts = [list(zip(low, high, strict=True)) for low, high in zip(lows, highs, strict=True)]
        added = read_entries(types, cursor)
        columns = [read_lists(codec, cursor, len(added)) for codec in (types.map_key, INTS, types.value)]
        return SortedDelta(list(zip(entries, cuts, strict=True)), list(zip(added, *columns, strict=True)))

    def part(self, delta: SortedDelta, wanted: Wanted) -> tuple[SortedDelta, bool]:
        cuts = [change for change in delta.cuts if wanted(change[0])]
        part = SortedDelta(cuts, [change for change in delta.added if wanted(change[0])])
        return part, any(ALL in ranges for _, ranges in cuts)

    # --- schema ------------------------------------------------------------------------------------------------------

    def conform(self, table: SortedMultimapTable, delta: SortedDelta, types: DeclaredTypes) -> SortedDelta:
        fits = (types.map_key is None or all_conform(types.map_key, column(1, delta.added), False)) and (
            types.value is None or all_conform(types.value, column(3, delta.added), types.stamped)
        )
        if fits:
            return delta
        added = []
        for entry, sort_keys, numbers, values in delta.added:
            blamed = [entry] * len(values)
            if types.map_key is not None:
                sort_keys = conform_values(types.map_key, sort_keys, blamed, False)
            if types.value is not None:
                values = conform_values(types.value, values, blamed, types.stamped)
            added.append((entry, sort_keys, numbers, values))
            if type(table) is SortedMultimapTable:  # others read what was saved
                former = next(change for change in delta.added if change[0] == entry)
                rows = table.entries[entry]
                for old_key, sort_key, number, value in zip(former[1], sort_keys, numbers, values, strict=True):
                    at = _place(old_key, number)
                    rows.cut((at, at + b"\0"))
                    rows.put(_place(sort_key, number), sort_key, value)
        return delta._replace(added=added)

    def convert(self, table: SortedMultimapTable, entries: list[tuple[Any, Any]], conversion: Conversion) -> None:
        for entry, held in entries:
            rows = list(held.scan())
            sort_keys = conversion.map_keys(column(1, rows), [entry])
            values = conversion.values(column(2, rows), [entry])
            if conversion.marks:
                table.replace(entry, zip(sort_keys, values, strict=True))
                continue
            held.cut(ALL)
            for (place, _, _), sort_key, value in zip(rows, sort_keys, values, strict=True):
                held.put(_place(sort_key, _number(place)), sort_key, value)

    # --- time to live ------------------------------------------------------------------------------------------------

    def drop_expired(self, delta: SortedDelta, deadline: int, *, detached: bool) -> SortedDelta:
        kept = []
        for entry, *columns in delta.added:
            rows = [row for row in zip(*columns, strict=True) if row[2][1] > deadline]
            if rows:
                kept.append((entry, column(0, rows), column(1, rows), column(2, rows)))
        return delta._replace(added=kept)

    def remove_expired(self, table: SortedMultimapTable, entry: Any, held: Any, deadline: int) -> None:
        rows = [(place, value[1] <= deadline) for place, _, value in held.scan()]
        for is_gone, run in groupby(rows, key=lambda row: row[1]):
            if is_gone:  # neighbours are one range
                places = [place for place, _ in run]
                table.cut(entry, (places[0], places[-1] + b"\0"))

    def move(
        self,
        source: SortedMultimapTable,
        target: SortedMultimapTable,
        entry: Any,
        held: Any,
        convert: Callable[[Any], tuple[Any, ...]],
    ) -> None:
        rows = list(held.scan())
        source.cut(entry, ALL)
        for _, sort_key, value in rows:
            for converted in convert(value):
                target.add(entry, sort_key, converted)

    def content(self, held: Any, is_visible: Callable[[Any], bool] | None = None) -> Any:
        pairs = self.taken(held) if held is not None else []
        return [(sort_key, item[0]) for sort_key, item in pairs if is_visible is None or is_visible(item)]

    def stamped(self, content: Any, before: Any) -> Any:
        stamps = [item[1] for _, item in before]
        return [
            (sort_key, (item, stamps[place] if place < len(stamps) else max(stamps)))
            for place, (sort_key, item) in enumerate(content)
        ]

    # --- rows for users ----------------------------------------------------------------------------------------------

    def remove(self, table: SortedMultimapTable, entry: Any) -> None:
        table.cut(entry, ALL)

    def taken(self, held: Any) -> Any:
        return held if isinstance(held, list) else [(sort_key, value) for _, sort_key, value in held.scan()]

    def entries(self, table: SortedMultimapTable) -> Iterator[Entry]:
        for key, namespace, held in EntryKind.entries(self, table):
            yield key, namespace, self.taken(held)

    def items(self, held: Any) -> Iterable[tuple[Any, ...]]:
        return held  # type: ignore[no-any-return]

    def transform(self, table: SortedMultimapTable, change: Callable[[Any, Any, Any], Any]) -> None:
        for key, namespace, pairs in list(self.entries(table)):
            entry = (key, namespace) if table.namespaced else key
            table.replace(entry, change(key, namespace, pairs) or ())

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        pairs = []
        for pair in shape.elements(changed):
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise shape.refusal(pair, "a list of pairs of sort key and value")
            pairs.append((shape.map_key(pair[0]), shape.fitting(pair[1])))
        return pairs or None

    def spread_new(self, key: Any, held: Any) -> Iterable[tuple[Any, Any]]:
        return ((sort_key, value) for sort_key, value in held)

    def fill(self, table: SortedMultimapTable, key: Any, map_key: Any, value: Any) -> None:
        table.add(key, map_key, value)


SORTED_MULTIMAPS = SortedMultimapKind()
