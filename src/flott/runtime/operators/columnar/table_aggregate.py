"""Table aggregate functions of users: any number of rows for each group, changed by every record. Task side.

As in Flink, a record takes away all rows that its group had sent, and sends the rows that the function gives now.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common.types import Row
from flott.runtime.operators.columnar.accumulator_table import AccumulatorRows, rows_of
from flott.runtime.operators.columnar.base import DELETE, INSERT, Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._functions.aggregates.accumulation import Accumulation
from flott.table._functions.python_functions import current_scope
from flott.table._functions.python_values import arrow_column, python_column
from flott.table._plan.operations import TableAggregateGroups


class _Pickled(Accumulation):
    """The column that accumulators of the function are in."""

    fields = (pa.field("object", pa.binary()),)


class TableAggregateOperator(ColumnarOperator):
    """FLAT_AGGREGATE by key."""

    def __init__(self, context: OperatorContext, operation: TableAggregateGroups):
        super().__init__(context, operation, [operation.input])
        assert operation.call.user is not None
        self._operation = operation
        self._function: Any = operation.call.user.function
        self._keys = operation.keys

    def open(self) -> None:
        state = self.context.keyed_state
        assert state is not None
        key = pa.schema([self.output_schema.field(place) for place in range(len(self._keys))])
        self._names = key.names
        ages_from = self.context.scope.now_ms if self._operation.ttl_ms else None
        self._rows = AccumulatorRows(state, "groups", key, len(self._keys), [_Pickled()], ages_from)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        if self._operation.ttl_ms:
            now = self.context.scope.now_ms
            self._rows.table.expire(now - self._operation.ttl_ms + 1)
            self._rows.table.now_ms = now
        if not len(changes):
            return
        keys = rows_of([changes.columns.column(index) for index in self._keys], self._names, len(changes))
        slots, _ = self._rows.table.slots(keys)
        touched, ids = np.unique(slots, return_inverse=True)
        counts = self._rows.counts(touched).tolist()
        held = [None if found is None else pickle.loads(found) for found in self._rows.load(touched)[0][0].to_pylist()]
        positions, kinds, values = self._applied(changes, ids.tolist(), counts, held)
        living = np.flatnonzero(np.array(counts) > 0)
        pickled = pa.array([pickle.dumps(held[group], 5) for group in living.tolist()], pa.binary())
        self._rows.store(touched[living], np.array(counts)[living], [[pickled]])
        self._rows.table.remove(touched[np.array(counts) <= 0])
        self._send_rows(keys, positions, kinds, values)

    def _applied(
        self, changes: Changes, ids: list[int], counts: list[int], held: list[Any]
    ) -> tuple[list[int], list[int], list[Any]]:
        """Apply all rows; return the input row, the kind and the values of each row to send."""
        call, function = self._operation.call, self._function
        types, zone = self._operation.input.types, self.session.zone
        columns = [
            python_column(changes.columns.column(index), types[index], zone) for index in call.arguments
        ]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(ids)
        current_scope().open(function)
        chosen = [True] * len(ids) if call.filter is None else changes.columns.column(call.filter).to_pylist()
        positions: list[int] = []
        kinds: list[int] = []
        values: list[Any] = []
        for place, (group, sign, row) in enumerate(zip(ids, changes.signs.tolist(), rows, strict=True)):
            if counts[group] == 0:
                if sign < 0:
                    continue  # a row that is taken away from no group
                held[group] = function.create_accumulator()
            elif self._operation.update_before:
                self._collect(held[group], place, DELETE, positions, kinds, values)
            counts[group] += sign
            if chosen[place]:
                (function.accumulate if sign > 0 else function.retract)(held[group], *row, *call.literals)
            if counts[group] > 0:
                self._collect(held[group], place, INSERT, positions, kinds, values)
        return positions, kinds, values

    def _collect(
        self, held: Any, place: int, kind: int, positions: list[int], kinds: list[int], values: list[Any]
    ) -> None:
        for value in self._function.emit_value(held) or ():
            if isinstance(value, Row | tuple):
                values.append(tuple(value))
            else:
                values.append((value,))
            positions.append(place)
            kinds.append(kind)

    def _send_rows(self, keys: pa.RecordBatch, positions: list[int], kinds: list[int], values: list[Any]) -> None:
        if not positions:
            return
        at = pa.array(positions, pa.int64())
        types = self.operation.output.types[len(self._keys) :]
        zone = self.session.zone
        columns = [arrow_column([value[place] for value in values], of, zone) for place, of in enumerate(types)]
        self.send([*(column.take(at) for column in keys.columns), *columns], np.array(kinds, np.int8))
