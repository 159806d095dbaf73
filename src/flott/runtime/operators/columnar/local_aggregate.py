"""The first of two phases of an aggregation: the rows of an epoch by key, before the exchange. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.fixed_width import Ints
from flott.runtime.managed_state.columns.slot_index import first_positions
from flott.runtime.operators.columnar.accumulator_table import accumulations_of
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._functions.aggregates.accumulation import Groups
from flott.table._functions.aggregates.partial import partial_columns
from flott.table._plan.operations import LocalAggregate


class LocalAggregateOperator(ColumnarOperator):
    """Sends a row of partial accumulators for each key of an epoch. It has no state."""

    def __init__(self, context: OperatorContext, operation: LocalAggregate):
        super().__init__(context, operation, [operation.input])
        self._keys, self._calls = operation.keys, operation.calls
        self._accumulations = accumulations_of(operation.calls, operation.input, retracts=operation.retracts)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        if not len(changes):
            return
        columns, signs = changes.columns, changes.signs
        codes = [_codes(columns.column(index)) for index in self._keys]
        first, ids = first_positions(codes, None, len(changes))
        count = len(first)
        counts = np.zeros(count, np.int64)
        np.add.at(counts, ids, signs)
        states = []
        for of, call in zip(self._accumulations, self._calls, strict=True):
            own = signs
            if call.filter is not None:
                own = np.where(np.asarray(columns.column(call.filter).fill_null(False)), own, 0)
            arguments = [columns.column(index) for index in call.arguments]
            states.append(of.fold(Groups(ids, count, own), of.empty(count), arguments))
        at = pa.array(first)
        keys = [columns.column(index).take(at) for index in self._keys]
        self.send([*keys, *partial_columns(counts, states, self._accumulations)])


def _codes(column: pa.Array) -> Ints:
    """Return a number for each value: equal ones have the same."""
    try:
        codes = column.dictionary_encode(null_encoding="encode").indices
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # nested types
        known: dict[str, int] = {}
        return np.array([known.setdefault(repr(value), len(known)) for value in column.to_pylist()], np.int64)
    return np.asarray(codes).astype(np.int64)
