"""What all columnar operators share: the rows of an epoch gathered as columns, and columns sent on. Task side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.runtime.operators.batch import ColumnBatch, Form
from flott.runtime.operators.columnar.task_functions import TaskFunctions
from flott.runtime.operators.operator import EventTime, Operator, OperatorContext
from flott.runtime.operators.outcome import OperatorOutcome
from flott.table._functions.function import Session
from flott.table._plan.logical import Schema
from flott.table._plan.operations import ColumnarOperation
from flott.table._types.arrow import arrow_schema
from flott.table._types.record_types import record_type_of

#: Codes of row kinds, as in ``flott.common.types.RowKind``.
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3


@dataclass(frozen=True)
class Changes:
    """Rows with their kinds. No kinds: all of them are inserts."""

    columns: pa.RecordBatch
    kinds: np.ndarray[Any, np.dtype[np.int8]] | None = None

    def __len__(self) -> int:
        return self.columns.num_rows  # type: ignore[no-any-return]

    @property
    def signs(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return 1 for each row that is added (+I, +U) and -1 for each that is taken away (-U, -D)."""
        if self.kinds is None:
            return np.ones(len(self), np.int64)
        signs: np.ndarray[Any, np.dtype[np.int64]] = SIGNS[self.kinds]
        return signs


#: By row kind: +I and +U add a row, -U and -D take one away.
SIGNS = np.array([1, -1, 1, -1], np.int64)


def joined(batches: Sequence[ColumnBatch], schema: pa.Schema) -> Changes:
    """Return batches as one."""
    if not batches:
        return Changes(pa.RecordBatch.from_pylist([], schema=schema))
    if len(batches) == 1:
        columns = batches[0].columns
    else:
        columns = pa.Table.from_batches([batch.columns for batch in batches]).combine_chunks().to_batches()[0]
    if all(batch.kinds is None for batch in batches):
        return Changes(columns)
    parts = [
        np.zeros(len(batch), np.int8) if batch.kinds is None else batch.kinds.to_numpy(zero_copy_only=False)
        for batch in batches
    ]
    return Changes(columns, parts[0] if len(parts) == 1 else np.concatenate(parts))


class ColumnarOperator(Operator):
    """Gathers what an epoch brings and runs once when event time advances.

    A subclass with ``immediate = True`` keeps no rows until the end of the epoch: ``run`` is called for each batch.
    """

    accepts = Form.COLUMNS
    takes_kinds = True
    immediate: ClassVar[bool] = False

    def __init__(self, context: OperatorContext, operation: ColumnarOperation, inputs: Sequence[Schema]):
        super().__init__(context)
        self.operation = operation
        self.output_schema = arrow_schema(operation.output.names, operation.output.types)
        self._output_type = record_type_of(operation.output)
        self.input_schemas = [arrow_schema(schema.names, schema.types) for schema in inputs]
        self._input_types = [record_type_of(schema) for schema in inputs]
        self._gathered: list[list[ColumnBatch]] = [[] for _ in inputs]
        self._functions = TaskFunctions(context, dict(operation.settings.parameters))

    # --- rows in -----------------------------------------------------------------------------------------------------

    def column_type(self, input_index: int) -> TypeInformation:
        return self._input_types[input_index]

    def begin(self) -> None:
        self._functions.begin()
        for batches in self._gathered:
            batches.clear()

    def process(self, batch: ColumnBatch) -> None:
        if self.immediate:
            self._run([joined([batch], self.input_schemas[0])], EventTime(self.watermark))
        else:
            self._gathered[0].append(batch)

    def process_second(self, batch: ColumnBatch) -> None:
        self._gathered[1].append(batch)

    def advance(self, time: EventTime) -> EventTime:
        if not self.immediate:
            inputs = [
                joined(batches, schema) for batches, schema in zip(self._gathered, self.input_schemas, strict=True)
            ]
            for batches in self._gathered:
                batches.clear()
            self._run(inputs, time)
        return super().advance(time)

    def _run(self, inputs: list[Changes], time: EventTime) -> None:
        try:
            with self._functions.active():
                self.run(inputs, time)
        except Exception as error:
            from flott.runtime.operators.operator import RecordFailure

            if isinstance(error, RecordFailure):
                raise
            raise self.failure("processing a batch of rows") from error

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        """Process everything that came, in order; ``time.watermark`` is what the epoch ends with.

        ``self.watermark`` still is the one that the last epoch ended with: rows older than it are late.
        """
        raise NotImplementedError

    def outcome(self) -> OperatorOutcome:
        return replace(super().outcome(), metrics=self._functions.metric_changes())

    def close(self) -> None:
        try:
            self._functions.close()
        except Exception as error:
            raise self.failure("close()") from error

    # --- rows out ----------------------------------------------------------------------------------------------------

    def send(self, columns: pa.RecordBatch | Sequence[pa.Array], kinds: Any = None) -> None:
        """Pass rows on: columns of the output schema, and kinds as a numpy array of int8 (None: inserts)."""
        batch = (
            columns
            if isinstance(columns, pa.RecordBatch)
            else pa.RecordBatch.from_arrays(list(columns), schema=self.output_schema)
        )
        if not batch.num_rows:
            return
        codes = None if kinds is None else pa.array(np.ascontiguousarray(kinds, dtype=np.int8))
        self.emit(ColumnBatch(batch, self._output_type, None, codes))

    # --- where it runs -----------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """Return what expressions may know in this epoch."""
        settings, scope = self.operation.settings, self.context.scope
        return Session(
            time_zone=settings.time_zone,
            now_ms=scope.now_ms,
            watermark_ms=None if self.watermark == MIN_WATERMARK else self.watermark,
            database=settings.database,
            catalog=settings.catalog,
            seed=hash((scope.seed, scope.epoch, self.context.subtask)) & 0x7FFFFFFF,
            legacy_cast=settings.legacy_cast,
            parameters=dict(settings.parameters),
        )
