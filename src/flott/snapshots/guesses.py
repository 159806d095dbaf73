"""What type values are that were written without one, judged by a sample. Pure; either side."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from flott.common.time import Instant
from flott.common.typeinfo._infer import type_of
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.common.types import Row

_BASIC: dict[type, TypeInformation] = {
    str: Types.STRING(),
    bool: Types.BOOLEAN(),
    float: Types.DOUBLE(),
    bytes: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Decimal: Types.BIG_DEC(),
    Instant: Types.INSTANT(),
    datetime.date: Types.SQL_DATE(),
    datetime.time: Types.SQL_TIME(),
    datetime.datetime: Types.SQL_TIMESTAMP(),
}


def guess_type(values: Sequence[Any]) -> TypeInformation | None:
    """Return the type that all values have in common, if there is one that columns can be made of.

    None is of every type.
    """
    present = [value for value in values if value is not None]
    kinds = set(map(type, present))
    if not kinds:
        return None
    if kinds <= {int, float}:
        return _guess_number(kinds, present)
    if len(kinds) > 1:
        return None
    kind = kinds.pop()
    if kind in _BASIC:
        return _BASIC[kind]
    if kind is list:
        element = guess_type([element for value in present for element in value])
        return None if element is None else Types.LIST(element)
    if kind is dict:
        return _guess_map(present)
    if kind in (tuple, Row):
        return _guess_fields(kind, present)
    if dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return _guess_record(kind)
    return None


def _guess_number(kinds: set[type], values: list[Any]) -> TypeInformation | None:
    if float in kinds:
        return Types.DOUBLE()
    return Types.LONG() if all(-(1 << 63) <= value < 1 << 63 for value in values) else None


def _guess_map(values: list[dict[Any, Any]]) -> TypeInformation | None:
    keys = guess_type([key for value in values for key in value])
    mapped = guess_type([item for value in values for item in value.values()])
    return None if keys is None or mapped is None else Types.MAP(keys, mapped)


def _guess_fields(kind: type, values: list[Any]) -> TypeInformation | None:
    names = {value._fields if kind is Row else None for value in values}
    if len(names) > 1 or len(set(map(len, values))) > 1 or not len(values[0]):
        return None
    fields = [guess_type(column) for column in zip(*values, strict=True)]
    known = [field for field in fields if field is not None]
    if len(known) < len(fields):
        return None
    if kind is tuple:
        return Types.TUPLE(known)
    (shared,) = names
    return Types.ROW(known) if shared is None else Types.ROW_NAMED(shared, known)


def _guess_record(kind: type) -> TypeInformation | None:
    try:
        return type_of(kind)
    except Exception:  # annotations are the program's, and may name anything
        return None
