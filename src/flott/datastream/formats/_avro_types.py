"""Derives types from Avro schemas and schemas from types, as Flink does. Pure.

    record → ROW_NAMED    array → OBJECT_ARRAY    map → MAP(STRING, …)    enum → STRING    union with null → the type
    int, long, float, double, boolean, string → INT, LONG, FLOAT, DOUBLE, BOOLEAN, STRING
    bytes, fixed → PRIMITIVE_ARRAY(BYTE), with the logical type decimal → BIG_DEC
    logical types: date → SQL_DATE, time-* → SQL_TIME, timestamp-* and local-timestamp-* → SQL_TIMESTAMP

A union of several types, and a record inside itself, have no type in Flink: their values are dicts, of any type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from flott.common.typeinfo._basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import ExternalTypeInfo, ListTypeInfo, MapTypeInfo, PrimitiveArrayTypeInfo
from flott.common.typeinfo._composite import RowTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.errors import ProgramError

NAMED = ("record", "error", "enum", "fixed")

_PRIMITIVES = {
    "null": Types.PICKLED_BYTE_ARRAY, "boolean": Types.BOOLEAN, "int": Types.INT, "long": Types.LONG,
    "float": Types.FLOAT, "double": Types.DOUBLE, "string": Types.STRING, "enum": Types.STRING,
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): Types.SQL_DATE,
    ("int", "time-millis"): Types.SQL_TIME,
    ("long", "time-micros"): Types.SQL_TIME,
    **{
        ("long", f"{kind}timestamp-{unit}"): Types.SQL_TIMESTAMP
        for kind in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
    ("bytes", "decimal"): Types.BIG_DEC,
    ("fixed", "decimal"): Types.BIG_DEC,
}


class SchemaNames:
    """The named types of a schema, by their full names."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def resolve(self, schema: Any, namespace: str) -> tuple[Any, str]:
        """Return the definition of a schema that may be a name, and the namespace inside of it."""
        if isinstance(schema, str) and schema not in _PRIMITIVES and schema != "bytes":
            full = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            found = self._known.get(full, self._known.get(schema))
            if found is None:
                raise ProgramError(f"The Avro schema names the type {schema!r}, which it does not define.")
            return found, full.rpartition(".")[0]
        if isinstance(schema, dict) and schema.get("type") in NAMED:
            full = full_name(schema, namespace)
            self._known[full] = schema
            return schema, full.rpartition(".")[0]
        if isinstance(schema, dict) and isinstance(schema.get("type"), (dict, list)):
            return self.resolve(schema["type"], namespace)
        if isinstance(schema, dict) and schema.get("type") not in (*_PRIMITIVES, "bytes", "array", "map"):
            return self.resolve(schema.get("type"), namespace)
        return schema, namespace


def full_name(schema: dict[str, Any], namespace: str) -> str:
    """Return the name of a named type with its namespace."""
    name, own = str(schema.get("name", "")), str(schema.get("namespace", namespace))
    return name if "." in name or not own else f"{own}.{name}"


def kind_of(schema: Any) -> str:
    """Return the name of the type of a resolved schema."""
    return "union" if isinstance(schema, list) else schema if isinstance(schema, str) else schema["type"]


def logical_of(schema: Any) -> str | None:
    return schema.get("logicalType") if isinstance(schema, dict) else None


def alternative(union: list[Any]) -> Any:
    """Return the one type of a union that is not null; None if there are several."""
    some = [each for each in union if each != "null" and not (isinstance(each, dict) and each.get("type") == "null")]
    return some[0] if len(some) == 1 else None


def type_of_avro(schema: Any) -> TypeInformation:
    """Return the type of the values of a schema.

    >>> type_of_avro({"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "long"]}]})
    RowTypeInfo(id: Long)
    """
    return _type_of(schema, "", SchemaNames(), ())


def _type_of(schema: Any, namespace: str, names: SchemaNames, inside: tuple[int, ...]) -> TypeInformation:
    schema, namespace = names.resolve(schema, namespace)
    kind = kind_of(schema)
    if kind in ("record", "error"):
        if id(schema) in inside:
            return Types.PICKLED_BYTE_ARRAY()
        deeper = (*inside, id(schema))
        fields = schema["fields"]
        return Types.ROW_NAMED(
            [field["name"] for field in fields], [_type_of(field["type"], namespace, names, deeper) for field in fields]
        )
    if kind == "union":
        only = alternative(schema)
        types = [_type_of(each, namespace, names, inside) for each in schema]  # defines the names of all
        return Types.PICKLED_BYTE_ARRAY() if only is None else types[schema.index(only)]
    if kind == "array":
        return Types.OBJECT_ARRAY(_type_of(schema["items"], namespace, names, inside))
    if kind == "map":
        return Types.MAP(Types.STRING(), _type_of(schema["values"], namespace, names, inside))
    logical = _LOGICAL.get((kind, logical_of(schema) or ""))
    if logical is not None:
        return logical()
    return Types.PRIMITIVE_ARRAY(Types.BYTE()) if kind in ("bytes", "fixed") else _PRIMITIVES[kind]()


# ---------------------------------------------------------------------------------------------------------------------
# From a type to a schema
# ---------------------------------------------------------------------------------------------------------------------

_BASIC: dict[BasicType, Any] = {
    BasicType.STRING: "string", BasicType.CHAR: "string", BasicType.BOOLEAN: "boolean", BasicType.BYTE: "int",
    BasicType.SHORT: "int", BasicType.INT: "int", BasicType.LONG: "long", BasicType.FLOAT: "float",
    BasicType.DOUBLE: "double",
    BasicType.BIG_DEC: {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
}  # fmt: skip
_DATE = {"type": "int", "logicalType": "date"}
_TIME = {"type": "long", "logicalType": "time-micros"}
_TIMESTAMP = {"type": "long", "logicalType": "timestamp-micros"}


def avro_of_type(declared: TypeInformation, name: str) -> str:
    """Return the text of a schema for a type of rows. Every field may be null."""
    if not isinstance(declared, RowTypeInfo):
        raise ProgramError(f"Expected the type of a row, such as Types.ROW_NAMED(names, types), found {declared!r}.")
    return json.dumps(_schema_of(declared, name, count(1)))


def _schema_of(declared: TypeInformation, name: str, numbers: Iterator[int]) -> Any:
    match declared:
        case ExternalTypeInfo():
            return _schema_of(declared._type_info, name, numbers)
        case BasicTypeInfo() if declared._basic_type in _BASIC:
            return _BASIC[declared._basic_type]
        case DateTypeInfo():
            return _DATE
        case TimeTypeInfo():
            return _TIME
        case TimestampTypeInfo():
            return _TIMESTAMP
        case LocalTimeTypeInfo():
            return {"LOCAL_DATE": _DATE, "LOCAL_TIME": _TIME}.get(declared._time_type.name, _TIMESTAMP)
        case PrimitiveArrayTypeInfo() if declared._holds_bytes():
            return "bytes"
        case ListTypeInfo():
            return {"type": "array", "items": ["null", _schema_of(declared.elem_type, name, numbers)]}
        case MapTypeInfo() if declared._key_type_info == Types.STRING():
            return {"type": "map", "values": ["null", _schema_of(declared._value_type_info, name, numbers)]}
        case RowTypeInfo():
            fields = zip(declared.get_field_names(), declared.get_field_types(), strict=True)
            return {
                "type": "record",
                "name": name,
                "fields": [
                    {
                        "name": field,
                        "type": ["null", _schema_of(each, f"{name}_{next(numbers)}", numbers)],
                        "default": None,
                    }
                    for field, each in fields
                ],
            }
    raise ProgramError(f"Avro has no form for the type {declared!r}: declare another, or write the schema by hand.")
