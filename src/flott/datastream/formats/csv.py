"""CSV: the schema of files, how to read and write them, and rows as messages. Values only.

PyFlink's schema uses column types of the Table API; here a Python type such as ``int`` is also accepted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, NoReturn

from flott.common.serialization import Encoder
from flott.common.types import Row
from flott.datastream._ignored_settings import without_effect
from flott.datastream.connectors.file_system._formats import Converter, CsvFormat
from flott.datastream.formats._csv_rows import CsvRowDeserializationSchema, CsvRowSerializationSchema, EchoFile
from flott.errors import ProgramError, TypeMismatchError

__all__ = [
    "CsvSchema",
    "CsvSchemaBuilder",
    "CsvReaderFormat",
    "CsvBulkWriters",
    "CsvEncoder",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
]


@dataclass(frozen=True)
class CsvSchema:
    """The columns of a file and their format."""

    names: tuple[str, ...]
    types: tuple[Converter, ...]
    array_separators: tuple[str | None, ...]  #: per column; ``None``: no array
    column_separator: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    line_separator: str = "\n"
    null_value: str | None = None
    use_header: bool = False
    strict_headers: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        return CsvSchemaBuilder()

    def size(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return len(self.names)


class CsvSchemaBuilder:
    """Collects columns and settings.

    >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
    >>> schema.names
    ('id', 'name')
    """

    def __init__(self) -> None:
        self._columns: list[tuple[str, Converter, str | None]] = []
        self._settings: dict[str, Any] = {}

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = None) -> CsvSchemaBuilder:
        """Add a column with several values in one field. The values are text unless ``element_type`` is given."""
        element = str if element_type is None else converter_of(element_type)
        self._columns.append((name, partial(_parse_array, separator, element), separator))
        return self

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        self._columns.append((name, bool, None))
        return self

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """Add a column of integers, or of ``number_type``: ``float``, ``Decimal`` or a type of the Table API."""
        self._columns.append((name, int if number_type is None else converter_of(number_type), None))
        return self

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        self._columns.append((name, str, None))
        return self

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        self._columns += zip(schema.names, schema.types, schema.array_separators, strict=True)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        self._columns.clear()
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Accept and ignore the setting, for ported programs."""
        without_effect(f"set_array_element_separator({separator!r})", "add_array_column() names the separator")
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Accept and ignore the setting, for ported programs."""
        without_effect("disable_array_element_separator()", "add_array_column() names the separator")
        return self

    def remove_array_element_separator(self, index: int) -> NoReturn:
        """Refuse the call: a column without an array is not an array column."""
        raise ProgramError(
            f"remove_array_element_separator({index}) would make an array column one of text. Add it with"
            " add_string_column() in the first place."
        )

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Refuse comments: a line that begins with ``#`` is a record."""
        if allow:
            raise ProgramError(
                "set_allow_comments() asks to skip lines that begin with '#', which Flott's reader does not do. Read"
                " the file as text lines, filter() them, and parse what remains."
            )
        return self

    def set_any_property_name(self, name: str) -> NoReturn:
        """Refuse the call: every column has its own name."""
        raise ProgramError(
            f"set_any_property_name({name!r}) asks to collect columns that the schema does not name, which Flott's"
            " reader does not do. Add a column for each."
        )

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        return self._set("column_separator", _one_character("column separator", char))

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        return self._set("escape_char", _one_character("escape character", char))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        return self._set("escape_char", None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        return self._set("quote_char", _one_character("quote", char))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        return self._set("quote_char", None)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator for writing. Readers accept ``\\n`` and ``\\r\\n``."""
        return self._set("line_separator", separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        return self._set("null_value", null_value)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        return self._set("strict_headers", strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        return self._set("use_header", use)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skip the first row."""
        return self._set("use_header", skip)

    def size(self) -> int:
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def build(self) -> CsvSchema:
        names, types, separators = zip(*self._columns, strict=True) if self._columns else ((), (), ())
        return CsvSchema(names, types, separators, **self._settings)

    def _set(self, name: str, value: object) -> CsvSchemaBuilder:
        self._settings[name] = value
        return self


class CsvReaderFormat:
    """Reads files of a schema as rows."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvFormat:
        """Return the format for ``FileSource.for_record_stream_format``."""
        return CsvFormat(
            header=schema.use_header,
            delimiter=schema.column_separator,
            names=schema.names,
            types=schema.types,
            record="row",
            quote_char=schema.quote_char,
            escape_char=schema.escape_char,
            null_literal=schema.null_value,
            strict_header=schema.strict_headers,
        )


class CsvBulkWriters:
    """Writes rows as files of a schema."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvEncoder:
        """Return the factory for ``FileSink.for_bulk_format``."""
        return CsvEncoder(
            names=schema.names,
            delimiter=schema.column_separator,
            with_header=schema.use_header,
            quote_char=schema.quote_char,
            escape_char=schema.escape_char,
            line_separator=schema.line_separator,
            null_literal=schema.null_value or "",
            array_separators=schema.array_separators,
        )


@dataclass(frozen=True)
class CsvEncoder(Encoder):
    """Writes one line of separated values per record: a tuple, a row, or a dict if there are names. Flott only.

    >>> CsvEncoder(names=("id", "name")).encode({"id": 1, "name": "Ada, Countess"})
    b'1,"Ada, Countess"\\n'
    """

    names: tuple[str, ...] | None = None
    delimiter: str = ","
    with_header: bool = False  #: every part file begins with the names
    quote_char: str | None = '"'
    escape_char: str | None = None
    line_separator: str = "\n"
    null_literal: str = ""
    array_separators: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        if self.with_header and not self.names:
            raise ProgramError("A CSV file begins with the names of its columns only if they are given: pass names=….")

    @property
    def header(self) -> bytes:
        """Return the first line of every part file."""
        return self._line(self.names) if self.with_header and self.names else b""

    def encode(self, element: Any) -> bytes:
        return self._line(self._fields(element))

    def _fields(self, element: Any) -> list[Any]:
        if isinstance(element, dict):
            if self.names is None or element.keys() - set(self.names):
                raise TypeMismatchError(f"Expected a record with the fields {self.names}, found {element!r}.")
            values = [element.get(name) for name in self.names]
        elif isinstance(element, (tuple, list, Row)):
            values = list(element)
        else:
            raise TypeMismatchError(f"A line of CSV holds a tuple, a row or a dict, found {element!r}.")
        if self.names is not None and len(values) != len(self.names):
            raise TypeMismatchError(f"Expected the {len(self.names)} fields {self.names}, found {element!r}.")
        return [self._text(position, value) for position, value in enumerate(values)]

    def _text(self, position: int, value: Any) -> Any:
        if value is None:
            return self.null_literal
        if isinstance(value, bool):
            return "true" if value else "false"
        separator = self.array_separators[position] if position < len(self.array_separators) else None
        return separator.join(map(str, value)) if separator is not None else value

    def _line(self, fields: Sequence[Any]) -> bytes:
        write = _row_writer(self.delimiter, self.quote_char, self.escape_char, self.line_separator)
        try:
            return write(fields).encode()
        except csv.Error as error:
            raise TypeMismatchError(f"{fields!r} cannot be written as CSV: {error}. Allow quotes.") from error


@lru_cache
def _row_writer(
    delimiter: str, quote_char: str | None, escape_char: str | None, line_separator: str
) -> Callable[[Sequence[Any]], str]:
    """Return a function from fields to their line. A csv writer returns what its file's ``write`` returns."""
    dialect: dict[str, Any] = {
        "delimiter": delimiter,
        "quotechar": quote_char,
        "escapechar": escape_char,
        "lineterminator": line_separator,
        "quoting": csv.QUOTE_NONE if quote_char is None else csv.QUOTE_MINIMAL,
    }
    return csv.writer(EchoFile(), **dialect).writerow


#: Types of the Table API by the name of their class, so that this module does not have to import it.
_TABLE_TYPES: dict[str, Converter] = {
    "VarCharType": str, "CharType": str, "BooleanType": bool, "TinyIntType": int, "SmallIntType": int, "IntType": int,
    "BigIntType": int, "FloatType": float, "DoubleType": float, "DecimalType": Decimal,
}  # fmt: skip


def converter_of(type: Any) -> Callable[[str], Any]:
    """Return the function that converts the text of a field to a value of a type."""
    name = type.__class__.__name__
    if name in _TABLE_TYPES:
        return _TABLE_TYPES[name]
    if callable(type):
        return type  # type: ignore[no-any-return]
    raise ProgramError(f"Expected a type such as int, float or DataTypes.INT(), found {type!r}.")


def _parse_array(separator: str, element: Converter, text: str) -> list[Any]:
    return [element(part) for part in text.split(separator)]


def _one_character(what: str, char: str) -> str:
    if len(char) != 1:
        raise ProgramError(f"A {what} is one character, found {char!r}.")
    return char
