"""Rows of an input that an operator keeps, by key, in a columnar table. Task side.

What tells the rows of one key apart decides how they are found again:

    unique      some columns of theirs: a row with the same ones takes the place of the former
    counted     all columns: rows that are the same are counted
    numbered    the order in which they came: rows are never looked for one by one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.runtime.operators.columnar.key_codes import Flags, Ints, codes_of
from flott.runtime.operators.operator import OperatorContext

#: Columns of a table that no input has.
COUNT = "$count"
NUMBER = "$number"


class Apart(Enum):
    """What tells rows of one key apart."""

    UNIQUE = "unique"
    COUNTED = "counted"
    NUMBERED = "numbered"


class KeptRows:
    """Rows by key. Every row has a slot, as in :class:`ColumnTable`."""

    def __init__(
        self,
        context: OperatorContext,
        name: str,
        schema: pa.Schema,
        key: Sequence[int],
        apart: Apart,
        *,
        unique: Sequence[int] = (),
        extra: Sequence[str] = (),
        ttl_ms: int = 0,
    ):
        assert context.keyed_state is not None, "an operator with state needs a key"
        self._context = context
        self.table: ColumnTable = context.keyed_state.table(COLUMN_TABLES, name)
        self.apart = apart
        self.key = tuple(dict.fromkeys(key))
        self._asked = tuple(key)  #: a column may be compared twice
        within: Sequence[int] = unique
        if apart is Apart.COUNTED:
            within = range(len(schema))
        elif apart is Apart.NUMBERED:
            within = ()
        self.key_columns = [*self.key, *(column for column in within if column not in self.key)]
        self._value_columns = [column for column in range(len(schema)) if column not in self.key_columns]
        key_fields = [pa.field(f"c{column}", schema.field(column).type) for column in self.key_columns]
        if apart is Apart.NUMBERED:
            key_fields.append(pa.field(NUMBER, pa.int64(), nullable=False))
        value_fields = [pa.field(f"c{column}", schema.field(column).type) for column in self._value_columns]
        counters = [*extra, COUNT] if apart is Apart.COUNTED else list(extra)
        value_fields += [pa.field(counter, pa.int64(), nullable=False) for counter in counters]
        self._counters = counters
        self._ttl_ms = ttl_ms
        self.table.declare(
            pa.schema(key_fields),
            pa.schema(value_fields),
            len(self.key),
            ages_from=context.scope.now_ms if ttl_ms else None,
            exact=True,
        )
        self._next: int | None = None  #: the number of the next row; None: see which ones there are
        self._epoch = context.scope.epoch

    def begin(self) -> None:
        """Begin an epoch: forget what was not updated for too long."""
        epoch = self._context.scope.epoch
        if epoch not in (self._epoch, self._epoch + 1):  # another worker may have had the state in the meantime
            self._next = None
        self._epoch = epoch
        if self._ttl_ms:
            self.table.now_ms = self._context.scope.now_ms
            self.table.expire(self.table.now_ms - self._ttl_ms + 1)

    # --- finding -----------------------------------------------------------------------------------------------------

    def matching(self, keys: Sequence[pa.Array], length: int) -> tuple[Ints, Ints]:
        """Return pairs of a position in keys and the slot of a row with that key, by position.

        ``keys`` are columns in the order of the key that the store was made with.
        """
        if not self.key:
            slots = self.table.all_slots()
            return np.repeat(np.arange(length), len(slots)), np.tile(slots, length)
        picked = [keys[self._asked.index(column)] for column in self.key]
        prefix = pa.RecordBatch.from_arrays(picked, names=[f"c{column}" for column in self.key])
        positions, slots = self.table.matching(prefix, len(self.key))
        if len(self._asked) > len(self.key):  # one column compared with several
            same = np.ones(len(positions), np.bool_)
            held = self.table.keys(slots)
            for place, column in enumerate(self._asked):
                compared = pa.concat_arrays([keys[place], held.column(self.key.index(column))])
                codes, _ = codes_of([compared], len(compared))
                same &= codes[: len(keys[place])][positions] == codes[len(keys[place]) :]
            positions, slots = positions[same], slots[same]
        return positions, slots

    def find(self, columns: pa.RecordBatch) -> Ints:
        """Return the slots of rows that are told apart by their columns; -1 where there is none."""
        slots: Ints = self.table.find(self._full_keys(columns))
        return slots

    def slots(self, columns: pa.RecordBatch) -> tuple[Ints, Flags]:
        """Return the slots of rows, made where there were none, and which were made."""
        return self.table.slots(self._full_keys(columns))

    def _full_keys(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [columns.column(column) for column in self.key_columns]
        return _batch(arrays, [f"c{column}" for column in self.key_columns], columns.num_rows)

    # --- rows --------------------------------------------------------------------------------------------------------

    def rows(self, slots: Ints) -> list[pa.Array]:
        """Return the columns of rows, in the order of the input."""
        found: dict[int, pa.Array] = {}
        if self.key_columns:
            keys = self.table.keys(slots)
            for place, column in enumerate(self.key_columns):
                found[column] = keys.column(place)
        for column in self._value_columns:
            found[column] = self.table.take_column(f"c{column}", slots)
        return [found[column] for column in sorted(found)]

    def some_columns(self, slots: Ints, wanted: Sequence[int]) -> dict[int, pa.Array]:
        """Return some columns of rows, by position in the input."""
        found: dict[int, pa.Array] = {}
        if any(column in self.key_columns for column in wanted):
            keys = self.table.keys(slots)
            for place, column in enumerate(self.key_columns):
                found[column] = keys.column(place)
        for column in wanted:
            if column not in found:
                found[column] = self.table.take_column(f"c{column}", slots)
        return {column: found[column] for column in wanted}

    def fetch(self, slots: Ints) -> Callable[[Sequence[int]], dict[int, pa.Array]]:
        """Return what gives columns of rows."""
        return lambda wanted: self.some_columns(slots, wanted)

    def counter(self, name: str) -> Ints:
        """Return a counter by slot, to be changed in place."""
        column: Ints = self.table.column(name)
        return column

    def put(self, slots: Ints, columns: pa.RecordBatch) -> None:
        """Put what slots do not hold yet of rows; counters stay. Of several rows for a slot the last one counts."""
        for column in self._value_columns:
            self.table.put_column(f"c{column}", slots, columns.column(column))
        self.table.mark(slots)

    def append(self, columns: pa.RecordBatch, numbers: Ints | None = None) -> Ints:
        """Add numbered rows, and return their slots. Without given numbers they get the next ones."""
        if numbers is None:
            start = self.highest() + 1 if self._next is None else self._next
            numbers = np.arange(start, start + columns.num_rows)
            self._next = start + columns.num_rows
        slots, _ = self._numbered_slots(columns, numbers)
        self.put(slots, columns)
        return slots

    def highest(self) -> int:
        """Return the highest number of a row; -1 if there is none."""
        return int(self.numbers(self.table.all_slots()).max(initial=-1))

    def numbers(self, slots: Ints) -> Ints:
        """Return the numbers of numbered rows."""
        if not len(slots):
            return np.zeros(0, np.int64)
        return np.asarray(self.table.keys(slots).column(len(self.key_columns)))

    def _numbered_slots(self, columns: pa.RecordBatch, numbers: Ints) -> tuple[Ints, Flags]:
        arrays = [*(columns.column(column) for column in self.key_columns), pa.array(numbers, pa.int64())]
        return self.table.slots(_batch(arrays, [*(f"c{column}" for column in self.key_columns), NUMBER], len(numbers)))

    def remove(self, slots: Ints) -> None:
        """Remove rows."""
        if len(slots):
            self.table.remove(slots)


def _batch(arrays: list[pa.Array], names: list[str], length: int) -> pa.RecordBatch:
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, names=names)
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), length, [None]))
