"""Batches as Arrow columns: schemas of declared types, conversions, and the bytes of columns. Task side.

Everything that needs pyarrow is here, and nothing imports this module before a program uses columns.

    tuple, named tuple, Row     one column per field
    any other type              one column, named ``value``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.common.types import restore_row
from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.arrow_schemas import arrow_type as arrow_type
from flott.runtime.connectors.arrow_schemas import schema_of as schema_of
from flott.runtime.operators.batch import ColumnBatch, RowBatch

try:
    import pyarrow as pa
except ImportError as error:  # pragma: no cover
    raise ProgramError("Batches of columns need pyarrow: pip install 'flott[arrow]'.") from error

# --- rows -> columns -------------------------------------------------------------------------------------------------


def columns_of(batch: RowBatch, record_type: TypeInformation) -> ColumnBatch:
    """Return rows as columns of a declared type."""
    schema = schema_of(record_type)
    kinds = batch.kinds
    if isinstance(record_type, RowTypeInfo):
        kinds = _kinds_of_rows(batch.values)
    try:
        cells = _cells(batch.values, record_type)
        arrays = [pa.array(column, type=field.type) for column, field in zip(cells, schema, strict=True)]
    except (pa.ArrowException, ArithmeticError, AttributeError, TypeError, ValueError) as error:
        raise TypeMismatchError(f"A record of a batch has no columnar form as {record_type!r}: {error}") from error
    return ColumnBatch(
        pa.RecordBatch.from_arrays(arrays, schema=schema),
        record_type,
        None if batch.timestamps is None else pa.array(batch.timestamps, type=pa.int64()),
        None if kinds is None else kinds_array(kinds),
    )


def _cells(values: list[Any], record_type: TypeInformation) -> list[Sequence[Any]]:
    match record_type:
        case TupleTypeInfo() | NamedTupleTypeInfo():
            rows: list[Any] = values
        case RowTypeInfo():
            rows = [row._values for row in values]
        case _:
            return [values]
    width = len(record_type.get_field_types())
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * width
    if len(columns) != width:
        raise ValueError(f"it has {len(columns)} fields instead of {width}")
    return columns


def _kinds_of_rows(rows: list[Any]) -> bytes | None:
    """Return the kinds that rows hold themselves; None if all of them are inserts."""
    codes = bytes(row._row_kind._value_ for row in rows)
    return codes if any(codes) else None


def kinds_array(codes: bytes) -> pa.Int8Array:
    """Return the codes of row kinds as an array, without copying them."""
    return pa.Array.from_buffers(pa.int8(), len(codes), [None, pa.py_buffer(codes)])


# --- columns -> rows -------------------------------------------------------------------------------------------------


def rows_of(batch: ColumnBatch) -> RowBatch:
    """Return columns as rows: the records of the batch's declared type."""
    columns = [column.to_pylist() for column in batch.columns.columns]
    timestamps = None if batch.timestamps is None else batch.timestamps.to_pylist()
    kinds = None if batch.kinds is None else bytes(batch.kinds.to_pylist())
    record_type = batch.record_type
    if isinstance(record_type, RowTypeInfo):
        names = tuple(record_type.get_field_names())
        codes = kinds if kinds is not None else bytes(len(batch))
        rows = zip(zip(*columns, strict=True), codes, strict=True)
        return RowBatch([restore_row(names, row, code) for row, code in rows], timestamps)
    return RowBatch(_records(columns, record_type), timestamps, kinds)


def _records(columns: list[list[Any]], record_type: TypeInformation) -> list[Any]:
    match record_type:
        case TupleTypeInfo():
            return list(zip(*columns, strict=True))
        case NamedTupleTypeInfo():
            make: Callable[[Any], Any] = record_type.get_record_class()._make  # type: ignore[attr-defined]
            return list(map(make, zip(*columns, strict=True)))
    return columns[0]


# --- parts and wholes ------------------------------------------------------------------------------------------------


def taken(batch: ColumnBatch, indices: Any) -> ColumnBatch:
    """Return the rows at some positions, which are a list or a numpy array."""
    at = pa.array(indices, type=pa.int64())
    return ColumnBatch(
        batch.columns.take(at),
        batch.record_type,
        None if batch.timestamps is None else batch.timestamps.take(at),
        None if batch.kinds is None else batch.kinds.take(at),
    )


def joined(batches: list[ColumnBatch]) -> ColumnBatch:
    """Return batches of one schema as one; all have timestamps or none has, and so with row kinds."""
    first = batches[0]
    if len(batches) == 1:
        return first
    return ColumnBatch(
        pa.concat_batches([batch.columns for batch in batches]),
        first.record_type,
        None if first.timestamps is None else pa.concat_arrays([batch.timestamps for batch in batches]),
        None if first.kinds is None else pa.concat_arrays([batch.kinds for batch in batches]),
    )


def can_join(one: ColumnBatch, other: ColumnBatch) -> bool:
    """Return whether two batches may be parts of one buffer."""
    return (
        one.columns.schema.equals(other.columns.schema)
        and one.record_type == other.record_type
        and (one.timestamps is None) is (other.timestamps is None)
        and (one.kinds is None) is (other.kinds is None)
    )


# --- bytes -----------------------------------------------------------------------------------------------------------

_TIMESTAMP = pa.field("$timestamp", pa.int64())
_KIND = pa.field("$kind", pa.int8())


def to_bytes(batch: ColumnBatch, header: bytes = b"") -> bytes:
    """Return a header, which may be empty, and a batch as an Arrow IPC stream behind it.

    Timestamps and row kinds are the last columns of the stream. All are written to one buffer, and copied once.
    """
    arrays, fields = list(batch.columns.columns), list(batch.columns.schema)
    for array, field in ((batch.timestamps, _TIMESTAMP), (batch.kinds, _KIND)):
        if array is not None:
            arrays.append(array)
            fields.append(field)
    whole = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)) if arrays else batch.columns
    target = pa.BufferOutputStream()
    target.write(header)
    with pa.ipc.new_stream(target, whole.schema) as writer:
        writer.write_batch(whole)
    return target.getvalue().to_pybytes()  # type: ignore[no-any-return]


def from_bytes(data: Any, record_type: TypeInformation, stamped: bool, kinded: bool) -> ColumnBatch:
    """Return the batch of :func:`to_bytes`, whose header was cut off. The columns are views of ``data``."""
    with pa.ipc.open_stream(data) as reader:
        whole = reader.read_next_batch()
    if not stamped and not kinded:
        return ColumnBatch(whole, record_type)
    arrays, fields = list(whole.columns), list(whole.schema)
    kinds = (arrays.pop(), fields.pop())[0] if kinded else None
    timestamps = (arrays.pop(), fields.pop())[0] if stamped else None
    if not arrays:
        rows = pa.array([{}] * whole.num_rows, pa.struct([]))
        return ColumnBatch(pa.RecordBatch.from_struct_array(rows), record_type, timestamps, kinds)
    return ColumnBatch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), record_type, timestamps, kinds)
