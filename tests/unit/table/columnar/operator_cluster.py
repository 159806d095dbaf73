"""The subtasks of a columnar operator: rows cut by key group, epochs, crashes and rescaling, all in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from flott.common._ids import EpochId, SubtaskIndex
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.managed_state.column_keys import key_groups
from flott.runtime.managed_state.key_groups import subtask_of
from flott.runtime.managed_state.kinds.column_table_kind import COLUMN_TABLES
from flott.runtime.operators.batch import ColumnBatch
from flott.runtime.operators.columnar.build import build_columnar
from flott.runtime.operators.operator import EpochScope, EventTime
from flott.table._plan.logical import Schema
from flott.table._plan.operations import ColumnarOperation
from flott.table._types.arrow import arrow_schema
from flott.table._types.record_types import record_type_of
from tests.unit.runtime.managed_state.kind_cluster import MAX_PARALLELISM, KindCluster

#: A row with its kind.
Change = tuple[int, tuple[Any, ...]]


class OperatorCluster(KindCluster):
    """Runs an operation on several subtasks. Operators are made for each epoch, so that nothing but state is kept."""

    def __init__(
        self,
        operation: ColumnarOperation,
        inputs: Sequence[Schema],
        keys: Sequence[Sequence[int]],
        folder: Path,
        *,
        batch: bool = False,
    ):
        super().__init__(COLUMN_TABLES, folder, False)
        self.operation, self.inputs, self.keys, self.batch = operation, inputs, keys, batch
        self.watermark = MIN_WATERMARK
        self.epochs = 0
        self.late = 0
        self.metrics: dict[str, float] = {}
        self.wakeups: list[int | None] = []

    def _asked_for(self, state: Any) -> Any:
        return None  # operators ask for the tables that they need

    def epoch(self, rows: Sequence[Sequence[Change]], watermark: int | None = None, now_ms: int = 0) -> list[Change]:
        """Run an epoch with rows of each input; return what all subtasks emit."""
        self.epochs += 1
        reached = max(self.watermark, self.watermark if watermark is None else watermark)
        found: list[Change] = []
        self.wakeups = []
        for index, subtask in enumerate(self.subtasks):
            scope = EpochScope(EpochId(self.epochs), now_ms)
            context: Any = SimpleNamespace(
                scope=scope,
                keyed_state=subtask.state,
                batch=self.batch,
                subtask=SubtaskIndex(index),
                operator=SimpleNamespace(label="operator"),
                job_parameters={},
                task_name="task",
                parallelism=1,
                max_parallelism=128,
            )
            operator = build_columnar(context, self.operation)
            operator.emit = lambda batch: found.extend(changes_of(batch))
            operator.restore(self.watermark, None)  # type: ignore[arg-type]
            operator.open()
            operator.begin()
            for number, (schema, given) in enumerate(zip(self.inputs, rows, strict=True)):
                for batch in self._batches(number, schema, given, index):
                    (operator.process if number == 0 else operator.process_second)(batch)
            operator.advance(EventTime(reached, ended=reached == MAX_WATERMARK))
            outcome = operator.outcome()
            self.late += outcome.late.dropped
            for name, (_, number) in outcome.metrics.items():
                self.metrics[name] = self.metrics.get(name, 0) + number
            self.wakeups.append(operator.next_wakeup_ms())
            operator.close()
        self.watermark = reached
        return found

    def _batches(self, number: int, schema: Schema, given: Sequence[Change], index: int) -> list[ColumnBatch]:
        arrow = arrow_schema(schema.names, schema.types)
        columns = batch_of_rows([row for _, row in given], arrow)
        kinds = np.array([kind for kind, _ in given], np.int8)
        groups = key_groups([columns.column(place) for place in self.keys[number]], MAX_PARALLELISM, len(given))
        parallelism = len(self.subtasks)
        own = np.array([subtask_of(int(group), MAX_PARALLELISM, parallelism) == index for group in groups], np.bool_)
        places = np.flatnonzero(own)
        cuts = [part for part in np.array_split(places, 2) if len(part)]  # batches are as they come
        return [
            ColumnBatch(
                columns.take(pa.array(part)),
                record_type_of(schema),
                None,
                pa.array(kinds[part]) if kinds[part].any() else None,
            )
            for part in cuts
        ]


def batch_of_rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as columns; times are given as milliseconds."""
    arrays = []
    for place, field in enumerate(schema):
        values = [row[place] for row in rows]
        if pa.types.is_timestamp(field.type):
            arrays.append(pa.array(values, pa.int64()).cast(pa.timestamp("ms")).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def changes_of(batch: ColumnBatch) -> list[Change]:
    """Rows of a batch with their kinds; times as milliseconds."""
    columns = []
    for column in batch.columns.columns:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz)).view(pa.int64())
        columns.append(column.to_pylist())
    kinds = [0] * len(batch) if batch.kinds is None else batch.kinds.to_pylist()
    rows = list(zip(*columns, strict=True)) if columns else [()] * len(batch)
    return list(zip(kinds, rows, strict=True))
