"""Changes in JSON as rows with kinds, and back. Task side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.common.typeinfo import Types
from flott.common.types import RowKind
from flott.datastream.formats.changelog import (
    CanalJsonDeserializationSchema,
    DebeziumJsonDeserializationSchema,
    MaxwellJsonDeserializationSchema,
)
from flott.runtime.connectors.columns.decoded import DecodedColumns
from flott.runtime.connectors.columns.json_columns import json_parser
from flott.runtime.connectors.columns.json_text import JsonTextEncoder, joined_lines
from flott.runtime.connectors.columns.json_values import JsonRules, json_converter
from flott.runtime.connectors.columns.rows import columns_of_rows
from flott.table._connectors.message_formats import ChangelogMessages
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema

#: Yields the images of rows in a parsed message, each with its kind.
Images = Callable[[Any], Iterator[tuple[RowKind, Any]]]

#: What stands before and after a row, by notation: of an insert and of a delete.
_TEMPLATES = {
    "debezium": (('{"before":null,"after":', ',"op":"c"}'), ('{"before":', ',"after":null,"op":"d"}')),
    "canal": (('{"data":[', '],"type":"INSERT"}'), ('{"data":[', '],"type":"DELETE"}')),
    "maxwell": (('{"data":', ',"type":"insert"}'), ('{"data":', ',"type":"delete"}')),
    "ogg": (('{"before":null,"after":', ',"op_type":"I"}'), ('{"before":', ',"after":null,"op_type":"D"}')),
}
_UPDATE_BEFORE, _DELETE = RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value


class ChangelogColumnDecoder:
    """Decodes changes: none, one or several rows for each message."""

    def __init__(self, format: ChangelogMessages, names: Sequence[str], types: Sequence[logical.LogicalType]):
        assert format.rows is not None
        rules = JsonRules(format.rows.timestamp_format, False, format.rows.ignore_parse_errors)
        self._schema = arrow_schema(names, types)
        self._convert = json_converter(logical.row_type(dict(zip(names, types, strict=True))), rules)
        self._images = _images_of(format)
        self._parse = json_parser(exact=True)

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return None: each line is decoded by itself."""
        return None

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the rows of messages."""
        rows: list[Any] = []
        kinds: list[int] = []
        origins: list[int] = []
        bad: list[tuple[int, str]] = []
        for index, message in enumerate(messages):
            if not message:
                continue  # a tombstone
            try:
                images = self._images(self._parse(message.decode()))
                found = [(kind, self._image(kind, image)) for kind, image in images]
            except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
                bad.append((index, str(error)))
                continue
            for kind, row in found:
                rows.append(row)
                kinds.append(kind.value)
                origins.append(index)
        columns = columns_of_rows(rows, self._schema)
        return DecodedColumns(columns, np.array(kinds, np.int8), np.array(origins, np.int64), tuple(bad))

    def _image(self, kind: RowKind, image: Any) -> Any:
        if not isinstance(image, dict):
            raise ValueError(
                f"a change of the kind {kind} needs the row; in PostgreSQL, set REPLICA IDENTITY FULL for the table"
            )
        return self._convert(image)


def _images_of(format: ChangelogMessages) -> Images:
    row = Types.ROW_NAMED(["unused"], [Types.STRING()])  # the images are converted here, by logical types
    match format.notation:
        case "debezium":
            return DebeziumJsonDeserializationSchema(row, schema_include=format.schema_include).images
        case "canal":
            return CanalJsonDeserializationSchema(
                row, database_include=format.database_include, table_include=format.table_include
            ).images
        case "maxwell":
            return MaxwellJsonDeserializationSchema(row).images
    return _ogg_images


def _ogg_images(root: Any) -> Iterator[tuple[RowKind, Any]]:
    if not isinstance(root, dict):
        raise ValueError("expected a JSON object")
    match root.get("op_type"):
        case "I":
            yield RowKind.INSERT, root.get("after")
        case "U":
            yield RowKind.UPDATE_BEFORE, root.get("before")
            yield RowKind.UPDATE_AFTER, root.get("after")
        case "D":
            yield RowKind.DELETE, root.get("before")
        case "T":
            return
        case other:
            raise ValueError(f"found the op_type {other!r}, expected 'I', 'U', 'D' or 'T'")


class ChangelogColumnEncoder:
    """Encodes changes: an update is a delete and an insert, as Flink writes it."""

    def __init__(self, format: ChangelogMessages):
        assert format.rows is not None
        encoder = format.rows.encoder()
        assert isinstance(encoder, JsonTextEncoder)
        self._rows = encoder
        self._insert, self._delete = _TEMPLATES[format.notation]

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a message for each row."""
        return self._texts(columns, kinds).cast(pa.binary())

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Return the messages as lines."""
        return joined_lines(self._texts(columns, kinds))

    def _texts(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        rows = self._rows.texts(columns)
        inserts = pc.binary_join_element_wise(self._insert[0], rows, self._insert[1], "")
        if kinds is None:
            return inserts
        deletes = pc.binary_join_element_wise(self._delete[0], rows, self._delete[1], "")
        gone = pa.array((kinds == _UPDATE_BEFORE) | (kinds == _DELETE))
        return pc.if_else(gone, deletes, inserts)
