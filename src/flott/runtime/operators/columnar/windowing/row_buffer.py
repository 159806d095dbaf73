"""Rows that wait in state for a time: the end of a window, or their own. Task side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.runtime.operators.columnar.windowing.grouping import batch_of
from flott.runtime.operators.columnar.windowing.zones import Longs

AT, SEQUENCE = "$at", "$seq"


class RowBuffer:
    """Rows by key, the time that they wait for, and the order in which they came."""

    def __init__(self, name: str, keys: pa.Schema, rows: pa.Schema, *, grouping: int | None = None):
        self._name = name
        self._grouping = len(keys) if grouping is None else grouping
        self._keys = pa.schema([pa.field(f"$key{place}", field.type) for place, field in enumerate(keys)])
        self._row_fields = [pa.field(f"$column{place}", field.type) for place, field in enumerate(rows)]
        self._rows = rows
        self._key = pa.schema([*self._keys, pa.field("at", pa.int64()), pa.field("seq", pa.int64())])
        #: Time and order again as values: these can be looked at for all rows without making keys.
        self._value = pa.schema(
            [
                pa.field(AT, pa.int64(), nullable=False),
                pa.field(SEQUENCE, pa.int64(), nullable=False),
                *self._row_fields,
            ]
        )
        self.table: ColumnTable = ColumnTable()

    def open(self, state: KeyedState) -> None:
        """Get the rows of this epoch's state."""
        self.table = state.table(COLUMN_TABLES, self._name)
        self.table.declare(self._key, self._value, self._grouping, exact=True)

    def add(self, keys: Sequence[pa.Array], at: Longs, rows: pa.RecordBatch) -> Longs:
        """Add rows behind those that came before; return their slots."""
        if not len(at):
            return np.zeros(0, np.int64)
        held = self.table.all_slots()
        first = int(self.table.column(SEQUENCE)[held].max()) + 1 if len(held) else 0
        order = pa.array(np.arange(first, first + len(at)))
        times = pa.array(at)
        slots: Longs = self.table.slots(batch_of([*keys, times, order], self._key, len(at)))[0]
        self.table.put(slots, pa.RecordBatch.from_arrays([times, order, *rows.columns], schema=self._value))
        return slots

    def matching(self, keys: Sequence[pa.Array], at: Longs) -> tuple[Longs, Longs]:
        """Return pairs of a position in ``keys`` and the slot of a row of that key and time."""
        width = len(self._keys) + 1
        prefix = batch_of([*keys, pa.array(at)], pa.schema(list(self._key)[:width]), len(at))
        return self.table.matching(prefix, width)

    def slots(self) -> tuple[Longs, Longs]:
        """Return the slots of all rows, and what they wait for."""
        slots = self.table.all_slots()
        return slots, self.table.column(AT)[slots]

    def in_order(self, slots: Longs) -> Longs:
        """Return slots in the order in which their rows came."""
        return slots[np.argsort(self.table.column(SEQUENCE)[slots], kind="stable")]

    def order(self, slots: Longs) -> Longs:
        """Return numbers that are larger for rows that came later."""
        found: Longs = self.table.column(SEQUENCE)[slots]
        return found

    def rows(self, slots: Longs) -> pa.RecordBatch:
        """Return the rows of slots."""
        values = self.table.values(slots)
        return batch_of(values.columns[2:], self._rows, len(slots))

    def keys(self, slots: Longs) -> list[pa.Array]:
        """Return the keys of rows."""
        return list(self.table.keys(slots).columns[: len(self._keys)])

    def remove(self, slots: Longs) -> None:
        """Remove rows."""
        self.table.remove(slots)


class LateRows(Sequence[Any]):
    """Rows for the ledger of late ones, which counts them and looks at a few."""

    def __init__(self, rows: pa.RecordBatch):
        self._rows = rows

    def __len__(self) -> int:
        return self._rows.num_rows  # type: ignore[no-any-return]

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return [tuple(row.values()) for row in self._rows.slice(start, stop - start).to_pylist()]
        return tuple(self._rows.slice(index, 1).to_pylist()[0].values())
