"""Keys and values as they are written outside the program, and where a key is found. Pure.

Records are read without the program's classes, so a key that is a record stands in the files' tables as a row with
names. Where it is found was decided by the program's own object. Both are worked out here from whatever the reader has:
an instance of the class, a row, a dict, a tuple.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from flott.common._ids import KeyGroup
from flott.common.types import Row, restore_row
from flott.errors import StateError
from flott.runtime.managed_state.files.column_codec import field_names
from flott.runtime.managed_state.key_groups import key_group_of
from flott.runtime.managed_state.schema.type_schema import Json


def plain_form(schema: Json | None, value: Any) -> Any:
    """Return a value, or a key, as it is read from files: records are rows with names."""
    if schema is None or value is None:
        return value
    match schema:
        case {"type": "float" | "double"} if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        case {"type": "tuple"} if isinstance(value, tuple):
            return tuple(plain_form(field["type"], part) for field, part in zip(schema["fields"], value, strict=False))
        case {"type": "list" | "tuple-of", "element": element} if isinstance(value, list | tuple):
            return type(value)(plain_form(element, part) for part in value)
        case {"type": "map", "key": keys, "value": values} if isinstance(value, dict):
            return {plain_form(keys, key): plain_form(values, part) for key, part in value.items()}
        case {"type": "row"} if isinstance(value, Row):
            return value
        case {"type": "dataclass" | "named-tuple" | "row"}:
            names = field_names(schema)
            parts = zip(schema["fields"], _parts(schema, names, value), strict=True)
            unnamed = schema["type"] == "row" and "name" not in schema["fields"][0]
            return restore_row(None if unnamed else names, [plain_form(field["type"], part) for field, part in parts])
    return value


def groups_of_key(schema: Json | None, key: Any, max_parallelism: int) -> Sequence[KeyGroup]:
    """Return the key groups in which a key may be: one, if the key says what it is.

    The group of a dataclass depends on the class; given its fields alone, it is not known.
    """
    try:
        return [key_group_of(_identity(schema, key), max_parallelism)]
    except _UnknownClass:
        return [KeyGroup(group) for group in range(max_parallelism)]


class _UnknownClass(Exception):
    """A row stands for an instance of a class that is not at hand."""


def _identity(schema: Json | None, key: Any) -> Any:
    """Return what the program used as the key."""
    if schema is None:
        return key
    match schema:
        case {"type": "tuple"} if isinstance(key, tuple):
            return tuple(_identity(field["type"], part) for field, part in zip(schema["fields"], key, strict=False))
        case {"type": "named-tuple"}:
            parts = _parts(schema, field_names(schema), key)
            return tuple(_identity(field["type"], part) for field, part in zip(schema["fields"], parts, strict=True))
        case {"type": "dataclass"} if not dataclasses.is_dataclass(key):
            raise _UnknownClass
        case {"type": "row"} if not isinstance(key, Row):
            return plain_form(schema, key)
    return key


def _parts(schema: Json, names: tuple[str, ...], key: Any) -> list[Any]:
    """Return the fields of a record, whatever it is given as."""
    match key:
        case Row() if key._fields is not None:
            found = key.as_dict()
        case Mapping():
            found = dict(key)
        case tuple() | list() | Row():
            found = dict(zip(names, key, strict=False)) if len(key) == len(names) else {}
        case _ if dataclasses.is_dataclass(key):
            found = {field.name: getattr(key, field.name) for field in dataclasses.fields(key)}
        case _:
            found = {}
    if set(found) != set(names):
        kind = str(schema.get("class", schema["type"])).rpartition(":")[2]
        raise StateError(
            f"{key!r} is no record of {kind} with the fields {', '.join(names)}. Give an instance, a Row, a dict or a"
            " tuple with all of its fields."
        )
    return [found[name] for name in names]
