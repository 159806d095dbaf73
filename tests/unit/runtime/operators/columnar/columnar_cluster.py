"""The subtasks of one columnar operator: epochs, crashes, restores and rescaling, with rows as Python lists."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.column_keys import cut, targets_of
from flott.runtime.managed_state.files.file_sequence import FileSequence
from flott.runtime.managed_state.key_groups import groups_of
from flott.runtime.operators.batch import ColumnBatch
from flott.runtime.operators.columnar.base import ColumnarOperator
from flott.runtime.operators.columnar.build import build_columnar
from flott.runtime.operators.operator import EpochScope, EventTime, OperatorContext
from flott.table._plan.logical import Schema
from flott.table._types.arrow import arrow_schema
from flott.table._types.record_types import record_type_of
from tests.unit.runtime.managed_state.keyed_workers import MemoryStorage

MAX_PARALLELISM = 8

#: A kind (+I, -U, +U, -D) and the values of a row.
Change = tuple[str, tuple[Any, ...]]
KINDS = ["+I", "-U", "+U", "-D"]


class _Subtask:
    def __init__(
        self, operation: Any, index: int, parallelism: int, scope: EpochScope, sequence: FileSequence, batch: bool
    ):
        self.groups = groups_of(index, MAX_PARALLELISM, parallelism)
        self.state = KeyedState("op", MAX_PARALLELISM, self.groups)
        self.sequence = sequence
        self.sent: list[ColumnBatch] = []
        node = SimpleNamespace(keys=(), parallelism=parallelism, max_parallelism=MAX_PARALLELISM)
        described: Any = SimpleNamespace(label="op", node=node)
        context = OperatorContext(
            "job", "job", "task", described, index, scope, self.state, batch=batch  # type: ignore[arg-type]
        )
        self.operator: ColumnarOperator = build_columnar(context, operation)
        self.operator.emit = self.sent.append  # type: ignore[assignment]
        self.opened = False

    def begin(self, storage: Any) -> None:
        self.state.bring_to(self.sequence, storage)
        if not self.opened:
            self.operator.open()
            self.opened = True
        self.operator.begin()


class ColumnarCluster:
    """All subtasks of an operator with one or two keyed inputs."""

    def __init__(
        self, operation: Any, inputs: Sequence[Schema], keys: Sequence[Sequence[int]], parallelism: int = 1,
        batch: bool = False,
    ):  # fmt: skip
        self.operation, self.inputs, self.keys = operation, inputs, keys
        self.storage: Any = MemoryStorage()
        self.scope = EpochScope()
        self.watermark = EventTime()
        self._names = 0
        self.batch = batch
        self.subtasks = [_Subtask(operation, i, parallelism, self.scope, (), batch) for i in range(parallelism)]

    def epoch(self, *inputs: Sequence[Change], crash: bool = False, time: EventTime | None = None) -> list[Change]:
        """Run an epoch. One that crashes is lost: its output is not seen and its changes of state are not saved."""
        for subtask in self.subtasks:
            subtask.begin(self.storage)
        for number, rows in enumerate(inputs):
            self._feed(number, rows)
        for subtask in self.subtasks:
            subtask.operator.advance(time or self.watermark)
            subtask.operator.snapshot()
        found = [change for subtask in self.subtasks for batch in subtask.sent for change in changes_of(batch)]
        for subtask in self.subtasks:
            subtask.sent.clear()
            if not crash:
                self._names += 1
                subtask.sequence = subtask.state.save(subtask.sequence, self.storage, f"state-{self._names}")
        return [] if crash else found

    def _feed(self, number: int, rows: Sequence[Change]) -> None:
        if not rows:
            return
        schema = self.inputs[number]
        arrow = arrow_schema(schema.names, schema.types)
        columns = pa.RecordBatch.from_arrays(
            [pa.array([row[place] for _, row in rows], field.type) for place, field in enumerate(arrow)], schema=arrow
        )
        kinds = pa.array([KINDS.index(kind) for kind, _ in rows], pa.int8())
        batch = ColumnBatch(
            columns, record_type_of(schema), None, None if all(kind == "+I" for kind, _ in rows) else kinds
        )
        keys = [columns.column(index) for index in self.keys[number]]
        count = len(self.subtasks)
        for subtask, positions in zip(
            self.subtasks, cut(targets_of(keys, MAX_PARALLELISM, count, len(rows)), count), strict=True
        ):
            if len(positions):
                part = batch.take(positions)
                (subtask.operator.process if number == 0 else subtask.operator.process_second)(part)

    def restart(self, parallelism: int | None = None) -> None:
        """Start all subtasks again, from the last checkpoint and maybe with another parallelism."""
        former, count = self.subtasks, parallelism or len(self.subtasks)
        self.subtasks = []
        for index in range(count):
            groups = groups_of(index, MAX_PARALLELISM, count)
            parts: list[Any] = []
            for subtask in former:
                shared = range(max(subtask.groups.start, groups.start), min(subtask.groups.stop, groups.stop))
                if shared:
                    parts += (file.restricted(shared) for file in subtask.sequence if file.within(shared))
            self.subtasks.append(_Subtask(self.operation, index, count, self.scope, tuple(parts), self.batch))

    def state_sizes(self) -> dict[str, int]:
        """Return how many rows the tables of state have, those of all subtasks."""
        found: dict[str, int] = {}
        for subtask in self.subtasks:
            for name, size in subtask.state.sizes().items():
                found[name] = found.get(name, 0) + size
        return found


def changes_of(batch: ColumnBatch) -> list[Change]:
    """Return the rows of a batch with their kinds."""
    rows = zip(*(column.to_pylist() for column in batch.columns.columns), strict=True)
    codes = [0] * len(batch) if batch.kinds is None else batch.kinds.to_pylist()
    return [(KINDS[code], row) for code, row in zip(codes, rows, strict=True)]


def folded(changes: Sequence[Change]) -> dict[tuple[Any, ...], int]:
    """Return the rows that a changelog leaves, with how often each is there."""
    found: dict[tuple[Any, ...], int] = {}
    for kind, row in changes:
        named = tuple(map(repr, row))
        found[named] = found.get(named, 0) + (1 if kind in ("+I", "+U") else -1)
        if not found[named]:
            del found[named]
    return found
