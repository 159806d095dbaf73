"""Deltas of columnar tables: their bytes, and rows brought to other columns. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from flott.errors import StateMigrationError
from flott.runtime.managed_state.column_keys import row_keys
from flott.runtime.managed_state.columns.fixed_width import fixed_dtype
from flott.runtime.managed_state.kinds.column_table_kind import COLUMN_FORMAT, ColumnDelta
from flott.runtime.managed_state.kinds.table_kind import Wanted


@lru_cache(maxsize=256)
def schema_from(data: bytes) -> pa.Schema:
    """Return the schema that a delta names."""
    return pa.ipc.read_schema(pa.py_buffer(data))


def make_delta(schema: bytes, keys: int, grouping: int, rows: Any, deleted: Any) -> ColumnDelta:
    """Return a delta of record batches; None where there are no rows."""
    return ColumnDelta(COLUMN_FORMAT, schema, keys, grouping, _message(rows), _message(deleted))


def _message(batch: Any) -> bytes:
    return b"" if batch is None or not batch.num_rows else bytes(batch.serialize().to_pybytes())


def key_schema(schema: pa.Schema, keys: int) -> pa.Schema:
    """Return the key columns of a schema."""
    return pa.schema([schema.field(column) for column in range(keys)])


def rows_in(delta: ColumnDelta) -> pa.RecordBatch | None:
    """Return the rows that a delta puts."""
    if not delta.rows:
        return None
    return pa.ipc.read_record_batch(pa.py_buffer(delta.rows), schema_from(delta.schema))


def deleted_in(delta: ColumnDelta) -> pa.RecordBatch | None:
    """Return the keys that a delta deletes."""
    if not delta.deleted:
        return None
    return pa.ipc.read_record_batch(pa.py_buffer(delta.deleted), key_schema(schema_from(delta.schema), delta.keys))


def part_of(delta: ColumnDelta, wanted: Wanted) -> tuple[ColumnDelta, bool]:
    """Return the part of a delta about wanted keys, and whether there is any."""
    parts = []
    for batch in (rows_in(delta), deleted_in(delta)):
        if batch is not None:
            keys = row_keys(batch.columns[: delta.grouping], batch.num_rows)
            batch = batch.take(pa.array([row for row, key in enumerate(keys) if wanted(key)], pa.int64()))
        parts.append(batch)
    found = make_delta(delta.schema, delta.keys, delta.grouping, *parts)
    return found, bool(found.rows or found.deleted)


def conformed(
    batch: pa.RecordBatch, schema: pa.Schema, keys: int, *, exact: bool = False, optional: str = ""
) -> pa.RecordBatch:
    """Return rows as rows of another schema: columns are cast if no value can be lost, new ones are null or zero.

    ``exact``: there may be no columns but those that were saved, apart from one that is optional.
    """
    if batch.schema.equals(schema):
        return batch
    saved, declared = ([name for name in one.names[keys:] if name != optional] for one in (batch.schema, schema))
    if exact and sorted(saved) != sorted(declared):
        raise StateMigrationError(
            f"The rows of a columnar state were saved with the columns {saved}, and are now declared with {declared}:"
            " what is missing in them cannot be computed from what they hold. Restore with the former query, or leave"
            " the state behind."
        )
    columns = []
    for position, field in enumerate(schema):
        found = batch.schema.get_field_index(field.name)
        if position < keys and found != position:
            raise StateMigrationError(
                f"The key of a columnar state was saved with the columns {batch.schema.names[:keys]}, and is now"
                f" declared with {schema.names[:keys]}. Keys cannot change: give the state another name."
            )
        columns.append(_blank(field, batch.num_rows) if found < 0 else _cast(batch.column(found), field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _blank(field: pa.Field, count: int) -> pa.Array:
    if field.nullable or fixed_dtype(field.type) is None:
        return pa.nulls(count, field.type)
    return pa.array(np.zeros(count, np.int8)).cast(pa.int64()).cast(field.type)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type.equals(field.type):
        return column
    if _widens(column.type, field.type):
        try:
            return column.cast(field.type)
        except pa.ArrowException:
            pass
    raise StateMigrationError(
        f"The column {field.name!r} of a state was saved as {column.type} and is now declared as {field.type}, which"
        " cannot hold all its values. Declare the former type or a wider one, or give the column another name."
    )


def _widens(former: pa.DataType, declared: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(former):
        return True
    if types.is_decimal(former) and types.is_decimal(declared):
        whole_digits = declared.precision - declared.scale >= former.precision - former.scale
        return bool(whole_digits and declared.scale >= former.scale)
    one, other = fixed_dtype(former), fixed_dtype(declared)
    numbers = types.is_integer(former) or types.is_floating(former)
    if numbers and (types.is_integer(declared) or types.is_floating(declared)):
        return one is not None and other is not None and bool(np.can_cast(one, other, "safe"))
    if types.is_timestamp(former) and types.is_timestamp(declared):
        return bool(former.tz == declared.tz)
    return False
