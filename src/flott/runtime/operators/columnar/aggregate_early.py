"""Group windows that emit before they end, and again for late rows (``table.exec.emit.*``). Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.runtime.operators.columnar.base import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Changes
from flott.runtime.operators.columnar.key_codes import same_rows
from flott.runtime.operators.columnar.windowing.grouping import batch_of, group_rows, taken
from flott.runtime.operators.columnar.windowing.slice_store import SliceStore
from flott.runtime.operators.columnar.windowing.slices import slices_of
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Flags, Longs
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import AggregateWindows
from flott.table._types.arrow import arrow_schema, arrow_type

_AT, _DUE, _SENT = "$at", "$due", "$sent"
_NEVER = np.iinfo(np.int64).max


class EarlyWindowOperator(WaitingOperator):
    """Keeps every window by itself, with the result that was sent last; a change of it is an update.

    A window is sent when it ends. Before that it is sent ``early_ms`` after its first new row; rows that come later,
    within the allowed lateness, have it sent ``late_ms`` after them, or at once.
    """

    operation: AggregateWindows

    def __init__(self, context: OperatorContext, operation: AggregateWindows):
        super().__init__(context, operation, [operation.input])
        window = operation.window
        assert window is not None
        self._window = window
        self.clock = self.clock_of(operation.input, window.time)
        self._slices = slices_of(window)
        self._lateness_ms = operation.allow_lateness_ms
        keys = operation.input.pick(operation.keys)
        self._keys = arrow_schema(keys.names, keys.types)
        self.store = SliceStore(self._keys, operation.input, operation.calls, retracts=any(operation.retracts))
        named = [pa.field(f"$key{place}", field.type) for place, field in enumerate(self._keys)]
        self._key = pa.schema([*named, pa.field("at", pa.int64())])
        results = [pa.field(f"$result{n}", arrow_type(call.type)) for n, call in enumerate(operation.calls)]
        fixed = [pa.field(_AT, pa.int64(), nullable=False), pa.field(_DUE, pa.int64(), nullable=False)]
        self._value = pa.schema([*fixed, pa.field(_SENT, pa.bool_(), nullable=False), *results])
        self._table: ColumnTable = ColumnTable()

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self.store.open(self.state)
        self._table = self.state.table(COLUMN_TABLES, "sent")
        self._table.declare(self._key, self._value, len(self._keys), exact=True)
        reached = self.reached(time)
        if len(inputs[0]):
            self._take(inputs[0])
        slots = self._table.all_slots()
        ends = self._table.column(_AT)[slots]
        ended = self.clock.passed(ends - 1, reached)
        now_ended = ended & ~self._ended_before(ends)
        due = now_ended | (self._table.column(_DUE)[slots] <= self.context.scope.now_ms)
        self._send_windows(slots[due])
        self._forget(slots[ended], reached)

    def _ended_before(self, ends: Longs) -> Flags:
        return self.clock.passed(ends - 1, self.watermark)

    # --- rows --------------------------------------------------------------------------------------------------------

    def _take(self, changes: Changes) -> None:
        names = self.operation.input.names
        times = self.local_times(changes.columns, self._window.time, names[self._window.time])
        slices = self._slices.slice_ends(times)
        last = self._slices.last_windows(slices)
        covered = last >= slices
        late = covered & self._gone(last, self.watermark)
        places, ends = self._slices.windows(slices)
        changes_kept, _ = self.without_late(changes, late, times)
        if not len(changes_kept):
            return
        open_ = np.flatnonzero(~self._gone(ends, self.watermark))
        places, ends = places[open_], ends[open_]
        kinds = None if changes.kinds is None else changes.kinds[places]
        rows = Changes(changes.columns.take(pa.array(places)), kinds)
        keys = [rows.columns.column(place) for place in self.operation.keys]
        self.store.add(keys, ends, rows)
        _, first = group_rows([*keys, pa.array(ends)], len(ends))
        ends = ends[first]
        named = [taken(column, first) for column in keys]
        slots, new = self._table.slots(batch_of([*named, pa.array(ends)], self._key, len(first)))
        self._table.column(_AT)[slots] = ends
        due = self._table.column(_DUE)
        due[slots[new]] = _NEVER
        due[slots] = np.minimum(due[slots], self._next(ends))
        self._table.mark(slots)

    def _next(self, ends: Longs) -> Longs:
        """Return when windows with new rows are to be sent, apart from their end."""
        now_ms, early_ms, late_ms = self.context.scope.now_ms, self.operation.early_ms, self.operation.late_ms
        early = _NEVER if early_ms is None else now_ms + early_ms
        return np.where(self._ended_before(ends), now_ms + (late_ms or 0), early)

    def _gone(self, ends: Longs, reached: int) -> Flags:
        """Return which windows take no more rows."""
        return self.clock.passed(ends - 1 + self._lateness_ms, reached)

    # --- windows -----------------------------------------------------------------------------------------------------

    def _send_windows(self, slots: Longs) -> None:
        """Send what has changed of windows since they were sent last, by their ends."""
        if not len(slots):
            return
        table = self._table
        table.column(_DUE)[slots] = _NEVER
        table.mark(slots)
        slots = slots[np.argsort(table.column(_AT)[slots], kind="stable")]
        ends = table.column(_AT)[slots]
        keys = list(table.keys(slots).columns[:-1])
        own = self.store.find(keys, ends)
        kept_slots = kept_ends = np.zeros(0, np.int64)
        if self.store.kept is not None:
            kept_slots, kept_ends = self.store.kept.slots()
            chosen = np.isin(self.store.find(self.store.kept.keys(kept_slots), kept_ends), own)
            kept_slots, kept_ends = kept_slots[chosen], kept_ends[chosen]
        _, places, results = self.store.results(own, ends, kept_slots, kept_ends, alone=True)
        there = np.zeros(len(slots), np.bool_)
        there[places] = True
        at = np.zeros(len(slots), np.int64)
        at[places] = np.arange(len(places))
        sent = table.column(_SENT)[slots].astype(np.bool_)
        before = [table.take_column(f"$result{number}", slots) for number in range(len(results))]
        spread = [column.take(pa.array(at, mask=~there)) for column in results]
        same = there & sent & same_rows(before, spread, len(slots))
        old, new = np.flatnonzero(sent & ~same), np.flatnonzero(there & ~same)
        self._send_changes(keys, ends, before, spread, old, new, sent, there)
        table.column(_SENT)[slots] = there
        for number, column in enumerate(spread):
            table.put_column(f"$result{number}", slots, column)

    def _send_changes(
        self,
        keys: list[pa.Array],
        ends: Longs,
        before: list[pa.Array],
        after: list[pa.Array],
        old: Longs,
        new: Longs,
        sent: Flags,
        there: Flags,
    ) -> None:
        if not self.operation.update_before:
            old = old[~there[old]]  # only of windows of which nothing is left
        order = np.argsort(np.concatenate((2 * old, 2 * new + 1)), kind="stable")
        windows = np.concatenate((old, new))[order]
        kinds = np.concatenate(
            (np.where(there[old], UPDATE_BEFORE, DELETE), np.where(sent[new], UPDATE_AFTER, INSERT))
        ).astype(np.int8)[order]
        columns = [taken(column, windows) for column in keys]
        for one, other in zip(before, after, strict=True):
            both = pa.concat_arrays([taken(one, old), taken(other, new)])
            columns.append(taken(both, order))
        found = ends[windows]
        starts = self._slices.window_starts(found)
        columns += self.property_columns(self.operation.properties, starts, found, len(columns))
        self.send(columns, kinds if kinds.any() else None)

    def _forget(self, slots: Longs, reached: int) -> None:
        ends = self._table.column(_AT)[slots]
        gone = self._gone(ends, reached)
        slots, ends = slots[gone], ends[gone]
        if not len(slots):
            return
        own = self.store.find(list(self._table.keys(slots).columns[:-1]), ends)
        if self.store.kept is not None:
            kept_slots, kept_ends = self.store.kept.slots()
            chosen = np.isin(self.store.find(self.store.kept.keys(kept_slots), kept_ends), own)
            self.store.kept.remove(kept_slots[chosen])
        self.store.remove(own[own >= 0])
        self._table.remove(slots)

    # --- wake-ups ----------------------------------------------------------------------------------------------------

    def next_wakeup_ms(self) -> int | None:
        slots = self._table.all_slots()
        due = int(self._table.column(_DUE)[slots].min()) if len(slots) else _NEVER
        return None if due == _NEVER else due

    def earliest(self) -> int | None:
        slots = self._table.all_slots()
        ends = self._table.column(_AT)[slots]
        ends = ends[~self._ended_before(ends)]
        return int(ends.min()) if len(ends) else None
