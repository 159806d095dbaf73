"""Elements of a program as tables: lists of rows and pandas frames, with declared or inferred types."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError
from flott.table._connectors.memory import MemorySource
from flott.table._connectors.table_source import TableSource
from flott.table._plan.logical import Schema
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema
from flott.table._types.inference import type_of_rows, without_nulls
from flott.table._types.record_types import record_type_of


def rows_of(elements: Iterable[Any]) -> tuple[list[tuple[Any, ...]], tuple[str, ...] | None, bytes | None]:
    """Return elements as tuples, the names that they bring themselves, and their row kinds."""
    given = list(elements)
    names: tuple[str, ...] | None = None
    kinds: bytes | None = None
    if given and all(isinstance(one, Row) for one in given):
        kinds = bytes(one._row_kind._value_ for one in given)
        names = given[0]._fields
        return [tuple(one._values) for one in given], names, kinds if any(kinds) else None
    if given and all(isinstance(one, dict) for one in given):
        names = tuple(dict.fromkeys(name for one in given for name in one))
        return [tuple(one.get(name) for name in names) for one in given], names, None
    return [tuple(one) if isinstance(one, tuple | list) else (one,) for one in given], None, None


def inferred_schema(rows: Sequence[tuple[Any, ...]], names: Sequence[str] | None) -> Schema:
    """Return the columns of rows whose types are not declared."""
    found = type_of_rows(rows, names)
    return Schema(found.names, tuple(without_nulls(of) for of in found.types))


def columns_of_rows(rows: Sequence[tuple[Any, ...]], schema: Schema) -> Any:
    """Return rows as an Arrow table of declared types."""
    import pyarrow as pa

    wanted = arrow_schema(schema.names, schema.types)
    for row in rows:
        if len(row) != len(schema):
            raise TypeMismatchError(f"An element has {len(row)} fields, expected {len(schema)}: {row!r}.")
    arrays = []
    for place, field in enumerate(wanted):
        cells = [_cell(row[place], schema.types[place]) for row in rows]
        try:
            arrays.append(pa.array(cells, type=field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise TypeMismatchError(
                f"Column '{field.name}' is declared as {schema.types[place]}, and an element does not fit: {error}."
            ) from error
    return pa.Table.from_arrays(arrays, schema=wanted)


def _cell(value: Any, of: logical.LogicalType) -> Any:
    """Return a Python object in the form that Arrow takes for a type."""
    if value is None:
        return None
    match of:
        case logical.RowType():
            fields = value._values if isinstance(value, Row) else value
            if isinstance(fields, dict):
                fields = [fields.get(name) for name in of.names]
            return {field.name: _cell(one, field.type) for field, one in zip(of.fields, fields, strict=True)}
        case logical.ArrayType():
            return [_cell(one, of.element) for one in value]
        case logical.MapType():
            return [(_cell(key, of.key), _cell(one, of.value)) for key, one in value.items()]
        case logical.DecimalType():
            return round(value if isinstance(value, Decimal) else Decimal(str(value)), of.scale)
        case logical.DoubleType() | logical.FloatType():
            return float(value)
        case logical.DayTimeIntervalType() if isinstance(value, int):
            return datetime.timedelta(milliseconds=value)
    return value


def table_source(schema: Schema, columns: Any, kinds: bytes | None = None) -> TableSource:
    """Return columns in memory as the source of a table."""
    from flott.table._connectors.table_source import ChangelogMode, SparkScan

    def make(source: TableSource) -> MemorySource:
        return MemorySource(
            columns.select(list(source.names)), record_type_of(Schema(source.names, source.types)), kinds
        )

    def spark(source: TableSource) -> SparkScan:
        return SparkScan("arrow", columns=columns.select(list(source.names)))

    mode = ChangelogMode.INSERT_ONLY if kinds is None else ChangelogMode.ALL
    return TableSource(schema.names, schema.types, make, mode, estimated_rows=columns.num_rows, spark=spark)


def columns_of_frame(frame: Any, schema: Any) -> tuple[Schema, Any]:
    """Return a pandas frame as columns of declared or inferred types."""
    import pyarrow as pa

    from flott.table.types import DataType, logical_type_of

    names = tuple(map(str, frame.columns))
    if isinstance(schema, DataType):
        declared = logical_type_of(schema)
        if not isinstance(declared, logical.RowType):
            raise ProgramError(f"from_pandas() takes a row type as its schema, found {declared}.")
        columns = Schema(declared.names, declared.types)
    else:
        given = list(schema or names)
        if given and isinstance(given[0], DataType):
            columns = Schema(names, tuple(logical_type_of(of) for of in given))
        else:
            found = pa.Table.from_pandas(frame, preserve_index=False)
            columns = Schema(tuple(map(str, given)), tuple(logical_of_arrow(field.type) for field in found.schema))
    wanted = arrow_schema(columns.names, columns.types)
    if len(wanted) != len(names):
        raise ProgramError(f"The frame has {len(names)} columns, and the schema has {len(wanted)}.")
    arrays = [
        pa.Array.from_pandas(frame[name], type=field.type, safe=False)
        for name, field in zip(frame.columns, wanted, strict=True)
    ]
    return columns, pa.Table.from_arrays(arrays, schema=wanted)


def logical_of_arrow(of: Any) -> logical.LogicalType:
    """Return the SQL type of an Arrow column."""
    import pyarrow as pa

    known: list[tuple[Any, logical.LogicalType]] = [
        (pa.types.is_boolean, logical.BOOLEAN),
        (pa.types.is_int8, logical.TINYINT),
        (pa.types.is_int16, logical.SMALLINT),
        (pa.types.is_int32, logical.INT),
        (pa.types.is_integer, logical.BIGINT),
        (pa.types.is_float32, logical.FLOAT),
        (pa.types.is_floating, logical.DOUBLE),
        (pa.types.is_string, logical.STRING),
        (pa.types.is_large_string, logical.STRING),
        (pa.types.is_binary, logical.BYTES),
        (pa.types.is_date, logical.DATE),
        (pa.types.is_time, logical.TimeType(3)),
        (pa.types.is_duration, logical.DayTimeIntervalType()),
        (pa.types.is_null, logical.STRING),
    ]
    for matches, found in known:
        if matches(of):
            return found
    if pa.types.is_decimal(of):
        return logical.DecimalType(of.precision, of.scale)
    if pa.types.is_timestamp(of):
        precision = {"s": 0, "ms": 3, "us": 6, "ns": 9}[of.unit]
        return logical.TimestampType(precision) if of.tz is None else logical.LocalZonedTimestampType(precision)
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return logical.ArrayType(logical_of_arrow(of.value_type))
    if pa.types.is_map(of):
        return logical.MapType(logical_of_arrow(of.key_type).as_nullable(False), logical_of_arrow(of.item_type))
    if pa.types.is_struct(of):
        return logical.row_type({field.name: logical_of_arrow(field.type) for field in of})
    raise ProgramError(f"A column of Arrow type {of} has no SQL type.")
