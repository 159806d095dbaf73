"""Protobuf: message classes from descriptors, and functions between messages and rows. Driver and task side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from flott._extras import require
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.common.types import Row, restore_row
from flott.errors import ProgramError, TypeMismatchError

Convert = Callable[[Any], Any]

descriptor = require("google.protobuf.descriptor", extra="protobuf")
descriptor_pb2 = require("google.protobuf.descriptor_pb2", extra="protobuf")
descriptor_pool = require("google.protobuf.descriptor_pool", extra="protobuf")
message_factory = require("google.protobuf.message_factory", extra="protobuf")

_Field = descriptor.FieldDescriptor
_TYPES: dict[int, Callable[[], TypeInformation]] = {
    _Field.TYPE_BOOL: Types.BOOLEAN,
    _Field.TYPE_STRING: Types.STRING,
    _Field.TYPE_BYTES: lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    _Field.TYPE_FLOAT: Types.FLOAT,
    _Field.TYPE_DOUBLE: Types.DOUBLE,
    _Field.TYPE_ENUM: Types.STRING,
    **dict.fromkeys((_Field.TYPE_INT32, _Field.TYPE_SINT32, _Field.TYPE_SFIXED32), Types.INT),
    **dict.fromkeys((_Field.TYPE_INT64, _Field.TYPE_SINT64, _Field.TYPE_SFIXED64), Types.LONG),
    **dict.fromkeys((_Field.TYPE_UINT32, _Field.TYPE_FIXED32), Types.LONG),
    **dict.fromkeys((_Field.TYPE_UINT64, _Field.TYPE_FIXED64), Types.BIG_INT),
}


def descriptor_set_of(message_class: Any) -> tuple[bytes, str]:
    """Return the descriptors that a generated class is made of, and the full name of its message."""
    try:
        described = message_class.DESCRIPTOR
        files: dict[str, Any] = {}
        _collect(described.file, files)
    except AttributeError:
        raise ProgramError(f"Expected a generated Protobuf message class, found {message_class!r}.") from None
    found = descriptor_pb2.FileDescriptorSet(file=files.values())
    return found.SerializeToString(deterministic=True), described.full_name


def _collect(file: Any, files: dict[str, Any]) -> None:
    """Add a file after those that it imports."""
    if file.name in files:
        return
    for needed in file.dependencies:
        _collect(needed, files)
    content = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(content)
    files[file.name] = content


@lru_cache(maxsize=64)
def message_class_of(descriptor_set: bytes, message_name: str) -> Any:
    """Return the class of a message, made of descriptors."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message_name))
    except KeyError:
        raise ProgramError(
            f"The descriptor set has no message {message_name!r}: use its full name, with the package."
        ) from None
    except Exception as error:  # protobuf has errors of its own for each way in which it can be wrong
        raise ProgramError(
            f"Expected a serialized FileDescriptorSet with all imports (protoc --include_imports): {error}."
        ) from error


def row_type_of(described: Any, inside: tuple[str, ...] = ()) -> TypeInformation:
    """Return the type of the rows of a message."""
    if described.full_name in inside:
        raise ProgramError(f"The message {described.full_name} contains itself, so it is no row: read it as a message.")
    fields = list(described.fields)
    deeper = (*inside, described.full_name)
    return Types.ROW_NAMED([field.name for field in fields], [_field_type(field, deeper) for field in fields])


def _field_type(field: Any, inside: tuple[str, ...]) -> TypeInformation:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return Types.MAP(_single_type(key, inside), _single_type(value, inside))
    single = _single_type(field, inside)
    return Types.LIST(single) if _is_repeated(field) else single


def _single_type(field: Any, inside: tuple[str, ...]) -> TypeInformation:
    if field.message_type is not None:
        return row_type_of(field.message_type, inside)
    return _TYPES[field.type]()


def _is_repeated(field: Any) -> bool:
    # Newer versions of protobuf have no labels, older ones no property.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == 3


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# ---------------------------------------------------------------------------------------------------------------------
# Messages to rows
# ---------------------------------------------------------------------------------------------------------------------


def to_row(described: Any, read_default_values: bool) -> Convert:
    """Return the function from a message to a row. A field that is not set, and may be unset, is null."""
    names = tuple(field.name for field in described.fields)
    getters = [_getter(field, read_default_values) for field in described.fields]
    return lambda message: restore_row(names, [get(message) for get in getters])


def _getter(field: Any, read_default_values: bool) -> Convert:
    name = field.name
    if _is_map(field):
        inner = _single(field.message_type.fields_by_name["value"], read_default_values)
        if inner is None:
            return lambda message: dict(getattr(message, name))
        return lambda message: {key: inner(value) for key, value in getattr(message, name).items()}
    convert = _single(field, read_default_values)
    if _is_repeated(field):
        if convert is None:
            return lambda message: list(getattr(message, name))
        return lambda message: [convert(value) for value in getattr(message, name)]
    value_of = _attribute(name, convert)
    if field.has_presence and (field.message_type is not None or not read_default_values):
        return lambda message: value_of(message) if message.HasField(name) else None
    return value_of


def _attribute(name: str, convert: Convert | None) -> Convert:
    if convert is None:
        return lambda message: getattr(message, name)
    return lambda message: convert(getattr(message, name))


def _single(field: Any, read_default_values: bool) -> Convert | None:
    if field.message_type is not None:
        return to_row(field.message_type, read_default_values)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Rows to messages
# ---------------------------------------------------------------------------------------------------------------------


def from_row(described: Any) -> Callable[[Row], dict[str, Any]]:
    """Return the function from a row to the arguments of a message. A null is a field that is not set."""
    fields = [(field.name, _setter(field)) for field in described.fields]

    def arguments(row: Row) -> dict[str, Any]:
        return {
            name: value if convert is None else convert(value)
            for (name, convert), value in zip(fields, row._values, strict=True)
            if value is not None
        }

    return arguments


def _setter(field: Any) -> Convert | None:
    if _is_map(field):
        inner = _nested(field.message_type.fields_by_name["value"])
        if inner is None:
            return None
        return lambda found: {key: inner(value) for key, value in found.items()}
    convert = _nested(field)
    if convert is None or not _is_repeated(field):
        return convert
    return lambda values: [convert(value) for value in values]


def _nested(field: Any) -> Convert | None:
    if field.message_type is not None:
        arguments = from_row(field.message_type)
        kind = message_factory.GetMessageClass(field.message_type)
        return lambda row: kind(**arguments(row))
    return None


def batch_encoder(
    kind: Any, arguments: Callable[[Row], dict[str, Any]] | None
) -> Callable[[Sequence[Any]], list[bytes]]:
    """Return the function that writes rows, or messages if there are no arguments to make."""

    def encode(records: Sequence[Any]) -> list[bytes]:
        messages = []
        for record in records:
            try:
                message = record if arguments is None else kind(**arguments(record))
                messages.append(message.SerializeToString(deterministic=True))
            except Exception as error:  # protobuf raises whatever the value runs into
                raise TypeMismatchError(f"{record!r:.120} is no {kind.DESCRIPTOR.full_name}: {error}.") from error
        return messages

    return encode


def after_frame(message: bytes) -> bytes:
    """Return what follows the frame of a registry: a zero byte, an id, and the place of the message in its file."""
    if message[:1] != b"\0" or len(message) < 6:
        raise ValueError("it does not begin with a zero byte, the id of a schema and the index of a message")
    count, position = _varint(message, 5)
    if count < 0:
        raise ValueError("the frame of the schema registry is damaged")
    for _ in range(count):
        _, position = _varint(message, position)
    return message[position:]


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return a number in zigzag notation, and the position after it."""
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("the frame of the schema registry is damaged")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
