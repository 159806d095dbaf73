"""The order of rows by sort keys, as numbers that compare like the rows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.operators.columnar.key_codes import Ints
from flott.table._plan.logical import SortKey

_LARGEST = np.iinfo(np.int64).max


def ranks_of(column: Callable[[int], pa.Array], keys: Sequence[SortKey], length: int) -> Ints:
    """Return a number for every row: rows are in order if their numbers are, and equal if their numbers are."""
    ranks: Ints | None = None
    for key in keys:
        more = _plain(column(key.column), key) if len(keys) == 1 else None
        if more is not None:
            return more
        more = _dense(column(key.column), key)
        if ranks is None:
            ranks = more
        else:
            ranks = ranks * (int(more.max(initial=0)) + 1) + more
            _, ranks = np.unique(ranks, return_inverse=True)
    return np.zeros(length, np.int64) if ranks is None else ranks


def _plain(column: pa.Array, key: SortKey) -> Ints | None:
    """Return integers and times as they are; None if values are not whole numbers, or not all there."""
    types = pa.types
    if column.null_count or not (types.is_signed_integer(column.type) or types.is_timestamp(column.type)):
        return None
    values = np.asarray(column.cast(pa.int64()))
    return ~values if key.descending else values  # the complement has no overflow


def _dense(column: pa.Array, key: SortKey) -> Ints:
    if pa.types.is_floating(column.type):
        column = _whole_numbers(column)
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    order = "descending" if key.descending else "ascending"
    ranks = np.asarray(pc.rank(column, sort_keys=order, tiebreaker="dense")).astype(np.int64)
    if column.null_count and not key.nulls_last:  # otherwise they are last already
        ranks = np.where(np.asarray(column.is_null()), 0, ranks)
    return ranks


def _whole_numbers(column: pa.Array) -> pa.Array:
    """Return numbers that compare like floats: NaN is the largest, and both zeros are equal."""
    values = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0
    bits = values.view(np.int64)
    numbers = np.where(bits < 0, bits ^ np.int64(_LARGEST), bits)
    numbers = np.where(np.isnan(values), _LARGEST, numbers)
    mask = np.asarray(column.is_null()) if column.null_count else None
    return pa.array(numbers, pa.int64(), mask=mask)
