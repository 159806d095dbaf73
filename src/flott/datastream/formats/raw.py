"""Raw: a message is one value, as bytes or as Flink's ``raw`` format writes it. Values only; runs in tasks. Flott only.

| type | bytes |
|---|---|
| ``STRING`` | text in the character set |
| ``BOOLEAN`` | one byte, 0 or 1 |
| ``BYTE``, ``SHORT``, ``INT``, ``LONG`` | 1, 2, 4, 8 bytes |
| ``FLOAT``, ``DOUBLE`` | 4, 8 bytes, IEEE 754 |
| ``PRIMITIVE_ARRAY(BYTE)`` | the bytes |
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema, _check_charset
from flott.common.typeinfo._basic import BasicType, BasicTypeInfo
from flott.common.typeinfo._collections import PrimitiveArrayTypeInfo
from flott.common.typeinfo._infer import TypeHint, type_of
from flott.common.typeinfo._type_information import TypeInformation
from flott.datastream.formats._compiled import CompiledSchema
from flott.errors import ProgramError, TypeMismatchError

__all__ = ["RawDeserializationSchema", "RawSerializationSchema"]

_LAYOUTS = {
    BasicType.BOOLEAN: "?", BasicType.BYTE: "b", BasicType.SHORT: "h", BasicType.INT: "i", BasicType.LONG: "q",
    BasicType.FLOAT: "f", BasicType.DOUBLE: "d",
}  # fmt: skip
_BYTE_ORDERS = {"big-endian": ">", "little-endian": "<"}


@dataclass(frozen=True)
class RawNotation(CompiledSchema):
    """A type and its bytes."""

    type_info: TypeHint
    charset: str = "UTF-8"
    endianness: str = "big-endian"  #: or "little-endian"

    def __post_init__(self) -> None:
        declared = type_of(self.type_info)
        object.__setattr__(self, "type_info", declared)
        _check_charset(self.charset)
        if self.endianness not in _BYTE_ORDERS:
            raise ProgramError(f"The order of bytes is 'big-endian' or 'little-endian', found {self.endianness!r}.")
        if not (self._is_text or self._holds_bytes or self._layout is not None):
            raise ProgramError(f"The raw format has no form for {declared!r}: use text, bytes, a number or a boolean.")

    @property
    def _declared(self) -> TypeInformation:
        return type_of(self.type_info)

    @property
    def _is_text(self) -> bool:
        declared = self._declared
        return isinstance(declared, BasicTypeInfo) and declared._basic_type is BasicType.STRING

    @property
    def _holds_bytes(self) -> bool:
        declared = self._declared
        return isinstance(declared, PrimitiveArrayTypeInfo) and declared._holds_bytes()

    @cached_property
    def _layout(self) -> struct.Struct | None:
        declared = self._declared
        letter = _LAYOUTS.get(declared._basic_type) if isinstance(declared, BasicTypeInfo) else None
        return None if letter is None else struct.Struct(_BYTE_ORDERS[self.endianness] + letter)


@dataclass(frozen=True)
class RawDeserializationSchema(RawNotation, DeserializationSchema):
    """Reads a single value.

    >>> from flott.common import Types
    >>> RawDeserializationSchema(Types.INT()).deserialize(b"\\x00\\x00\\x00\\x07")
    7
    """

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._read(message)
        except (struct.error, UnicodeDecodeError) as error:
            raise TypeMismatchError(
                f"Expected the bytes of {self._declared!r}, found {message[:120]!r}: {error}."
            ) from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return list(map(self._read, messages))

    def get_produced_type(self) -> TypeInformation:
        return self._declared

    @cached_property
    def _read(self) -> Callable[[bytes], Any]:
        if self._is_text:
            return lambda message: message.decode(self.charset)
        layout = self._layout
        if layout is None:
            return bytes
        return lambda message: layout.unpack(message)[0]


@dataclass(frozen=True)
class RawSerializationSchema(RawNotation, SerializationSchema):
    """Writes a single value."""

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        values = self._declared.conform(elements if isinstance(elements, list) else list(elements))
        if None in values:
            raise TypeMismatchError(f"The raw format writes {self._declared!r}, found None: filter it out.")
        try:
            return list(map(self._write, values))
        except (OverflowError, UnicodeEncodeError) as error:
            raise TypeMismatchError(f"The raw format cannot write a value as {self._declared!r}: {error}.") from error

    @cached_property
    def _write(self) -> Callable[[Any], bytes]:
        if self._is_text:
            return lambda value: bytes(value.encode(self.charset))
        return bytes if self._layout is None else self._layout.pack
