"""Aggregates by key and slice, in state. Task side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import batch_of, concatenated, group_rows, taken
from flott.runtime.operators.columnar.windowing.kept_values import KeptValues
from flott.runtime.operators.columnar.windowing.partials import Partials
from flott.runtime.operators.columnar.windowing.row_buffer import AT
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._plan.logical import AggregateCall, Schema
from flott.table._plan.window_partials import parts_of

#: Of windows that end by the clock: the end of the last window of a slice that was emitted.
DONE = "$done"


class SliceStore:
    """Parts of calls, and values of those that have no parts, by key and slice.

    A slice is named by a number; those of windows with attached columns have their start beside it.
    """

    def __init__(
        self, keys: pa.Schema, input: Schema, calls: Sequence[AggregateCall], *, retracts: bool, starts: bool = False
    ):
        parts = [parts_of(place, call, input, retracts) for place, call in enumerate(calls)]
        self.partials = Partials(
            input, [(n, call) for n, (call, own) in enumerate(zip(calls, parts, strict=True)) if own], retracts
        )
        self._has_parts = [own is not None for own in parts]
        kept = [call for call, own in zip(calls, parts, strict=True) if own is None]
        named = [pa.field(f"$key{place}", field.type) for place, field in enumerate(keys)]
        #: The start of an attached window tells windows of the same end apart, as a further column of the key.
        self._wide = pa.schema([*named, pa.field("start", pa.int64())] if starts else named)
        self.kept = KeptValues("values", self._wide, input, kept, retracts) if kept else None
        self.grouping = len(keys)
        self._key = pa.schema([*self._wide, pa.field("at", pa.int64())])
        fixed = [pa.field(name, pa.int64(), nullable=False) for name in (AT, DONE)]
        self._value = pa.schema([*fixed, *self.partials.schema])
        self.table: ColumnTable = ColumnTable()

    def open(self, state: KeyedState) -> None:
        """Get the slices of this epoch's state."""
        self.table = state.table(COLUMN_TABLES, "slices")
        self.table.declare(self._key, self._value, self.grouping, exact=True)
        if self.kept is not None:
            self.kept.open(state, self.grouping)

    # --- in ----------------------------------------------------------------------------------------------------------

    def add(self, keys: Sequence[pa.Array], slices: Longs, changes: Changes) -> None:
        """Add rows to their slices."""
        groups, first = group_rows([*keys, pa.array(slices)], len(changes))
        parts = self.partials.of_rows(changes, groups, len(first))
        self._merge([taken(column, first) for column in keys], slices[first], parts)
        if self.kept is not None:
            self.kept.add(keys, slices, changes)

    def add_parts(self, keys: Sequence[pa.Array], slices: Longs, parts: Sequence[pa.Array]) -> None:
        """Add partial aggregates to their slices."""
        groups, first = group_rows([*keys, pa.array(slices)], len(slices))
        merged = self.partials.merged(parts, groups, len(first))
        self._merge([taken(column, first) for column in keys], slices[first], merged)

    def _merge(self, keys: Sequence[pa.Array], slices: Longs, parts: pa.RecordBatch) -> None:
        """Merge parts into state, of which none has the same key and slice as another."""
        count = len(slices)
        slots, new = self.table.slots(batch_of([*keys, pa.array(slices)], self._key, count))
        held = np.flatnonzero(~new)
        if len(held) and self.partials.parts:
            before = self.parts(slots[held])
            both = concatenated([before, parts])
            parts = self.partials.merged(both.columns, np.concatenate((held, np.arange(count))), count)
        self.table.column(AT)[slots] = slices
        for part, column in zip(self.partials.parts, parts.columns, strict=True):
            self.table.put_column(part.name, slots, column)
        self.table.mark(slots)

    def put(self, keys: Sequence[pa.Array], slices: Longs, done: Longs, parts: pa.RecordBatch) -> None:
        """Put slices in the place of what is there."""
        slots, _ = self.table.slots(batch_of([*keys, pa.array(slices)], self._key, len(slices)))
        self.table.column(AT)[slots] = slices
        self.table.column(DONE)[slots] = done
        for part, column in zip(self.partials.parts, parts.columns, strict=True):
            self.table.put_column(part.name, slots, column)
        self.table.mark(slots)

    # --- out ---------------------------------------------------------------------------------------------------------

    def slots(self) -> tuple[Longs, Longs]:
        """Return all slots, and their slices."""
        slots = self.table.all_slots()
        return slots, self.table.column(AT)[slots]

    def find(self, keys: Sequence[pa.Array], slices: Longs) -> Longs:
        """Return the slots of keys and slices."""
        found: Longs = self.table.find(batch_of([*keys, pa.array(slices)], self._key, len(slices)))
        return found

    def parts(self, slots: Longs) -> pa.RecordBatch:
        """Return the parts of slots."""
        columns = [self.table.take_column(part.name, slots) for part in self.partials.parts]
        return batch_of(columns, self.partials.schema, len(slots))

    def keys(self, slots: Longs) -> list[pa.Array]:
        """Return the key columns of slots."""
        return list(self.table.keys(slots).columns[:-1])

    def results(
        self, slots: Longs, windows: Longs, kept_slots: Longs, kept_windows: Longs, *, alone: bool
    ) -> tuple[list[pa.Array], Longs, list[pa.Array]]:
        """Return keys, places and results of windows, given pairs of a slot and a window that it belongs to.

        A place is the position of a pair of the window. ``alone``: each slot is a window of its own.
        """
        keys = self.keys(slots)
        parts = self.parts(slots)
        places = np.arange(len(slots))
        if not alone:
            groups, places = group_rows([*keys, pa.array(windows)], len(slots))
            parts = self.partials.merged(parts.columns, groups, len(places))
        present = self.partials.present(parts)
        if present is not None and not present.all():
            there = np.flatnonzero(present)
            places, parts = places[there], parts.take(pa.array(there))
        if len(places) != len(slots):
            keys = [taken(column, places) for column in keys]
        own = iter(self.partials.results(parts))
        others = iter(self._kept_results(keys, windows[places], kept_slots, kept_windows))
        return keys, places, [next(own) if has else next(others) for has in self._has_parts]

    def _kept_results(
        self, keys: list[pa.Array], windows: Longs, kept_slots: Longs, kept_windows: Longs
    ) -> list[pa.Array]:
        if self.kept is None:
            return []
        count = len(windows)
        kept_keys = self.kept.keys(kept_slots)
        both = [pa.concat_arrays([one, other]) for one, other in zip(keys, kept_keys, strict=True)]
        times = np.concatenate((windows, kept_windows))
        groups, _ = group_rows([*both, pa.array(times)], len(times))
        # The windows come first and are different, so that their group is their position.
        own = groups[count:]
        there = own < count  # all rows of some windows may have been retracted
        return self.kept.results(kept_slots[there], own[there], count)

    # --- keeping -----------------------------------------------------------------------------------------------------

    def merge_into(self, slots: Longs, targets: Longs) -> None:
        """Merge slices of the same keys into others."""
        if len(slots):
            keys, parts = self.keys(slots), self.parts(slots)
            self.table.remove(slots)
            self.add_parts(keys, targets, parts.columns)

    def remove(self, slots: Longs) -> None:
        """Remove slices."""
        self.table.remove(slots)
