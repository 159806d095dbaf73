"""INTERSECT and EXCEPT over two changelogs, keyed by all columns. Task side.

State counts how often a row is on either side. How often it is in the result follows from the two numbers, and changes
by one row at most with each row that comes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import DELETE, INSERT, Changes, ColumnarOperator
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Ints, by_group, ends, running_sum
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import SetRows

LEFT, RIGHT = "$left", "$right"


class SetRowsOperator(ColumnarOperator):
    """Sends a row when it comes into the result, and takes it back when it leaves it."""

    def __init__(self, context: OperatorContext, operation: SetRows):
        super().__init__(context, operation, [operation.left, operation.left])
        self._intersect, self._all = operation.intersect, operation.all
        width = range(len(operation.left))
        self._store = KeptRows(
            context,
            "set",
            self.input_schemas[0],
            width,
            Apart.UNIQUE,
            unique=width,
            extra=(LEFT, RIGHT),
            ttl_ms=operation.ttl_ms,
        )

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self._store.begin()
        for name in (RIGHT, LEFT):  # fewer rows of EXCEPT are sent and taken back
            changes = inputs[name is RIGHT]
            if len(changes):
                self._take(name, changes)

    def _take(self, name: str, changes: Changes) -> None:
        store = self._store
        columns = changes.columns.rename_columns(self.input_schemas[0].names)
        slots, _ = store.slots(columns)
        order, starts = by_group(slots)
        at, steps = slots[order], changes.signs[order]
        counter, other = store.counter(name), store.counter(RIGHT if name is LEFT else LEFT)
        after = counter[at] + running_sum(steps, starts)
        if name is LEFT:
            difference = self._times(after, other[at]) - self._times(after - steps, other[at])
        else:
            difference = self._times(other[at], after) - self._times(other[at], after - steps)
        last = ends(starts)
        counter[at[last]] = np.maximum(after[last], 0)
        touched = at[last]
        store.table.mark(touched)
        changed = np.flatnonzero(difference)
        changed = changed[np.argsort(order[changed], kind="stable")]
        if len(changed):
            kinds = np.where(difference[changed] > 0, INSERT, DELETE).astype(np.int8)
            rows = columns.take(pa.array(order[changed]))
            self.send(rows.columns, kinds if kinds.any() else None)
        store.remove(touched[(store.counter(LEFT)[touched] == 0) & (store.counter(RIGHT)[touched] == 0)])

    def _times(self, left: Ints, right: Ints) -> Ints:
        """Return how often a row is in the result."""
        left, right = np.maximum(left, 0), np.maximum(right, 0)
        if self._all:
            return np.minimum(left, right) if self._intersect else np.maximum(left - right, 0)
        return np.asarray((left > 0) & ((right > 0) == self._intersect), np.int64)
