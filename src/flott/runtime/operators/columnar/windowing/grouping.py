"""Groups of equal rows, and small array operations that windows share. Task side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from flott.runtime.managed_state.columns.key_words import Numbering
from flott.runtime.operators.columnar.windowing.zones import Flags, Longs


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def taken(column: pa.Array, places: Longs) -> pa.Array:
    """Return the values at some places."""
    return column.take(pa.array(places))


def group_rows(columns: Sequence[pa.Array], length: int) -> tuple[Longs, Longs]:
    """Return the group of each row, numbered by first appearance, and the first row of each group. Nulls are equal."""
    if not columns:
        return np.zeros(length, np.int64), np.zeros(min(length, 1), np.int64)
    if not length:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ids, size = _codes(columns[0])
    for column in columns[1:]:
        more, width = _codes(column)
        if size * width > _MAX_CODE:
            ids, size = _encoded(ids)
        ids, size = ids * width + more, size * width
    return _by_first_appearance(ids, size)


#: Codes below this can be combined with those of another column.
_MAX_CODE = 1 << 62


def _codes(column: pa.Array) -> tuple[Longs, int]:
    """Return a number for each value, equal ones for equal values, and what all of them are below."""
    length = len(column)
    if pa.types.is_null(column.type):
        return np.zeros(length, np.int64), 1
    if pa.types.is_nested(column.type):
        return _encoded(Numbering(column.type).numbers(column, add=True))
    if column.type in _PLAIN and not column.null_count:
        # Integers of a small range, such as the ends of slices, are numbers already.
        values = column.to_numpy(zero_copy_only=False)
        low, high = int(values.min()), int(values.max())
        if high - low < _SPARSE * length:
            return values.astype(np.int64) - low, high - low + 1
    indices: Longs = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    return indices.astype(np.int64), int(indices.max()) + 1


_PLAIN = (pa.int64(), pa.int32())
#: How many times the number of rows a table by code may have entries, of which most are empty.
_SPARSE = 4


def _encoded(values: Longs) -> tuple[Longs, int]:
    indices: Longs = pa.array(values).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return indices.astype(np.int64), int(indices.max()) + 1


def _by_first_appearance(ids: Longs, size: int) -> tuple[Longs, Longs]:
    """Return groups numbered as they come, and the first row of each."""
    length = len(ids)
    numbered = size > 2 * _SPARSE * length
    if numbered:
        ids, size = _encoded(ids)  # dictionaries number values by first appearance
    first = np.full(size, -1, np.int64)
    first[ids[::-1]] = np.arange(length - 1, -1, -1)  # the last one to write is the first row
    if numbered:
        return ids, first
    present = np.flatnonzero(first >= 0)
    order = present[np.argsort(first[present], kind="stable")]
    rank = np.empty(size, np.int64)
    rank[order] = np.arange(len(order))
    return rank[ids], first[order]


def starts_of(sorted_groups: Longs) -> Flags:
    """Return which rows begin a group, of rows sorted by group."""
    begins = np.ones(len(sorted_groups), np.bool_)
    if len(sorted_groups):
        begins[1:] = sorted_groups[1:] != sorted_groups[:-1]
    return begins


def ranks_in(sorted_groups: Longs) -> Longs:
    """Return the position of each row within its group from 0, of rows sorted by group."""
    places = np.arange(len(sorted_groups))
    begins = starts_of(sorted_groups)
    return places - np.maximum.accumulate(np.where(begins, places, 0))


def arrival_ranks(groups: Longs) -> Longs:
    """Return how many earlier rows each row's group has."""
    order = np.argsort(groups, kind="stable")
    found = np.empty(len(groups), np.int64)
    found[order] = ranks_in(groups[order])
    return found


def concatenated(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    arrays = [pa.concat_arrays([part.column(place) for part in parts]) for place in range(first.num_columns)]
    return batch_of(arrays, first.schema, sum(part.num_rows for part in parts))


def batch_of(arrays: Sequence[pa.Array], schema: pa.Schema, length: int) -> pa.RecordBatch:
    """Return columns as a batch; one without columns still has rows."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
