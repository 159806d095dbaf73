"""Calls of a window aggregation that have no parts: their values are kept until a window ends. Task side.

Equal values are kept once with their number, unless a call asks for the order of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.evaluation import evaluated
from flott.runtime.operators.columnar.windowing.grouping import batch_of, group_rows, taken
from flott.runtime.operators.columnar.windowing.row_buffer import AT, SEQUENCE
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._plan.logical import AggregateCall, Schema
from flott.table._types.arrow import arrow_schema

NUMBER = "$n"
#: Whose result does not depend on the order of its values.
_UNORDERED = frozenset({"COUNT", "SUM", "$SUM0", "SUM0", "AVG", "MIN", "MAX", "STDDEV_POP", "STDDEV_SAMP", "VAR_POP"})


class KeptValues:
    """The values of calls by key and window (or slice), and what the calls make of them."""

    def __init__(self, name: str, keys: pa.Schema, input: Schema, calls: Sequence[AggregateCall], retracts: bool):
        needed = sorted({place for call in calls for place in call.columns})
        at = {place: position for position, place in enumerate(needed)}
        self._name, self._needed = name, needed
        self._schema = input.pick(tuple(needed))
        self._calls = [call.moved(at) for call in calls]
        self._ordered = not retracts and any(call.function not in _UNORDERED for call in calls)
        columns = arrow_schema(self._schema.names, self._schema.types)
        self._columns = [pa.field(f"$column{place}", field.type) for place, field in enumerate(columns)]
        self._rows = columns
        self._key_width = len(keys)
        key = [pa.field(f"$key{place}", field.type) for place, field in enumerate(keys)]
        key.append(pa.field("at", pa.int64()))
        key += [pa.field("seq", pa.int64())] if self._ordered else self._columns
        self._key = pa.schema(key)
        value = [pa.field(name, pa.int64(), nullable=False) for name in (AT, SEQUENCE, NUMBER)]
        self._value = pa.schema(value + self._columns if self._ordered else value)
        self.table: ColumnTable = ColumnTable()

    def open(self, state: KeyedState, grouping: int) -> None:
        """Get the values of this epoch's state. The first ``grouping`` columns of the key are that of the operator."""
        self.table = state.table(COLUMN_TABLES, self._name)
        self.table.declare(self._key, self._value, grouping, exact=True)

    def add(self, keys: Sequence[pa.Array], at: Longs, changes: Changes) -> None:
        """Add the values of rows."""
        length = len(changes)
        if not length:
            return
        columns = [changes.columns.column(place) for place in self._needed]
        held = self.table.all_slots()
        first = int(self.table.column(SEQUENCE)[held].max()) + 1 if len(held) else 0
        self._put(keys, at, columns, np.arange(first, first + length), changes.signs)

    def _put(self, keys: Sequence[pa.Array], at: Longs, columns: list[pa.Array], order: Longs, numbers: Longs) -> None:
        times = pa.array(at)
        if self._ordered:
            key = [*keys, times, pa.array(order)]
            slots, _ = self.table.slots(batch_of(key, self._key, len(at)))
            arrays = [times, pa.array(order), pa.array(numbers), *columns]
            self.table.put(slots, pa.RecordBatch.from_arrays(arrays, schema=self._value))
            return
        groups, first = group_rows([*keys, times, *columns], len(at))
        key = [taken(column, first) for column in (*keys, times, *columns)]
        sums = np.bincount(groups, numbers, minlength=len(first)).astype(np.int64)
        slots, new = self.table.slots(batch_of(key, self._key, len(first)))
        self.table.column(NUMBER)[slots] += sums
        self.table.column(AT)[slots] = at[first]
        self.table.column(SEQUENCE)[slots[new]] = order[first[new]]
        self.table.mark(slots)
        self.table.remove(slots[self.table.column(NUMBER)[slots] == 0])

    def slots(self) -> tuple[Longs, Longs]:
        """Return the slots of all values, and their windows."""
        slots = self.table.all_slots()
        return slots, self.table.column(AT)[slots]

    def keys(self, slots: Longs) -> list[pa.Array]:
        """Return the keys of slots."""
        return list(self.table.keys(slots).columns[: self._key_width])

    def remove(self, slots: Longs) -> None:
        """Remove values."""
        self.table.remove(slots)

    def move(self, slots: Longs, at: Longs) -> None:
        """Move values to other windows, where they are added to what is there."""
        if not len(slots):
            return
        keys, columns = self.keys(slots), self._values(slots)
        order, numbers = self.table.column(SEQUENCE)[slots], self.table.column(NUMBER)[slots]
        self.table.remove(slots)
        self._put(keys, at, columns, order, numbers)

    def rename(self, keys: Sequence[pa.Array], old: Longs, new: Longs) -> None:
        """Move the values of windows to other windows of the same keys."""
        moved = np.flatnonzero(old != new)
        if len(moved):
            prefix = [taken(column, moved) for column in keys] + [pa.array(old[moved])]
            schema = pa.schema(list(self._key)[: self._key_width + 1])
            positions, slots = self.table.matching(batch_of(prefix, schema, len(moved)), self._key_width + 1)
            self.move(slots, new[moved][positions])

    def _values(self, slots: Longs) -> list[pa.Array]:
        if self._ordered:
            return list(self.table.values(slots).columns[3:])
        return list(self.table.keys(slots).columns[self._key_width + 1 :])

    def results(self, slots: Longs, groups: Longs, count: int) -> list[pa.Array]:
        """Return what the calls make of values: ``groups`` gives the result that each slot belongs to."""
        order = np.argsort(self.table.column(SEQUENCE)[slots], kind="stable")
        slots, groups = slots[order], groups[order]
        numbers = self.table.column(NUMBER)[slots]
        columns = self._values(slots)
        rows = batch_of(columns, self._rows, len(slots))
        return evaluated_calls(self._calls, self._schema, rows, numbers, groups, count)


def evaluated_calls(
    calls: Sequence[AggregateCall], schema: Schema, rows: pa.RecordBatch, numbers: Longs, groups: Longs, count: int
) -> list[pa.Array]:
    """Return the results of calls over groups of rows, each of which counts ``numbers`` times."""
    repeated: tuple[pa.RecordBatch, Longs] | None = None
    found = []
    for call in calls:
        if call.distinct:
            found.append(_distinct(call, schema, rows, numbers, groups, count))
            continue
        if repeated is None:
            places = np.repeat(np.arange(len(groups)), np.maximum(numbers, 0))
            repeated = (rows.take(pa.array(places)), groups[places]) if len(places) != len(groups) else (rows, groups)
        found.append(evaluated(call, schema, repeated[0], repeated[1], count))
    return found


def _distinct(
    call: AggregateCall, schema: Schema, rows: pa.RecordBatch, numbers: Longs, groups: Longs, count: int
) -> pa.Array:
    kept = numbers > 0
    if call.filter is not None:
        kept &= pc.fill_null(rows.column(call.filter), False).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(kept)
    arguments = [taken(rows.column(place), places) for place in call.arguments]
    _, first = group_rows([pa.array(groups[places]), *arguments], len(places))
    chosen = places[first]
    plain = replace(call, distinct=False, filter=None)
    return evaluated(plain, schema, rows.take(pa.array(chosen)), groups[chosen], count)
