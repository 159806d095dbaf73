"""Aggregation over windows: which operator runs an operation, and that for windows whose rows have them attached."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.aggregate_counts import CountWindowOperator
from flott.runtime.operators.columnar.aggregate_early import EarlyWindowOperator
from flott.runtime.operators.columnar.aggregate_sessions import SessionAggregateOperator
from flott.runtime.operators.columnar.aggregate_slices import SliceAggregateOperator
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.windowing.grouping import taken
from flott.runtime.operators.columnar.windowing.slice_store import SliceStore
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import LocalClock, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.logical import WindowKind
from flott.table._plan.operations import AggregateWindows
from flott.table._types.arrow import arrow_schema


def window_aggregation(context: OperatorContext, operation: AggregateWindows) -> ColumnarOperator:
    """Return the operator for a kind of windows."""
    window = operation.window
    if window is None:
        return AttachedAggregateOperator(context, operation)
    if window.count is not None:
        return CountWindowOperator(context, operation)
    if window.kind is WindowKind.SESSION:
        return SessionAggregateOperator(context, operation)
    early = operation.early_ms is not None or operation.late_ms is not None or operation.allow_lateness_ms
    if early and not window.proctime:
        return EarlyWindowOperator(context, operation)
    return SliceAggregateOperator(context, operation)


class AttachedAggregateOperator(WaitingOperator):
    """Groups rows that name their window: those of another window aggregation, join or top-n."""

    operation: AggregateWindows

    def __init__(self, context: OperatorContext, operation: AggregateWindows):
        super().__init__(context, operation, [operation.input])
        assert operation.attached is not None
        self._start, self._end = operation.attached
        self.proctime = operation.proctime
        self.clock = LocalClock(operation.settings.time_zone if operation.zoned else None)
        keys = operation.input.pick(operation.keys)
        self.store = SliceStore(
            arrow_schema(keys.names, keys.types),
            operation.input,
            operation.calls,
            retracts=any(operation.retracts),
            starts=True,
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self.store.open(self.state)
        changes = inputs[0]
        if len(changes):
            names = self.operation.input.names
            ends = milliseconds(changes.columns.column(self._end), names[self._end])
            late = np.zeros(len(ends), np.bool_) if self.proctime else self.clock.passed(ends - 1, self.watermark)
            changes, kept = self.without_late(changes, late, ends)
            if len(changes):
                starts = milliseconds(changes.columns.column(self._start), names[self._start])
                keys = [changes.columns.column(place) for place in self.operation.keys]
                self.store.add([*keys, pa.array(starts)], ends[kept], changes)
        self._fire(self.reached(time))

    def _fire(self, reached: int) -> None:
        slots, ends = self.store.slots()
        due = np.flatnonzero(self.clock.passed(ends - 1, reached))
        if not len(due):
            return
        slots, ends = slots[due], ends[due]
        kept_slots = kept_ends = np.zeros(0, np.int64)
        if self.store.kept is not None:
            kept_slots, kept_ends = self.store.kept.slots()
            chosen = np.flatnonzero(self.clock.passed(kept_ends - 1, reached))
            kept_slots, kept_ends = kept_slots[chosen], kept_ends[chosen]
        keys, places, results = self.store.results(slots, ends, kept_slots, kept_ends, alone=True)
        ends = ends[places]
        order = np.argsort(ends, kind="stable")
        starts = keys.pop().to_numpy()
        columns = [taken(column, order) for column in (*keys, *results)]
        columns += self.property_columns(self.operation.properties, starts[order], ends[order], len(columns))
        self.send(columns)
        self.store.remove(slots)
        if self.store.kept is not None:
            self.store.kept.remove(kept_slots)

    def earliest(self) -> int | None:
        _, ends = self.store.slots()
        return int(ends.min()) if len(ends) else None
