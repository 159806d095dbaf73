"""Rows of external tables that an operator remembers. Task side; no part of its state, as in Flink."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.kinds.column_tables import ColumnTable
from flott.runtime.operators.columnar.key_codes import Flags, Ints
from flott.table._plan.operations import LookupSettings

_LOADED, _NUMBER = "$loaded", "$number"


class LookupCache:
    """The rows of the keys that were asked for last."""

    def __init__(self, settings: LookupSettings, schema: pa.Schema, keys: tuple[int, ...]):
        self._settings, self._schema, self._key_columns = settings, schema, keys
        fields = [pa.field(f"k{place}", schema.field(key).type) for place, key in enumerate(keys)]
        self._key_schema = pa.schema(fields)
        self._known = ColumnTable()
        self._known.declare(self._key_schema, pa.schema([pa.field(_LOADED, pa.int64(), nullable=False)]), len(keys))
        self._rows = ColumnTable()
        numbered = pa.schema([*fields, pa.field(_NUMBER, pa.int64(), nullable=False)])
        values = pa.schema([pa.field(f"c{place}", field.type) for place, field in enumerate(schema)])
        self._rows.declare(numbered, values, len(keys))
        self._next = 0

    def known(self, keys: list[pa.Array], now_ms: int) -> Flags:
        """Return of which keys the rows are remembered."""
        slots = self._known.find(self._batch(keys))
        found: Flags = slots >= 0
        if self._settings.cache_ms:
            found &= self._known.column(_LOADED)[slots] > now_ms - self._settings.cache_ms
        return found

    def rows(self, keys: list[pa.Array]) -> list[pa.Array]:
        """Return the rows of keys."""
        _, slots = self._rows.matching(self._batch(keys), len(self._key_columns))
        return list(self._rows.values(slots).columns)

    def remember(self, keys: list[pa.Array], found: Flags, rows: pa.RecordBatch, now_ms: int) -> None:
        """Remember the rows of keys; ``found`` says which keys have any."""
        batch = self._batch(keys)
        _, former = self._rows.matching(batch, len(self._key_columns))
        self._rows.remove(former)
        if not self._settings.cache_missing:
            batch = batch.take(pa.array(np.flatnonzero(found)))
        slots, _ = self._known.slots(batch)
        self._known.column(_LOADED)[slots] = now_ms
        numbers = pa.array(np.arange(self._next, self._next + rows.num_rows))
        self._next += rows.num_rows
        full = [*(rows.column(key) for key in self._key_columns), numbers]
        places, _ = self._rows.slots(pa.RecordBatch.from_arrays(full, schema=self._rows.key_schema))
        self._rows.put(places, pa.RecordBatch.from_arrays(rows.columns, schema=self._rows.value_schema))
        self._make_room()

    def _make_room(self) -> None:
        """Forget the keys that were fetched first."""
        slots: Ints = self._known.all_slots()
        surplus = len(slots) - self._settings.cache_keys
        if surplus <= 0:
            return
        oldest = slots[np.argsort(self._known.column(_LOADED)[slots], kind="stable")[:surplus]]
        _, rows = self._rows.matching(self._known.keys(oldest), len(self._key_columns))
        self._rows.remove(rows)
        self._known.remove(oldest)

    def _batch(self, keys: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(keys, schema=self._key_schema)
