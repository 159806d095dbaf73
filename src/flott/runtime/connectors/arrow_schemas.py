"""Arrow's schema of a declared type: what columns of records, and of tables, are made of. Driver and task side.

    tuple, named tuple, Row     one column per field
    any other type              one column, named ``value``
"""

from __future__ import annotations

from functools import lru_cache

from flott.common.typeinfo import TypeInformation
from flott.common.typeinfo._basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import ListTypeInfo, PrimitiveArrayTypeInfo, VariadicTupleTypeInfo
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import NamedTupleTypeInfo
from flott.errors import ProgramError

try:
    import pyarrow as pa
except ImportError as error:  # pragma: no cover
    raise ProgramError("Batches of columns need pyarrow: pip install 'flott[arrow]'.") from error

#: Arrow's type for each basic type. Python's floats are doubles, so both float types are: nothing is rounded.
_BASIC: dict[BasicType, pa.DataType] = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float64(),
    BasicType.DOUBLE: pa.float64(),
}


def arrow_type(declared: TypeInformation) -> pa.DataType:
    """Return Arrow's type for the values of a column. Raises ``ProgramError`` if there is none that loses nothing."""
    match declared:
        case BasicTypeInfo() if declared._basic_type in _BASIC:
            return _BASIC[declared._basic_type]
        case DateTypeInfo():
            return pa.date32()
        case TimeTypeInfo():
            return pa.time64("us")
        case TimestampTypeInfo():
            return pa.timestamp("us")
        case LocalTimeTypeInfo():
            return [pa.date32(), pa.time64("us"), pa.timestamp("us")][declared._time_type.value]
        case PrimitiveArrayTypeInfo() if declared._holds_bytes():
            return pa.binary()
        case ListTypeInfo() if not isinstance(declared, VariadicTupleTypeInfo):
            return pa.list_(arrow_type(declared.elem_type))
    raise ProgramError(
        f"{declared!r} has no columnar form. Columns hold numbers up to 64 bits, booleans, text, bytes, dates, times"
        " and lists of them."
    )


@lru_cache(maxsize=64)
def schema_of(record_type: TypeInformation) -> pa.Schema:
    """Return the schema that batches of a declared type have as columns."""
    if (own := getattr(record_type, "arrow_schema", None)) is not None:  # rows of a table: their types say it exactly
        return own()
    if not _fields(record_type):
        raise ProgramError(f"{record_type!r} has no columnar form, because it has no fields.")
    return pa.schema([pa.field(name, arrow_type(declared)) for name, declared in _fields(record_type)])


def _fields(record_type: TypeInformation) -> list[tuple[str, TypeInformation]]:
    match record_type:
        case TupleTypeInfo():
            return [(f"f{index}", declared) for index, declared in enumerate(record_type.get_field_types())]
        case RowTypeInfo() | NamedTupleTypeInfo():
            return list(zip(record_type.get_field_names(), record_type.get_field_types(), strict=True))
    return [("value", record_type)]
