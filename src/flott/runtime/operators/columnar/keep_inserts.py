"""Drops the former rows of updates where what follows does not need them. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import UPDATE_BEFORE, Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import KeepInserts


class KeepInsertsOperator(ColumnarOperator):
    """Passes on everything but -U."""

    immediate = True

    def __init__(self, context: OperatorContext, operation: KeepInserts):
        super().__init__(context, operation, [operation.output])

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        columns, kinds = changes.columns, changes.kinds
        if kinds is not None:
            kept = np.flatnonzero(kinds != UPDATE_BEFORE)
            if len(kept) < len(kinds):
                columns, kinds = columns.take(pa.array(kept)), kinds[kept]
        self.send(columns, kinds)
