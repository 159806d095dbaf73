"""Columns: many values of one declared type as bytes, and back. ``docs/formats/columns.md`` describes every byte.

A column is a body (``column_bodies``) behind its version and the number of its values. Types made of others nest
bodies: a record is one body per field, a list its lengths and one body of all elements. Writing a value never fails
that pickle can write, and reading gives exactly what was written.
"""

from __future__ import annotations

from typing import Any

from flott.errors import CorruptStateError
from flott.runtime.managed_state.files.column_bodies import (
    BOOLEANS,
    INTS,
    PICKLES,
    TEXTS,
    BytesCodec,
    Codec,
    Cursor,
    DecimalCodec,
    DoubleCodec,
    Parts,
    spell_number,
)
from flott.runtime.managed_state.files.column_records import (
    DataclassCodec,
    DictCodec,
    ListCodec,
    MapCodec,
    NamedTupleCodec,
    RowCodec,
    TupleCodec,
)
from flott.runtime.managed_state.files.column_times import DateCodec, InstantCodec, TimeCodec, TimestampCodec
from flott.runtime.managed_state.schema.type_schema import Json

VERSION = 1


def encode_column(schema: Json | None, values: list[Any]) -> bytes:
    """Return values of a type as bytes. A schema of None: pickled."""
    parts: Parts = [bytes((VERSION,))]
    write_column(codec_of(schema), values, parts)
    return b"".join(parts)


def decode_column(schema: Json | None, data: bytes, *, plain: bool = False) -> list[Any]:
    """Return the values of a column.

    Instances of the program's classes are made again where the class can be imported and has the fields it had; where
    not, and with ``plain`` always, they come as rows with names.
    """
    if data[:1] != bytes((VERSION,)):
        raise CorruptStateError(
            f"A column has version {data[:1]!r}; this version of Flott reads version {VERSION}. Use the version of"
            " Flott that wrote it, or a later one."
        )
    return read_column(codec_of(schema), Cursor(data, plain, 1))


def write_column(codec: Codec, values: list[Any], parts: Parts) -> None:
    """Append a column without its version: the number of values, and their body."""
    parts.append(spell_number(len(values)))
    codec.write(values, parts)


def read_column(codec: Codec, cursor: Cursor) -> list[Any]:
    """Read what ``write_column`` wrote."""
    return codec.read(cursor, cursor.number())


_SIMPLE: dict[str, Codec] = {
    **dict.fromkeys(("byte", "short", "int", "long", "big-int"), INTS),
    **dict.fromkeys(("float", "double"), DoubleCodec()),
    **dict.fromkeys(("string", "char"), TEXTS),
    "boolean": BOOLEANS,
    "bytes": BytesCodec(),
    "big-decimal": DecimalCodec(),
    "instant": InstantCodec(),
    "date": DateCodec(),
    "time": TimeCodec(),
    "timestamp": TimestampCodec(),
    "pickled": PICKLES,
}

#: Codecs by the identity of their schema, which is kept alive beside them. Schemas are never changed.
_known: dict[int, tuple[Json, Codec]] = {}
_KNOWN_AT_MOST = 4096


def codec_of(schema: Json | None) -> Codec:
    """Return what writes and reads values of a schema; None: pickled."""
    if schema is None:
        return PICKLES
    found = _known.get(id(schema))
    if found is None:
        if len(_known) >= _KNOWN_AT_MOST:
            _known.clear()
        found = _known[id(schema)] = (schema, _make_codec(schema))
    return found[1]


def _make_codec(node: Json) -> Codec:
    kind = node["type"]
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    match kind:
        case "list":
            return ListCodec(_make_codec(node["element"]), list)
        case "tuple-of":
            return ListCodec(_make_codec(node["element"]), tuple)
        case "map":
            return MapCodec(_make_codec(node["key"]), _make_codec(node["value"]))
    fields = tuple(_make_codec(field["type"]) for field in node.get("fields", ()))
    match kind:
        case "tuple":
            return TupleCodec(fields)
        case "row":
            return RowCodec(field_names(node), fields)
        case "dataclass":
            return DataclassCodec(node, fields)
        case "named-tuple":
            return NamedTupleCodec(node, fields)
        case "typed-dict":
            return DictCodec(field_names(node), fields)
    raise CorruptStateError(
        f"A state file names the type {kind!r}, which this version of Flott does not know. Use the version of Flott"
        " that wrote it, or a later one."
    )


def field_names(node: Json) -> tuple[str, ...]:
    """Return the names of a record's fields; Flink's ``f0``, ``f1``, … where it has none."""
    return tuple(field.get("name", f"f{position}") for position, field in enumerate(node["fields"]))


def plain_values(schema: Json, values: list[Any]) -> list[Any]:
    """Return values as they are read without the program's classes."""
    return decode_column(schema, encode_column(schema, values), plain=True)
