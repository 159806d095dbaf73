"""JSON as columns: a block of objects at a time by Arrow's reader, which makes only the fields that are asked for.

What Arrow refuses, or has no form of (maps), is decoded again object by object, by the rules of ``json_values``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json

from flott.runtime.connectors.columns.decoded import DecodedColumns, decoded_one_by_one
from flott.runtime.connectors.columns.json_values import JsonRules, json_converter
from flott.runtime.connectors.columns.rows import batch_of, columns_of_rows
from flott.runtime.connectors.columns.times import times_of, timestamps_of
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema, arrow_type

#: Makes a column of a declared type from one that Arrow's reader made.
Finish = Callable[[pa.Array], pa.Array]


class JsonColumnDecoder:
    """Decodes JSON objects as rows."""

    def __init__(self, names: Sequence[str], types: Sequence[logical.LogicalType], rules: JsonRules):
        self._schema = arrow_schema(names, types)
        self._rules = rules
        self._convert = json_converter(_row_type(names, types), rules)
        self._parse = json_parser(exact=any(map(_holds_decimal, types)))
        readable = [_readable(of, rules) for of in types]
        self._finish: list[Finish | None] = []
        self._options: pa_json.ParseOptions | None = None
        if not rules.fail_on_missing_field and all(each is not None for each in readable):
            pairs = [each for each in readable if each is not None]
            fields = [pa.field(name, of) for name, (of, _) in zip(names, pairs, strict=True)]
            self._finish = [finish for _, finish in pairs]
            self._options = pa_json.ParseOptions(
                explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore", newlines_in_values=False
            )

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows of a block of lines; None if Arrow's reader refuses it."""
        if self._options is None:
            return None
        try:
            # One block, so that no object is cut and the columns are in one piece.
            reading = pa_json.ReadOptions(use_threads=False, block_size=max(1024, len(data) + 1))
            table = pa_json.read_json(pa.BufferReader(data), reading, self._options)
            arrays = [_only_chunk(column) for column in table.columns]
            arrays = [a if finish is None else finish(a) for finish, a in zip(self._finish, arrays, strict=True)]
        except (pa.ArrowException, UnicodeDecodeError):
            return _empty(data, self._schema)
        return batch_of(arrays, self._schema, table.num_rows)

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the rows of messages."""
        if self._options is not None and messages:
            columns = self.block(b"\n".join(messages))
            # A message may be empty, have line ends in it, or hold two objects.
            if columns is not None and columns.num_rows == len(messages) and b"" not in messages:
                return DecodedColumns(columns)
        return decoded_one_by_one(messages, self._row, self._columns)

    def _row(self, message: bytes) -> Any:
        if not message or message.isspace():
            return None
        found = self._parse(message.decode())
        if not isinstance(found, dict):
            raise ValueError("expected a JSON object")
        return self._convert(found)

    def _columns(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        return columns_of_rows(rows, self._schema)


def json_parser(exact: bool) -> Callable[[str], Any]:
    """Return a parser; an exact one keeps all digits of numbers."""
    return json.JSONDecoder(parse_float=Decimal).decode if exact else json.loads


def _empty(data: bytes, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return no rows for a block of blank lines, which Arrow's reader refuses like others that are wrong."""
    return pa.RecordBatch.from_pylist([], schema=schema) if not data.strip() else None


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _row_type(names: Sequence[str], types: Sequence[logical.LogicalType]) -> logical.RowType:
    return logical.row_type(dict(zip(names, types, strict=True)))


def _holds_decimal(of: logical.LogicalType) -> bool:
    match of:
        case logical.DecimalType():
            return True
        case logical.ArrayType():
            return _holds_decimal(of.element)
        case logical.MapType():
            return _holds_decimal(of.key) or _holds_decimal(of.value)
        case logical.RowType():
            return any(_holds_decimal(field.type) for field in of.fields)
    return False


def _readable(of: logical.LogicalType, rules: JsonRules) -> tuple[pa.DataType, Finish | None] | None:
    """Return the type as which Arrow reads a column, and what makes the declared one; None if Arrow cannot."""
    wanted = arrow_type(of)
    separator = " " if rules.timestamp_format == "SQL" else "T"
    match of:
        case logical.TimestampType():
            return pa.string(), lambda texts: timestamps_of(texts, wanted, separator, zoned=False)
        case logical.LocalZonedTimestampType():
            return pa.string(), lambda texts: timestamps_of(texts, wanted, separator, zoned=True)
        case logical.DateType():
            return pa.string(), lambda texts: texts.cast(wanted)
        case logical.TimeType():
            return pa.string(), times_of
        case logical.DayTimeIntervalType():
            return pa.int64(), lambda numbers: numbers.cast(wanted)
        case logical.ArrayType():
            return _readable_list(of, rules)
        case logical.RowType():
            return _readable_row(of, rules)
        case logical.MapType() | logical.MultisetType() | logical.BinaryType() | logical.VarBinaryType():
            return None
        case logical.RawType() | logical.NullType() | logical.DescriptorType():
            return None
    return wanted, None


def _readable_list(of: logical.ArrayType, rules: JsonRules) -> tuple[pa.DataType, Finish | None] | None:
    element = _readable(of.element, rules)
    if element is None:
        return None
    read_as, finish = element

    def finished(column: pa.ListArray) -> pa.Array:
        assert finish is not None
        values = finish(column.values)
        return pa.ListArray.from_buffers(
            pa.list_(values.type), len(column), column.buffers()[:2], offset=column.offset, children=[values]
        )

    return pa.list_(read_as), None if finish is None else finished


def _readable_row(of: logical.RowType, rules: JsonRules) -> tuple[pa.DataType, Finish | None] | None:
    fields = [_readable(field.type, rules) for field in of.fields]
    if any(each is None for each in fields) or not fields:
        return None
    pairs = [each for each in fields if each is not None]
    read_as = pa.struct([pa.field(field.name, of) for field, (of, _) in zip(of.fields, pairs, strict=True)])
    if all(finish is None for _, finish in pairs):
        return read_as, None
    wanted = arrow_type(of)

    def finished(column: pa.StructArray) -> pa.Array:
        children = [
            child if finish is None else finish(child)
            for (_, finish), child in zip(pairs, (column.field(i) for i in range(len(pairs))), strict=True)
        ]
        return pa.StructArray.from_arrays(
            children, fields=list(wanted), mask=column.is_null() if column.null_count else None
        )

    return read_as, finished
