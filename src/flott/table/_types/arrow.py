"""Logical types as Arrow types: how the columns of a table are held in memory, in exchanges and in state."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from flott.errors import ProgramError
from flott.table._types import logical

_FIXED: dict[type[logical.LogicalType], pa.DataType] = {
    logical.BooleanType: pa.bool_(),
    logical.TinyIntType: pa.int8(),
    logical.SmallIntType: pa.int16(),
    logical.IntType: pa.int32(),
    logical.BigIntType: pa.int64(),
    logical.FloatType: pa.float32(),
    logical.DoubleType: pa.float64(),
    logical.CharType: pa.string(),
    logical.VarCharType: pa.string(),
    logical.BinaryType: pa.binary(),
    logical.VarBinaryType: pa.binary(),
    logical.DateType: pa.date32(),
    logical.TimeType: pa.time32("ms"),
    logical.YearMonthIntervalType: pa.int32(),
    logical.DayTimeIntervalType: pa.duration("ms"),
    logical.NullType: pa.null(),
    logical.RawType: pa.binary(),
    logical.BitmapType: pa.binary(),
    logical.SymbolType: pa.string(),
    logical.DescriptorType: pa.null(),
}


def timestamp_unit(precision: int) -> str:
    """Return the coarsest unit that keeps so many digits behind the second."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def arrow_type(of: logical.LogicalType) -> pa.DataType:
    """Return the Arrow type of a column."""
    fixed = _FIXED.get(type(of))
    if fixed is not None:
        return fixed
    match of:
        case logical.DecimalType():
            return pa.decimal128(of.precision, of.scale)
        case logical.TimestampType():
            return pa.timestamp(timestamp_unit(of.precision))
        case logical.LocalZonedTimestampType():
            return pa.timestamp(timestamp_unit(of.precision), tz="UTC")
        case logical.ArrayType():
            return pa.list_(arrow_type(of.element))
        case logical.MapType():
            return pa.map_(arrow_type(of.key), arrow_type(of.value))
        case logical.MultisetType():
            return pa.map_(arrow_type(of.element), pa.int32())
        case logical.RowType():
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in of.fields])
    raise ProgramError(f"A column cannot be of the type {of}.")


def arrow_schema(names: Sequence[str], types: Sequence[logical.LogicalType]) -> pa.Schema:
    """Return the Arrow schema of columns. All fields are nullable: nullability is the planner's concern."""
    return pa.schema([pa.field(name, arrow_type(of)) for name, of in zip(names, types, strict=True)])
