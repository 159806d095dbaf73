"""The final rows of a changelog, for batch jobs. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.key_codes import codes_of
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import FoldChanges


class FoldOperator(ColumnarOperator):
    """Emits what is left when every row that was taken back has cancelled an equal one: inserts only.

    It stands behind a step that takes rows back, in the same subtask, and a batch job brings all of them at once.
    """

    def __init__(self, context: OperatorContext, operation: FoldChanges):
        super().__init__(context, operation, [operation.output])

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        if changes.kinds is None or not len(changes):
            self.send(changes.columns)
            return
        codes, first = codes_of(changes.columns.columns, len(changes))
        left = np.bincount(codes, weights=changes.signs, minlength=len(first)).astype(np.int64)
        rows = np.repeat(first, np.maximum(left, 0))
        self.send(changes.columns.take(pa.array(np.sort(rows))))
