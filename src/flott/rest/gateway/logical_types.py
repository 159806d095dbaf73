"""The JSON form of logical types in results, with Flink's names. Pure."""

from __future__ import annotations

import re
from typing import Any

from flott.table._types import logical

_ROOTS: dict[type[logical.LogicalType], str] = {
    logical.BooleanType: "BOOLEAN",
    logical.TinyIntType: "TINYINT",
    logical.SmallIntType: "SMALLINT",
    logical.IntType: "INTEGER",
    logical.BigIntType: "BIGINT",
    logical.FloatType: "FLOAT",
    logical.DoubleType: "DOUBLE",
    logical.DecimalType: "DECIMAL",
    logical.CharType: "CHAR",
    logical.VarCharType: "VARCHAR",
    logical.BinaryType: "BINARY",
    logical.VarBinaryType: "VARBINARY",
    logical.DateType: "DATE",
    logical.TimeType: "TIME_WITHOUT_TIME_ZONE",
    logical.TimestampType: "TIMESTAMP_WITHOUT_TIME_ZONE",
    logical.LocalZonedTimestampType: "TIMESTAMP_WITH_LOCAL_TIME_ZONE",
    logical.YearMonthIntervalType: "INTERVAL_YEAR_MONTH",
    logical.DayTimeIntervalType: "INTERVAL_DAY_TIME",
    logical.ArrayType: "ARRAY",
    logical.MultisetType: "MULTISET",
    logical.MapType: "MAP",
    logical.RowType: "ROW",
    logical.NullType: "NULL",
    logical.RawType: "RAW",
    logical.BitmapType: "BITMAP",
    logical.DescriptorType: "DESCRIPTOR",
    logical.SymbolType: "SYMBOL",
}


def type_document(of: logical.LogicalType) -> dict[str, Any]:
    """Return a type as JSON."""
    root = _ROOTS[type(of)]
    if isinstance(of, logical.NullType):
        return {"type": root}
    return {"type": root, "nullable": of.nullable, **_details(of)}


def _details(of: logical.LogicalType) -> dict[str, Any]:
    match of:
        case logical.CharType() | logical.VarCharType() | logical.BinaryType() | logical.VarBinaryType():
            return {"length": of.length}
        case logical.DecimalType():
            return {"precision": of.precision, "scale": of.scale}
        case logical.TimeType() | logical.TimestampType() | logical.LocalZonedTimestampType():
            return {"precision": of.precision}
        case logical.YearMonthIntervalType():
            return {"precision": 2, "resolution": _resolution(of.text)}
        case logical.DayTimeIntervalType():
            fraction = re.search(r"SECOND\((\d)\)", of.text)
            return {
                "precision": 2,
                "fractionalPrecision": int(fraction[1]) if fraction else 3,
                "resolution": _resolution(of.text),
            }
        case logical.ArrayType() | logical.MultisetType():
            return {"elementType": type_document(of.element)}
        case logical.MapType():
            return {"keyType": type_document(of.key), "valueType": type_document(of.value)}
        case logical.RowType():
            return {"fields": [_field(field) for field in of.fields]}
        case logical.RawType():
            return {"class": of.class_name}
    return {}


def _field(field: logical.RowField) -> dict[str, Any]:
    described = {} if field.description is None else {"description": field.description}
    return {"name": field.name, "fieldType": type_document(field.type), **described}


def _resolution(text: str) -> str:
    """Return the name of an interval's units, such as DAY_TO_SECOND."""
    units = re.sub(r"\(\d\)", "", text.removeprefix("INTERVAL ")).strip()
    return units.replace(" ", "_")
