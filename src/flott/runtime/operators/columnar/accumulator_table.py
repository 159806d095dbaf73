"""Accumulators of aggregate functions in state, and the different values that DISTINCT needs. Task side.

The accumulators of all calls are columns of one columnar table, beside the number of rows of a group. A call with
DISTINCT has a table of its own: how often each value is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.columns.fixed_width import Ints
from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.table._functions.aggregates.accumulation import Accumulation, Groups, Numbers, State, running_sum
from flott.table._functions.aggregates.library import make_accumulation
from flott.table._plan.logical import AggregateCall, Schema

_ROWS = "rows"


def rows_of(columns: Sequence[pa.Array], names: Sequence[str], length: int) -> pa.RecordBatch:
    """Return columns as a record batch; one without columns still has a length."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), length, [None]))
    return pa.RecordBatch.from_arrays(list(columns), names=list(names))


def accumulations_of(calls: Sequence[AggregateCall], schema: Schema, *, retracts: bool) -> list[Accumulation]:
    """Return the accumulators of calls over columns of a schema. Distinct values come and go only as rows do."""
    return [
        make_accumulation(call, tuple(schema.types[index] for index in call.arguments), retracts=retracts)
        for call in calls
    ]


class AccumulatorRows:
    """The rows of accumulators by key."""

    def __init__(
        self,
        state: KeyedState,
        name: str,
        key: pa.Schema,
        grouping: int,
        accumulations: Sequence[Accumulation],
        ages_from: int | None = None,
    ):
        self.table: ColumnTable = state.table(COLUMN_TABLES, name)
        self._fields = [
            [(f"{number}.{field.name}", field) for field in of.fields] for number, of in enumerate(accumulations)
        ]
        value = [pa.field(_ROWS, pa.int64(), nullable=False)]
        value += [pa.field(name, field.type, field.nullable) for fields in self._fields for name, field in fields]
        self.table.declare(key, pa.schema(value), grouping, ages_from=ages_from, exact=True)

    def counts(self, slots: Ints) -> Ints:
        """Return how many rows the groups have."""
        return self.table.column(_ROWS)[slots]

    def load(self, slots: Ints) -> list[State]:
        """Return the states of all calls."""
        return [[self._load(name, slots) for name, _ in fields] for fields in self._fields]

    def _load(self, name: str, slots: Ints) -> Any:
        if not self.table.is_fixed(name):
            return self.table.take_column(name, slots)
        valid = self.table.valid(name)[slots] if self.table.is_nullable(name) else None
        return Numbers(self.table.column(name)[slots], valid)

    def store(self, slots: Ints, counts: Ints, states: Sequence[State]) -> None:
        """Put the states of all calls."""
        self.table.column(_ROWS)[slots] = counts
        for fields, state in zip(self._fields, states, strict=True):
            for (name, _), column in zip(fields, state, strict=True):
                if isinstance(column, Numbers):
                    self.table.column(name)[slots] = column.values
                    if self.table.is_nullable(name):
                        self.table.valid(name)[slots] = True if column.valid is None else column.valid
                else:
                    self.table.put_column(name, slots, column)
        self.table.mark(slots)


class _CountedRows(NamedTuple):
    rows: Ints  #: by value
    starts: Ints  #: where the rows of each value begin
    ends: Ints  #: their last rows
    counts: list[tuple[Ints, Ints]]  #: for each call: the signs of rows, and how often their value is there after them


class DistinctValues:
    """How often each value of a group is there: the first one counts, and the last one that goes.

    Calls of the same arguments with different filters share the table, which has a count for each of them.
    """

    def __init__(
        self,
        state: KeyedState,
        name: str,
        key: pa.Schema,
        arguments: pa.Schema,
        ages_from: int | None = None,
        calls: int = 1,
    ):
        self.table: ColumnTable = state.table(COLUMN_TABLES, name)
        fields = [*key, *(pa.field(f"${number}", field.type) for number, field in enumerate(arguments))]
        self._names = [field.name for field in fields]
        self._width = len(key)
        self._counts = [f"count {number}" for number in range(calls)]
        value = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in self._counts])
        self.table.declare(pa.schema(fields), value, len(key), ages_from=ages_from, exact=True)

    def signs(self, keys: Sequence[pa.Array], arguments: Sequence[pa.Array], signs: Ints) -> Ints:
        """Return what ``signs_by_call`` gives for the only call."""
        return self.signs_by_call(keys, arguments, [signs])[0]

    def signs_by_call(
        self, keys: Sequence[pa.Array], arguments: Sequence[pa.Array], signs: Sequence[Ints]
    ) -> list[Ints]:
        """Return the signs of each call without those of rows whose value was there already, or is still there.

        The table is updated.
        """
        found = [np.zeros(len(own), np.int64) for own in signs]
        if all((own >= 0).all() for own in signs) and self._added(keys, arguments, signs, found):
            return found
        changed = self._updated(keys, arguments, signs)
        if changed is not None:
            for own, (signed, after) in zip(found, changed.counts, strict=True):
                own[changed.rows] = (after > 0).astype(np.int64) - (after - signed > 0)
        return found

    def net(self, keys: Sequence[pa.Array], arguments: Sequence[pa.Array], signs: Ints) -> tuple[Ints, Ints]:
        """Return a row of each value that came (1) or went (-1), all rows taken together. The table is updated."""
        changed = self._updated(keys, arguments, [signs])
        if changed is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ((own, after),) = changed.counts
        net = (after[changed.ends] > 0).astype(np.int64) - ((after - own)[changed.starts] > 0)
        kept = net != 0
        return changed.rows[changed.starts][kept], net[kept]

    def _looked_up(
        self, keys: Sequence[pa.Array], arguments: Sequence[pa.Array], signs: Sequence[Ints]
    ) -> tuple[Ints, Ints] | None:
        """Return the rows that count for any call, and the slots of their values."""
        chosen = signs[0] != 0
        for own in signs[1:]:
            chosen = chosen | (own != 0)
        for argument in arguments:
            if argument.null_count:
                chosen = chosen & np.asarray(argument.is_valid())
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return None
        columns = [*keys, *arguments]
        if len(rows) < len(chosen):
            at = pa.array(rows)
            columns = [column.take(at) for column in columns]
        return rows, self.table.slots(rows_of(columns, self._names, len(rows)))[0]

    def _added(
        self, keys: Sequence[pa.Array], arguments: Sequence[pa.Array], signs: Sequence[Ints], found: list[Ints]
    ) -> bool:
        """Count rows that are only added: the first one of each value that was not there counts. Nothing is sorted.

        Return whether it was done: not if a value is owed, because it was taken away before it came.
        """
        looked_up = self._looked_up(keys, arguments, signs)
        if looked_up is None:
            return True
        rows, slots = looked_up
        if any((self.table.column(name)[slots] < 0).any() for name in self._counts):
            return False
        first = np.empty(int(slots.max()) + 1, np.int64)  # by slot; read only where it was written
        for name, own, signed in zip(self._counts, found, signs, strict=True):
            at = np.flatnonzero(signed[rows])
            own_slots, counts = slots[at], self.table.column(name)
            first[own_slots[::-1]] = at[::-1]
            new = (first[own_slots] == at) & (counts[own_slots] == 0)
            own[rows[at[new]]] = 1
            np.add.at(counts, own_slots, 1)
        self.table.mark(slots)
        return True

    def _updated(
        self, keys: Sequence[pa.Array], arguments: Sequence[pa.Array], signs: Sequence[Ints]
    ) -> _CountedRows | None:
        """Count rows; return those that count, by value. One lookup serves all calls."""
        looked_up = self._looked_up(keys, arguments, signs)
        if looked_up is None:
            return None
        rows, slots = looked_up
        order = np.argsort(slots, kind="stable")
        by_slot = slots[order]
        begins = np.append(True, by_slot[1:] != by_slot[:-1])
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(by_slot)) - 1
        different, by_value = by_slot[starts], rows[order]
        groups = Groups(np.cumsum(begins) - 1, len(starts), by_value, True)
        counts = []
        held = np.zeros(len(different), np.bool_)
        for name, own in zip(self._counts, signs, strict=True):
            signed = own[by_value]
            after = running_sum(groups, signed, self.table.column(name)[different])
            self.table.column(name)[different] = after[ends]
            held |= after[ends] != 0
            counts.append((signed, after))
        self.table.mark(different)
        self.table.remove(different[~held])
        return _CountedRows(by_value, starts, ends, counts)

    def held(self, keys: pa.RecordBatch) -> tuple[Ints, pa.Array, Ints]:
        """Return the values of groups: the position of the group, the value, and how often it is there."""
        positions, slots = self.table.matching(keys, self._width)
        return positions, self.table.keys(slots).column(self._width), self.table.column(self._counts[0])[slots]

    def forget(self, keys: pa.RecordBatch) -> None:
        """Remove all values of groups that are gone."""
        if keys.num_rows and self.table.size():
            _, slots = self.table.matching(keys, self._width)
            self.table.remove(slots)
