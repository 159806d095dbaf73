"""Messages that are the value of a column. Task side."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flott.runtime.connectors.columns.decoded import DecodedColumns, decoded_one_by_one
from flott.runtime.connectors.columns.rows import batch_of
from flott.table._connectors.message_formats import RawMessages
from flott.table._types.arrow import arrow_schema, arrow_type


class RawColumnDecoder:
    """Decodes messages as values of one column."""

    def __init__(self, format: RawMessages, names: Sequence[str]):
        self._schema = arrow_schema(format.names, format.types) if names else pa.schema([])
        self._type = arrow_type(format.types[0])
        self._charset = format.charset
        self._packing = None if format.packing is None else struct.Struct(format.packing)

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return None: lines are told apart first."""
        return None

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the messages as a column."""
        return decoded_one_by_one(messages, self._value, self._columns)

    def _value(self, message: bytes) -> tuple[Any]:
        if self._packing is not None:
            try:
                return self._packing.unpack(message)
            except struct.error as error:
                raise ValueError(str(error)) from None
        return (message if pa.types.is_binary(self._type) else message.decode(self._charset),)

    def _columns(self, rows: list[tuple[Any]]) -> pa.RecordBatch:
        arrays = [pa.array([value for (value,) in rows], type=self._type)] if len(self._schema) else []
        return batch_of(arrays, self._schema, len(rows))


class RawColumnEncoder:
    """Encodes the values of one column."""

    def __init__(self, format: RawMessages):
        self._charset = format.charset
        self._packing = None if format.packing is None else struct.Struct(format.packing)

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a message for each row; NULL stays NULL."""
        column = columns.column(0)
        if self._packing is None and (pa.types.is_binary(column.type) or self._charset.upper() in ("UTF-8", "UTF8")):
            return column.cast(pa.binary())
        return pa.array([None if v is None else self._bytes(v) for v in column.to_pylist()], type=pa.binary())

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Return the values as lines."""
        messages = self.encode(columns, kinds).to_pylist()
        return b"".join((message or b"") + b"\n" for message in messages)

    def _bytes(self, value: Any) -> bytes:
        return value.encode(self._charset) if self._packing is None else self._packing.pack(value)
