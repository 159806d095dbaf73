"""Lists, arrays and maps: types whose values hold any number of elements of one type.

A batch is checked by putting the elements of all records in one row and asking the element type once.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flott.common.typeinfo._basic import BasicType, BasicTypeInfo
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.errors import ProgramError

_BYTE = BasicTypeInfo.BYTE_TYPE_INFO()
_PRIMITIVES = frozenset(BasicType) - {BasicType.STRING, BasicType.BIG_INT, BasicType.BIG_DEC, BasicType.INSTANT}
_BOXED = _PRIMITIVES | {BasicType.STRING}


@dataclass(frozen=True, slots=True, repr=False)
class ListTypeInfo(TypeInformation):
    """A list. A tuple, an ``array.array`` or a numpy array becomes one."""

    elem_type: TypeInformation

    def __post_init__(self) -> None:
        if not isinstance(self.elem_type, TypeInformation):
            raise ProgramError(f"The elements need a type such as Types.INT(), found {self.elem_type!r}.")

    def _python_type(self) -> type:
        return list

    def _contents_match(self, values: Sequence[Any]) -> bool:
        return self.elem_type._matches(list(chain.from_iterable(values)))

    def _admit_contents(self, value: Any) -> Any:
        if self._contents_match((value,)):
            return value
        return [self._admit_element(position, element) for position, element in enumerate(value)]

    def _admit_element(self, position: int, element: Any) -> Any:
        try:
            return self.elem_type._admit(element)
        except Rejected as rejected:
            raise rejected.under(f"[{position}]") from None

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, (tuple, array)):
            return self._admit_contents(list(value))
        raise Rejected(value, self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.elem_type!r}>"


@dataclass(frozen=True, slots=True, repr=False)
class PrimitiveArrayTypeInfo(ListTypeInfo):
    """A list of numbers, booleans or characters; of bytes it is ``bytes``."""

    def __post_init__(self) -> None:
        _require(self, _PRIMITIVES)

    def _holds_bytes(self) -> bool:
        return self.elem_type == _BYTE

    def _python_type(self) -> type:
        return bytes if self._holds_bytes() else list

    def _contents_match(self, values: Sequence[Any]) -> bool:
        return self._holds_bytes() or ListTypeInfo._contents_match(self, values)

    def _convert_one(self, value: Any) -> Any:
        if not self._holds_bytes():
            return ListTypeInfo._convert_one(self, value)
        if isinstance(value, (bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, (list, tuple, array)):
            signed = [self._admit_element(position, element) for position, element in enumerate(value)]
            if None not in signed:
                return bytes(element & 0xFF for element in signed)
        raise Rejected(value, self)


@dataclass(frozen=True, slots=True, repr=False)
class BasicArrayTypeInfo(ListTypeInfo):
    """A list of basic values, any of which may be null."""

    def __post_init__(self) -> None:
        _require(self, _BOXED)


@dataclass(frozen=True, slots=True, repr=False)
class ObjectArrayTypeInfo(ListTypeInfo):
    """A list of values of any one type."""


@dataclass(frozen=True, slots=True, repr=False)
class VariadicTupleTypeInfo(ListTypeInfo):
    """A tuple of any length whose elements are of one type: ``tuple[int, ...]``. A list becomes one."""

    def _python_type(self) -> type:
        return tuple

    def _admit_contents(self, value: Any) -> Any:
        if self._contents_match((value,)):
            return value
        return tuple(ListTypeInfo._admit_contents(self, value))

    def _convert_one(self, value: Any) -> Any:
        if isinstance(value, (list, array)):
            return self._admit_contents(tuple(value))
        raise Rejected(value, self)


def _require(info: ListTypeInfo, allowed: frozenset[BasicType]) -> None:
    element = info.elem_type
    if not isinstance(element, BasicTypeInfo) or element._basic_type not in allowed:
        names = sorted(f"Types.{basic_type.name}()" for basic_type in allowed)
        raise ProgramError(
            f"{type(info).__name__} cannot hold {element!r}: expected one of {', '.join(names)}. "
            "Types.OBJECT_ARRAY(…) holds any type."
        )


@dataclass(frozen=True, slots=True, repr=False)
class MapTypeInfo(TypeInformation):
    """A dict with keys of one type and values of another."""

    _key_type_info: TypeInformation
    _value_type_info: TypeInformation

    def _python_type(self) -> type:
        return dict

    def _contents_match(self, values: Sequence[Any]) -> bool:
        keys = list(chain.from_iterable(values))
        mapped = list(chain.from_iterable(map(dict.values, values)))
        return self._key_type_info._matches(keys) and self._value_type_info._matches(mapped)

    def _admit_contents(self, value: Any) -> Any:
        if self._contents_match((value,)):
            return value
        return {self._admit_key(key): self._admit_value(key, mapped) for key, mapped in value.items()}

    def _admit_key(self, key: Any) -> Any:
        try:
            return self._key_type_info._admit(key)
        except Rejected as rejected:
            raise rejected.under(".key") from None

    def _admit_value(self, key: Any, mapped: Any) -> Any:
        try:
            return self._value_type_info._admit(mapped)
        except Rejected as rejected:
            raise rejected.under(f"[{key!r}]") from None

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info!r}, {self._value_type_info!r}>"


@dataclass(frozen=True, slots=True, repr=False)
class ExternalTypeInfo(TypeInformation):
    """Another type under the name the Table API gives it at its border; checks exactly as that one."""

    _type_info: TypeInformation

    def conform(self, values: list[Any]) -> list[Any]:
        return self._type_info.conform(values)

    def _matches(self, values: Sequence[Any]) -> bool:
        return self._type_info._matches(values)

    def _admit(self, value: Any) -> Any:
        return self._type_info._admit(value)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info!r}>"
