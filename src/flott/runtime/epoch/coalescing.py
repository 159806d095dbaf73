"""Joins small batches into large ones. Task side.

Where input comes key by key, so does output: a batch for each key, often of one record. What follows works on batches,
so they are worth collecting.
"""

from __future__ import annotations

from typing import Any

from flott.runtime.operators.batch import Emit, RowBatch
from flott.runtime.operators.operator import MAX_BATCH_RECORDS


class Coalescer:
    """Stands before an output: takes what is emitted and passes it on when there is enough."""

    __slots__ = ("_emit", "_timestamps", "_values")

    def __init__(self, emit: Emit):
        self._emit = emit
        self._values: list[Any] = []
        self._timestamps: list[int] | None = None

    def emit(self, batch: RowBatch) -> None:
        """Take a batch."""
        values, timestamps = batch.values, batch.timestamps
        if self._values and (self._timestamps is None) is not (timestamps is None):
            self.flush()  # a batch has timestamps for all of its records or for none
        if not self._values:
            self._timestamps = None if timestamps is None else []
        self._values += values
        if timestamps is not None and self._timestamps is not None:
            self._timestamps += timestamps
        if len(self._values) >= MAX_BATCH_RECORDS:
            self.flush()

    def flush(self) -> None:
        """Pass on what there is."""
        if self._values:
            values, timestamps = self._values, self._timestamps
            self._values, self._timestamps = [], None
            self._emit(RowBatch(values, timestamps))
