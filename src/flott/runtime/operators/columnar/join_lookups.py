"""Joins of rows with rows of an external table, fetched by key. Task side.

The different keys of an epoch are asked for in a few queries, several of them at a time if the settings say so. Results
come in the order of the input, whichever query is answered first.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import fetch_from, pair_condition, taken, unequal
from flott.runtime.operators.columnar.key_codes import Ints, by_group, codes_of, ranges
from flott.runtime.operators.columnar.lookup_cache import LookupCache
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import JoinLookups
from flott.table._types.arrow import arrow_schema


class JoinLookupsOperator(ColumnarOperator):
    """Inner and left joins. The row kinds of the input stay as they are."""

    def __init__(self, context: OperatorContext, operation: JoinLookups):
        super().__init__(context, operation, [operation.left])
        told = self._told = operation
        self._condition = pair_condition(told.condition, len(told.left), len(told.right))
        self._right = arrow_schema(told.right.names, told.right.types)
        self._cache = LookupCache(told.lookups, self._right, told.keys.right) if told.lookups.cache_keys else None
        self._clients: SimpleQueue[Callable[[Any], Any]] = SimpleQueue()
        self._opened: list[Any] = []
        self._pool: ThreadPoolExecutor | None = None

    def open(self) -> None:
        for _ in range(max(self._told.lookups.parallel, 1)):
            client = self._told.open_lookup()
            self._opened.append(client)
            self._clients.put(client)
        if self._told.lookups.parallel > 1:
            self._pool = ThreadPoolExecutor(self._told.lookups.parallel, "lookup")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
        for client in self._opened:
            if (close := getattr(client, "close", None)) is not None:
                close()
        self._opened.clear()

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        columns, length = changes.columns, len(changes)
        if not length:
            return
        keys = self._told.keys
        alone = unequal(columns, keys.left, keys.filter_nulls)
        asking = np.arange(length) if alone is None else np.flatnonzero(~alone)
        at = pa.array(asking)
        arrays = [
            columns.column(key).take(at).cast(self._right.field(other).type)
            for key, other in zip(keys.left, keys.right, strict=True)
        ]
        codes, first = codes_of(arrays, len(asking))
        picked = pa.array(first)
        found = self._rows_of([array.take(picked) for array in arrays]) if len(first) else None
        rows, partners = asking[:0], asking[:0]
        if found is not None and found.num_rows:
            rows, partners = _pairs(codes, len(first), picked, arrays, found, keys.right)
            rows = asking[rows]
        if self._condition is not None and found is not None and len(rows):
            left, right = fetch_from(columns, rows), fetch_from(found, partners)
            holds = self._condition.holds(left, right, len(rows), self.session)
            rows, partners = rows[holds], partners[holds]
        if self._told.kind.left_outer:
            lonely = np.setdiff1d(np.arange(length), rows)
            order = np.argsort(np.concatenate([rows, lonely]), kind="stable")
            rows, partners = (
                np.concatenate([rows, lonely])[order],
                np.concatenate([partners, np.full(len(lonely), -1)])[order],
            )
        if not len(rows):
            return
        right_columns = found.columns if found is not None else [pa.nulls(0, field.type) for field in self._right]
        kinds = None if changes.kinds is None else changes.kinds[rows]
        self.send([*taken(columns.columns, rows), *taken(right_columns, partners)], kinds)

    # --- rows of the other table -------------------------------------------------------------------------------------

    def _rows_of(self, keys: list[pa.Array]) -> pa.RecordBatch:
        """Return the rows of different keys, remembered or fetched."""
        if self._cache is None:
            return self._fetch(keys)
        now = self.context.scope.now_ms
        known = self._cache.known(keys, now)
        asked = np.flatnonzero(~known)
        parts = [self._cache.rows([key.take(pa.array(np.flatnonzero(known))) for key in keys])]
        if len(asked):
            missing = [key.take(pa.array(asked)) for key in keys]
            fetched = self._fetch(missing)
            codes, _ = codes_of(_side_by_side(missing, fetched, self._told.keys.right), len(asked) + fetched.num_rows)
            self._cache.remember(missing, np.isin(codes[: len(asked)], codes[len(asked) :]), fetched, now)
            parts.append(list(fetched.columns))
        columns = [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._right)

    def _fetch(self, keys: list[pa.Array]) -> pa.RecordBatch:
        names = [self._right.names[key] for key in self._told.keys.right]
        batch = pa.RecordBatch.from_arrays(keys, names=names)
        size = self._told.lookups.batch_keys
        if self._pool is not None:  # all clients have something to do
            size = min(size, -(-batch.num_rows // self._told.lookups.parallel))
        queries = [batch.slice(start, size) for start in range(0, batch.num_rows, size)]
        answers = list(map(self._ask, queries) if self._pool is None else self._pool.map(self._ask, queries))
        table = pa.concat_tables([answer.select(self._right.names).cast(self._right) for answer in answers])
        return (
            table.combine_chunks().to_batches()[0]
            if table.num_rows
            else pa.RecordBatch.from_pylist([], schema=self._right)
        )

    def _ask(self, keys: pa.RecordBatch) -> Any:
        client = self._clients.get()
        try:
            return client(keys)
        finally:
            self._clients.put(client)


def _side_by_side(keys: list[pa.Array], rows: pa.RecordBatch, places: tuple[int, ...]) -> list[pa.Array]:
    """Return key columns with those of rows behind them."""
    return [pa.concat_arrays([key, rows.column(place)]) for key, place in zip(keys, places, strict=True)]


def _pairs(
    codes: Ints, count: int, first: pa.Array, keys: list[pa.Array], found: pa.RecordBatch, places: tuple[int, ...]
) -> tuple[Ints, Ints]:
    """Return pairs of a row that asked and a row that was found, by the former."""
    different = [key.take(first) for key in keys]
    both, _ = codes_of(_side_by_side(different, found, places), count + found.num_rows)
    numbers = both[count:]  # different keys have the numbers from 0 on, in their order
    usable = numbers < count
    order, _ = by_group(numbers)
    order = order[usable[order]]
    counts = np.bincount(numbers[order], minlength=count)
    starts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(codes)), counts[codes])
    return rows, order[ranges(starts[codes], counts[codes])]
