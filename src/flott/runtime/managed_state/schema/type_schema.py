"""What a declared type is in a file: JSON that outlives the program. Pure.

A schema is a *node* with ``"version": 1`` beside its ``"type"``. Nodes::

    {"type": "boolean"}                  … byte short int long big-int float double big-decimal char string bytes
                                           date time timestamp instant
    {"type": "pickled"}                  whatever Python can pickle
    {"type": "list", "element": node}    … and "tuple-of", a tuple of any length
    {"type": "map", "key": node, "value": node}
    {"type": "tuple", "fields": [{"type": node}]}
    {"type": "row", "fields": [{"name", "type"}]}      … the fields without "name": any names
    {"type": "dataclass", "class": "module:qualified name", "fields": [{"name", "type"}]}     … and "named-tuple"
    {"type": "typed-dict", "class": …, "fields": [{"name", "type"}]}

A field that may be left out when a record is made says ``"default": true`` (a dataclass, a named tuple) or
``"required": false`` (a typed dict); one that was annotated with None as an alternative says ``"optional": true``.
Names that a reader does not know are those of later versions and are passed over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from flott.common.typeinfo._basic import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import (
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    VariadicTupleTypeInfo,
)
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._infer import optional_fields
from flott.common.typeinfo._records import (
    DataclassTypeInfo,
    NamedTupleTypeInfo,
    RecordTypeInfo,
    TypedDictTypeInfo,
)
from flott.common.typeinfo._type_information import TypeInformation

Json = dict[str, Any]

VERSION = 1
PICKLED: Json = {"type": "pickled"}

#: The nodes that have fields with names.
RECORDS = frozenset({"row", "dataclass", "named-tuple", "typed-dict"})

_BASIC = {
    BasicType.STRING: "string",
    BasicType.BYTE: "byte",
    BasicType.BOOLEAN: "boolean",
    BasicType.SHORT: "short",
    BasicType.INT: "int",
    BasicType.LONG: "long",
    BasicType.FLOAT: "float",
    BasicType.DOUBLE: "double",
    BasicType.CHAR: "char",
    BasicType.BIG_INT: "big-int",
    BasicType.BIG_DEC: "big-decimal",
    BasicType.INSTANT: "instant",
}
_LOCAL_TIMES = {"LOCAL_DATE": "date", "LOCAL_TIME": "time", "LOCAL_DATE_TIME": "timestamp"}


def schema_of(declared: TypeInformation | None) -> Json | None:
    """Return the schema of a declared type; None if its values are pickled."""
    node = PICKLED if declared is None else node_of(declared)
    return None if node == PICKLED else {"version": VERSION, **node}


def node_of(declared: TypeInformation) -> Json:
    """Return the schema of a type without the version: as it stands inside others."""
    match declared:
        case BasicTypeInfo():
            return {"type": _BASIC[declared._basic_type]}
        case DateTypeInfo():
            return {"type": "date"}
        case TimeTypeInfo():
            return {"type": "time"}
        case TimestampTypeInfo():
            return {"type": "timestamp"}
        case LocalTimeTypeInfo():
            return {"type": _LOCAL_TIMES[declared._time_type.name]}
        case PrimitiveArrayTypeInfo() if declared._python_type() is bytes:
            return {"type": "bytes"}
        case VariadicTupleTypeInfo():
            return {"type": "tuple-of", "element": node_of(declared.elem_type)}
        case ListTypeInfo():  # arrays are lists in Python
            return {"type": "list", "element": node_of(declared.elem_type)}
        case MapTypeInfo():
            return {"type": "map", "key": node_of(declared._key_type_info), "value": node_of(declared._value_type_info)}
        case ExternalTypeInfo():
            return node_of(declared._type_info)
        case TupleTypeInfo():
            return {"type": "tuple", "fields": [{"type": node_of(field)} for field in declared.get_field_types()]}
        case RowTypeInfo():
            return {"type": "row", "fields": _fields(declared._field_names, declared.get_field_types())}
        case RecordTypeInfo():
            return _record(declared)
    return PICKLED  # a type of the program's own making says nothing about the form of its values


def _fields(names: Iterable[str] | None, types: list[TypeInformation]) -> list[Json]:
    if names is None:
        return [{"type": node_of(field)} for field in types]
    return [{"name": name, "type": node_of(field)} for name, field in zip(names, types, strict=True)]


def _record(declared: RecordTypeInfo) -> Json:
    kind = declared.get_record_class()
    fields = _fields(declared.get_field_names(), declared.get_field_types())
    optional = optional_fields(kind)
    defaults: set[str] = set()
    name = "typed-dict"
    match declared:
        case DataclassTypeInfo():
            name, defaults = "dataclass", {field.name for field in dataclasses.fields(kind) if _has_default(field)}
        case NamedTupleTypeInfo():
            name, defaults = "named-tuple", set(getattr(kind, "_field_defaults", ()))
        case TypedDictTypeInfo():
            for field in fields:
                if field["name"] not in declared._required:
                    field["required"] = False
    for field in fields:
        if field["name"] in defaults:
            field["default"] = True
        if field["name"] in optional:
            field["optional"] = True
    return {"type": name, "class": class_name(kind), "fields": fields}


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def class_name(kind: type) -> str:
    """Return what a schema calls a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def describe(node: Json | None) -> str:
    """Return a schema in one line, for messages.

    >>> describe({"type": "map", "key": {"type": "string"}, "value": {"type": "list", "element": {"type": "long"}}})
    'map<string, list<long>>'
    """
    if node is None:
        return "pickled"
    kind: str = node["type"]
    match kind:
        case "list" | "tuple-of":
            return f"{kind}<{describe(node['element'])}>"
        case "map":
            return f"map<{describe(node['key'])}, {describe(node['value'])}>"
        case _ if "fields" in node:
            owner = f" {node['class'].partition(':')[2]}" if "class" in node else ""
            return f"{kind}{owner}({', '.join(map(_describe_field, node['fields']))})"
    return kind


def _describe_field(field: Json) -> str:
    shown = describe(field["type"])
    return f"{field['name']}: {shown}" if "name" in field else shown
