"""Parquet as columns: only the columns that are asked for, and only the row groups that may hold wanted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flott.errors import StorageError, TypeMismatchError
from flott.runtime.connectors.columns.rows import batch_of
from flott.runtime.connectors.files.compression import file_or_path
from flott.table._types.arrow import arrow_schema
from flott.table._types.logical import LogicalType

_BATCH_ROWS = 32 * 1024


def scan_columns(
    path: str,
    start: int,
    stop: int,
    names: Sequence[str],
    types: Sequence[LogicalType],
    filters: Sequence[tuple[str, str, Any]],
) -> Iterator[tuple[pa.RecordBatch, Any, int]]:
    """Yield the rows from ``start`` to ``stop``, each batch with the row number after it."""
    schema = arrow_schema(names, types)
    with pq.ParquetFile(file_or_path(path)) as file:
        metadata = file.metadata
        if metadata.num_rows < stop:
            raise StorageError(
                f"{path} has only {metadata.num_rows} rows, expected at least {stop}: files must not be rewritten while"
                " they are read."
            )
        found = file.schema_arrow
        present = [name for name in names if name in found.names]
        ends = list(accumulate(metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)))
        for index, end in enumerate(ends):
            first = ends[index - 1] if index else 0
            if end <= start or first >= stop or not _may_hold(metadata, found, index, filters):
                continue
            position = first
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=[index], columns=_leaves(present, schema)):
                before, position = position, position + batch.num_rows
                low, high = max(start, before), min(stop, position)
                if low < high:
                    rows = _declared(batch.slice(low - before, high - low), schema, path)
                    yield _filtered(rows, filters), None, high
        yield batch_of([], pa.schema([]), 0), None, stop


_COMPARE = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def _filtered(rows: pa.RecordBatch, filters: Sequence[tuple[str, str, Any]]) -> pa.RecordBatch:
    """Return the rows for which all comparisons are true."""
    for name, operator, value in filters:
        column = rows.column(rows.schema.get_field_index(name))
        rows = rows.filter(_COMPARE[operator](column, pa.scalar(value, type=column.type)))
    return rows


def _leaves(names: Sequence[str], schema: pa.Schema) -> list[str]:
    """Return the paths of the columns to read: of a row only the declared fields."""
    leaves: list[str] = []

    def add(path: str, of: pa.DataType) -> None:
        if pa.types.is_struct(of):
            for field in of:
                add(f"{path}.{field.name}", field.type)
        else:
            leaves.append(path)

    for name in names:
        add(name, schema.field(name).type)
    return leaves


def _declared(batch: pa.RecordBatch, schema: pa.Schema, path: str) -> pa.RecordBatch:
    """Return a batch with the declared types; a column that the file does not have is NULL."""
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            arrays.append(pa.nulls(batch.num_rows, field.type))
            continue
        column = batch.column(at)
        try:
            arrays.append(column if column.type == field.type else _converted(column, field.type))
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"{path}: the column '{field.name}' is {column.type} in the file and {field.type} in the table: {error}"
            ) from error
    return batch_of(arrays, schema, batch.num_rows)


def _converted(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column as another type. A timestamp loses the digits its type does not have, and its time zone."""
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(wanted):
        if (column.type.tz is None) is not (wanted.tz is None):
            column = column.cast(pa.timestamp(column.type.unit, tz=wanted.tz), safe=False)
        return column.cast(wanted, safe=False)
    return column.cast(wanted)


def _may_hold(metadata: Any, schema: pa.Schema, group: int, filters: Sequence[tuple[str, str, Any]]) -> bool:
    """Return whether a row group may hold rows for which all comparisons are true, by its statistics."""
    for name, operator, value in filters:
        at = schema.get_field_index(name)
        # Leaves are counted, not fields: statistics are used only where each field before it is one leaf.
        if at < 0 or any(pa.types.is_nested(field.type) for field in list(schema)[: at + 1]):
            continue
        statistics = metadata.row_group(group).column(at).statistics
        if statistics is None or not statistics.has_min_max:
            continue
        low, high = statistics.min, statistics.max
        try:
            if operator == "=" and not low <= value <= high:
                return False
            if (operator == "<" and not low < value) or (operator == "<=" and not low <= value):
                return False
            if (operator == ">" and not high > value) or (operator == ">=" and not high >= value):
                return False
        except TypeError:  # statistics of another Python type, such as a number for a date
            continue
    return True
