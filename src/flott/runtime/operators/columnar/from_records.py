"""Records of a DataStream as rows of a table. Task side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from flott.common.types import Row
from flott.common.watermark_strategy import MAX_WATERMARK
from flott.runtime.operators.arrow import kinds_array
from flott.runtime.operators.batch import ColumnBatch, Form, RowBatch
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.runtime.operators.outcome import OperatorOutcome
from flott.runtime.operators.watermarks import TimeKeeper, TimeProgress
from flott.table._plan.operations import TIMESTAMP_FIELD, ConvertFromRecords
from flott.table._plan.watermarks import watermark_strategy
from flott.table._types.record_types import record_type_of


class FromRecordsOperator(ColumnarOperator):
    """Puts the fields of records into columns. A record of class Row keeps its row kind.

    Event time is that of the stream, unless the table declares a watermark of its own.
    """

    accepts = Form.ROWS
    operation: ConvertFromRecords

    def __init__(self, context: OperatorContext, operation: ConvertFromRecords):
        super().__init__(context, operation, [operation.output])
        self._record_type = record_type_of(operation.output)
        self._strategy = (
            None if operation.watermark is None else watermark_strategy(operation.watermark, operation.settings)
        )
        self.progress = TimeProgress()  #: restored before, saved after each epoch, if there is a watermark
        self._keeper: TimeKeeper | None = None

    # --- event time --------------------------------------------------------------------------------------------------

    def restore(self, watermark: int, progress: TimeProgress) -> None:
        super().restore(watermark, progress)
        self.progress = progress

    def begin(self) -> None:
        super().begin()
        if self._strategy is not None:
            self._keeper = TimeKeeper(self._strategy, self.progress, self.context.scope.now_ms, 0)

    def outcome(self) -> OperatorOutcome:
        if self._strategy is None:
            return super().outcome()
        return replace(super().outcome(), progress=self.progress)

    def advance(self, time: EventTime) -> EventTime:
        if self._keeper is None:
            self.watermark = max(self.watermark, time.watermark)
            return EventTime(self.watermark, time.idle, time.ended)
        self.progress = self._keeper.close_epoch()
        self.watermark = max(self.watermark, MAX_WATERMARK if time.ended else self.progress.watermark)
        return EventTime(self.watermark, time.idle, time.ended)

    # --- records -----------------------------------------------------------------------------------------------------

    def process(self, batch: Any) -> None:
        assert isinstance(batch, RowBatch)
        try:
            columns = self._columns(batch)
        except (pa.ArrowException, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.failure(
                "putting records of a stream into columns", record=batch.values[0], has_record=True
            ) from error
        if self._keeper is not None:
            self._keeper.observe_columns(columns)
        kinds = batch.kinds
        if kinds is None and isinstance(batch.values[0], Row):
            codes = bytes(row._row_kind._value_ for row in batch.values)
            kinds = codes if any(codes) else None
        self.emit(ColumnBatch(columns, self._record_type, None, None if kinds is None else kinds_array(kinds)))

    def _columns(self, batch: RowBatch) -> pa.RecordBatch:
        values = batch.values
        arrays = []
        for field, name in zip(self.output_schema, self.operation.fields, strict=True):
            if name == TIMESTAMP_FIELD:
                if batch.timestamps is None:
                    raise ValueError("records have no timestamps: assign them before the stream becomes a table")
                arrays.append(pa.array(batch.timestamps, pa.int64()).cast(pa.timestamp("ms")).cast(field.type))
                continue
            if name is None:
                cells = values
            elif isinstance(values[0], Row) and isinstance(name, str):
                cells = [row[name] for row in values]
            elif isinstance(name, int):
                cells = [record[name] for record in values]
            elif isinstance(values[0], dict):
                cells = [record.get(name) for record in values]
            else:
                cells = [getattr(record, name) for record in values]
            arrays.append(pa.array(_plain(cells), type=field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output_schema)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        """Records are converted as they come."""


def _plain(cells: list[Any]) -> list[Any]:
    """Return cells with rows as tuples of their fields, which Arrow takes for a struct by name."""
    first = next((cell for cell in cells if cell is not None), None)
    if isinstance(first, Row):
        return [None if cell is None else cell.as_dict(True) for cell in cells]
    return cells
