"""Accumulators of fixed width, those of many keys in one numpy array: for aggregates that are updated batch by batch.

Each entry has a *slot*, a row of a structured array. A batch of keys is looked up at once and updated by numpy, and a
bitmap says which slots have changed: an epoch saves these rows and no others.

    table = state.table(ACCUMULATORS, "totals")
    table.declare([("count", "<i8"), ("sum", "<f8")])
    slots = table.slots(keys)                       # of new keys as well, whose rows are zero
    table.accumulate("sum", numpy.add, slots, amounts)

Over rows of a database, the keys of a batch are fetched by one multi-get and written back in one batch.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

from flott.common._ids import KeyGroup
from flott.errors import ConfigurationError, StateError, StateMigrationError
from flott.runtime.managed_state.files.column_bodies import Cursor, Parts, spell_number
from flott.runtime.managed_state.files.section_columns import SectionTypes, read_entries, write_entries
from flott.runtime.managed_state.kinds.table_kind import (
    Entry,
    GroupOf,
    Paged,
    PagedTable,
    ReturnedShape,
    TableKind,
    Wanted,
)
from flott.runtime.managed_state.paging.row_store import COMMITTED, PENDING, TablePlace
from flott.runtime.managed_state.paging.rows import entry_bytes, loads, table_bytes

#: The fields of an accumulator: names and numpy's codes of their types, with the byte order.
Fields = list[tuple[str, str]]

_FIRST_SLOTS = 64
#: What an entry takes in memory beside its row: the key, its slot in a dict and in a list.
_ENTRY_BYTES = 300


class AccumulatorDelta(NamedTuple):
    """Entries with their rows beside them, one after the other as bytes, and entries that were deleted."""

    fields: Fields
    entries: list[Any]
    rows: bytes
    deleted: list[Any]

    def by_entry(self) -> Iterator[tuple[Any, bytes]]:
        """Return each entry with its row."""
        width = len(self.rows) // max(len(self.entries), 1)
        for place, entry in enumerate(self.entries):
            yield entry, self.rows[place * width : (place + 1) * width]


class AccumulatorTable:
    """One accumulator per entry. Delta: :class:`AccumulatorDelta`.

    ``rows`` is replaced when the table grows: ask for it after ``slots``, and do not keep it. Until the program
    declares fields, rows stay as they were read: those of several files may have different fields.
    """

    kind: ClassVar[str] = "accumulators"
    __slots__ = ("_changed", "_deleted", "_free", "_keys", "_read", "_slots", "fields", "namespaced", "rows")

    def __init__(self, namespaced: bool = False):
        self.namespaced = namespaced
        self.fields: Fields | None = None  #: as declared; before, those of the file that was read last
        self._read: dict[Any, tuple[Fields, bytes]] = {}  #: rows that were read before fields were declared
        self.rows: Any = None  #: a structured array, a row for each slot
        self._slots: dict[Any, int] = {}
        self._keys: list[Any] = []  #: the entry of each slot; that of a free one is of no meaning
        self._free: list[int] = []
        self._changed: Any = None  #: a bitmap of slots
        self._deleted: dict[Any, None] = {}  #: entries that are gone and may be saved

    def declare(self, fields: Any) -> None:
        """Say what an accumulator is made of: whatever ``numpy.dtype`` takes for a structured type.

        Rows of other fields are converted: fields that have the same name are cast if no value can be lost, new ones
        are zero. What is converted is saved again.
        """
        declared = _fields(_numpy().dtype(fields))
        if self.rows is None:
            self._shape(declared)
            read, self._read = self._read, {}
            for former, batch in _by_fields(read).items():
                self._put(list(former), [entry for entry, _ in batch], _rows_of(former, [row for _, row in batch]))
        elif self.fields != declared:
            assert self.fields is not None
            self.rows, self.fields = _converted(self.rows, self.fields, declared), declared
            self._changed[list(self._slots.values())] = True

    def slots(self, entries: Sequence[Any]) -> Any:
        """Return the slots of entries as an array; entries that are new get a row of zeros."""
        known = self._slots
        found = [known.get(entry, -1) for entry in entries]
        if -1 in found:
            self._fetch([entry for entry, slot in zip(entries, found, strict=True) if slot < 0])
            for place, (entry, slot) in enumerate(zip(entries, found, strict=True)):
                if slot < 0:
                    found[place] = known[entry] if entry in known else self._new(entry)
        return _numpy().array(found, dtype=_numpy().intp)

    def accumulate(self, field: str, function: Any, slots: Any, values: Any) -> None:
        """Combine a field of slots with values by a numpy ufunc: one value for each slot, which may come repeatedly."""
        function.at(self.rows[field], slots, values)
        self._changed[slots] = True

    def mark(self, slots: Any) -> None:
        """Say that rows of slots have been changed in ``rows``."""
        self._changed[slots] = True

    def read(self, entries: Sequence[Any]) -> Any:
        """Return the rows of entries as an array of its own; that of an entry which is not there is zero."""
        self._fetch([entry for entry in entries if entry not in self._slots])
        found = _numpy().zeros(len(entries), dtype=self.rows.dtype)
        places = [(place, self._slots[entry]) for place, entry in enumerate(entries) if entry in self._slots]
        if places:
            found[[place for place, _ in places]] = self.rows[[slot for _, slot in places]]
        return found

    def discard(self, entries: Iterable[Any]) -> None:
        """Delete entries, as far as they are there."""
        wanted = list(entries)
        self._fetch([entry for entry in wanted if entry not in self._slots])
        for entry in wanted:
            if entry in self._slots:
                self._forget(entry)
                self._deleted[entry] = None

    def _fetch(self, entries: list[Any]) -> None:
        """Bring entries into memory that may be elsewhere."""

    def _new(self, entry: Any) -> int:
        """Give an entry a slot whose row is zero."""
        if self.rows is None:
            raise StateError("Say with declare() what an accumulator is made of before the table is used.")
        if self._free:
            slot = self._free.pop()
            self.rows[slot] = _numpy().zeros((), dtype=self.rows.dtype)
            self._keys[slot] = entry
        else:
            slot = len(self._keys)
            self._keys.append(entry)
            if slot == len(self.rows):
                self._grow()
        self._slots[entry] = slot
        self._changed[slot] = True
        return slot

    def _grow(self) -> None:
        numpy = _numpy()
        self.rows = numpy.concatenate([self.rows, numpy.zeros(len(self.rows), dtype=self.rows.dtype)])
        self._changed = numpy.concatenate([self._changed, numpy.zeros(len(self._changed), dtype=bool)])

    def _forget(self, entry: Any) -> None:
        slot = self._slots.pop(entry)
        self._changed[slot] = False
        self._free.append(slot)

    def _shape(self, fields: Fields) -> None:
        if self.rows is None:
            numpy = _numpy()
            self.fields = fields
            self.rows = numpy.zeros(_FIRST_SLOTS, dtype=_dtype(fields))
            self._changed = numpy.zeros(_FIRST_SLOTS, dtype=bool)

    def _put(self, fields: Fields, entries: list[Any], rows: Any) -> None:
        """Put saved rows of some fields; they are not marked as changed."""
        if self.rows is None:
            self._shape(fields)
        elif self.fields is not None and fields != self.fields:
            rows = _converted(rows, fields, self.fields)
        slots = []
        for entry in entries:
            slot = self._slots.get(entry)
            slots.append(self._new(entry) if slot is None else slot)
        if slots:
            self.rows[slots] = rows
            self._changed[slots] = False

    # --- changes -----------------------------------------------------------------------------------------------------

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, AccumulatorDelta]:
        deltas: dict[KeyGroup, AccumulatorDelta] = {}
        if self.rows is not None:
            assert self.fields is not None
            deltas = self._collect(_numpy().flatnonzero(self._changed).tolist(), group_of)
            for entry in self._deleted:
                if entry not in self._slots:
                    deltas.setdefault(group_of(entry), AccumulatorDelta(self.fields, [], b"", [])).deleted.append(entry)
            self._changed[:] = False
        self._deleted.clear()
        return deltas

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, AccumulatorDelta]:
        if self.rows is not None:
            return self._collect(self._slots.values(), group_of)
        fields = self.fields or []
        groups: dict[KeyGroup, tuple[list[Any], list[bytes]]] = {}
        for entry, (former, row) in self._read.items():
            entries, rows = groups.setdefault(group_of(entry), ([], []))
            entries.append(entry)
            rows.append(_row_as(former, row, fields))
        return {group: AccumulatorDelta(fields, found[0], b"".join(found[1]), []) for group, found in groups.items()}

    def _collect(self, slots: Iterable[int], group_of: GroupOf) -> dict[KeyGroup, AccumulatorDelta]:
        assert self.fields is not None or not self._slots
        groups: dict[KeyGroup, list[int]] = {}
        for slot in slots:
            groups.setdefault(group_of(self._keys[slot]), []).append(slot)
        return {
            group: AccumulatorDelta(
                self.fields or [], [self._keys[slot] for slot in chosen], self.rows[chosen].tobytes(), []
            )
            for group, chosen in groups.items()
        }

    def apply(self, delta: AccumulatorDelta) -> None:
        if self.rows is None:
            self.fields = delta.fields or self.fields
            self._read.update((entry, (delta.fields, row)) for entry, row in delta.by_entry())
            for entry in delta.deleted:
                self._read.pop(entry, None)
            return
        if delta.entries:
            self._put(delta.fields, delta.entries, _rows_of(delta.fields, [delta.rows]))
        for entry in delta.deleted:
            if entry in self._slots:
                self._forget(entry)

    @staticmethod
    def merge(deltas: Iterable[AccumulatorDelta]) -> AccumulatorDelta:
        fields: Fields = []
        held: dict[Any, bytes] = {}
        gone: dict[Any, None] = {}
        for delta in deltas:
            if held and delta.fields != fields:
                rows = _converted(_rows_of(fields, list(held.values())), fields, delta.fields).tobytes()
                held = dict(AccumulatorDelta(delta.fields, list(held), rows, []).by_entry())
            fields = delta.fields
            for entry, row in delta.by_entry():
                held[entry] = row
                gone.pop(entry, None)
            for entry in delta.deleted:
                held.pop(entry, None)
                gone[entry] = None
        return AccumulatorDelta(fields, list(held), b"".join(held.values()), list(gone))

    def empty(self) -> None:
        self._read.clear()
        self._slots.clear()
        self._keys.clear()
        self._free.clear()
        self._deleted.clear()
        if self._changed is not None:
            self._changed[:] = False
            self.rows[:] = _numpy().zeros((), dtype=self.rows.dtype)

    def has_changes(self) -> bool:
        return bool(self._deleted) or (self._changed is not None and bool(self._changed.any()))

    def size(self) -> int:
        return len(self._slots) + len(self._read)

    def contents(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Return every entry with the values of its fields by name."""
        for entry, (fields, row) in self._read.items():
            yield entry, _content(_rows_of(fields, [row])[0])
        for entry, slot in self._slots.items():
            yield entry, _content(self.rows[slot])


class PagedAccumulatorTable(Paged, AccumulatorTable):
    """One accumulator per entry, in a row of its own that names its fields; those of a batch are fetched at once."""

    __slots__ = ("_absent", "_entry_bytes", "_known", "_prefix", "_store")

    def __init__(self, place: TablePlace):
        super().__init__(place.namespaced)
        self._store = place.store
        self._prefix = table_bytes(place.name)
        self._entry_bytes = entry_bytes(place.namespaced, place.max_parallelism)
        self._absent: set[Any] = set()  #: entries that were looked for
        self._known: dict[bytes, Fields] = {}  #: fields by what stands for them in rows

    def declare(self, fields: Any) -> None:
        declared = _fields(_numpy().dtype(fields))
        stored = self._stored_fields()
        if stored is not None and stored != declared:
            _castable(stored, declared)
        if self.fields is not None and self.fields != declared:
            super().declare(fields)
        self._shape(declared)

    def prefetch(self, keys: set[Any]) -> None:
        if not self.namespaced and self.fields is not None:
            self._fetch([key for key in keys if key not in self._slots])

    def _row(self, entry: Any) -> bytes:
        return self._prefix + b"i" + self._entry_bytes(entry)

    def _fetch(self, entries: list[Any]) -> None:
        wanted = [entry for entry in dict.fromkeys(entries) if entry not in self._absent and entry not in self._deleted]
        rows = sorted((self._row(entry), entry) for entry in wanted) if len(wanted) < 2 else self._sorted(wanted)
        found: list[tuple[Any, bytes | None]] = [(entry, None) for _, entry in rows]
        if self._store.put_aside:
            aside = self._store.get_many([PENDING + row for row, _ in rows])
            found = [(entry, stored) for (_, entry), stored in zip(rows, aside, strict=True)]
        missing = [(row, entry) for (row, entry), (_, stored) in zip(rows, found, strict=True) if stored is None]
        committed = zip(missing, self._store.get_many([COMMITTED + row for row, _ in missing]), strict=True)
        found = [one for one in found if one[1] is not None] + [(entry, stored) for (_, entry), stored in committed]
        self._keep(found)

    def _sorted(self, entries: list[Any]) -> list[tuple[bytes, Any]]:
        named = {self._row(entry): entry for entry in entries}
        return [(row, named[row]) for row in sorted(named)]  # neighbours share blocks

    def _keep(self, found: list[tuple[Any, bytes | None]]) -> None:
        """Put fetched rows into slots, those with equal fields at once."""
        batches: dict[bytes, tuple[list[Any], list[bytes]]] = {}
        for entry, stored in found:
            held: tuple[Any, ...] = () if stored is None else loads(stored)
            if len(held) < 3:
                self._absent.add(entry)
            else:
                entries, rows = batches.setdefault(held[1], ([], []))
                entries.append(entry)
                rows.append(held[2])
        for digest, (entries, rows) in batches.items():
            fields = self._fields_of(digest)
            self._put(fields, entries, _rows_of(fields, rows))

    def _fields_of(self, digest: bytes) -> Fields:
        if digest not in self._known:
            for kind in (PENDING, COMMITTED):
                if (stored := self._store.get(kind + self._prefix + b"f" + digest)) is not None:
                    self._known[digest] = loads(stored)
        return self._known[digest]

    def _stored_fields(self) -> Fields | None:
        """Return the fields of which the database was last said to hold rows."""
        stored = self._store.get(COMMITTED + self._prefix + b"l")
        return None if stored is None else loads(stored)

    def _name_fields(self, kind: bytes, fields: Fields) -> bytes:
        """Write down the fields of rows; return what stands for them in rows."""
        digest = blake2b(repr(fields).encode(), digest_size=8).digest()
        self._store.put(kind + self._prefix + b"f" + digest, pickle.dumps(fields, 5))
        return digest

    def _new(self, entry: Any) -> int:
        self._absent.discard(entry)
        return super()._new(entry)

    def _forget(self, entry: Any) -> None:
        super()._forget(entry)
        self._absent.add(entry)

    def apply(self, delta: AccumulatorDelta) -> None:
        digest = self._name_fields(COMMITTED, delta.fields)
        self._store.put(COMMITTED + self._prefix + b"l", pickle.dumps(delta.fields, 5))
        for entry, row in delta.by_entry():
            self._store.put(COMMITTED + self._row(entry), pickle.dumps((entry, digest, row), 5))
        for entry in delta.deleted:
            self._store.delete(COMMITTED + self._row(entry))

    def put_aside(self) -> None:
        if self.fields is not None:
            digest = self._name_fields(PENDING, self.fields)
            for slot in _numpy().flatnonzero(self._changed).tolist():
                entry = self._keys[slot]
                row = pickle.dumps((entry, digest, self.rows[slot].tobytes()), 5)
                self._store.put(PENDING + self._row(entry), row)
            for entry in self._deleted:
                if entry not in self._slots:
                    self._store.put(PENDING + self._row(entry), pickle.dumps((entry,), 5))
        self.empty()

    def drain_group(self, group: KeyGroup) -> AccumulatorDelta | None:
        fields = self.fields or []
        entries, rows, deleted = [], [], []
        for _, stored in self._store.scan(PENDING + self._prefix + b"i" + group.to_bytes(2, "big")):
            match loads(stored):
                case entry, digest, row:
                    former = self._fields_of(digest)
                    entries.append(entry)
                    rows.append(
                        row if former == fields else _converted(_rows_of(former, [row]), former, fields).tobytes()
                    )
                case (entry,):
                    deleted.append(entry)
        if not entries and not deleted:
            return None
        return AccumulatorDelta(fields, entries, b"".join(rows), deleted)

    def empty(self) -> None:
        super().empty()
        self._absent.clear()

    def contents(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        for entry in self._all_entries():
            yield entry, _content(self.read([entry])[0])

    def _all_entries(self) -> list[Any]:
        kinds = (COMMITTED, PENDING) if self._store.put_aside else (COMMITTED,)
        stored = [loads(found)[0] for kind in kinds for _, found in self._store.scan(kind + self._prefix + b"i")]
        self._shape(self.fields or self._stored_fields() or [])
        self._fetch([entry for entry in stored if entry not in self._slots])
        return [entry for entry in dict.fromkeys([*stored, *self._slots]) if entry in self._slots]

    def size(self) -> int:
        return len(self._all_entries())

    def weight(self) -> int:
        rows = 0 if self.rows is None else self.rows.nbytes
        return int(rows) + (len(self._slots) + len(self._absent)) * _ENTRY_BYTES


class AccumulatorKind(TableKind[AccumulatorTable, AccumulatorDelta]):
    """The kind of columnar accumulators. Reading and writing their files needs no numpy; their tables do."""

    name = AccumulatorTable.kind

    def make(self, namespaced: bool) -> AccumulatorTable:
        return AccumulatorTable(namespaced)

    def make_paged(self, place: TablePlace) -> PagedTable:
        return PagedAccumulatorTable(place)

    def from_plain(self, plain: Any) -> AccumulatorDelta:
        return AccumulatorDelta(*plain)

    def write(self, types: SectionTypes, delta: AccumulatorDelta, parts: Parts) -> None:
        described = json.dumps(delta.fields).encode()
        parts += (spell_number(len(described)), described)
        write_entries(types, delta.entries, parts)
        parts += (spell_number(len(delta.rows)), delta.rows)
        write_entries(types, delta.deleted, parts)

    def read(self, types: SectionTypes, cursor: Cursor) -> AccumulatorDelta:
        fields = [(name, code) for name, code in json.loads(cursor.take(cursor.number()))]
        entries = read_entries(types, cursor)
        rows = bytes(cursor.take(cursor.number()))
        return AccumulatorDelta(fields, entries, rows, read_entries(types, cursor))

    def part(self, delta: AccumulatorDelta, wanted: Wanted) -> tuple[AccumulatorDelta, bool]:
        put = [(entry, row) for entry, row in delta.by_entry() if wanted(entry)]
        gone = list(filter(wanted, delta.deleted))
        rows = b"".join(row for _, row in put)
        return AccumulatorDelta(delta.fields, [entry for entry, _ in put], rows, gone), bool(put or gone)

    # --- rows for users ----------------------------------------------------------------------------------------------

    def entries(self, table: AccumulatorTable) -> Iterator[Entry]:
        for entry, held in table.contents():
            key, namespace = entry if table.namespaced else (entry, None)
            yield key, namespace, held

    def release(self, table: AccumulatorTable) -> Iterator[Entry]:
        for key, namespace, held in list(self.entries(table)):
            table.discard([(key, namespace) if table.namespaced else key])
            yield key, namespace, held

    def transform(self, table: AccumulatorTable, change: Callable[[Any, Any, Any], Any]) -> None:
        if table.fields is None:
            return
        table.declare(table.fields)
        names = [name for name, _ in table.fields]
        for key, namespace, held in list(self.entries(table)):
            entry = (key, namespace) if table.namespaced else key
            changed = change(key, namespace, held)
            if changed is None:
                table.discard([entry])
                continue
            slots = table.slots([entry])
            table.rows[slots] = tuple(changed.get(name, held[name]) for name in names)
            table.mark(slots)

    def shaped(self, changed: Any, shape: ReturnedShape) -> Any:
        if changed is not None and not isinstance(changed, Mapping):
            raise shape.refusal(changed, "a dict of fields")
        return changed


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ConfigurationError(
            "Columnar accumulators need the package numpy where tasks run: pip install 'flott[columnar]'."
        ) from error
    return numpy


def _fields(dtype: Any) -> Fields:
    """Return the fields of a structured type of fixed width; refuse others."""
    if dtype.names is None or dtype.hasobject or any(dtype[name].kind not in "biufMmSV" for name in dtype.names):
        raise StateError(
            f"{dtype} is no type of an accumulator. Give names and types of fields of fixed width: numbers, booleans,"
            " times or bytes."
        )
    return [(name, dtype[name].str) for name in dtype.names]


def _dtype(fields: Fields) -> Any:
    return _numpy().dtype(list(map(tuple, fields)))


def _rows_of(fields: Iterable[tuple[str, str]], rows: list[bytes]) -> Any:
    return _numpy().frombuffer(b"".join(rows), dtype=_dtype(list(fields)))


def _row_as(former: Fields, row: bytes, fields: Fields) -> bytes:
    """Return one row of some fields as a row of others."""
    return row if former == fields else bytes(_converted(_rows_of(former, [row]), former, fields).tobytes())


def _content(row: Any) -> dict[str, Any]:
    return dict(zip(row.dtype.names, row.item(), strict=True))


def _by_fields(read: Mapping[Any, tuple[Fields, bytes]]) -> dict[tuple[tuple[str, str], ...], list[tuple[Any, bytes]]]:
    """Return entries and their rows by what the rows are made of."""
    found: dict[tuple[tuple[str, str], ...], list[tuple[Any, bytes]]] = {}
    for entry, (fields, row) in read.items():
        found.setdefault(tuple(fields), []).append((entry, row))
    return found


def _castable(former: Fields, fields: Fields) -> None:
    """Refuse to cast fields of which a value could be lost."""
    known = dict(former)
    for name, code in fields:
        if name in known and not _numpy().can_cast(known[name], code, "safe"):
            raise StateMigrationError(
                f"The accumulator field {name!r} was saved as {known[name]} and is now declared as {code}, which cannot"
                " hold all its values. Declare the former type or a wider one, or give the field another name."
            )


def _converted(rows: Any, former: Fields, fields: Fields) -> Any:
    """Return rows of some fields as rows of others."""
    _castable(former, fields)
    found = _numpy().zeros(len(rows), dtype=_dtype(fields))
    known = dict(former)
    for name, _ in fields:
        if name in known:
            found[name] = rows[name]
    return found


ACCUMULATORS = AccumulatorKind()
