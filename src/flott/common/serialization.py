"""Converts records to bytes and bytes to records, for files, queues and sockets. Runs in tasks.

    SerializationSchema ──┬── SimpleStringSchema ──┬── DeserializationSchema
                          ├── ByteArraySchema ─────┘
                          └── RowFieldExtractorSchema
    Encoder                  a record with its separator, for files that are written record by record

All classes are plain picklable objects.
"""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from flott._absent import names_of
from flott.common._text_form import TextForm, text_form
from flott.common.typeinfo._basic import BasicTypeInfo
from flott.common.typeinfo._collections import PrimitiveArrayTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError

__all__ = [
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
]


class SerializationSchema(ABC):
    """Converts a record to the bytes of a message."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes:
        """Return the bytes of one record."""

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        """Return the bytes of each record. Override it where many at once are faster. Flott only."""
        return list(map(self.serialize, elements))


class DeserializationSchema(ABC):
    """Converts the bytes of a message to a record."""

    #: Whether ``deserialize`` returns a list of records, because one message may hold several. Flott only.
    returns_lists: ClassVar[bool] = False

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Return the record of one message, or ``None`` to leave the message out.

        Raise an exception if the message cannot be read: :class:`~flott.errors.TypeMismatchError` is what the schemas
        of Flott raise. The source's ``on_error`` then decides.
        """

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Return what ``deserialize`` returns for each message, or raise if one is unreadable. Flott only.

        Override it where many at once are faster. After an exception the messages are deserialized one by one, so it
        need not say which one is unreadable.
        """
        return list(map(self.deserialize, messages))

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Return whether this record is the last one."""
        return False


@dataclass(frozen=True)
class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Text in a character set.

    >>> SimpleStringSchema().serialize("ä")
    b'\\xc3\\xa4'
    """

    charset: str = "UTF-8"

    def __post_init__(self) -> None:
        _check_charset(self.charset)

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, str):
            raise TypeMismatchError(
                f"SimpleStringSchema writes str, found {element!r} of type {type(element).__name__}: map it first."
            )
        return element.encode(self.charset)

    def deserialize(self, message: bytes) -> str:
        try:
            return message.decode(self.charset)
        except UnicodeDecodeError as error:
            raise TypeMismatchError(
                f"Expected text in {self.charset}, found {message[:120]!r}: {error.reason} at byte {error.start}."
            ) from error

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        charset = self.charset
        try:
            return [str.encode(element, charset) for element in elements]
        except TypeError:
            return list(map(self.serialize, elements))

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        charset = self.charset
        return [message.decode(charset) for message in messages]

    def get_produced_type(self) -> TypeInformation:
        return BasicTypeInfo.STRING_TYPE_INFO()


@dataclass(frozen=True)
class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Unchanged bytes."""

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, (bytes, bytearray)):
            raise TypeMismatchError(
                f"ByteArraySchema writes bytes, found {element!r} of type {type(element).__name__}."
            )
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        return message

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        return list(messages)

    def get_produced_type(self) -> TypeInformation:
        return PrimitiveArrayTypeInfo(BasicTypeInfo.BYTE_TYPE_INFO())


@dataclass(frozen=True)
class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which must contain bytes, for example the key of a Kafka record."""

    field_index: int

    def __post_init__(self) -> None:
        if self.field_index < 0:
            raise ProgramError(f"A field index is not negative, found {self.field_index}.")

    def serialize(self, element: Any) -> bytes:
        if not isinstance(element, (Row, tuple)) or self.field_index >= len(element):
            raise TypeMismatchError(f"Expected a Row with a field {self.field_index}, found {element!r}.")
        value = element[self.field_index]
        if not isinstance(value, (bytes, bytearray)):
            raise TypeMismatchError(f"Field {self.field_index} must hold bytes, found {value!r}.")
        return bytes(value)


class Encoder(ABC):
    """Writes records to a file one after the other."""

    @abstractmethod
    def encode(self, element: Any) -> bytes:
        """Return the bytes of one record with its separator."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder that writes a line per record: as Flink does if the type is declared, else by ``str()``."""
        return SimpleStringEncoder(charset_name)


@dataclass(frozen=True)
class SimpleStringEncoder(Encoder):
    """One line of text per record."""

    charset_name: str = "UTF-8"
    text: TextForm = str  #: formats a record

    def __post_init__(self) -> None:
        _check_charset(self.charset_name)

    def encode(self, element: Any) -> bytes:
        return f"{self.text(element)}\n".encode(self.charset_name)

    def for_records_of(self, declared: TypeInformation | None) -> SimpleStringEncoder:
        """Return the encoder for records of this type."""
        return replace(self, text=text_form(declared))


def _check_charset(charset: str) -> None:
    try:
        codecs.lookup(charset)
    except LookupError:
        raise ProgramError(f"Unknown character set {charset!r}: use a name Python knows, such as 'UTF-8'.") from None

if not TYPE_CHECKING:  # otherwise a type checker accepts any name of this module
    __getattr__ = names_of(__name__)
