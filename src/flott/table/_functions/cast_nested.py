"""Casts of arrays, maps, multisets and rows: part by part. A value fails as a whole if one of its parts does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.cast_numbers import Converted
from flott.table._functions.decimals import valid_mask, validity
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import children_of
from flott.table._types.logical import ArrayType, LogicalType, MapType, MultisetType, RowType

#: Converts a column of one type to another.
ConvertPart = Callable[[pa.Array, LogicalType, LogicalType], Converted]


def to_nested(column: pa.Array, source: LogicalType, target: LogicalType, convert: ConvertPart) -> Converted:
    """Return a column with its parts converted."""
    if isinstance(source, RowType):
        return _rows(column, source, target, convert)
    return _lists(column, source, target, convert)


def _rows(column: pa.Array, source: RowType, target: LogicalType, convert: ConvertPart) -> Converted:
    assert isinstance(target, RowType)
    parts, failed = [], None
    for part, ours, theirs in zip(column.flatten(), source.types, target.types, strict=True):
        found, lost = convert(part, ours, theirs)
        parts.append(found)
        failed = lost if failed is None else failed if lost is None else pc.or_(failed, lost)
    of = arrow_type(target)
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(of), mask=mask), failed


def _lists(column: pa.Array, source: LogicalType, target: LogicalType, convert: ConvertPart) -> Converted:
    column = column.take(pa.array(np.arange(len(column)))) if column.offset else column
    offsets = np.asarray(column.offsets)
    start, end = int(offsets[0]), int(offsets[-1])
    if isinstance(source, ArrayType):
        parts = [column.values.slice(start, end - start)]
    else:
        assert isinstance(source, MapType | MultisetType)
        parts = [column.keys.slice(start, end - start), column.items.slice(start, end - start)]
    failed: Any = None
    converted = []
    for part, ours, theirs in zip(parts, children_of(source), children_of(target), strict=False):
        found, lost = convert(part, ours, theirs)
        converted.append(found)
        if lost is not None:
            failed = lost if failed is None else pc.or_(failed, lost)
    if len(converted) < len(parts):
        converted.append(parts[-1])  # how often a multiset has an element
    of = arrow_type(target)
    places = offsets - start
    if isinstance(target, ArrayType):
        children = converted
    else:
        entries = of.field(0).type
        places, converted = _without_null_keys(places, converted)
        children = [pa.StructArray.from_arrays(converted, fields=list(entries))]
    moved = pa.py_buffer(np.ascontiguousarray(places.astype(np.int32)))
    whole = pa.Array.from_buffers(of, len(column), [validity(valid_mask(column)), moved], children=children)
    return whole, None if failed is None else _rows_of(failed, offsets - start, len(column))


def _without_null_keys(offsets: np.ndarray[Any, Any], parts: list[pa.Array]) -> tuple[Any, list[pa.Array]]:
    """Drop the entries whose key could not be converted; Arrow has no such maps, and their rows fail."""
    if parts[0].null_count == 0:
        return offsets, parts
    kept = pc.is_valid(parts[0])
    before = np.concatenate([[0], np.cumsum(kept.to_numpy(zero_copy_only=False))])
    return before[offsets], [part.filter(kept) for part in parts]


def _rows_of(failed: pa.Array, offsets: np.ndarray[Any, Any], length: int) -> pa.Array:
    """Return which lists contain a failed element."""
    rows = np.repeat(np.arange(length), np.diff(offsets))
    lost = np.zeros(length, dtype=bool)
    lost[rows[pc.fill_null(failed, False).to_numpy(zero_copy_only=False)]] = True
    return pa.array(lost)
