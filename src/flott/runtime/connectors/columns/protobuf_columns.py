"""Protobuf messages as columns, and back, one by one. Task side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.columns.decoded import DecodedColumns, decoded_one_by_one
from flott.runtime.connectors.columns.rows import columns_of_rows
from flott.runtime.connectors.formats.protobuf import message_class_of
from flott.table._connectors.message_formats import ProtobufMessages
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema

Change = Callable[[Any], Any]


class ProtobufColumnDecoder:
    """Decodes messages of a generated class."""

    def __init__(self, format: ProtobufMessages, names: Sequence[str], types: Sequence[logical.LogicalType]):
        self._schema = arrow_schema(names, types)
        self._messages = format.reading()
        self._change = _from_row(logical.row_type(dict(zip(names, types, strict=True))))

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return None: messages have no lines."""
        return None

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the rows of messages."""
        return decoded_one_by_one(messages, self._row, lambda rows: columns_of_rows(rows, self._schema))

    def _row(self, message: bytes) -> Any:
        try:
            return self._change(self._messages.deserialize(message))
        except TypeMismatchError as error:
            raise ValueError(str(error)) from error


class ProtobufColumnEncoder:
    """Encodes messages of a generated class. A field that is NULL is not set."""

    def __init__(self, format: ProtobufMessages):
        self._names = list(format.names)
        self._class = message_class_of(format.descriptor_set, format.message_name)
        self._type = logical.row_type(dict(zip(format.names, format.types, strict=True)))

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a message for each row."""
        messages = []
        for row in columns.rename_columns(self._names).to_pylist():
            message = self._class()
            _fill(message, row, self._type)
            messages.append(message.SerializeToString())
        return pa.array(messages, type=pa.binary())

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Refuse: messages have no lines."""
        raise ProgramError("Protobuf messages are not lines of a file.")


def _fill(message: Any, row: Mapping[str, Any], of: logical.RowType) -> None:
    """Set the fields of a message."""
    for field in of.fields:
        value = row[field.name]
        if value is None:
            continue
        try:
            _set(message, field.name, field.type, value)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            name = message.DESCRIPTOR.full_name
            raise TypeMismatchError(f"The field {field.name} of {name} cannot be {value!r:.80}: {error}") from error


def _set(message: Any, name: str, of: logical.LogicalType, value: Any) -> None:
    target = getattr(message, name)
    enum = message.DESCRIPTOR.fields_by_name[name].enum_type
    match of:
        case logical.RowType():
            target.SetInParent()
            _fill(target, value, of)
        case logical.ArrayType(element=logical.RowType() as element):
            for each in value:
                _fill(target.add(), each, element)
        case logical.ArrayType():
            target.extend([enum.values_by_name[each].number for each in value] if enum is not None else value)
        case logical.MapType(value=logical.RowType() as item):
            for key, each in value:
                _fill(target[key], each, item)
        case logical.MapType():
            target.update(dict(value))
        case _:
            setattr(message, name, enum.values_by_name[value].number if enum is not None else value)


def _from_row(of: logical.LogicalType) -> Change:
    """Return what makes a value that Arrow takes."""
    match of:
        case logical.RowType():
            parts = [(field.name, _or_null(_from_row(field.type))) for field in of.fields]
            return lambda row: {name: each(_field(row, name)) for name, each in parts}
        case logical.ArrayType():
            element = _or_null(_from_row(of.element))
            return lambda values: [element(value) for value in values]
        case logical.MapType():
            item = _or_null(_from_row(of.value))
            return lambda entries: [(key, item(value)) for key, value in entries.items()]
    return lambda value: value


def _or_null(change: Change) -> Change:
    return lambda value: None if value is None else change(value)


def _field(row: Any, name: str) -> Any:
    fields = row._fields
    return row._values[fields.index(name)] if name in fields else None
