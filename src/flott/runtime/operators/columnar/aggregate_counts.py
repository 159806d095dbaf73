"""Aggregation over windows of a number of rows, as the Table API has them. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES
from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import arrival_ranks, batch_of, group_rows, taken
from flott.runtime.operators.columnar.windowing.slice_store import SliceStore
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import LocalClock, Longs
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import AggregateWindows
from flott.table._types.arrow import arrow_schema

_SEEN = "$seen"


class CountWindowOperator(WaitingOperator):
    """Numbers the rows of each key as they come; a window is emitted as soon as it has all of its rows."""

    operation: AggregateWindows

    def __init__(self, context: OperatorContext, operation: AggregateWindows):
        super().__init__(context, operation, [operation.input])
        window = operation.window
        assert window is not None
        assert window.count is not None
        self.clock = LocalClock()
        self._count, self._slide = window.count, window.count_slide or window.count
        keys = operation.input.pick(operation.keys)
        self._keys = arrow_schema(keys.names, keys.types)
        self.store = SliceStore(self._keys, operation.input, operation.calls, retracts=any(operation.retracts))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        changes = inputs[0]
        if not len(changes):
            return
        self.store.open(self.state)
        seen = self.state.table(COLUMN_TABLES, "seen")
        named = pa.schema([pa.field(f"$key{place}", field.type) for place, field in enumerate(self._keys)])
        seen.declare(named, pa.schema([pa.field(_SEEN, pa.int64(), nullable=False)]), len(named))
        keys = [changes.columns.column(place) for place in self.operation.keys]
        groups, first = group_rows(keys, len(changes))
        slots, _ = seen.slots(batch_of([taken(column, first) for column in keys], named, len(first)))
        numbers = seen.column(_SEEN)[slots][groups] + arrival_ranks(groups)
        seen.column(_SEEN)[slots] += np.bincount(groups, minlength=len(first))
        seen.mark(slots)
        # Row n belongs to the windows w with w * slide <= n < w * slide + count.
        last = numbers // self._slide
        opening = np.maximum((numbers - self._count) // self._slide + 1, 0)
        many = np.maximum(last - opening + 1, 0)
        places = np.repeat(np.arange(len(changes)), many)
        windows = opening[places] + np.arange(len(places)) - np.repeat(np.cumsum(many) - many, many)
        kinds = None if changes.kinds is None else changes.kinds[places]
        self.store.add(
            [taken(column, places) for column in keys], windows, Changes(changes.columns.take(pa.array(places)), kinds)
        )
        # A row that is the last of a window ends it: windows are emitted in the order of these rows.
        ends = numbers - self._count + 1
        closing = np.flatnonzero((ends >= 0) & (ends % self._slide == 0))
        if len(closing):
            self._emit([taken(column, closing) for column in keys], ends[closing] // self._slide)

    def _emit(self, keys: list[pa.Array], windows: Longs) -> None:
        slots = self.store.find(keys, windows)
        kept_slots = kept_windows = np.zeros(0, np.int64)
        if self.store.kept is not None:
            kept_slots, kept_windows = self.store.kept.slots()
            chosen = np.flatnonzero(np.isin(self.store.find(self.store.kept.keys(kept_slots), kept_windows), slots))
            kept_slots, kept_windows = kept_slots[chosen], kept_windows[chosen]
        found, places, results = self.store.results(slots, windows, kept_slots, kept_windows, alone=True)
        nowhere = np.zeros(len(places), np.int64)
        columns = [*found, *results]
        columns += self.property_columns(self.operation.properties, nowhere, nowhere, len(columns))
        self.send(columns)
        self.store.remove(slots)
        if self.store.kept is not None:
            self.store.kept.remove(kept_slots)
