"""Functions about the types of values."""

from __future__ import annotations

import pyarrow as pa

from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._types import logical
from flott.table._types.logical import STRING, Family, LogicalType


def _typeof(call: CallArguments) -> LogicalType:
    known = len(call.types) < 2 or (call.types[1].family is Family.BOOLEAN and call.is_literal[1])
    if not 1 <= len(call.types) <= 2 or not known:
        raise call.refuse("(value[, TRUE | FALSE])")
    return STRING.as_nullable()


def complete_text(of: LogicalType) -> str:
    """Return the text of a type in full words, from which it can be read again."""
    match of:
        case logical.VarCharType():
            text = f"VARCHAR({of.length})"
        case logical.VarBinaryType():
            text = f"VARBINARY({of.length})"
        case logical.LocalZonedTimestampType():
            text = f"TIMESTAMP({of.precision}) WITH LOCAL TIME ZONE"
        case logical.ArrayType():
            text = f"ARRAY<{complete_text(of.element)}>"
        case logical.MultisetType():
            text = f"MULTISET<{complete_text(of.element)}>"
        case logical.MapType():
            text = f"MAP<{complete_text(of.key)}, {complete_text(of.value)}>"
        case logical.RowType():
            fields = (f"{logical.quoted(field.name)} {complete_text(field.type)}" for field in of.fields)
            text = f"ROW<{', '.join(fields)}>"
        case _:
            text = of.root_text
    return text if of.nullable else f"{text} NOT NULL"


def _type_name(call: KernelCall) -> Datum:
    complete = len(call.arguments) > 1 and call.constant(1)
    of = call.types[0]
    return pa.scalar(complete_text(of) if complete else str(of), type=pa.string())


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "TYPEOF",
        _typeof,
        _type_name,
        family="other",
        syntax="TYPEOF(value[, complete])",
        description="Returns the data type of the value as text; with TRUE in full words.",
    ),
)
