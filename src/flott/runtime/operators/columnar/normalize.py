"""Turns upserts into a changelog with former rows, and drops changes that came twice. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import taken
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import begins, by_group, ends
from flott.runtime.operators.columnar.replaced_rows import equal_to_former, replacement, steps_of, with_held_rows
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._expressions.compiled import compile_expressions
from flott.table._plan.operations import NormalizeChanges


class NormalizeOperator(ColumnarOperator):
    """Keeps the last row of each key.

    With a condition only rows for which it is true are kept, and a row that does not fulfil it takes the former away.
    """

    def __init__(self, context: OperatorContext, operation: NormalizeChanges):
        super().__init__(context, operation, [operation.input])
        self._told = operation
        self._condition = None if operation.condition is None else compile_expressions([operation.condition])
        self._store = KeptRows(
            context, "rows", self.input_schemas[0], operation.keys, Apart.UNIQUE, ttl_ms=operation.ttl_ms
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        store, told = self._store, self._told
        store.begin()
        if not len(changes):
            return
        columns = changes.columns
        added = changes.signs > 0
        if self._condition is not None:
            (kept,) = self._condition.evaluate(columns, self.session)
            added &= np.asarray(kept.fill_null(False)).astype(np.bool_)
        slots, new = store.slots(columns)
        order, starts = by_group(slots)
        if told.mini_batch:
            order = order[ends(starts)]
        steps, referred = steps_of(order, slots[order], added[order], ~new[order], len(changes))
        rows = with_held_rows(columns, store, referred)
        same = None if told.ttl_ms else equal_to_former(steps, rows, told.keys)
        sent = replacement(steps, same, told.update_before)
        if len(sent.rows):
            self.send(taken(rows, sent.rows), sent.kinds if sent.kinds.any() else None)
        last = order[ends(begins(slots[order]))]
        there = last[added[last]]
        store.put(slots[there], columns.take(pa.array(there)))
        store.remove(slots[last[~added[last]]])
