"""Drops the former rows of updates for a sink that replaces rows by key. Task side.

A former row whose new one was filtered out, or has no partner in a join, has no successor: the key has no row any more,
and the sink has to delete it. So rows are looked at when the epoch is complete.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import DELETE, UPDATE_BEFORE, Changes, ColumnarOperator
from flott.runtime.operators.columnar.key_codes import codes_of
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import KeepInserts


class KeepInsertsOperator(ColumnarOperator):
    """Passes on everything but -U; one that is the last row of its key in an epoch becomes -D."""

    def __init__(self, context: OperatorContext, operation: KeepInserts):
        super().__init__(context, operation, [operation.output])
        self._keys = operation.keys

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        columns, kinds = changes.columns, changes.kinds
        if kinds is not None and (former := kinds == UPDATE_BEFORE).any():
            codes, first = codes_of([columns.column(key) for key in self._keys], len(changes))
            rows = np.arange(len(changes))
            last = np.zeros(len(first), np.int64)
            last[codes] = rows
            alone = former & (last[codes] == rows)
            kept = np.flatnonzero(~former | alone)
            columns, kinds = columns.take(pa.array(kept)), np.where(alone, DELETE, kinds)[kept]
        self.send(columns, kinds)
