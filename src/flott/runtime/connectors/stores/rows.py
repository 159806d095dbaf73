"""Records as changes of a table: which kind, which fields. Task side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from flott.common.typeinfo import RowTypeInfo, TypeInformation
from flott.common.types import Row, RowKind
from flott.errors import ProgramError, TypeMismatchError

_DELETE, _UPDATE_BEFORE = RowKind.DELETE, RowKind.UPDATE_BEFORE


def is_delete(value: Any) -> bool:
    """Return whether a record deletes its key: a row of the kind DELETE."""
    return type(value) is Row and value._row_kind is _DELETE


def is_outdated(value: Any) -> bool:
    """Return whether a record is the old half of an update, which a write by key does not need."""
    return type(value) is Row and value._row_kind is _UPDATE_BEFORE


def mapping_of(record_type: TypeInformation | None) -> Callable[[Any], dict[str, Any]]:
    """Return the function that turns a record into a dict of its fields.

    A dict, a row with names, a dataclass and a named tuple have names; a plain row or tuple gets those of its declared
    type.
    """
    names = tuple(record_type.get_field_names()) if isinstance(record_type, RowTypeInfo) else None

    def mapping(value: Any) -> dict[str, Any]:
        kind = type(value)
        if kind is dict:
            return value  # type: ignore[no-any-return]
        if kind is Row:
            if value._fields is not None:
                return value.as_dict(recursive=True)  # type: ignore[no-any-return]
            if names is not None:
                return dict(zip(names, value, strict=True))
        if isinstance(value, Mapping):
            return dict(value)
        if is_dataclass(value) and not isinstance(value, type):
            return {one.name: getattr(value, one.name) for one in fields(value)}
        if isinstance(value, tuple):
            if hasattr(value, "_asdict"):
                return value._asdict()  # type: ignore[no-any-return]
            if names is not None:
                return dict(zip(names, value, strict=True))
        raise TypeMismatchError(
            f"The sink stores fields by name, found {value!r} of type {kind.__name__}: map it to a dict, a Row with"
            " names or a dataclass, or declare its type with Types.ROW_NAMED."
        )

    return mapping


def key_of(fields: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the values of the key fields of a record. A record without one of them is an error of the program."""
    key = tuple(fields.get(name) for name in names)
    if None in key:
        missing = [name for name, value in zip(names, key, strict=True) if value is None]
        raise ProgramError(
            f"The key consists of the fields {list(names)}, found none of {missing} in {dict(fields)!r}."
        )
    return key
