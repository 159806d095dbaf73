"""Accumulators of many groups as columns: what an aggregate function is to operators.

Rows come with the number of their group and a sign: 1 adds a row, -1 takes one away, 0 leaves the group as it is. The
accumulators of all groups are one *state*: a list of columns, each with a row for each group.

    fold      groups in any order            -> the state of each group after all of its rows
    scan      rows sorted by group           -> a state for each row: that of its group after it
    merge     partial states                 -> the state of each group with them
    result    a state                        -> the values of the function

A column of fixed width is a :class:`Numbers`; all others are Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

Ints: TypeAlias = Any  # an array of numpy


class Numbers(NamedTuple):
    """A column of fixed width: values, and which of them are there (None: all). A decimal is two integers."""

    values: Ints
    valid: Ints | None = None


Column: TypeAlias = Any  # Numbers | pa.Array
State: TypeAlias = list[Column]


@dataclass(frozen=True)
class Groups:
    """Rows and the groups that they belong to. Rows of a group are in the order in which they came."""

    ids: Ints  #: by row, from 0
    count: int  #: of groups
    signs: Ints  #: by row
    is_sorted: bool = False  #: by group

    @cached_property
    def starts(self) -> Ints:
        """Return for each group the position of its first row; groups are sorted and none is empty."""
        return np.searchsorted(self.ids, np.arange(self.count))

    @cached_property
    def firsts(self) -> Ints:
        """Return for each row the position of the first row of its group."""
        return self.starts[self.ids]

    @cached_property
    def lengths(self) -> Ints:
        """Return how many rows each group has."""
        return np.diff(np.append(self.starts, len(self.ids)))

    def with_signs(self, signs: Ints) -> Groups:
        """Return the same rows with other signs. What is known of the groups is kept."""
        found = Groups(self.ids, self.count, signs, self.is_sorted)
        known = ("starts", "firsts", "lengths")
        found.__dict__.update({name: value for name, value in self.__dict__.items() if name in known})
        return found

    def sorted(self) -> tuple[Groups, Ints]:
        """Return the rows by group, and where they were."""
        order = np.argsort(self.ids, kind="stable")
        return Groups(self.ids[order], self.count, self.signs[order], True), order


class Accumulation:
    """The accumulators of one call of an aggregate function."""

    #: The columns of a state.
    fields: tuple[pa.Field, ...] = ()
    #: Whether rows with sign -1 are understood.
    retracts = True

    def empty(self, count: int) -> State:
        """Return the state of groups without rows."""
        return [empty_column(field, count) for field in self.fields]

    def scan(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        """Return the state after each row. Rows are sorted, and every group has rows."""
        raise NotImplementedError

    def scan_results(
        self, groups: Groups, initial: State, arguments: Sequence[pa.Array]
    ) -> tuple[pa.Array, State]:
        """Return the values of the function before and after rows, and the state of each group after its last row.

        The values are those of the initial states, one for each group, and behind them one for each row.
        """
        scanned = self.scan(groups, initial, arguments)
        both = [concat([held, changed]) for held, changed in zip(initial, scanned, strict=True)]
        ends = np.append(groups.starts[1:], len(groups.ids)) - 1
        return self.result(both), [take(column, ends) for column in scanned]

    def fold(self, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
        """Return the state of each group after its rows."""
        return fold_by_scan(self, groups, initial, arguments)

    def merge(self, groups: Groups, initial: State, partial: State) -> State:
        """Return the state of each group with partial states merged into it."""
        raise NotImplementedError

    def result(self, state: State) -> pa.Array:
        """Return the value of the function for each row of a state."""
        raise NotImplementedError


def fold_by_scan(of: Accumulation, groups: Groups, initial: State, arguments: Sequence[pa.Array]) -> State:
    """Return the last states of a scan."""
    rows = groups
    if not groups.is_sorted:
        rows, order = groups.sorted()
        at = pa.array(order)
        arguments = [argument.take(at) for argument in arguments]
    present, dense = np.unique(rows.ids, return_inverse=True)
    scanned = of.scan(
        Groups(dense, len(present), rows.signs, True), [take(column, present) for column in initial], arguments
    )
    ends = np.append(np.flatnonzero(np.diff(dense)), len(dense) - 1)
    if len(present) == groups.count:
        return [take(column, ends) for column in scanned]
    positions = np.arange(groups.count)
    positions[present] = groups.count + ends
    return [take(concat([one, other]), positions) for one, other in zip(initial, scanned, strict=True)]


# --- columns ---------------------------------------------------------------------------------------------------------


def empty_column(field: pa.Field, count: int) -> Column:
    """Return a column of zeros and nulls."""
    dtype = fixed_dtype(field.type)
    if dtype is None:
        return pa.nulls(count, field.type)
    values = np.zeros((count, 2) if pa.types.is_decimal(field.type) else count, dtype)
    return Numbers(values, np.zeros(count, np.bool_) if field.nullable else None)


def take(column: Column, rows: Ints) -> Column:
    """Return some rows of a column."""
    if isinstance(column, Numbers):
        return Numbers(column.values[rows], None if column.valid is None else column.valid[rows])
    return column.take(pa.array(rows))


def concat(columns: Sequence[Column]) -> Column:
    """Return columns of one type, one behind the other."""
    if isinstance(columns[0], Numbers):
        values = np.concatenate([column.values for column in columns])
        if all(column.valid is None for column in columns):
            return Numbers(values)
        valid = [np.ones(len(c.values), np.bool_) if c.valid is None else c.valid for c in columns]
        return Numbers(values, np.concatenate(valid))
    return pa.concat_arrays(columns)


def length_of(column: Column) -> int:
    """Return how many rows a column has."""
    return len(column.values) if isinstance(column, Numbers) else len(column)


def fixed_dtype(arrow_type: pa.DataType) -> Any:
    """Return numpy's type of one value; None if values of the type are not all of one width."""
    types = pa.types
    if types.is_boolean(arrow_type):
        return np.dtype(np.bool_)
    if types.is_integer(arrow_type) or types.is_float32(arrow_type) or types.is_float64(arrow_type):
        return np.dtype(arrow_type.to_pandas_dtype())
    if types.is_temporal(arrow_type) and not types.is_interval(arrow_type):
        return np.dtype(f"i{arrow_type.bit_width // 8}")
    return np.dtype("i8") if types.is_decimal128(arrow_type) else None


def numbers_of(array: pa.Array) -> Numbers:
    """Return an array of fixed width as numbers."""
    valid = None if not array.null_count else np.asarray(array.is_valid())
    if pa.types.is_boolean(array.type):
        return Numbers(np.asarray(array.fill_null(False) if array.null_count else array), valid)
    if pa.types.is_null(array.type):
        return Numbers(np.zeros(len(array), np.int64), np.zeros(len(array), np.bool_))
    dtype, data = fixed_dtype(array.type), array.buffers()[1]
    width = 2 if pa.types.is_decimal(array.type) else 1
    if data is None or not len(array):
        return Numbers(np.zeros((len(array), 2) if width == 2 else len(array), dtype), valid)
    found = np.frombuffer(data, dtype, len(array) * width, array.offset * width * dtype.itemsize)
    return Numbers(found.reshape(-1, 2) if width == 2 else found, valid)


def array_of(column: Numbers, arrow_type: pa.DataType) -> pa.Array:
    """Return numbers as an array."""
    mask = None
    if column.valid is not None and not column.valid.all():
        mask = pa.py_buffer(np.packbits(column.valid, bitorder="little"))
    if pa.types.is_boolean(arrow_type):
        data = pa.py_buffer(np.packbits(column.values, bitorder="little"))
    else:
        dtype = fixed_dtype(arrow_type)
        data = pa.py_buffer(np.ascontiguousarray(column.values, dtype=dtype))
    return pa.Array.from_buffers(arrow_type, len(column.values), [mask, data])


# --- running values --------------------------------------------------------------------------------------------------

#: Groups with more rows than this are summed up one by one, the others all at once, a row of each at a time.
_LONG = 64


def running_sum(groups: Groups, values: Ints, initial: Ints) -> Ints:
    """Return for each row the sum of its group up to it. Sums of floats are added up in order, as one by one."""
    if values.dtype.kind != "f":
        total = np.cumsum(values, dtype=values.dtype)
        starts = groups.starts
        offset = initial - total[starts] + values[starts] if len(starts) else initial
        total += offset.astype(total.dtype)[groups.ids]
        return total
    return _running_float_sum(groups, values, initial)


def _running_float_sum(groups: Groups, values: Ints, initial: Ints) -> Ints:
    found = values.copy()
    found[groups.starts] = initial.astype(values.dtype) + values[groups.starts]
    lengths, starts = groups.lengths, groups.starts
    for group in np.flatnonzero(lengths > _LONG).tolist():
        start = int(starts[group])
        stop = start + int(lengths[group])
        found[start:stop] = np.cumsum(found[start:stop], dtype=values.dtype)
    short = lengths <= _LONG
    for place in range(1, int(lengths[short].max(initial=0))):
        at = starts[short & (lengths > place)] + place
        found[at] += found[at - 1]
    return found


def running_minimum(groups: Groups, values: Ints) -> Ints:
    """Return for each row the least integer of its group up to it; the values are below 2**40 in size."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    span = high - low + 1
    shifted = (values - low) - groups.ids * span
    return np.minimum.accumulate(shifted) + groups.ids * span + low


def running_last(groups: Groups, chosen: Ints) -> Ints:
    """Return for each row the position of the last chosen row of its group up to it; -1 if there is none."""
    positions = np.where(chosen, np.arange(len(chosen)), -1)
    found = np.maximum.accumulate(positions) if len(positions) else positions
    return np.where(found >= groups.firsts, found, -1)


def running_first(groups: Groups, chosen: Ints) -> Ints:
    """Return for each row the position of the first chosen row of its group up to it; -1 if there is none."""
    last = running_last(groups, chosen)
    count = np.cumsum(chosen)
    begin = chosen & (count - (count - chosen)[groups.firsts] == 1)
    return np.where(last >= 0, running_last(groups, begin), -1)
