"""Grouping sets: each row once for each of them. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import ExpandSets


class ExpandOperator(ColumnarOperator):
    """Emits each row once for each grouping set, with nulls in the keys that the set does not group by.

    The last column tells the sets apart: it is the number of the set.
    """

    immediate = True
    operation: ExpandSets

    def __init__(self, context: OperatorContext, operation: ExpandSets):
        super().__init__(context, operation, [operation.input])

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        keys, size = self.operation.keys, len(changes)
        for number, chosen in enumerate(self.operation.sets):
            kept = {keys[position] for position in chosen}
            columns = [
                pa.nulls(size, column.type) if place in keys and place not in kept else column
                for place, column in enumerate(changes.columns.columns)
            ]
            self.send([*columns, pa.array(np.full(size, number, np.int64))], changes.kinds)

