"""JSON: converts records to lines of a file, and messages to rows and back. Values only; runs in tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from flott.common.serialization import DeserializationSchema, Encoder, SerializationSchema
from flott.common.typeinfo._composite import RowTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row
from flott.errors import ProgramError, TypeMismatchError

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema", "JsonLinesEncoder"]


@dataclass(frozen=True)
class JsonLinesEncoder(Encoder):
    """Writes one line of JSON per record, for ``FileSink.for_row_format``. A row with names is an object. Flott only.

    >>> JsonLinesEncoder().encode({"name": "Ada"})
    b'{"name":"Ada"}\\n'
    """

    def encode(self, element: Any) -> bytes:
        return _dump(element) + b"\n"


@dataclass(frozen=True)
class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads a JSON object as a row of the given type."""

    row_type: RowTypeInfo
    fails_on_missing_field: bool = False
    ignores_parse_errors: bool = False  #: unreadable messages become ``None``

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._row(json.loads(message))
        except (ValueError, TypeMismatchError) as error:
            if self.ignores_parse_errors:
                return None
            raise TypeMismatchError(f"Expected a JSON object, found {message[:120]!r}: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return self.row_type

    def _row(self, fields: Any) -> Any:
        if not isinstance(fields, dict):
            raise TypeMismatchError(f"found a {type(fields).__name__}, expected an object")
        names = self.row_type.get_field_names()
        missing = [name for name in names if name not in fields]
        if missing and self.fails_on_missing_field:
            raise TypeMismatchError(f"there is no field {', '.join(missing)}")
        return self.row_type.conform([{name: fields.get(name) for name in names}])[0]

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._row_type: RowTypeInfo | None = None
            self._fails_on_missing_field = False
            self._ignores_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            self._row_type = checked_row_type(type_info)
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            raise ProgramError("Flott takes no JSON schema: say type_info(Types.ROW_NAMED(names, types)) instead.")

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            self._fails_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            self._ignores_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            if self._row_type is None:
                raise ProgramError("A JSON schema needs to know the type of its rows: call type_info(…) first.")
            return JsonRowDeserializationSchema(
                self._row_type, self._fails_on_missing_field, self._ignores_parse_errors
            )


@dataclass(frozen=True)
class JsonRowSerializationSchema(SerializationSchema):
    """Writes a row of the given type as a JSON object."""

    row_type: RowTypeInfo

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        row = self.row_type.conform([element])[0]
        return _dump(dict(zip(self.row_type.get_field_names(), row, strict=True)))

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._row_type: RowTypeInfo | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            self._row_type = checked_row_type(type_info)
            return self

        def build(self) -> JsonRowSerializationSchema:
            if self._row_type is None:
                raise ProgramError("A JSON schema needs to know the type of its rows: call with_type_info(…) first.")
            return JsonRowSerializationSchema(self._row_type)


def checked_row_type(type_info: TypeInformation) -> RowTypeInfo:
    """Return the type if it is a row type, and refuse others."""
    if not isinstance(type_info, RowTypeInfo):
        raise ProgramError(f"Expected the type of a row, such as Types.ROW_NAMED(names, types), found {type_info!r}.")
    return type_info


def _dump(element: Any) -> bytes:
    return _JSON.encode(element).encode()


def _plain(value: Any) -> Any:
    """Convert values that the json module does not support."""
    if isinstance(value, Row):
        return list(value) if value._fields is None else value.as_dict()
    raise TypeMismatchError(f"JSON has no form for {value!r} of type {type(value).__name__}: map it first.")


_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)
