"""Columnar operators under test: subtasks with state by key group, epochs, crashes, rescaling, and a folded result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from flott.common._ids import EpochId, JobId, KeyGroup, SubtaskIndex
from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.column_keys import key_groups
from flott.runtime.managed_state.key_groups import KeyGroupIndex
from flott.runtime.managed_state.kinds.column_tables import COLUMN_TABLES, ColumnTable
from flott.runtime.operators.batch import ColumnBatch
from flott.runtime.operators.columnar.build import build_columnar
from flott.runtime.operators.operator import EpochScope, EventTime, OperatorContext
from flott.runtime.operators.watermarks import TimeProgress
from flott.table._plan.logical import Schema
from flott.table._plan.operations import ColumnarOperation
from flott.table._types.arrow import arrow_schema

KINDS = ("+I", "-U", "+U", "-D")
MAX_PARALLELISM = 16

#: A kind and a row.
Change = tuple[str, tuple[Any, ...]]


def batch_of(schema: Schema, changes: Sequence[Change]) -> tuple[Any, Any]:
    arrow = arrow_schema(schema.names, schema.types)
    columns = [pa.array([row[place] for _, row in changes], field.type) for place, field in enumerate(arrow)]
    kinds = np.array([KINDS.index(kind) for kind, _ in changes], np.int8)
    return pa.RecordBatch.from_arrays(columns, schema=arrow), (pa.array(kinds) if kinds.any() else None)


class Cluster:
    """An operator with its subtasks. Rows go to the subtask of their key."""

    def __init__(
        self,
        operation: ColumnarOperation,
        inputs: Sequence[Schema],
        keys: Sequence[Sequence[int]],
        *,
        parallelism: int = 1,
        now_ms: int = 0,
    ):
        self.operation, self.inputs, self.keys, self.parallelism = operation, inputs, keys, parallelism
        self.scope = EpochScope(now_ms=now_ms)
        self.saved: dict[tuple[str, int], list[Any]] = {}
        self.out: list[Change] = []
        self.watermark = MIN_WATERMARK
        self.epoch_number = 0
        self._start()

    def _start(self) -> None:
        size = MAX_PARALLELISM
        self.states = []
        self.operators = []
        for subtask in range(self.parallelism):
            groups = range(-(-subtask * size // self.parallelism), -(-(subtask + 1) * size // self.parallelism))
            state = KeyedState("test", size, groups)
            for (name, group), deltas in self.saved.items():
                if group in groups:
                    table = state.table(COLUMN_TABLES, name)
                    table.apply(ColumnTable.merge(list(deltas)) if len(deltas) > 1 else deltas[0])
            node = SimpleNamespace(parallelism=self.parallelism, max_parallelism=size, keys=())
            context = OperatorContext(
                JobId("j"),
                "job",
                "task",
                cast("Any", SimpleNamespace(label="operator", node=node)),
                SubtaskIndex(subtask),
                self.scope,
                state,
            )
            operator = build_columnar(context, self.operation)
            operator.emit = self._emit
            operator.restore(self.watermark, cast("TimeProgress", None))
            operator.open()
            self.states.append(state)
            self.operators.append(operator)

    def _emit(self, batch: Any) -> None:
        assert isinstance(batch, ColumnBatch)
        rows = zip(*(column.to_pylist() for column in batch.columns.columns), strict=True)
        kinds = [0] * len(batch) if batch.kinds is None else batch.kinds.to_pylist()
        self.out += [(KINDS[kind], row) for kind, row in zip(kinds, rows, strict=True)]

    def epoch(
        self, *inputs: Sequence[Change], watermark: int | None = None, ended: bool = False, now_ms: int | None = None
    ) -> list[Change]:
        """Run an epoch and return what it sends."""
        self.epoch_number += 1
        self.scope.epoch = EpochId(self.epoch_number)
        if now_ms is not None:
            self.scope.now_ms = now_ms
        start = len(self.out)
        if ended:
            watermark = MAX_WATERMARK
        for operator in self.operators:
            operator.begin()
        for place, changes in enumerate(inputs):
            if not changes:
                continue
            columns, kinds = batch_of(self.inputs[place], changes)
            key = [columns.column(column) for column in self.keys[place]]
            groups = key_groups(key, MAX_PARALLELISM, len(changes))
            for subtask, operator in enumerate(self.operators):
                chosen = np.flatnonzero(np.isin(groups, np.array(self.states[subtask].groups)))
                if len(chosen):
                    at = pa.array(chosen)
                    part = ColumnBatch(
                        columns.take(at), operator.column_type(place), None, None if kinds is None else kinds.take(at)
                    )
                    (operator.process if place == 0 else operator.process_second)(part)
        if watermark is not None:
            self.watermark = max(self.watermark, watermark)
        for operator in self.operators:
            operator.advance(EventTime(self.watermark, ended=ended))
        self._save()
        return self.out[start:]

    def _save(self) -> None:
        index = KeyGroupIndex(MAX_PARALLELISM)
        for state in self.states:
            for name in state.sizes():
                table = state.find(name)
                assert isinstance(table, ColumnTable)
                for group, delta in table.drain(index.__getitem__).items():
                    assert group in state.groups
                    self.saved.setdefault((name, int(group)), []).append(delta)

    def crash(self, parallelism: int | None = None) -> None:
        """Start again from what was saved, with another number of subtasks if one is given."""
        self.parallelism = parallelism or self.parallelism
        self._start()

    def rows_in_state(self) -> int:
        """Return how many rows the state has."""
        return sum(state.entry_count() for state in self.states)


def folded(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    """Return the rows that are left; every -U and -D must take away a row that is there."""
    held: Counter[tuple[Any, ...]] = Counter()
    for kind, row in changes:
        if kind in ("+I", "+U"):
            held[row] += 1
        else:
            assert held[row] > 0, f"{kind} {row} takes away a row that is not there"
            held[row] -= 1
    return +held


def upserted(changes: Sequence[Change], key: Sequence[int]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return the last row of every key."""
    held: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for kind, row in changes:
        name = tuple(row[place] for place in key)
        if kind == "-D":
            held.pop(name, None)
        elif kind != "-U":
            held[name] = row
    return held


__all__ = ["Change", "Cluster", "KeyGroup", "folded", "upserted"]
