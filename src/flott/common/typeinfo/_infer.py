"""Python's type hints as types: ``tuple[str, int]`` is ``Types.TUPLE([Types.STRING(), Types.BIG_INT()])``. Pure.

A hint that says nothing Flott could check (``Any``, a union, a class it does not know) is the pickled type. ``None`` as
an alternative changes nothing, because every type accepts it. An ``int`` of Python's has no limits, so it is a
``BIG_INT`` and neither an ``INT`` nor a ``LONG``.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, ForwardRef, Literal, NewType, NotRequired, Required, TypeAlias, TypeVar, Union

from flott.common.time import Instant
from flott.common.typeinfo._basic import (
    BasicTypeInfo,
    DateTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flott.common.typeinfo._collections import (
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    VariadicTupleTypeInfo,
)
from flott.common.typeinfo._composite import TupleTypeInfo
from flott.common.typeinfo._records import DataclassTypeInfo, NamedTupleTypeInfo, TypedDictTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.errors import ProgramError

#: What stands wherever a type may be declared: one of ``Types``, a class, or an alias such as ``list[int] | None``.
TypeHint: TypeAlias = TypeInformation | type[Any] | UnionType

#: The arguments of an alias; None: the class alone, as in ``list``.
_Arguments: TypeAlias = tuple[Any, ...] | None

PICKLED = PickledBytesTypeInfo()

_ATOMS: dict[Any, TypeInformation] = {
    str: BasicTypeInfo.STRING_TYPE_INFO(),
    bool: BasicTypeInfo.BOOLEAN_TYPE_INFO(),
    int: BasicTypeInfo.BIG_INT_TYPE_INFO(),
    float: BasicTypeInfo.DOUBLE_TYPE_INFO(),
    bytes: PrimitiveArrayTypeInfo(BasicTypeInfo.BYTE_TYPE_INFO()),
    decimal.Decimal: BasicTypeInfo.BIG_DEC_TYPE_INFO(),
    datetime.date: DateTypeInfo(),
    datetime.time: TimeTypeInfo(),
    datetime.datetime: TimestampTypeInfo(),
    Instant: BasicTypeInfo.INSTANT_TYPE_INFO(),
}


def type_of(hint: object, variables: Mapping[Any, Any] | None = None) -> TypeInformation:
    """Return the type a hint stands for; raises ``ProgramError`` for what is no hint.

    ``variables``: what its type variables stand for.

    >>> type_of(dict[str, tuple[float, bool] | None])
    MapTypeInfo<String, TupleTypeInfo(Double, Boolean)>
    """
    if isinstance(hint, TypeInformation):
        return hint
    if not _is_hint(hint):
        raise ProgramError(f"A type is one of flott.common.Types, or a type hint such as int, found {hint!r}.")
    return _type_of(hint, _Scope(variables=variables or {}))


def resolved(annotation: object, global_names: Mapping[str, Any], local_names: Mapping[str, Any]) -> Any:
    """Return an annotation with every text in it read as Python, or ``Any`` if a name in it is not found."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, dict(global_names), dict(local_names), include_extras=True)["it"]
    except Exception:  # evaluating the user's annotation may raise anything
        return Any


def type_variables(kind: type, arguments: tuple[Any, ...] = ()) -> dict[Any, Any]:
    """Return what the type variables of a class and of its bases stand for, where that is said.

    >>> class Lengths(typing.Generic[typing.AnyStr]): ...
    >>> class OfBytes(Lengths[bytes]): ...
    >>> type_variables(OfBytes)
    {~AnyStr: <class 'bytes'>}
    """
    known = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    for base in kind.__dict__.get("__orig_bases__", kind.__bases__):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin is not object:
            given = tuple(_substituted(argument, known) for argument in typing.get_args(base))
            for variable, meaning in type_variables(origin, given).items():
                # One variable, two meanings: the bases share it by accident, so it says nothing.
                known[variable] = meaning if known.get(variable, meaning) == meaning else Any
    return known


@dataclasses.dataclass(frozen=True)
class _Scope:
    """Where a hint stands: inside which classes, and what type variables mean there."""

    owners: tuple[Any, ...] = ()
    variables: Mapping[Any, Any] = dataclasses.field(default_factory=dict)

    def inside(self, owner: type, arguments: tuple[Any, ...]) -> _Scope:
        return _Scope((*self.owners, owner), type_variables(owner, self.meaning_of(arguments)))

    def meaning_of(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_substituted(argument, self.variables) for argument in arguments)


def _substituted(hint: Any, variables: Mapping[Any, Any]) -> Any:
    """Return the hint without type variables; one that means nothing here is ``Any``."""
    if isinstance(hint, TypeVar):
        return variables.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or isinstance(hint, type):
        return hint
    return hint[tuple(variables.get(parameter, Any) for parameter in parameters)]


def _is_hint(hint: object) -> bool:
    if isinstance(hint, type):
        return not issubclass(hint, TypeInformation)  # the class of a type instead of the type
    if hint is Any or isinstance(hint, (NewType, TypeVar, UnionType)):
        return True
    return typing.get_origin(hint) is not None or _is_alias(hint)


def _type_of(hint: Any, scope: _Scope) -> TypeInformation:
    if isinstance(hint, TypeInformation):
        return hint
    if isinstance(hint, (str, ForwardRef)):
        name = hint if isinstance(hint, str) else hint.__forward_arg__
        raise ProgramError(f"The type hint holds the text {name!r}; write the class itself instead of its name.")
    kind, arguments = _unwrap(hint, scope)
    if kind in (Union, UnionType):
        return _union(arguments or (), scope)
    if kind is Literal:
        return _literal(arguments or ())
    if _is_alias(kind):
        return _alias(kind, arguments or (), scope)
    if not isinstance(kind, type):
        return PICKLED
    if kind in _ATOMS:
        return _ATOMS[kind]
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](arguments, scope)
    return _record(kind, arguments or (), scope)


def _unwrap(hint: Any, scope: _Scope) -> tuple[Any, _Arguments]:
    """Return what a hint is about and its arguments, without Annotated, Required and NewType around it."""
    while True:
        origin = typing.get_origin(hint)
        if origin in (typing.Annotated, Required, NotRequired, typing.Final):
            hint = hint.__origin__ if origin is typing.Annotated else hint.__args__[0]
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif isinstance(hint, TypeVar):
            meaning = scope.variables.get(hint, hint.__bound__)
            hint = Any if meaning is None or meaning is hint else meaning
        else:
            return (hint, None) if origin is None else (origin, getattr(hint, "__args__", None))


def _union(members: tuple[Any, ...], scope: _Scope) -> TypeInformation:
    some = [member for member in members if member is not NoneType]
    return _type_of(some[0], scope) if len(some) == 1 else PICKLED


def _literal(values: tuple[Any, ...]) -> TypeInformation:
    kinds = {type(value) for value in values} - {NoneType}
    return _ATOMS.get(kinds.pop(), PICKLED) if len(kinds) == 1 else PICKLED


def _is_alias(hint: object) -> bool:
    """Return whether it was made by ``type X = …``, which Python has since 3.12."""
    return type(hint).__name__ == "TypeAliasType"


def _alias(alias: Any, arguments: tuple[Any, ...], scope: _Scope) -> TypeInformation:
    if alias in scope.owners:
        return PICKLED  # it is made of itself: its first level is checked
    variables = dict(zip(alias.__type_params__, scope.meaning_of(arguments), strict=False))
    return _type_of(alias.__value__, _Scope((*scope.owners, alias), variables))


# ---------------------------------------------------------------------------------------------------------------------
# Containers
# ---------------------------------------------------------------------------------------------------------------------


def _list(arguments: _Arguments, scope: _Scope) -> TypeInformation:
    return ListTypeInfo(_type_of(arguments[0], scope) if arguments else PICKLED)


def _dict(arguments: _Arguments, scope: _Scope) -> TypeInformation:
    key, value = arguments or (Any, Any)
    return MapTypeInfo(_type_of(key, scope), _type_of(value, scope))


def _tuple(arguments: _Arguments, scope: _Scope) -> TypeInformation:
    if arguments is None or any(map(_is_unpacked, arguments)):
        return VariadicTupleTypeInfo(PICKLED)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return VariadicTupleTypeInfo(_type_of(arguments[0], scope))
    return TupleTypeInfo([_type_of(argument, scope) for argument in arguments])


def _is_unpacked(argument: Any) -> bool:
    return typing.get_origin(argument) is typing.Unpack or getattr(argument, "__unpacked__", False) is True


_CONTAINERS: dict[Any, Callable[[_Arguments, _Scope], TypeInformation]] = {list: _list, dict: _dict, tuple: _tuple}


# ---------------------------------------------------------------------------------------------------------------------
# Classes with fields
# ---------------------------------------------------------------------------------------------------------------------


def _record(kind: type, arguments: tuple[Any, ...], scope: _Scope) -> TypeInformation:
    if kind in scope.owners:
        return PICKLED  # a class that holds itself: its first level is checked
    inside = scope.inside(kind, arguments)
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
        return DataclassTypeInfo(kind, names, _field_types(kind, names, inside))
    if typing.is_typeddict(kind):
        return _typed_dict(kind, inside)
    names = getattr(kind, "_fields", ())
    if issubclass(kind, tuple) and isinstance(names, tuple) and hasattr(kind, "_make"):
        return NamedTupleTypeInfo(kind, names, _field_types(kind, names, inside))
    return PICKLED


def _field_types(kind: type, names: tuple[str, ...], scope: _Scope) -> tuple[TypeInformation, ...]:
    hints = _class_hints(kind)
    return tuple(_lenient(hints.get(name, Any), scope) for name in names)


def _typed_dict(kind: type, scope: _Scope) -> TypeInformation:
    hints = _class_hints(kind)
    required: set[str] = set(kind.__required_keys__)  # type: ignore[attr-defined]
    for name, hint in hints.items():  # what Python itself misses where annotations are texts
        if typing.get_origin(hint) is NotRequired:
            required.discard(name)
        elif typing.get_origin(hint) is Required:
            required.add(name)
    types = tuple(_lenient(hint, scope) for hint in hints.values())
    return TypedDictTypeInfo(kind, tuple(hints), types, frozenset(required))


def _class_hints(kind: type) -> dict[str, Any]:
    """Return the annotations of a class and its bases. A name that is not found spoils its own annotation only."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:
        hints: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            names = vars(sys.modules.get(base.__module__, SimpleNamespace()))
            known = {kind.__name__: kind, **vars(base)}
            for name, annotation in inspect.get_annotations(base).items():
                hints[name] = resolved(annotation, names, known)
        return hints


def optional_fields(kind: type) -> frozenset[str]:
    """Return the fields of a class whose annotation names None as an alternative; their types do not say so."""
    return frozenset(name for name, hint in _class_hints(kind).items() if _names_none(hint))


def _names_none(hint: Any) -> bool:
    unwrapped, arguments = _unwrap(hint, _Scope())
    return unwrapped in (Union, UnionType) and NoneType in (arguments or ())


def _lenient(hint: Any, scope: _Scope) -> TypeInformation:
    """Return the type of a field. Its annotation was written for other readers too: what is unclear is pickled."""
    try:
        return _type_of(hint, scope)
    except ProgramError:
        return PICKLED
