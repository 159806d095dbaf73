"""Columns as JSON: the text of each column is made at once, and the texts of a row are joined. Task side."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.runtime.connectors.columns.times import time_texts, timestamp_texts
from flott.table._types import logical

#: Makes the JSON text of each value of a column; NULL stays NULL.
Texts = Callable[[pa.Array], pa.Array]

#: What must not stand in a JSON text as it is.
_SPECIAL = r'["\\\x00-\x1f]'


@dataclass(frozen=True)
class JsonNotation:
    """How values are written."""

    timestamp_format: str = "SQL"
    decimal_as_plain_number: bool = False
    ignore_null_fields: bool = False


class JsonTextEncoder:
    """Encodes rows as JSON objects."""

    def __init__(self, names: Sequence[str], types: Sequence[logical.LogicalType], notation: JsonNotation):
        fields = tuple(logical.RowField(name, of) for name, of in zip(names, types, strict=True))
        self._texts = _row_texts(logical.RowType(fields), notation)

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a JSON object for each row."""
        return self._texts(_as_struct(columns)).cast(pa.binary())

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Return the objects as lines."""
        return joined_lines(self._texts(_as_struct(columns)))

    def texts(self, columns: pa.RecordBatch) -> pa.Array:
        """Return the JSON objects as text, for formats that wrap them."""
        return self._texts(_as_struct(columns))


def joined_lines(texts: pa.Array) -> bytes:
    """Return texts, none of them NULL, each followed by a line end."""
    if not len(texts):
        return b""
    whole = pc.binary_join_element_wise(texts, "\n", "")
    offsets = np.frombuffer(whole.buffers()[1], dtype=np.int32)[whole.offset : whole.offset + len(whole) + 1]
    return whole.buffers()[2].slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()  # type: ignore[no-any-return]


def _as_struct(columns: pa.RecordBatch) -> pa.StructArray:
    if not columns.num_columns:
        return pa.array([{}] * columns.num_rows, type=pa.struct([]))
    return pa.StructArray.from_arrays(columns.columns, fields=list(columns.schema))


def json_texts(of: logical.LogicalType, notation: JsonNotation) -> Texts:
    """Return what writes the values of a type as JSON."""
    match of:
        case logical.BooleanType() | logical.IntegerType() | logical.YearMonthIntervalType():
            return lambda column: column.cast(pa.string())
        case logical.FloatType() | logical.DoubleType():
            return _float_texts
        case logical.DecimalType():
            return _decimal_texts(notation.decimal_as_plain_number)
        case logical.CharType() | logical.VarCharType():
            return quoted_texts
        case logical.BinaryType() | logical.VarBinaryType() | logical.RawType():
            return _by_value(lambda value: f'"{b64encode(value).decode("ascii")}"')
        case logical.DateType():
            return lambda column: _in_quotes(column.cast(pa.string()))
        case logical.TimeType():
            return lambda column: _in_quotes(time_texts(column))
        case logical.TimestampType():
            separator = " " if notation.timestamp_format == "SQL" else "T"
            return lambda column: _in_quotes(timestamp_texts(column, separator, zoned=False))
        case logical.LocalZonedTimestampType():
            separator = " " if notation.timestamp_format == "SQL" else "T"
            return lambda column: _in_quotes(timestamp_texts(column, separator, zoned=True))
        case logical.DayTimeIntervalType():
            return lambda column: column.cast(pa.int64()).cast(pa.string())
        case logical.ArrayType():
            return _list_texts(json_texts(of.element, notation))
        case logical.MapType():
            return _map_texts(of.key, json_texts(of.value, notation))
        case logical.MultisetType():
            return _map_texts(of.element, json_texts(logical.INT, notation))
        case logical.RowType():
            return _row_texts(of, notation)
        case logical.NullType():
            return lambda column: column.cast(pa.string())
    raise ProgramError(f"JSON has no form of the type {of}.")


def _row_texts(of: logical.RowType, notation: JsonNotation) -> Texts:
    writers = [json_texts(field.type, notation) for field in of.fields]
    labels = [json.dumps(field.name, ensure_ascii=False) + ":" for field in of.fields]

    def texts(column: pa.StructArray) -> pa.Array:
        size = len(column)
        cells = [write(child) for write, child in zip(writers, column.flatten(), strict=True)]
        if not cells:
            whole = pa.array(["{}"] * size, type=pa.string())
        elif notation.ignore_null_fields:
            # Each field begins with a comma, and the first one loses it: what is NULL leaves nothing behind.
            labelled = [
                pc.fill_null(pc.binary_join_element_wise("," + label, cell, ""), "")
                for label, cell in zip(labels, cells, strict=True)
            ]
            inner = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*labelled, ""), 1)
            whole = pc.binary_join_element_wise("{", inner, "}", "")
        else:
            parts: list[Any] = []
            for number, (label, cell) in enumerate(zip(labels, cells, strict=True)):
                parts += [("{" if number == 0 else ",") + label, pc.fill_null(cell, "null")]
            whole = pc.binary_join_element_wise(*parts, "}", "")
        return whole if not column.null_count else pc.if_else(column.is_valid(), whole, None)

    return texts


def _list_texts(write: Texts) -> Texts:
    def texts(column: pa.ListArray) -> pa.Array:
        elements = pc.fill_null(write(column.flatten()), "null")
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        offsets = np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False)))).astype(np.int32)
        whole = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), elements), ",")
        whole = pc.binary_join_element_wise("[", whole, "]", "")
        return whole if not column.null_count else pc.if_else(column.is_valid(), whole, None)

    return texts


def _map_texts(key: logical.LogicalType, write: Texts) -> Texts:
    if not isinstance(key, logical.CharType | logical.VarCharType):
        raise ProgramError(f"A JSON object has texts as keys, found a map with keys of the type {key}.")

    def texts(column: pa.MapArray) -> pa.Array:
        keys, values = column.keys, pc.fill_null(write(column.items), "null")
        at, names, cells = column.offsets.to_pylist(), keys.to_pylist(), values.to_pylist()
        rows: list[str | None] = []
        for row, there in enumerate(column.is_valid().to_pylist()):
            entries = [
                f"{json.dumps(names[index], ensure_ascii=False)}:{cells[index]}"
                for index in (range(at[row], at[row + 1]) if there else ())
            ]
            rows.append("{" + ",".join(entries) + "}" if there else None)
        return pa.array(rows, type=pa.string())

    return texts


def quoted_texts(column: pa.Array) -> pa.Array:
    """Return texts as JSON strings. Those with special characters, which are few, are written one by one."""
    special = pc.match_substring_regex(column, pattern=_SPECIAL)
    if pc.any(special).as_py():
        at = np.flatnonzero(pc.fill_null(special, False).to_numpy(zero_copy_only=False))
        spelled = [json.dumps(text, ensure_ascii=False)[1:-1] for text in column.take(pa.array(at)).to_pylist()]
        column = pc.replace_with_mask(column, pc.fill_null(special, False), pa.array(spelled, type=pa.string()))
    return _in_quotes(column)


def _in_quotes(column: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', column, '"', "")


def _float_texts(column: pa.Array) -> pa.Array:
    if column.type == pa.float32():
        return _by_value(lambda value: _number_text(float(str(np.float32(value)))))(column)
    return _by_value(_number_text)(column)


def _number_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'


def _decimal_texts(plain: bool) -> Texts:
    def text(value: Decimal) -> str:
        stripped = value.normalize()
        return format(value, "f") if plain else _scientific(stripped)

    return _by_value(text)


def _scientific(value: Decimal) -> str:
    """Return a decimal number as Java writes one: with an exponent only if it saves zeros."""
    return str(value).replace("E+0", "")


def _by_value(write: Callable[[Any], str]) -> Texts:
    def texts(column: pa.Array) -> pa.Array:
        return pa.array([None if value is None else write(value) for value in column.to_pylist()], type=pa.string())

    return texts
