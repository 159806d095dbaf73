"""CSV as bytes: a message is a row. Values only; runs in tasks.

A column of texts is converted at a time. Arrays and nested rows stand in one field, their elements separated by the
array element delimiter; bytes are base64. CSV has no form for maps.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.common.typeinfo._basic import BasicType, BasicTypeInfo, TimestampTypeInfo
from flott.common.typeinfo._collections import ExternalTypeInfo, ListTypeInfo, MapTypeInfo, PrimitiveArrayTypeInfo
from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import RecordTypeInfo
from flott.common.typeinfo._type_information import Rejected, TypeInformation
from flott.common.types import Row, restore_row
from flott.datastream.formats._compiled import CompiledSchema
from flott.datastream.formats._json_decoding import JsonReading, column_decoder
from flott.datastream.formats._json_encoding import column_encoder
from flott.datastream.formats.json import UNREADABLE, unreadable
from flott.errors import ProgramError, TypeMismatchError

#: The csv module refuses fields above 128 kB unless it is told otherwise, and messages may be larger.
_FIELD_LIMIT = 2**31 - 1
_LINE_ENDS = ("\n", "\r", "\r\n", "")


@dataclass(frozen=True)
class CsvNotation:
    """How fields are separated and quoted."""

    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    null_literal: str | None = None
    array_delimiter: str = ";"

    def dialect(self) -> dict[str, Any]:
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote_char,
            "escapechar": self.escape_char,
            "doublequote": self.escape_char is None,
            "quoting": csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
        }


@dataclass(frozen=True)
class CsvRowDeserializationSchema(CompiledSchema, DeserializationSchema):
    """Reads a line of separated values as a row of the given type. An empty message is left out.

    >>> from flott.common import Types
    >>> declared = Types.ROW_NAMED(["id", "tags"], [Types.INT(), Types.LIST(Types.STRING())])
    >>> CsvRowDeserializationSchema.Builder(declared).build().deserialize(b"7,a;b")
    Row(id=7, tags=['a', 'b'])
    """

    row_type: RowTypeInfo
    notation: CsvNotation = field(default_factory=CsvNotation)
    allows_comments: bool = False  #: a message that begins with ``#`` is left out
    ignores_parse_errors: bool = False  #: unreadable messages are left out, unreadable fields are null

    def __post_init__(self) -> None:
        _ = self._convert  # refuses a type without a form now, on the driver

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._rows([message.decode()])[0]
        except (*UNREADABLE, csv.Error) as error:
            if self.ignores_parse_errors:
                return None
            raise unreadable("separated values", message, error) from error

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        try:
            return self._rows([message.decode() for message in messages])
        except (*UNREADABLE, csv.Error):
            return list(map(self.deserialize, messages))

    def get_produced_type(self) -> TypeInformation:
        return self.row_type

    @cached_property
    def _convert(self) -> Callable[[list[list[str]]], list[Row]]:
        csv.field_size_limit(_FIELD_LIMIT)
        decoders = [_text_decoder(each, self.notation, self.ignores_parse_errors) for each in self._types]
        names = tuple(self.row_type.get_field_names())

        def convert(lines: list[list[str]]) -> list[Row]:
            columns = []
            for name, decode, column in zip(names, decoders, zip(*lines, strict=True), strict=True):
                try:
                    columns.append(decode(column))
                except Rejected as rejected:
                    raise rejected.under(f".{name}") from None
            return [restore_row(names, values) for values in zip(*columns, strict=True)]

        return convert

    @property
    def _types(self) -> list[TypeInformation]:
        return self.row_type.get_field_types()

    def _rows(self, texts: list[str]) -> list[Row | None]:
        convert = self._convert
        lines = list(csv.reader(texts, strict=True, **self.notation.dialect()))
        if len(lines) != len(texts):
            raise ValueError("a quote is not closed")
        if self.allows_comments:
            lines = [[] if text[:1] == "#" else line for text, line in zip(texts, lines, strict=True)]
        width = len(self._types)
        if set(map(len, lines)) == {width}:
            return [*convert(lines)]
        if self.ignores_parse_errors:
            lines = [(line + [""] * width)[:width] if line else line for line in lines]
        for line in lines:
            if line and len(line) != width:
                raise ValueError(f"it has {len(line)} fields instead of {width}")
        present = [line for line in lines if line]
        rows = iter(convert(present) if present else ())
        return [next(rows) if line else None for line in lines]

    class Builder:
        """Collects the settings."""

        def __init__(self, type_info: TypeInformation):
            self._schema = CsvRowDeserializationSchema(checked_csv_type(type_info))

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._with(delimiter=_one_character("field delimiter", delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Leave out messages that begin with ``#``."""
            self._schema = replace(self._schema, allows_comments=allow_comments)
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            return self._with(array_delimiter=_not_empty(delimiter))

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._with(quote_char=_one_character("quote", c))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            return self._with(escape_char=_one_character("escape character", c))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that stands for null. An empty field that is neither text nor bytes is null too."""
            return self._with(null_literal=null_literal)

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Leave out unreadable messages, and set unreadable fields to null."""
            self._schema = replace(self._schema, ignores_parse_errors=ignore_parse_errors)
            return self

        def build(self) -> CsvRowDeserializationSchema:
            return self._schema

        def _with(self, **settings: Any) -> CsvRowDeserializationSchema.Builder:
            self._schema = replace(self._schema, notation=replace(self._schema.notation, **settings))
            return self


@dataclass(frozen=True)
class CsvRowSerializationSchema(CompiledSchema, SerializationSchema):
    """Writes a row of the given type as a line of separated values."""

    row_type: RowTypeInfo
    notation: CsvNotation = field(default_factory=CsvNotation)
    line_delimiter: str = "\n"

    def __post_init__(self) -> None:
        _ = self._encoders  # refuses a type without a form now, on the driver

    def serialize(self, element: Any) -> bytes:
        return self.serialize_batch([element])[0]

    def serialize_batch(self, elements: Sequence[Any]) -> list[bytes]:
        rows = self.row_type.conform(elements if isinstance(elements, list) else list(elements))
        if not rows:
            return []
        if None in rows:
            raise TypeMismatchError(f"Expected a record of the type {self.row_type!r}, found None: filter it out.")
        columns = zip(*[row._values for row in rows], strict=True)
        texts = [encode(column) for encode, column in zip(self._encoders, columns, strict=True)]
        write, end = self._write, self.line_delimiter
        try:
            return [(write(fields)[:-2] + end).encode() for fields in zip(*texts, strict=True)]
        except csv.Error as error:
            raise TypeMismatchError(f"A row cannot be written as CSV: {error}. Allow quotes or an escape.") from error
        except UnicodeEncodeError as error:
            raise TypeMismatchError(f"CSV is written in UTF-8, found text that is not Unicode: {error}.") from error

    @cached_property
    def _encoders(self) -> list[Callable[[Sequence[Any]], list[str]]]:
        return [_text_encoder(each, self.notation) for each in self.row_type.get_field_types()]

    @cached_property
    def _write(self) -> Callable[[Sequence[str]], str]:
        # A csv writer returns what its file's ``write`` returns. It quotes the characters of its own line end, which is
        # therefore both, and is replaced afterwards.
        return csv.writer(EchoFile(), lineterminator="\r\n", **self.notation.dialect()).writerow

    class Builder:
        """Collects the settings."""

        def __init__(self, type_info: TypeInformation):
            self._schema = CsvRowSerializationSchema(checked_csv_type(type_info))

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._with(delimiter=_one_character("field delimiter", c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set what ends a message: a line end, or nothing."""
            if delimiter not in _LINE_ENDS:
                raise ProgramError(f"A line ends with '\\n', '\\r', '\\r\\n' or '', found {delimiter!r}.")
            self._schema = replace(self._schema, line_delimiter=delimiter)
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            return self._with(array_delimiter=_not_empty(delimiter))

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            return self._with(quote_char=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._with(quote_char=_one_character("quote", c))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            return self._with(escape_char=_one_character("escape character", c))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that stands for null. By default it is empty."""
            return self._with(null_literal=s)

        def build(self) -> CsvRowSerializationSchema:
            return self._schema

        def _with(self, **settings: Any) -> CsvRowSerializationSchema.Builder:
            self._schema = replace(self._schema, notation=replace(self._schema.notation, **settings))
            return self


class EchoFile:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


# ---------------------------------------------------------------------------------------------------------------------
# Fields
# ---------------------------------------------------------------------------------------------------------------------


def _text_decoder(
    declared: TypeInformation, notation: CsvNotation, lenient: bool
) -> Callable[[Sequence[str]], list[Any]]:
    """Return the function from the texts of a column to its values."""
    null = notation.null_literal
    nested = _nested_types(declared)
    if nested is not None:
        return _array_decoder(declared, notation, lenient)
    decode = column_decoder(declared, JsonReading(lenient=lenient))
    if _is_text(declared) or isinstance(declared, PrimitiveArrayTypeInfo):  # an empty text is a value of these
        return lambda texts: decode([None if text == null else text for text in texts])

    def values(texts: Sequence[str]) -> list[Any]:
        return decode([None if text == null or not text else text for text in texts])

    fast = _FAST.get(declared._basic_type) if isinstance(declared, BasicTypeInfo) else None
    if fast is None:
        return values

    def numbers(texts: Sequence[str]) -> list[Any]:
        if null not in texts and "" not in texts and "_" not in "".join(texts):
            try:
                column = list(map(fast, texts))
            except ValueError:
                return values(texts)  # says which one is at fault
            if declared._matches(column):
                return column
        return values(texts)

    return numbers


_FAST: dict[BasicType, Callable[[str], Any]] = {
    BasicType.BYTE: int, BasicType.SHORT: int, BasicType.INT: int, BasicType.LONG: int, BasicType.BIG_INT: int,
    BasicType.DOUBLE: float,
}  # fmt: skip


def _array_decoder(
    declared: TypeInformation, notation: CsvNotation, lenient: bool
) -> Callable[[Sequence[str]], list[Any]]:
    separator = notation.array_delimiter
    if isinstance(declared, ListTypeInfo):
        element = _text_decoder(declared.elem_type, notation, lenient)
        return lambda texts: [
            None if text == notation.null_literal else element(text.split(separator)) if text else [] for text in texts
        ]
    types = _nested_types(declared) or []
    decoders = [_text_decoder(each, notation, lenient) for each in types]
    names = tuple(declared.get_field_names()) if isinstance(declared, RowTypeInfo) else None

    def one(text: str) -> Any:
        if text == notation.null_literal or not text:
            return None
        parts = text.split(separator)
        if len(parts) != len(decoders):
            if lenient:
                return None
            raise Rejected(text, declared, f"it has {len(parts)} parts instead of {len(decoders)}")
        values = [decode([part])[0] for decode, part in zip(decoders, parts, strict=True)]
        return tuple(values) if names is None else restore_row(names, values)

    return lambda texts: list(map(one, texts))


def _text_encoder(declared: TypeInformation, notation: CsvNotation) -> Callable[[Sequence[Any]], list[str]]:
    """Return the function from the values of a column to their texts."""
    null = notation.null_literal or ""
    one = _text_of(declared, notation)
    return lambda column: [null if value is None else one(value) for value in column]


def _text_of(declared: TypeInformation, notation: CsvNotation) -> Callable[[Any], str]:
    if isinstance(declared, ExternalTypeInfo):
        return _text_of(declared._type_info, notation)
    nested = _nested_types(declared)
    if nested is not None:
        null, join = notation.null_literal or "", notation.array_delimiter.join
        if isinstance(declared, ListTypeInfo):
            element = _text_encoder(declared.elem_type, notation)
            return lambda values: join(element(values))
        forms = [_text_of(each, notation) for each in nested]
        return lambda values: join(
            [null if value is None else form(value) for form, value in zip(forms, values, strict=True)]
        )
    if _is_text(declared):
        return str
    encode = column_encoder(declared, "SQL")
    if isinstance(declared, TimestampTypeInfo):  # as java.sql.Timestamp: with a fraction always
        return lambda value: encode([value])[0][1:-1] + ("" if value.microsecond else ".0")
    return lambda value: encode([value])[0].strip('"')


def _is_text(declared: TypeInformation) -> bool:
    if isinstance(declared, ExternalTypeInfo):
        return _is_text(declared._type_info)
    return isinstance(declared, BasicTypeInfo) and declared._basic_type in (BasicType.STRING, BasicType.CHAR)


def _nested_types(declared: TypeInformation) -> list[TypeInformation] | None:
    """Return the types of the elements of one field; None if it holds a single value."""
    match declared:
        case PrimitiveArrayTypeInfo() if declared._holds_bytes():
            return None
        case ListTypeInfo():
            return [declared.elem_type]
        case RowTypeInfo() | TupleTypeInfo():
            return declared.get_field_types()
    return None


def checked_csv_type(type_info: TypeInformation, depth: int = 0) -> RowTypeInfo:
    """Return the type of a row if CSV has a form for it, and refuse others."""
    if depth == 0 and not isinstance(type_info, RowTypeInfo):
        raise ProgramError(f"Expected the type of a row, such as Types.ROW_NAMED(names, types), found {type_info!r}.")
    if isinstance(type_info, (MapTypeInfo, RecordTypeInfo)):
        raise ProgramError(f"CSV has no form for {type_info!r}: use JSON, or map it to text.")
    nested = _nested_types(type_info)
    if nested is not None and depth > 1:
        raise ProgramError(f"A field of CSV holds an array or a row of single values, found {type_info!r} in one.")
    for each in nested or ():
        checked_csv_type(each, depth + 1)
    return type_info  # type: ignore[return-value]


def _one_character(what: str, char: str) -> str:
    if len(char) != 1:
        raise ProgramError(f"A {what} is one character, found {char!r}.")
    return char


def _not_empty(delimiter: str) -> str:
    if not delimiter:
        raise ProgramError("The delimiter of array elements has at least one character, found an empty text.")
    return delimiter
