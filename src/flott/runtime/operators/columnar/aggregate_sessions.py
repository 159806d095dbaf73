"""Aggregation over SESSION windows. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import batch_of, concatenated, group_rows, taken
from flott.runtime.operators.columnar.windowing.row_buffer import AT
from flott.runtime.operators.columnar.windowing.sessions import merged_sessions
from flott.runtime.operators.columnar.windowing.slice_store import DONE, SliceStore
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import AggregateWindows
from flott.table._types.arrow import arrow_schema


class SessionAggregateOperator(WaitingOperator):
    """Merges rows into the sessions of their keys; a session is a slice that is named by its start.

    Where slices of other windows note what was emitted, a session has its end.
    """

    operation: AggregateWindows

    def __init__(self, context: OperatorContext, operation: AggregateWindows):
        super().__init__(context, operation, [operation.input])
        window = operation.window
        assert window is not None
        self.window = window
        self.proctime = window.proctime
        self.clock = self.clock_of(operation.input, window.time)
        self._time_name = operation.input.names[window.time]
        keys = operation.input.pick(operation.keys)
        self._keys = arrow_schema(keys.names, keys.types)
        self.store = SliceStore(self._keys, operation.input, operation.calls, retracts=any(operation.retracts))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self.store.open(self.state)
        if len(inputs[0]):
            self._take(inputs[0])
        self._fire(self.reached(time))

    # --- rows --------------------------------------------------------------------------------------------------------

    def _take(self, changes: Changes) -> None:
        times = self.local_times(changes.columns, self.window.time, self._time_name)
        keys = [changes.columns.column(place) for place in self.operation.keys]
        groups, first = group_rows(keys, len(changes))
        distinct = [taken(column, first) for column in keys]
        positions, slots = self._held(distinct, len(first))
        table = self.store.table
        number = len(times)
        sessions, starts, ends = merged_sessions(
            np.concatenate((groups, positions)),
            np.concatenate((times, table.column(AT)[slots])),
            np.concatenate((times + self.window.size_ms, table.column(DONE)[slots])),
        )
        if not self.proctime:
            late = self.clock.passed(ends - 1, self.watermark)[sessions[:number]]
            changes, kept = self.without_late(changes, late, times)
            if not len(changes):
                return
            groups, own = groups[kept], sessions[:number][kept]
            times = times[kept]
            keys = [taken(column, kept) for column in keys]
        else:
            own = sessions[:number]
        self.keep(changes, keys, times)
        self._merge(changes, keys, own, sessions[number:], slots, starts, ends)

    def keep(self, changes: Changes, keys: list[pa.Array], times: Longs) -> None:
        """Take note of the rows that belong to a session."""

    def _held(self, keys: list[pa.Array], count: int) -> tuple[Longs, Longs]:
        """Return pairs of a position of a key and a session of it."""
        if not keys:
            slots = self.store.table.all_slots()
            return np.zeros(len(slots), np.int64), slots
        return self.store.table.matching(batch_of(keys, self._keys, count), len(keys))

    def _merge(
        self,
        changes: Changes,
        keys: list[pa.Array],
        own: Longs,
        held: Longs,
        slots: Longs,
        starts: Longs,
        ends: Longs,
    ) -> None:
        """Merge rows and the sessions that they touch. ``own`` and ``held`` are the sessions of rows and of slots."""
        store = self.store
        touched, dense = np.unique(own, return_inverse=True)
        first = np.zeros(len(touched), np.int64)
        first[dense[::-1]] = np.arange(len(own) - 1, -1, -1)
        parts = store.partials.of_rows(changes, dense, len(touched))
        where = np.searchsorted(touched, held)
        hit = (where < len(touched)) & (touched[np.minimum(where, len(touched) - 1)] == held)
        slots, where, held = slots[hit], where[hit], held[hit]
        if len(slots):
            both = concatenated([store.parts(slots), parts])
            if store.partials.parts:
                groups = np.concatenate((where, np.arange(len(touched))))
                parts = store.partials.merged(both.columns, groups, len(touched))
            if store.kept is not None:
                store.kept.rename(store.keys(slots), store.table.column(AT)[slots], starts[held])
            store.remove(slots)
        store.put([taken(column, first) for column in keys], starts[touched], ends[touched], parts)
        if store.kept is not None:
            store.kept.add(keys, starts[own], changes)

    # --- sessions ----------------------------------------------------------------------------------------------------

    def _fire(self, reached: int) -> None:
        store = self.store
        slots, starts = store.slots()
        ends = store.table.column(DONE)[slots]
        due = np.flatnonzero(self.clock.passed(ends - 1, reached))
        if not len(due):
            return
        due = due[np.argsort(ends[due], kind="stable")]
        slots, starts, ends = slots[due], starts[due], ends[due]
        self.emit_sessions(slots, starts, ends)
        store.remove(slots)

    def emit_sessions(self, slots: Longs, starts: Longs, ends: Longs) -> None:
        """Send what is to be said about sessions that have ended, in the order of their ends."""
        store = self.store
        kept_slots = kept_starts = np.zeros(0, np.int64)
        if store.kept is not None:
            kept_slots, kept_starts = store.kept.slots()
            of = store.find(store.kept.keys(kept_slots), kept_starts)
            chosen = np.flatnonzero(np.isin(of, slots))
            kept_slots, kept_starts = kept_slots[chosen], kept_starts[chosen]
        keys, places, results = store.results(slots, starts, kept_slots, kept_starts, alone=True)
        columns = [*keys, *results]
        columns += self.property_columns(self.operation.properties, starts[places], ends[places], len(columns))
        self.send(columns)
        if store.kept is not None:
            store.kept.remove(kept_slots)

    def earliest(self) -> int | None:
        slots, _ = self.store.slots()
        return int(self.store.table.column(DONE)[slots].min()) if len(slots) else None
