"""MIN, MAX, FIRST_VALUE and LAST_VALUE of rows that are only added: one value for each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.aggregates.accumulation import (
    Accumulation,
    Groups,
    Ints,
    Numbers,
    State,
    array_of,
    fixed_dtype,
    numbers_of,
    running_first,
    running_last,
)
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType

#: The rank of a null: it is never chosen.
_NOTHING = np.int64(1 << 40)


class OneValue(Accumulation):
    """A value of each group; null until there is one."""

    retracts = False

    def __init__(self, of: LogicalType):
        self._type = arrow_type(of)
        self.fields = (pa.field("value", self._type),)

    def _column(self, array: pa.Array) -> object:
        return numbers_of(array) if fixed_dtype(self._type) is not None else array

    def _array(self, state: State) -> pa.Array:
        (column,) = state
        return array_of(column, self._type) if isinstance(column, Numbers) else column

    def result(self, state: State) -> pa.Array:
        return self._array(state)

    def state_of(self, values: pa.Array) -> State:
        """Return values as a state."""
        return [self._column_with_validity(values)]

    def _picked(self, initial: State, values: pa.Array, positions: Ints, ids: Ints) -> State:
        """Return values by position; where that is negative, the initial value of a group."""
        both = pa.concat_arrays([self._array(initial), values])
        count = len(both) - len(values)
        return [self._column_with_validity(both.take(pa.array(np.where(positions < 0, ids, positions + count))))]

    def _column_with_validity(self, array: pa.Array) -> object:
        column = self._column(array)
        if isinstance(column, Numbers) and column.valid is None:
            return Numbers(column.values, np.ones(len(array), np.bool_))
        return column


class Extreme(OneValue):
    """MIN or MAX."""

    def __init__(self, of: LogicalType, *, largest: bool):
        super().__init__(of)
        self._largest = largest

    def _ranks(self, initial: State, values: pa.Array, weights: Ints) -> tuple[Ints, Ints, pa.Array]:
        """Return the ranks of initial values and of rows, the wanted one lowest, and the values by rank."""
        both = pa.concat_arrays([self._array(initial), values])
        encoded = both.dictionary_encode()
        order = np.asarray(pc.array_sort_indices(encoded.dictionary))
        if self._largest:
            order = order[::-1]
        rank = np.empty(len(order) + 1, np.int64)
        rank[order] = np.arange(len(order))
        rank[-1] = _NOTHING
        codes = encoded.indices
        found = rank[np.asarray(codes.fill_null(len(order)) if codes.null_count else codes)]
        count = len(both) - len(values)
        rows = np.where(weights > 0, found[count:], _NOTHING)
        return found[:count], rows, encoded.dictionary.take(pa.array(order))

    def _by_rank(self, ranks: Ints, values: pa.Array) -> State:
        absent = ranks == _NOTHING
        found = values.take(pa.array(np.where(absent, 0, ranks), mask=absent if absent.any() else None))
        return [self._column_with_validity(found)]

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        first, rows, values = self._ranks(initial, arguments[0], groups.signs)
        rows = rows.copy()
        rows[groups.starts] = np.minimum(rows[groups.starts], first)
        shift = groups.ids * (_NOTHING + 1)
        if groups.count > (1 << 22):  # more groups than fit beside ranks in 63 bits
            return self._scan_in_parts(groups, initial, arguments)
        return self._by_rank(np.minimum.accumulate(rows - shift) + shift, values)

    def _scan_in_parts(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        from flott.table._functions.aggregates.accumulation import concat, take

        half = groups.count // 2
        cut = int(groups.starts[half])
        parts = []
        for ids, signs, count, held, values in (
            (groups.ids[:cut], groups.signs[:cut], half, np.arange(half), arguments[0].slice(0, cut)),
            (
                groups.ids[cut:] - half,
                groups.signs[cut:],
                groups.count - half,
                np.arange(half, groups.count),
                arguments[0].slice(cut),
            ),
        ):
            parts.append(self.scan(Groups(ids, count, signs, True), [take(initial[0], held)], [values])[0])
        return [concat(parts)]

    def fold(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        return self._folded(groups, initial, arguments[0], groups.signs)

    def _folded(self, groups: Groups, initial: State, values: pa.Array, weights: Ints) -> State:
        column = initial[0]
        if isinstance(column, Numbers) and column.values.ndim == 1:
            return self._fold_numbers(groups, column, numbers_of(values), weights)
        first, rows, by_rank = self._ranks(initial, values, weights)
        np.minimum.at(first, groups.ids, rows)
        return self._by_rank(first, by_rank)

    def _fold_numbers(self, groups: Groups, held: Numbers, rows: Numbers, weights: Ints) -> State:
        """Fold numbers without ranking them: absent ones are the worst value of their type."""
        assert held.valid is not None
        dtype = held.values.dtype
        if dtype.kind == "f":
            worst = dtype.type(-np.inf if self._largest else np.inf)
        elif dtype.kind == "b":
            worst = np.bool_(not self._largest)
        else:
            worst = np.iinfo(dtype).min if self._largest else np.iinfo(dtype).max
        there = weights > 0 if rows.valid is None else (weights > 0) & rows.valid
        found = np.where(held.valid, held.values, worst)
        values = rows.values.astype(dtype, copy=False)
        better: Any = np.maximum if self._largest else np.minimum
        if dtype.kind == "b":
            better = np.logical_or if self._largest else np.logical_and
        valid = held.valid.copy()
        if there.all():
            better.at(found, groups.ids, values)
            valid[groups.ids] = True
        else:
            better.at(found, groups.ids[there], values[there])
            valid[groups.ids[there]] = True
        return [Numbers(found, valid)]

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        return self._folded(groups, initial, self._array(partial), np.ones(len(groups.ids), np.int64))


class FirstOrLast(OneValue):
    """FIRST_VALUE or LAST_VALUE: nulls are passed over."""

    def __init__(self, of: LogicalType, *, last: bool):
        super().__init__(of)
        self._last = last

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        chosen = (groups.signs > 0) & np.asarray(arguments[0].is_valid())
        if self._last:
            positions = running_last(groups, chosen)
        else:
            positions = running_first(groups, chosen)
            held = np.asarray(self._array(initial).is_valid())[groups.ids]
            positions = np.where(held, -1, positions)
        return self._picked(initial, arguments[0], positions, groups.ids)

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        from flott.table._functions.aggregates.accumulation import fold_by_scan

        rows = Groups(groups.ids, groups.count, np.ones(len(groups.ids), np.int64), groups.is_sorted)
        return fold_by_scan(self, rows, initial, [self._array(partial)])
