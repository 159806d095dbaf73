"""Separated values as columns, and back. A block of lines is read at a time by Arrow's reader. Task side.

What Arrow refuses is decoded again record by record, so that the record at fault is known.
"""

from __future__ import annotations

import csv
import io
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from flott.errors import ProgramError, TypeMismatchError
from flott.runtime.connectors.columns.decoded import DecodedColumns, decoded_one_by_one
from flott.runtime.connectors.columns.json_text import JsonNotation, joined_lines, json_texts
from flott.runtime.connectors.columns.json_values import JsonRules, json_converter
from flott.runtime.connectors.columns.rows import batch_of, columns_of_rows
from flott.runtime.connectors.columns.times import (
    parse_timestamp_text,
    time_texts,
    times_of,
    timestamp_texts,
    timestamps_of,
)
from flott.table._types import logical
from flott.table._types.arrow import arrow_schema, arrow_type

_FIELD_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class CsvRules:
    """How fields are separated and quoted, and how strictly they are read."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    array_delimiter: str = ";"
    allow_comments: bool = False
    ignore_parse_errors: bool = False


class CsvColumnDecoder:
    """Decodes lines as rows. All columns of a line are declared; only some of them are made."""

    def __init__(
        self,
        declared: Sequence[str],
        declared_types: Sequence[logical.LogicalType],
        names: Sequence[str],
        rules: CsvRules,
    ):
        csv.field_size_limit(_FIELD_LIMIT)
        types = dict(zip(declared, declared_types, strict=True))
        self._rules = rules
        self._width = len(declared)
        self._schema = arrow_schema(names, [types[name] for name in names])
        self._positions = [list(declared).index(name) for name in names]
        self._converters = [_text_converter(types[name], rules) for name in names]
        self._finish = [_finisher(types[name]) for name in names]
        self._parse = pa_csv.ParseOptions(
            delimiter=rules.delimiter,
            quote_char=rules.quote if rules.quote is not None else False,
            double_quote=rules.escape is None,
            escape_char=rules.escape if rules.escape is not None else False,
            newlines_in_values=rules.quote is not None,
        )
        # With no column asked for, one is read to count the lines.
        wanted = list(names) or [declared[0]]
        self._convert = pa_csv.ConvertOptions(
            check_utf8=True,
            column_types={name: _read_as(types[name]) for name in wanted},
            include_columns=wanted,
            null_values=[""] if rules.null_literal is None else ["", rules.null_literal],
            strings_can_be_null=False,
            quoted_strings_can_be_null=True,
            true_values=["true", "TRUE", "True"],
            false_values=["false", "FALSE", "False"],
        )
        self._columns_by_position = [str(name) for name in declared]

    def block(self, data: bytes) -> pa.RecordBatch | None:
        """Return the rows of a block of whole records; None if Arrow's reader refuses it."""
        rules = self._rules
        if rules.allow_comments or rules.escape is not None or not data.strip(b"\r\n"):
            return None
        reading = pa_csv.ReadOptions(
            use_threads=False, block_size=max(1024, len(data) + 1), column_names=self._columns_by_position
        )
        try:
            table = pa_csv.read_csv(pa.BufferReader(data), reading, self._parse, self._convert)
            columns = [column.combine_chunks() for column in table.columns][: len(self._finish)]
            arrays = [finish(column, rules) for finish, column in zip(self._finish, columns, strict=True)]
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        return batch_of(arrays, self._schema, table.num_rows)

    def decode(self, messages: Sequence[bytes]) -> DecodedColumns:
        """Return the rows of records."""
        if messages and b"" not in messages:
            columns = self.block(b"\n".join(message.rstrip(b"\r\n") for message in messages))
            if columns is not None and columns.num_rows == len(messages):
                return DecodedColumns(columns)
        return decoded_one_by_one(messages, self._row, lambda rows: columns_of_rows(rows, self._schema))

    def _row(self, message: bytes) -> dict[str, Any] | None:
        text = message.decode().rstrip("\r\n")
        rules = self._rules
        if not text or (rules.allow_comments and text.startswith("#")):
            return None
        fields = next(csv.reader(io.StringIO(text, newline=""), strict=True, **_dialect(rules)))
        if len(fields) != self._width:
            if not rules.ignore_parse_errors:
                raise ValueError(f"expected {self._width} fields, found {len(fields)}")
            fields = (fields + [""] * self._width)[: self._width]
        return {
            field.name: convert(fields[at])
            for field, at, convert in zip(self._schema, self._positions, self._converters, strict=True)
        }


def records_of(block: bytes, quote: str | None) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a block, each with its position: lines, or several where a quoted field has line ends."""
    start = position = 0
    mark = None if quote is None else quote.encode()
    while position < len(block):
        position = block.find(b"\n", position) + 1 or len(block)
        if mark is not None and position < len(block) and block.count(mark, start, position) % 2:
            continue
        yield start, block[start:position]
        start = position


def ends_in_quotes(block: bytes, quote: str | None) -> bool:
    """Return whether a block that begins with a record ends within a quoted field."""
    return quote is not None and block.count(quote.encode()) % 2 == 1


def _dialect(rules: CsvRules) -> dict[str, Any]:
    return {
        "delimiter": rules.delimiter,
        "quotechar": rules.quote,
        "escapechar": rules.escape,
        "doublequote": rules.escape is None,
        "quoting": csv.QUOTE_NONE if rules.quote is None else csv.QUOTE_MINIMAL,
    }


def _read_as(of: logical.LogicalType) -> pa.DataType:
    if isinstance(of, logical.BooleanType | logical.IntegerType | logical.FloatType | logical.DoubleType):
        return arrow_type(of)
    return pa.string()


def _finisher(of: logical.LogicalType) -> Callable[[pa.Array, CsvRules], pa.Array]:
    """Return what makes a declared column from the one that Arrow's reader made."""
    wanted = arrow_type(of)
    match of:
        case logical.BooleanType() | logical.IntegerType() | logical.FloatType() | logical.DoubleType():
            return lambda column, rules: column
        case logical.CharType() | logical.VarCharType():
            return lambda column, rules: _without(column, rules.null_literal)
        case logical.TimestampType():
            return lambda column, rules: timestamps_of(_present(column, rules), wanted, None, zoned=False)
        case logical.LocalZonedTimestampType():
            return lambda column, rules: timestamps_of(_present(column, rules), wanted, None, zoned=True)
        case logical.DateType():
            return lambda column, rules: _present(column, rules).cast(wanted)
        case logical.TimeType():
            return lambda column, rules: times_of(_present(column, rules))
        case logical.DecimalType():
            return lambda column, rules: _decimals(_present(column, rules), wanted)

    def one_by_one(column: pa.Array, rules: CsvRules) -> pa.Array:
        convert = _text_converter(of, rules)
        try:
            return pa.array([convert(text) for text in column.to_pylist()], type=wanted)
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from error

    return one_by_one


def _decimals(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return texts as decimals. Arrow cuts off digits that do not fit, so those are left to the exact rules."""
    number = column.cast(wanted)
    if wanted.scale < wanted.precision:
        fine = pc.match_substring_regex(column, pattern=rf"^\s*[+-]?\d*(\.\d{{0,{wanted.scale}}})?\s*$")
        if not pc.all(fine, skip_nulls=True).as_py():
            raise pa.ArrowInvalid("a decimal has more digits than its type")
    return number


def _without(column: pa.Array, null_literal: str | None) -> pa.Array:
    return column if null_literal is None else pc.if_else(pc.equal(column, null_literal), None, column)


def _present(column: pa.Array, rules: CsvRules) -> pa.Array:
    """Return texts with NULL for empty ones, as in every type but that of texts."""
    column = _without(column, rules.null_literal)
    return pc.if_else(pc.equal(pc.binary_length(column), 0), None, column)


def _text_converter(of: logical.LogicalType, rules: CsvRules) -> Callable[[str], Any]:
    """Return what converts the text of a field; it raises ``ValueError``."""
    null = rules.null_literal
    strings = isinstance(of, logical.CharType | logical.VarCharType)
    convert = _present_converter(of, rules)

    def converted(text: str) -> Any:
        if text == null or (not strings and not text):
            return None
        try:
            return convert(text)
        except (ValueError, TypeError, ArithmeticError) as error:
            if rules.ignore_parse_errors:
                return None
            raise ValueError(f"expected {of.as_nullable()}, found {text!r:.80}: {error}") from None

    return converted


def _present_converter(of: logical.LogicalType, rules: CsvRules) -> Callable[[str], Any]:
    match of:
        case logical.ArrayType():
            element = _text_converter(of.element, rules)
            return lambda text: [element(part) for part in text.split(rules.array_delimiter)]
        case logical.RowType():
            parts = [(field.name, _text_converter(field.type, rules)) for field in of.fields]
            return lambda text: {
                name: each(part)
                for (name, each), part in zip(parts, text.split(rules.array_delimiter), strict=True)
            }
        case logical.MapType() | logical.MultisetType():
            raise ProgramError(f"CSV has no form of the type {of}.")
        case logical.BinaryType() | logical.VarBinaryType():
            return lambda text: b64decode(text, validate=True)
        case logical.TimestampType() | logical.LocalZonedTimestampType():
            zoned = isinstance(of, logical.LocalZonedTimestampType)
            return lambda text: parse_timestamp_text(text, None, of.precision, zoned)
    return json_converter(of, JsonRules())


# --- writing ---------------------------------------------------------------------------------------------------------


class CsvTextEncoder:
    """Encodes rows as lines of separated values."""

    def __init__(self, names: Sequence[str], types: Sequence[logical.LogicalType], rules: CsvRules):
        self._rules = rules
        self._writers = [_field_texts(of, rules) for of in types]
        special = "".join(f"\\x{ord(char):02x}" for char in {rules.delimiter, rules.quote or rules.delimiter})
        #: What makes a field need quotes.
        self._special = rf"[{special}\r\n]"

    def encode(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> pa.Array:
        """Return a line for each row, without its end."""
        return self._texts(columns).cast(pa.binary())

    def lines(self, columns: pa.RecordBatch, kinds: np.ndarray[Any, Any] | None) -> bytes:
        """Return the lines of a file."""
        return joined_lines(self._texts(columns))

    def _texts(self, columns: pa.RecordBatch) -> pa.Array:
        null = self._rules.null_literal or ""
        cells = [
            pc.fill_null(self._guarded(write(column)), null)
            for write, column in zip(self._writers, columns.columns, strict=True)
        ]
        if len(cells) == 1:
            return cells[0]
        return pc.binary_join_element_wise(*cells, self._rules.delimiter)

    def _guarded(self, texts: pa.Array) -> pa.Array:
        rules = self._rules
        special = pc.fill_null(pc.match_substring_regex(texts, pattern=self._special), False)
        if not pc.any(special).as_py():
            return texts
        if rules.quote is None and rules.escape is None:
            raise TypeMismatchError("A text holds the field delimiter or a line end, and the format has no quotes.")
        if rules.quote is None:
            assert rules.escape is not None
            return pc.replace_substring(texts, rules.delimiter, rules.escape + rules.delimiter)
        doubled = pc.replace_substring(texts, rules.quote, (rules.escape or rules.quote) + rules.quote)
        return pc.if_else(special, pc.binary_join_element_wise(rules.quote, doubled, rules.quote, ""), texts)


def _field_texts(of: logical.LogicalType, rules: CsvRules) -> Callable[[pa.Array], pa.Array]:
    match of:
        case logical.CharType() | logical.VarCharType():
            return lambda column: column
        case logical.DateType():
            return lambda column: column.cast(pa.string())
        case logical.TimeType():
            return time_texts
        case logical.TimestampType():
            return lambda column: timestamp_texts(column, " ", zoned=False)
        case logical.LocalZonedTimestampType():
            return lambda column: timestamp_texts(column, " ", zoned=True)
        case logical.BinaryType() | logical.VarBinaryType():
            return lambda column: pa.array(
                [None if value is None else b64encode(value).decode("ascii") for value in column.to_pylist()],
                type=pa.string(),
            )
        case logical.ArrayType():
            element = _field_texts(of.element, rules)
            return lambda column: _joined_elements(column, element, rules)
        case logical.RowType():
            parts = [_field_texts(field.type, rules) for field in of.fields]
            return lambda column: pc.if_else(
                column.is_valid(),
                pc.binary_join_element_wise(
                    *(pc.fill_null(part(child), "") for part, child in zip(parts, column.flatten(), strict=True)),
                    rules.array_delimiter,
                ),
                None,
            )
        case logical.MapType() | logical.MultisetType():
            raise ProgramError(f"CSV has no form of the type {of}.")
    return json_texts(of, JsonNotation(decimal_as_plain_number=True))


def _joined_elements(column: pa.ListArray, element: Callable[[pa.Array], pa.Array], rules: CsvRules) -> pa.Array:
    texts = pc.fill_null(element(column.flatten()), rules.null_literal or "").to_pylist()
    rows: list[str | None] = []
    at = 0
    for length in pc.list_value_length(column).to_pylist():
        rows.append(None if length is None else rules.array_delimiter.join(texts[at : at + length]))
        at += length or 0
    return pa.array(rows, type=pa.string())
