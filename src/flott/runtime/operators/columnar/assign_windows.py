"""Window table functions: each row once for each of its windows. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.aggregate_sessions import SessionAggregateOperator
from flott.runtime.operators.columnar.base import INSERT, Changes
from flott.runtime.operators.columnar.windowing.grouping import batch_of
from flott.runtime.operators.columnar.windowing.row_buffer import AT, RowBuffer
from flott.runtime.operators.columnar.windowing.slices import slices_of
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.logical import WindowKind
from flott.table._plan.operations import AggregateWindows, AssignSessions, AssignWindows
from flott.table._types.arrow import arrow_schema

PROPERTIES = ("start", "end", "rowtime")


class WindowAssignmentOperator(WaitingOperator):
    """Appends the columns of aligned windows. It keeps no state; a row without a time belongs to no window."""

    immediate = True
    operation: AssignWindows

    def __init__(self, context: OperatorContext, operation: AssignWindows):
        super().__init__(context, operation, [operation.input])
        self._window = operation.window
        self.proctime = operation.window.proctime
        self.clock = self.clock_of(operation.input, operation.window.time)
        self._slices = slices_of(operation.window)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        columns, kinds = inputs[0].columns, inputs[0].kinds
        moments = columns.column(self._window.time)
        if moments.null_count and not self.proctime:
            there = np.flatnonzero(moments.is_valid().to_numpy(zero_copy_only=False))
            columns = columns.take(pa.array(there))
            kinds = None if kinds is None else kinds[there]
        if not columns.num_rows:
            return
        times = self.local_times(columns, self._window.time, self.operation.input.names[self._window.time])
        places, ends = self._slices.windows(self._slices.slice_ends(times))
        if self._window.kind is WindowKind.HOP:  # the latest window first, as Flink assigns them
            order = np.lexsort((-ends, places))
            places, ends = places[order], ends[order]
        if len(places) != columns.num_rows or self._slices.shared:
            columns = columns.take(pa.array(places))
            kinds = None if kinds is None else kinds[places]
        starts = self._slices.window_starts(ends)
        bounds = self.property_columns(PROPERTIES, starts, ends, columns.num_columns)
        self.send([*columns.columns, *bounds], kinds)

    def earliest(self) -> int | None:
        return None


class SessionAssignmentOperator(SessionAggregateOperator):
    """Keeps rows until their session has ended, and sends them with its bounds."""

    def __init__(self, context: OperatorContext, operation: AssignSessions):
        told = AggregateWindows(
            output=operation.output,
            settings=operation.settings,
            input=operation.input,
            keys=operation.window.partition,
            calls=(),
            window=operation.window,
            attached=None,
            properties=PROPERTIES,
        )
        super().__init__(context, told)
        rows = arrow_schema(operation.input.names, operation.input.types)
        self._buffer = RowBuffer("rows", self._keys, rows.append(pa.field("$kind", pa.int8())))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self._buffer.open(self.state)
        super().run(inputs, time)

    def keep(self, changes: Changes, keys: list[pa.Array], times: Longs) -> None:
        kinds = np.zeros(len(changes), np.int8) if changes.kinds is None else changes.kinds
        rows = pa.RecordBatch.from_arrays(
            [*changes.columns.columns, pa.array(kinds)],
            names=[*changes.columns.schema.names, "$kind"],
        )
        self._buffer.add(keys, times, rows)

    def emit_sessions(self, slots: Longs, starts: Longs, ends: Longs) -> None:
        table = self._buffer.table
        keys = self.store.keys(slots)
        if keys:
            schema = pa.schema([pa.field(f"$key{place}", key.type) for place, key in enumerate(keys)])
            sessions, rows = table.matching(batch_of(keys, schema, len(slots)), len(keys))
        else:
            held = table.all_slots()
            sessions = np.repeat(np.arange(len(slots)), len(held))
            rows = np.tile(held, len(slots))
        times = table.column(AT)[rows]
        inside = np.flatnonzero((times >= starts[sessions]) & (times < ends[sessions]))
        sessions, rows = sessions[inside], rows[inside]
        order = np.lexsort((self._buffer.order(rows), sessions))
        sessions, rows = sessions[order], rows[order]
        found = self._buffer.rows(rows)
        kinds = found.column(found.num_columns - 1).to_numpy()
        bounds = self.property_columns(PROPERTIES, starts[sessions], ends[sessions], found.num_columns - 1)
        self.send([*found.columns[:-1], *bounds], kinds if (kinds != INSERT).any() else None)
        self._buffer.remove(rows)
