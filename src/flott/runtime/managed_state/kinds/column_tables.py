"""Columnar tables: rows of typed columns by key, looked up and changed a batch at a time. Task side.

    table = state.table(COLUMN_TABLES, "totals")
    table.declare(key=pa.schema([("user", pa.string())]), value=pa.schema([("sum", pa.int64())]), grouping=1)
    slots, new = table.slots(keys)              # of absent keys as well, whose rows are zero and null
    np.add.at(table.column("sum"), slots, amounts)
    table.valid("sum")[slots] = True
    table.mark(slots)

Each row has a *slot*. An index leads from keys to slots, columns are arrays by slot, and a bitmap says which slots have
changed: an epoch saves these rows and no others, cut by key group. Arrays are replaced when the table grows: ask for a
column after ``slots``, and do not keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from flott.common._ids import KeyGroup
from flott.errors import StateError
from flott.runtime.managed_state.column_keys import key_groups, row_keys
from flott.runtime.managed_state.columns.deltas import (
    conformed,
    deleted_in,
    key_schema,
    make_delta,
    rows_in,
    schema_from,
)
from flott.runtime.managed_state.columns.fixed_width import Flags, Ints, validity, whole
from flott.runtime.managed_state.columns.key_words import Numbering, array_of, is_word, words_of
from flott.runtime.managed_state.columns.prefix_index import PrefixIndex
from flott.runtime.managed_state.columns.slot_index import SlotIndex, grown
from flott.runtime.managed_state.columns.value_columns import ArrowColumn, FixedColumn, make_column
from flott.runtime.managed_state.key_groups import KeyGroupIndex, SameGroup
from flott.runtime.managed_state.kinds.column_table_kind import COLUMN_TABLES as COLUMN_TABLES
from flott.runtime.managed_state.kinds.column_table_kind import NAME, ColumnDelta, checked
from flott.runtime.managed_state.kinds.table_kind import GroupOf

#: The column of the time of the last update, of tables whose rows have a time to live.
_UPDATED = "$updated"
#: So many values of key columns may be dead whatever the size of the table.
_DEAD_VALUES = 4096


class ColumnTable:
    """Rows by key. Delta: :class:`ColumnDelta`.

    Until the program declares columns, deltas stay as they were read: those of several files may have different
    columns.
    """

    kind: ClassVar[str] = NAME

    def __init__(self, namespaced: bool = False):
        self.namespaced = namespaced
        self._read: list[ColumnDelta] = []  #: what was read before columns were declared
        self._seen: ColumnTable | None = None  #: that as a table, for those who look at it
        self._declared = False
        self._exact = False  #: whether saved rows must have the columns that are declared
        self.now_ms = 0  #: what rows are stamped with that are changed from now on, if they have a time to live
        self._schema = pa.schema([])  #: key columns, value columns, the time of the last update
        self._key_count = 0
        self.grouping = 0

    # --- columns -----------------------------------------------------------------------------------------------------

    def declare(
        self, key: pa.Schema, value: pa.Schema, grouping: int, *, ages_from: int | None = None, exact: bool = False
    ) -> None:
        """Say what rows are made of. The first ``grouping`` columns of the key are the key of the operator.

        Rows of other columns are converted: columns of the same name are cast if no value can be lost, new ones are
        null, or zero if they cannot be null. What is converted is saved again. ``ages_from``: rows have a time to live,
        and those without a time are stamped with this one. ``exact``: saved rows with other columns are refused.
        """
        self._exact = exact
        fields = [*key, *value]
        if ages_from is not None:
            fields.append(pa.field(_UPDATED, pa.int64(), nullable=False))
            self.now_ms = max(self.now_ms, ages_from)
        schema = pa.schema(fields)
        if self._declared and self._schema.equals(schema) and (self._key_count, self.grouping) == (len(key), grouping):
            return
        former = self._former_rows() if self._declared else None
        self._shape(schema, len(key), grouping)
        self._declared = True
        read, self._read, self._seen = self._read, [], None
        for delta in read:
            self.apply(delta)
        if former is not None:
            self._put_rows(former)
            self.mark(self.all_slots())

    def _former_rows(self) -> pa.RecordBatch:
        return self._rows(self.all_slots())

    def _shape(self, schema: pa.Schema, keys: int, grouping: int) -> None:
        self._schema, self._key_count, self.grouping = schema, keys, grouping
        self._schema_bytes = schema.serialize().to_pybytes()
        self.key_schema = key_schema(schema, keys)
        self.value_schema = pa.schema([field for field in list(schema)[keys:] if field.name != _UPDATED])
        self._clear()

    def _clear(self) -> None:
        keys = self._key_count
        self._numberings = [None if is_word(field.type) else Numbering(field.type) for field in self.key_schema]
        self._index = SlotIndex(keys)
        self._prefixes: dict[int, PrefixIndex] = {}
        self._columns: dict[str, FixedColumn | ArrowColumn] = {
            field.name: make_column(field) for field in list(self._schema)[keys:]
        }
        room = len(self._index.alive)
        self._changed: Flags = np.zeros(room, np.bool_)  #: by slot
        self._saved: Flags = np.zeros(room, np.bool_)  #: by slot: files may have a row of it
        self._groups = np.full(room, -1, np.int32)  #: by slot, as far as they are known
        self._groups_for = 0  #: the number of key groups that these are of
        self._deleted: list[pa.RecordBatch] = []  #: keys that are gone and may be in files

    @property
    def _ages(self) -> bool:
        return _UPDATED in self._columns

    # --- keys to slots -----------------------------------------------------------------------------------------------

    def slots(self, keys: pa.RecordBatch) -> tuple[Ints, Flags]:
        """Return the slot of every key, and whether the key was absent. Absent keys get rows of zeros and nulls."""
        self._must_be_declared()
        words, nulls = self._words(keys.columns, add=True)
        found, absent, added = self._index.find_or_add(words, nulls, keys.num_rows)
        if len(added):
            self._added(added)
        return found, absent

    def _added(self, slots: Ints) -> None:
        room = len(self._index.alive)
        if room > len(self._changed):
            self._changed, self._saved = grown(self._changed, room), grown(self._saved, room)
            groups = np.full(room, -1, np.int32)
            groups[: len(self._groups)] = self._groups
            self._groups = groups
        for column in self._columns.values():
            column.reserve(room)
            column.clear(slots)
        self._groups[slots] = -1
        self._saved[slots] = False
        for prefix in self._prefixes.values():
            prefix.add(slots)
        self.mark(slots)

    def find(self, keys: pa.RecordBatch) -> Ints:
        """Return the slot of every key; -1 where there is none."""
        self._must_be_declared()
        words, nulls = self._words(keys.columns, add=False)
        return self._index.find(words, nulls, keys.num_rows)

    def matching(self, prefix: pa.RecordBatch, width: int) -> tuple[Ints, Ints]:
        """Return pairs of a position in ``prefix`` and a slot whose first ``width`` key columns equal those there."""
        self._must_be_declared()
        if width == self._key_count:
            slots = self.find(prefix)
            there = np.flatnonzero(slots >= 0)
            return there, slots[there]
        if width not in self._prefixes:
            self._prefixes[width] = PrefixIndex(self._index, width)
        words, nulls = self._words(prefix.columns[:width], add=False)
        return self._prefixes[width].matching(words, nulls, prefix.num_rows)

    def _words(self, columns: Sequence[Any], *, add: bool) -> tuple[list[Ints], Ints | None]:
        words: list[Ints] = []
        nulls: Ints | None = None
        for place, column in enumerate(columns):
            array = whole(column)
            numbering = self._numberings[place]
            if numbering is not None:
                words.append(numbering.numbers(array, add=add))
                continue
            words.append(words_of(array))
            if (valid := validity(array)) is not None:
                flags = (~valid).astype(np.uint64) << np.uint64(place)
                nulls = flags if nulls is None else nulls | flags
        return words, nulls

    def all_slots(self) -> Ints:
        """Return the slots of all rows, ascending."""
        return self._index.all_slots()

    # --- rows --------------------------------------------------------------------------------------------------------

    def keys(self, slots: Ints) -> pa.RecordBatch:
        """Return the keys of slots."""
        nulls = self._index.nulls(slots)
        arrays = []
        for place, field in enumerate(self.key_schema):
            words = self._index.words(place, slots)
            numbering = self._numberings[place]
            if numbering is not None:
                arrays.append(numbering.values(words))
            else:
                valid = None if nulls is None else (nulls >> np.uint64(place)) & np.uint64(1) == 0
                arrays.append(array_of(words, valid, field.type))
        return _batch(arrays, self.key_schema, len(slots))

    def values(self, slots: Ints) -> pa.RecordBatch:
        """Return the rows of slots, without their keys."""
        arrays = [self._columns[field.name].take(slots) for field in self.value_schema]
        return _batch(arrays, self.value_schema, len(slots))

    def put(self, slots: Ints, values: pa.RecordBatch) -> None:
        """Put a row to every slot; of several for a slot the last one counts."""
        for place, field in enumerate(self.value_schema):
            self._columns[field.name].put(slots, whole(values.column(place)))
        self.mark(slots)

    def put_column(self, name: str, slots: Ints, values: pa.Array) -> None:
        """Put values of one column to slots. ``mark`` says that they have changed."""
        self._columns[name].put(slots, whole(values))

    def take_column(self, name: str, slots: Ints) -> pa.Array:
        """Return the values of slots in one column."""
        return self._columns[name].take(slots)

    def column(self, name: str) -> Ints:
        """Return the values of a column of fixed width by slot, to be changed in place. Decimals are two integers."""
        column = self._columns[name]
        if not isinstance(column, FixedColumn):
            raise StateError(f"The column {name!r} is of type {column.type}, which has no fixed width: use values().")
        return column.values

    def valid(self, name: str) -> Flags:
        """Return which values of a column of fixed width are there, by slot, to be changed in place."""
        column = self._columns[name]
        if not isinstance(column, FixedColumn) or column.valid is None:
            raise StateError(f"The column {name!r} has no flags of nulls: it cannot be null, or has no fixed width.")
        return column.valid

    def is_fixed(self, name: str) -> bool:
        """Return whether a column is of fixed width."""
        return isinstance(self._columns[name], FixedColumn)

    def is_nullable(self, name: str) -> bool:
        """Return whether a column of fixed width has flags of nulls."""
        column = self._columns[name]
        return isinstance(column, FixedColumn) and column.valid is not None

    def mark(self, slots: Ints) -> None:
        """Say that rows of slots have changed."""
        self._changed[slots] = True
        if self._ages:
            self.column(_UPDATED)[slots] = self.now_ms

    def remove(self, slots: Ints) -> None:
        """Remove rows; slots that have none are ignored."""
        slots = np.unique(slots)
        slots = slots[slots >= 0]
        slots = slots[self._index.alive[slots]]
        if not len(slots):
            return
        saved = slots[self._saved[slots]]
        if len(saved):
            self._deleted.append(self.keys(saved))
        self._forget(slots)

    def _forget(self, slots: Ints) -> None:
        self._index.remove(slots)
        for prefix in self._prefixes.values():
            prefix.remove(slots)
        self._changed[slots] = False

    def remove_all(self) -> None:
        """Remove all rows."""
        if not self._declared:
            self._settle()
        self.remove(self.all_slots())

    # --- time to live ------------------------------------------------------------------------------------------------

    def expired(self, before_ms: int) -> Ints:
        """Return the slots of rows that were last updated before a time."""
        slots = self.all_slots()
        return slots[self.column(_UPDATED)[slots] < before_ms]

    def expire(self, before_ms: int) -> int:
        """Remove rows that were last updated before a time; return how many there were."""
        slots = self.expired(before_ms)
        self.remove(slots)
        return len(slots)

    # --- changes -----------------------------------------------------------------------------------------------------

    def drain(self, group_of: GroupOf) -> dict[KeyGroup, ColumnDelta]:
        if not self._declared:
            return {}
        slots = np.flatnonzero(self._changed[: self._index.limit])
        deltas = self._deltas(slots, self._gone(), group_of)
        self._changed[slots] = False
        self._saved[slots] = True
        self._deleted.clear()
        self._tidy()
        return deltas

    def _gone(self) -> pa.RecordBatch | None:
        """Return keys that were removed and did not come back."""
        if not self._deleted:
            return None
        keys = pa.Table.from_batches(self._deleted).combine_chunks()
        gone = _batch([whole(column) for column in keys.columns], self.key_schema, keys.num_rows)
        back = self.find(gone) >= 0
        return gone.take(pa.array(np.flatnonzero(~back))) if back.any() else gone

    def dump(self, group_of: GroupOf) -> dict[KeyGroup, ColumnDelta]:
        table = self._view()
        return table._deltas(table.all_slots(), None, group_of)

    def _deltas(self, slots: Ints, gone: pa.RecordBatch | None, group_of: GroupOf) -> dict[KeyGroup, ColumnDelta]:
        parts: dict[int, list[Any]] = {}
        if len(slots):
            groups = self._groups_of_slots(slots, group_of)
            order = np.argsort(groups, kind="stable")
            for group, batch in _cut(self._rows(slots[order]), groups[order]):
                parts.setdefault(group, [None, None])[0] = batch
        if gone is not None and gone.num_rows:
            groups = self._groups_of(gone, group_of)
            order = np.argsort(groups, kind="stable")
            for group, batch in _cut(gone.take(pa.array(order)), groups[order]):
                parts.setdefault(group, [None, None])[1] = batch
        return {
            KeyGroup(group): make_delta(self._schema_bytes, self._key_count, self.grouping, *batches)
            for group, batches in sorted(parts.items())
        }

    def _rows(self, slots: Ints) -> pa.RecordBatch:
        """Return whole rows."""
        arrays = [*self.keys(slots).columns, *(column.take(slots) for column in self._columns.values())]
        return _batch(arrays, self._schema, len(slots))

    def _groups_of_slots(self, slots: Ints, group_of: GroupOf) -> Ints:
        index = getattr(group_of, "__self__", None)
        if not isinstance(index, KeyGroupIndex):
            return self._groups_of(self.keys(slots), group_of)
        if self._groups_for != index.max_parallelism:
            self._groups[:] = -1
            self._groups_for = index.max_parallelism
        unknown = slots[self._groups[slots] < 0]
        if len(unknown):
            self._groups[unknown] = self._groups_of(self.keys(unknown), group_of)
        return self._groups[slots]

    def _groups_of(self, keys: pa.RecordBatch, group_of: GroupOf) -> Ints:
        if isinstance(group_of, SameGroup):
            return np.full(keys.num_rows, group_of.group, np.int32)
        columns = keys.columns[: self.grouping]
        index = getattr(group_of, "__self__", None)
        if isinstance(index, KeyGroupIndex):
            return key_groups(columns, index.max_parallelism, keys.num_rows)
        return np.array([group_of(key) for key in row_keys(columns, keys.num_rows)], np.int32)

    def apply(self, delta: ColumnDelta) -> None:
        if not self._declared:
            self._read.append(delta)
            self._seen = None
            return
        if (rows := rows_in(checked(delta))) is not None:
            self._put_rows(rows)
        if (gone := deleted_in(delta)) is not None:
            slots = np.unique(self.find(conformed(gone, self.key_schema, self._key_count)))
            if len(slots := slots[slots >= 0]):
                self._forget(slots)

    def _put_rows(self, rows: pa.RecordBatch) -> None:
        """Put saved rows; they are changed only if their columns were others."""
        stamped = rows.schema.get_field_index(_UPDATED) >= 0
        same = rows.schema.equals(self._schema)
        rows = conformed(rows, self._schema, self._key_count, exact=self._exact, optional=_UPDATED)
        slots, _ = self.slots(_batch(rows.columns[: self._key_count], self.key_schema, rows.num_rows))
        for place, (name, column) in enumerate(self._columns.items()):
            if name != _UPDATED or stamped:  # those without a time have been stamped by ``slots``
                column.put(slots, rows.column(self._key_count + place))
        self._changed[slots] = not same
        self._saved[slots] = True

    @staticmethod
    def merge(deltas: Iterable[ColumnDelta]) -> ColumnDelta:
        found = list(deltas)
        last = found[-1]
        table = ColumnTable()
        table._shape(schema_from(last.schema), last.keys, last.grouping)
        table._declared = True
        for delta in found:
            gone = deleted_in(delta)
            table.apply(delta)
            if gone is not None:
                table._deleted.append(conformed(gone, table.key_schema, last.keys))
        slots = table.all_slots()
        rows = table._rows(slots) if len(slots) else None
        return make_delta(last.schema, last.keys, last.grouping, rows, table._different_gone())

    def _different_gone(self) -> pa.RecordBatch | None:
        gone = self._gone()
        if gone is None:
            return None
        different = ColumnTable()
        different.declare(self.key_schema, pa.schema([]), self.grouping)
        different.slots(gone)
        return different.keys(different.all_slots())

    def _tidy(self) -> None:
        """Drop what no row refers to, as soon as it is the half."""
        slots: Ints | None = None
        for place, numbering in enumerate(self._numberings):
            if numbering is not None and len(numbering) > 2 * self._index.count + _DEAD_VALUES:
                slots = self.all_slots() if slots is None else slots
                self._numberings[place], mapping = numbering.keep(self._index.words(place, slots))
                words = np.zeros(self._index.limit, np.int64)
                words[slots] = mapping[self._index.words(place, slots)]
                self._index.replace_words(place, words)
                self._prefixes.clear()  # they are made again when they are asked for
        for column in self._columns.values():
            if isinstance(column, ArrowColumn):
                slots = self.all_slots() if slots is None else slots
                column.tidy(slots)

    def empty(self) -> None:
        self._read.clear()
        self._seen = None
        if self._declared:
            self._clear()

    def has_changes(self) -> bool:
        return self._declared and (bool(self._deleted) or bool(self._changed[: self._index.limit].any()))

    def size(self) -> int:
        return self._view()._index.count

    @property
    def nbytes(self) -> int:
        """Estimate how many bytes of memory the rows take."""
        per_key = 8 * self._key_count + 40
        return self._index.limit * per_key + sum(column.nbytes for column in self._columns.values())

    # --- what tools see ----------------------------------------------------------------------------------------------

    def _view(self) -> ColumnTable:
        """Return the table itself, or one that holds what was read before columns were declared."""
        if self._declared:
            return self
        if self._seen is None:
            self._seen = ColumnTable()
            if self._read:
                last = self._read[-1]
                self._seen._shape(schema_from(last.schema), last.keys, last.grouping)
            else:
                self._seen._shape(pa.schema([]), 0, 0)
            self._seen._declared = True
            for delta in self._read:
                self._seen.apply(delta)
        return self._seen

    def _settle(self) -> None:
        """Take the columns of what was read as declared."""
        if not self._declared and self._read:
            last = self._read[-1]
            self._shape(schema_from(last.schema), last.keys, last.grouping)
            self._declared = True
            read, self._read, self._seen = self._read, [], None
            for delta in read:
                self.apply(delta)

    def contents(self) -> Iterator[tuple[Any, Any]]:
        """Return every key of the operator with its row as a dict; with a list of rows where it may have several."""
        table = self._view()
        slots = table.all_slots()
        if not len(slots):
            return
        rows = table._rows(slots)
        keys = row_keys(rows.columns[: table.grouping], len(slots))
        several = table.grouping < table._key_count
        names = table._schema.names[table.grouping if several else table._key_count :]
        held = rows.select([name for name in names if name != _UPDATED]).to_pylist()
        if not several:
            yield from zip(keys, held, strict=True)
            return
        found: dict[Any, list[Any]] = {}
        for key, row in zip(keys, held, strict=True):
            found.setdefault(key, []).append(row)
        yield from found.items()

    def transform(self, change: Callable[[Any, Any], Any]) -> None:
        """Replace the rows of keys by what a function of a key and its row, or rows, returns; None removes them."""
        self._settle()
        if not self._declared:
            return
        put: list[tuple[Any, Any]] = []
        for key, held in list(self.contents()):
            changed = change(key, held)
            if isinstance(changed, list):
                put += ((key, row) for row in changed)
            elif changed is not None:
                put.append((key, {**(held if isinstance(held, dict) else {}), **changed}))
        self.remove_all()
        if not put:
            return
        keys = [key if self.grouping != 1 else (key,) for key, _ in put]
        columns = []
        for place, field in enumerate(self._schema):
            if place < self.grouping:
                values = [key[place] for key in keys]
            elif field.name == _UPDATED:
                values = [self.now_ms] * len(put)
            else:
                values = [row.get(field.name) for _, row in put]
            columns.append(pa.array(values, field.type))
        slots, _ = self.slots(_batch(columns[: self._key_count], self.key_schema, len(put)))
        for place, column in enumerate(self._columns.values()):
            column.put(slots, columns[self._key_count + place])
        self.mark(slots)

    def _must_be_declared(self) -> None:
        if not self._declared:
            raise StateError("Say with declare() which columns a columnar table has before it is used.")


def _batch(arrays: Sequence[pa.Array], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """Return arrays as a record batch; one without columns still has a length."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), length, [None]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cut(rows: pa.RecordBatch, groups: Ints) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Return slices of rows that are sorted by key group."""
    starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
        yield int(groups[start]), rows.slice(start, stop - start)
