"""Values inside of rows, arrays and maps: which of them are NULL where they must not be, and their lengths. Pure.

A path names a value: ``a.b`` is a field, ``a[...]`` an element, ``a{key}`` and ``a{value}`` parts of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from flott.table._types.logical import ArrayType, LogicalType, MapType, MultisetType, RowType

Ints = np.ndarray[Any, np.dtype[np.int64]]
#: Given values that are not nested, their type and their path: the values that take their place.
Change = Callable[[pa.Array, LogicalType, str], pa.Array]


def null_rows(
    values: pa.Array, of: LogicalType, path: str, *, collections: bool, rows: Ints | None = None
) -> Iterator[tuple[str, Ints]]:
    """Yield the path of each value inside of a column that is NULL and must not be, with the numbers of its rows."""
    rows = np.arange(len(values)) if rows is None else rows
    for part, owners, inner, name in _parts(values, of, path, collections):
        if not inner.nullable and part.null_count:
            yield name, rows[owners[part.is_null().to_numpy(zero_copy_only=False)]]
        yield from null_rows(part, inner, name, collections=collections, rows=rows[owners])


def changed_values(values: pa.Array, of: LogicalType, path: str, change: Change, *, collections: bool) -> pa.Array:
    """Return a column with its innermost values changed; what contains them stays as it is."""
    if not any(True for _ in _parts(values, of, path, collections)):
        return values if isinstance(of, RowType | ArrayType | MapType | MultisetType) else change(values, of, path)
    compact = values.take(pa.array(np.arange(len(values))))
    parts = [
        changed_values(part, inner, name, change, collections=collections)
        for part, _, inner, name in _whole_parts(compact, of, path)
    ]
    if isinstance(of, RowType):
        return pa.StructArray.from_arrays(parts, fields=list(values.type), mask=compact.is_null())
    if isinstance(of, ArrayType):
        return pa.ListArray.from_arrays(compact.offsets, parts[0], type=values.type, mask=compact.is_null())
    # A map keeps its validity in its offsets: one that is NULL begins nowhere.
    offsets = pa.array(
        compact.offsets.to_numpy(), mask=np.append(compact.is_null().to_numpy(zero_copy_only=False), False)
    )
    return pa.MapArray.from_arrays(offsets, parts[0], parts[1], type=values.type)


def _parts(
    values: pa.Array, of: LogicalType, path: str, collections: bool
) -> Iterator[tuple[pa.Array, Ints, LogicalType, str]]:
    """Yield what a column contains: values, the row that each belongs to, their type and their path."""
    if not isinstance(of, RowType) and not (collections and isinstance(of, ArrayType | MapType | MultisetType)):
        return
    compact = values.take(pa.array(np.arange(len(values))))  # it begins at its own offset
    there = np.flatnonzero(compact.is_valid().to_numpy(zero_copy_only=False))
    for part, owners, inner, name in _whole_parts(compact, of, path):
        if isinstance(of, RowType):
            yield part.take(pa.array(there)), there, inner, name
        else:
            yield part, owners, inner, name


def _whole_parts(values: pa.Array, of: LogicalType, path: str) -> Iterator[tuple[pa.Array, Ints, LogicalType, str]]:
    match of:
        case RowType():
            for field, part in zip(of.fields, values.flatten(), strict=True):
                yield part, np.arange(len(values)), field.type, f"{path}.{field.name}"
        case ArrayType():
            yield values.values, _owners(values), of.element, f"{path}[...]"
        case MapType():
            yield values.keys, _owners(values), of.key, f"{path}{{key}}"
            yield values.items, _owners(values), of.value, f"{path}{{value}}"
        case MultisetType():
            yield values.keys, _owners(values), of.element, f"{path}{{key}}"


def _owners(values: pa.Array) -> Ints:
    offsets = values.offsets.to_numpy()
    return np.repeat(np.arange(len(values)), np.diff(offsets))
