"""Functions of structured objects. An object is a row with named fields; the name of its class is not kept."""

from __future__ import annotations

import pyarrow as pa

from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import LogicalType, RowField, RowType


def _pairs(call: CallArguments, first: int, expected: str) -> list[RowField]:
    """Return the fields that the arguments behind the first ones name, with the types of their values."""
    names, types = call.literals[first::2], call.types[first + 1 :: 2]
    literal = call.is_literal[first::2]
    if len(names) != len(types) or not all(isinstance(n, str) and k for n, k in zip(names, literal, strict=True)):
        raise call.refuse(expected)
    if len(set(names)) != len(names):
        raise call.refuse(f"{expected} with different names")
    return [RowField(str(name), of) for name, of in zip(names, types, strict=True)]


def _object_type(call: CallArguments) -> LogicalType:
    expected = "(class name, field name, value, ...), where names are texts"
    if not call.types or not call.is_literal[0] or not isinstance(call.literals[0], str):
        raise call.refuse(expected)
    return RowType(tuple(_pairs(call, 1, expected)), nullable=False)


def _make_object(call: KernelCall) -> Datum:
    fields = list(arrow_type(call.type))
    if not fields:
        return pa.array([{}] * call.length, type=arrow_type(call.type))
    columns = [call.column(2 + 2 * i).cast(field.type) for i, field in enumerate(fields)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _updated_type(call: CallArguments) -> LogicalType:
    expected = "(object, field name, value, ...), where names are fields of the object"
    if len(call.types) < 3 or not isinstance(call.types[0], RowType):
        raise call.refuse(expected)
    of = call.types[0]
    changed = {field.name: field for field in _pairs(call, 1, expected)}
    if not changed.keys() <= set(of.names):
        raise call.refuse(f"{expected}; it has {', '.join(of.names)}")
    return RowType(tuple(changed.get(field.name, field) for field in of.fields), nullable=of.nullable)


def _update(call: KernelCall) -> Datum:
    held = call.column(0)
    fields = list(arrow_type(call.type))
    given = {call.constant(i): call.column(i + 1) for i in range(1, len(call.arguments), 2)}
    columns = [
        given[field.name].cast(field.type) if field.name in given else held.field(i) for i, field in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=held.is_null())


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "OBJECT_OF", _object_type, _make_object, family="collection",
        syntax="OBJECT_OF(class_name, name1, value1, ...)",
        description="Returns a row with named fields; the name of the class is not kept.",
    ),
    Function(
        "OBJECT_UPDATE", _updated_type, _update, family="collection",
        syntax="OBJECT_UPDATE(object, name1, value1, ...)",
        description="Returns the row with other values in some fields; NULL if it is NULL.",
    ),
)  # fmt: skip
