"""Deduplication: the first or the last row of each key by a time attribute. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import taken
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Flags, Ints, begins, by_group, codes_of, ends
from flott.runtime.operators.columnar.replaced_rows import (
    equal_to_former,
    replacement,
    steps_of,
    with_held_rows,
)
from flott.runtime.operators.columnar.time_columns import milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import KeepOnePerKey

#: 0: the key is known, but there is no row; 1: a row is held; 2: the row has been sent, and only the key is held.
PHASE = "$phase"
_HELD, _SENT = 1, 2


class KeepOneOperator(ColumnarOperator):
    """Keeps one row for each key.

    The first row by event time is sent when the watermark reaches it: then no earlier one can come, so the result
    consists of inserts. The last row replaces the former one as it comes.
    """

    def __init__(self, context: OperatorContext, operation: KeepOnePerKey):
        super().__init__(context, operation, [operation.input])
        self._told = operation
        self._keys = operation.keys
        self._store = KeptRows(
            context,
            "kept",
            self.input_schemas[0],
            operation.keys,
            Apart.UNIQUE,
            extra=(PHASE,),
            ttl_ms=operation.ttl_ms,
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        self._store.begin()
        told = self._told
        if told.proctime and not told.keep_last:
            if len(changes):
                self._first_come(changes)
        elif told.keep_last:
            if len(changes):
                self._last(changes)
        else:
            self._first_by_time(changes, time)

    def _out(self, columns: list[pa.Array], length: int) -> list[pa.Array]:
        return [*columns, pa.array(np.ones(length, np.int64))] if self._told.rank else columns

    # --- first row ---------------------------------------------------------------------------------------------------

    def _first_come(self, changes: Changes) -> None:
        keys = [changes.columns.column(key) for key in self._keys]
        _, first = codes_of(keys, len(changes))
        candidates = changes.columns.take(pa.array(first))
        absent = np.flatnonzero(self._store.find(candidates) < 0)
        if not len(absent):
            return
        rows = candidates.take(pa.array(absent))
        slots, _ = self._store.slots(rows)
        self._store.counter(PHASE)[slots] = _SENT
        self.send(self._out(rows.columns, len(absent)))

    def _first_by_time(self, changes: Changes, time: EventTime) -> None:
        store = self._store
        if len(changes):
            self._remember_earliest(changes)
        phases = store.counter(PHASE)
        slots = store.table.all_slots()
        slots = slots[phases[slots] == _HELD]
        if not len(slots):
            return
        times = milliseconds(store.some_columns(slots, [self._told.time])[self._told.time])
        due = times <= max(time.watermark, self.watermark)
        slots = slots[due]
        if not len(slots):
            return
        slots = slots[np.argsort(times[due], kind="stable")]
        rows = store.rows(slots)
        phases[slots] = _SENT
        store.put(slots, _without_values(rows, self._keys, self.input_schemas[0]))
        self.send(self._out(rows, len(slots)))

    def next_event_time_ms(self) -> int | None:
        if self._told.keep_last or self._told.proctime:
            return None
        slots = self._store.table.all_slots()
        slots = slots[self._store.counter(PHASE)[slots] == _HELD]
        if not len(slots):
            return None
        return int(milliseconds(self._store.some_columns(slots, [self._told.time])[self._told.time]).min())

    def _remember_earliest(self, changes: Changes) -> None:
        columns, store, told = changes.columns, self._store, self._told
        times = milliseconds(columns.column(told.time))
        timely = np.flatnonzero(times >= self.watermark)
        if len(timely) < len(times):
            late = np.flatnonzero(times < self.watermark)
            self.refuse_late(columns.take(pa.array(late)).to_pylist(), times[late].tolist(), None)
            columns, times = columns.take(pa.array(timely)), times[timely]
        if not len(timely):
            return
        slots, new = store.slots(columns)
        phases = store.counter(PHASE)
        order = np.lexsort((np.arange(len(slots)), times, slots))
        first = order[begins(slots[order])]
        first = first[phases[slots[first]] != _SENT]
        held = store.some_columns(slots[first], [told.time])[told.time]
        earlier = new[first] | (times[first] < milliseconds(held))
        first = first[earlier]
        phases[slots[first]] = _HELD
        store.put(slots[first], columns.take(pa.array(first)))

    # --- last row ----------------------------------------------------------------------------------------------------

    def _last(self, changes: Changes) -> None:
        columns, store, told = changes.columns, self._store, self._told
        slots, new = store.slots(columns)
        order, starts = by_group(slots)
        if not told.proctime:
            order = order[self._not_before(columns, slots, order, starts, new)]
        if told.mini_batch and len(order):
            order = order[ends(begins(slots[order]))]
        steps, referred = steps_of(order, slots[order], np.ones(len(order), np.bool_), ~new[order], len(changes))
        rows = with_held_rows(columns, store, referred)
        same = None
        if told.proctime and not told.ttl_ms:  # a row that changes nothing is not sent
            same = equal_to_former(steps, rows, told.keys)
        sent = replacement(steps, same, told.update_before)
        self.send(self._out(taken(rows, sent.rows), len(sent.rows)), sent.kinds if sent.kinds.any() else None)
        if len(order):
            last = order[ends(begins(slots[order]))]
            store.counter(PHASE)[slots[last]] = _HELD
            store.put(slots[last], columns.take(pa.array(last)))

    def _not_before(self, columns: pa.RecordBatch, slots: Ints, order: Ints, starts: Flags, new: Flags) -> Flags:
        """Return which rows are not older than the newest row of their key so far."""
        times = milliseconds(columns.column(self._told.time))[order]
        held = milliseconds(self._store.some_columns(slots[order[starts]], [self._told.time])[self._told.time])
        bounds = np.where(new[order[starts]], np.iinfo(np.int64).min, held)
        group = np.cumsum(starts) - 1
        different, ranks = np.unique(np.concatenate([bounds, times]), return_inverse=True)
        own, floor = ranks[len(bounds) :], ranks[: len(bounds)]
        highest = np.maximum.accumulate(group * len(different) + np.maximum(own, floor[group]))
        before = np.empty(len(order), np.int64)
        before[1:] = highest[:-1] - group[1:] * len(different)
        before[starts] = floor
        return np.asarray(own >= before)


def _without_values(rows: list[pa.Array], keys: tuple[int, ...], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of which only the key is left."""
    arrays = [column if place in keys else pa.nulls(len(column), column.type) for place, column in enumerate(rows)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
