"""Whether a value is of a type that a state file names: for values that were made outside the program. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from flott.common.time import Instant
from flott.common.types import Row
from flott.runtime.managed_state.files.column_codec import field_names
from flott.runtime.managed_state.schema.type_schema import Json

_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
_CLASSES: dict[str, type] = {
    "boolean": bool,
    "float": float,
    "double": float,
    "string": str,
    "char": str,
    "bytes": bytes,
    "big-decimal": Decimal,
    "instant": Instant,
    "date": datetime.date,
    "time": datetime.time,
    "timestamp": datetime.datetime,
}


def fits(schema: Json, value: Any) -> bool:
    """Return whether a value is of a type. None is of every type; records are rows, as files give them."""
    if value is None:
        return True
    kind: str = schema["type"]
    if kind in _CLASSES:
        return isinstance(value, _CLASSES[kind]) and (kind != "date" or not isinstance(value, datetime.datetime))
    if kind in _BITS or kind == "big-int":
        return _is_whole(value, _BITS.get(kind))
    return _COMPOSITE[kind](schema, value) if kind in _COMPOSITE else True


def _is_whole(value: Any, bits: int | None) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return bits is None or -(1 << bits - 1) <= value < 1 << bits - 1


def _list_fits(schema: Json, value: Any) -> bool:
    expected = tuple if schema["type"] == "tuple-of" else list
    return isinstance(value, expected) and all(fits(schema["element"], element) for element in value)


def _map_fits(schema: Json, value: Any) -> bool:
    return isinstance(value, dict) and all(
        fits(schema["key"], key) and fits(schema["value"], held) for key, held in value.items()
    )


def _tuple_fits(schema: Json, value: Any) -> bool:
    return isinstance(value, tuple) and _fields_fit(schema, value)


def _row_fits(schema: Json, value: Any) -> bool:
    if not isinstance(value, Row):
        return False
    named = all("name" in field for field in schema["fields"])
    return (not named or value._fields in (None, field_names(schema))) and _fields_fit(schema, list(value))


def _dict_fits(schema: Json, value: Any) -> bool:
    if not isinstance(value, dict) or set(value) - set(field_names(schema)):
        return False
    return all(
        fits(field["type"], value[field["name"]]) if field["name"] in value else field.get("required") is False
        for field in schema["fields"]
    )


def _fields_fit(schema: Json, values: Any) -> bool:
    fields = schema["fields"]
    return len(values) == len(fields) and all(
        fits(field["type"], value) for field, value in zip(fields, values, strict=True)
    )


_COMPOSITE: dict[str, Callable[[Json, Any], bool]] = {
    "list": _list_fits,
    "tuple-of": _list_fits,
    "map": _map_fits,
    "tuple": _tuple_fits,
    "row": _row_fits,
    "dataclass": _row_fits,
    "named-tuple": _row_fits,
    "typed-dict": _dict_fits,
}
