"""Rows of Python values as columns, for formats that are decoded one by one. Task side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flott.errors import TypeMismatchError


def columns_of_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows by field name as columns. Timestamps may be numbers in the unit of their column."""
    try:
        arrays = [column_of([row[field.name] for row in rows], field.type) for field in schema]
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeMismatchError(f"Rows do not fit the columns {schema.names}: {error}") from error
    return batch_of(arrays, schema, len(rows))


def batch_of(arrays: list[pa.Array], schema: pa.Schema, size: int) -> pa.RecordBatch:
    """Return columns as a batch, which has its number of rows even if there is no column."""
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * size, type=pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def column_of(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """Return values as a column."""
    return pa.array(values, type=wanted)
