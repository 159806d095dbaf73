"""The program's record classes, seen from a file: which class a schema means, and whether its fields say everything.

Columns hold the fields of a record and nothing else. That is the whole record only if the class leaves its pickling to
Python and its instances have no attributes beside their fields; what is more than its fields is pickled.
"""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import getattr_static
from itertools import repeat
from operator import eq
from types import MemberDescriptorType
from typing import Any
from weakref import WeakKeyDictionary

from flott.runtime.managed_state.schema.type_schema import Json

_DATACLASS_STATE = {"_dataclass_getstate", "_dataclass_setstate"}

#: class -> the names of its fields, None if they are not all there is to it
_faithful: WeakKeyDictionary[type, tuple[str, ...] | None] = WeakKeyDictionary()


def find_class(schema: Json) -> type | None:
    """Return the class a schema names, if it can be imported and has the fields it had."""
    found = import_class(schema)
    return found if found is not None and is_faithful(found, schema) else None


def import_class(schema: Json) -> type | None:
    """Return the class a schema names, if it can be imported."""
    module, _, path = schema["class"].partition(":")
    try:
        found: Any = sys.modules.get(module) or import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception:  # importing a module of the program's may raise anything
        return None
    return found if isinstance(found, type) else None


def holds_known_classes(node: Json) -> bool:
    """Return whether all records in a type are read as what they were, here and in any other process."""
    if node["type"] in ("dataclass", "named-tuple") and find_class(node) is None:
        return False
    parts = [node[part] for part in ("element", "key", "value") if part in node]
    return all(map(holds_known_classes, (*parts, *(field["type"] for field in node.get("fields", ())))))


def is_faithful(kind: type, schema: Json) -> bool:
    """Return whether instances of the class are exactly the fields of the schema."""
    if kind not in _faithful:
        _faithful[kind] = _fields_alone(kind)
    return _faithful[kind] == tuple(field["name"] for field in schema["fields"]) and (
        (schema["type"] == "dataclass") is dataclasses.is_dataclass(kind)
    )


def only_fields(kind: type, values: Sequence[Any], names: Sequence[str]) -> bool:
    """Return whether no instance has an attribute that is none of these fields."""
    if not kind.__dictoffset__:
        return True
    in_dict = sum(not isinstance(getattr_static(kind, name, None), MemberDescriptorType) for name in names)
    return all(map(eq, map(len, map(vars, values)), repeat(in_dict)))


def _fields_alone(kind: type) -> tuple[str, ...] | None:
    if kind in copyreg.dispatch_table or any(_differs(kind, method) for method in ("__reduce__", "__reduce_ex__")):
        return None
    if dataclasses.is_dataclass(kind):
        for method in ("__getstate__", "__setstate__"):
            if _differs(kind, method) and getattr(kind, method).__name__ not in _DATACLASS_STATE:
                return None
        fields = tuple(field.name for field in dataclasses.fields(kind))
        if kind.__new__ is not object.__new__ or not all(_is_stored(kind, name) for name in fields):
            return None
        return fields if _slots(kind) <= {*fields, "__dict__", "__weakref__"} else None
    names: Any = getattr(kind, "_fields", None)
    if not issubclass(kind, tuple) or not isinstance(names, tuple) or not hasattr(kind, "_make"):
        return None
    return None if _differs(kind, "__getstate__") or _differs(kind, "__setstate__") else names


def _differs(kind: type, method: str) -> bool:
    """Return whether a class has a method of its own instead of what every object has."""
    return getattr(kind, method, None) is not getattr(object, method, None)


def _slots(kind: type) -> set[str]:
    found: set[str] = set()
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found |= {slots} if isinstance(slots, str) else set(slots)
    return found


def _is_stored(kind: type, name: str) -> bool:
    """Return whether a field is kept in the instance, and not computed by a property of its name."""
    found = getattr_static(kind, name, None)
    return isinstance(found, MemberDescriptorType) or not hasattr(type(found), "__set__")
