"""Window aggregation in two phases: partial aggregates before the exchange, and what merges them behind it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.aggregate_slices import SliceAggregateOperator
from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import group_rows, taken
from flott.runtime.operators.columnar.windowing.partials import Partials
from flott.runtime.operators.columnar.windowing.slices import slices_of
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import GlobalWindowAggregate, LocalWindowAggregate
from flott.table._plan.window_partials import partial_schema


class LocalWindowOperator(WaitingOperator):
    """Sums up the rows of an epoch by key and slice. It keeps nothing, and leaves late rows to the second phase."""

    operation: LocalWindowAggregate

    def __init__(self, context: OperatorContext, operation: LocalWindowAggregate):
        super().__init__(context, operation, [operation.input])
        self.clock = self.clock_of(operation.input, operation.window.time)
        self._slices = slices_of(operation.window)
        self._partials = Partials(operation.input, list(enumerate(operation.calls)), operation.retracts)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        changes, window = inputs[0], self.operation.window
        if not len(changes):
            return
        times = self.local_times(changes.columns, window.time, self.operation.input.names[window.time])
        slices = self._slices.slice_ends(times)
        keys = [changes.columns.column(place) for place in self.operation.keys]
        groups, first = group_rows([*keys, pa.array(slices)], len(changes))
        parts = self._partials.of_rows(changes, groups, len(first))
        self.send([*(taken(column, first) for column in keys), *parts.columns, pa.array(slices[first])])

    def earliest(self) -> int | None:
        return None


class GlobalWindowOperator(SliceAggregateOperator):
    """Merges partial aggregates into slices, and emits windows."""

    operation: GlobalWindowAggregate

    def __init__(self, context: OperatorContext, operation: GlobalWindowAggregate):
        retracts = any(operation.retracts)
        super().__init__(context, operation, partial_schema(operation.input, operation.keys, operation.calls, retracts))

    def take(self, changes: Changes) -> None:
        columns = changes.columns
        slices = columns.column(columns.num_columns - 1).to_numpy()
        late = (self.slices.last_windows(slices) < slices) | self._late(slices)
        changes, kept = self.without_late(changes, late, slices)
        if not len(changes):
            return
        width = len(self.operation.keys)
        arrays = changes.columns.columns
        self.store.add_parts(arrays[:width], self._targets(np.ascontiguousarray(slices[kept])), arrays[width:-1])
