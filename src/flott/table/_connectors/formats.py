"""Formats of messages and files, by name: the options of each, and what decodes and encodes columns.

A format is a frozen value that travels to tasks; its decoders and encoders are made there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from flott.common.config_options import ConfigOption
from flott.errors import ProgramError
from flott.table._connectors.options import TableOptions, key
from flott.table._connectors.table_source import ChangelogMode
from flott.table._types.logical import LogicalType

if TYPE_CHECKING:
    from flott.runtime.connectors.columns.decoded import ColumnDecoder, ColumnEncoder


@dataclass(frozen=True)
class MessageFormat(ABC):
    """Rows as bytes. ``names`` and ``types`` are all the fields that a message has."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]

    #: How files of it are cut: between any two lines, between records, or not at all.
    layout: ClassVar[str] = "lines"
    changelog: ClassVar[ChangelogMode] = ChangelogMode.INSERT_ONLY

    @property
    def skips_bad_messages(self) -> bool:
        """Return whether a message that cannot be decoded is left out."""
        return bool(getattr(self, "ignore_parse_errors", False))

    @abstractmethod
    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        """Return what decodes some of the fields. A row type may have fewer fields than declared."""

    @abstractmethod
    def encoder(self) -> ColumnEncoder:
        """Return what encodes rows of all fields."""


@dataclass(frozen=True)
class JsonMessages(MessageFormat):
    """JSON objects."""

    timestamp_format: str = "SQL"
    fail_on_missing_field: bool = False
    ignore_parse_errors: bool = False
    decimal_as_plain_number: bool = False
    ignore_null_fields: bool = False

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.json_columns import JsonColumnDecoder
        from flott.runtime.connectors.columns.json_values import JsonRules

        rules = JsonRules(self.timestamp_format, self.fail_on_missing_field, self.ignore_parse_errors)
        return JsonColumnDecoder(names, types, rules)

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.json_text import JsonNotation, JsonTextEncoder

        notation = JsonNotation(
            self.timestamp_format,
            self.decimal_as_plain_number,
            self.ignore_null_fields,
        )
        return JsonTextEncoder(self.names, self.types, notation)


@dataclass(frozen=True)
class CsvMessages(MessageFormat):
    """Separated values, without a header."""

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    null_literal: str | None = None
    array_delimiter: str = ";"
    allow_comments: bool = False
    ignore_parse_errors: bool = False

    layout: ClassVar[str] = "records"

    def _rules(self) -> Any:
        from flott.runtime.connectors.columns.csv_columns import CsvRules

        return CsvRules(
            self.delimiter,
            self.quote,
            self.escape,
            self.null_literal,
            self.array_delimiter,
            self.allow_comments,
            self.ignore_parse_errors,
        )

    def decoder(self, names: Sequence[str], types: Sequence[LogicalType]) -> ColumnDecoder:
        from flott.runtime.connectors.columns.csv_columns import CsvColumnDecoder

        return CsvColumnDecoder(self.names, self.types, names, self._rules())

    def encoder(self) -> ColumnEncoder:
        from flott.runtime.connectors.columns.csv_columns import CsvTextEncoder

        return CsvTextEncoder(self.names, self.types, self._rules())


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet: a format of files only."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]
    compression: str = "snappy"
    utc_timezone: bool = False

    layout: ClassVar[str] = "rows"
    changelog: ClassVar[ChangelogMode] = ChangelogMode.INSERT_ONLY
    skips_bad_messages: ClassVar[bool] = False


#: Makes a format of the fields of a table and its options.
MakeFormat = Callable[[tuple[str, ...], tuple[LogicalType, ...], TableOptions], Any]


@dataclass(frozen=True)
class FormatFactory:
    """A format by its name in 'format', and the options that it knows, without its prefix."""

    name: str
    make: MakeFormat
    options: tuple[ConfigOption[Any], ...] = ()
    files: bool = True  #: whether it is a format of files
    messages: bool = True  #: whether it is a format of messages
    description: str = field(default="", compare=False)


# --- json ------------------------------------------------------------------------------------------------------------

_IGNORE_ERRORS = (
    key("ignore-parse-errors").boolean_type().default_value(False)
    .with_description("Leave out messages that cannot be decoded, and read fields that cannot be as NULL.")
)  # fmt: skip
_FAIL_ON_MISSING = (
    key("fail-on-missing-field").boolean_type().default_value(False)
    .with_description("Fail if a field is missing, instead of reading it as NULL.")
)  # fmt: skip
_TIMESTAMP_STANDARD = (
    key("timestamp-format.standard").string_type().default_value("SQL")
    .with_description("How timestamps are written: SQL (2026-01-31 12:30:00.5) or ISO-8601 (2026-01-31T12:30:00.5).")
)  # fmt: skip
_NULL_KEY_MODE = (
    key("map-null-key.mode").string_type().default_value("FAIL")
    .with_description("FAIL, DROP or LITERAL. No effect: columns hold no NULL as the key of a map.")
)  # fmt: skip
_NULL_KEY_LITERAL = (
    key("map-null-key.literal").string_type().default_value("null")
    .with_description("Accepted and ignored, see map-null-key.mode.")
)  # fmt: skip
_PLAIN_DECIMALS = (
    key("encode.decimal-as-plain-number").boolean_type().default_value(False)
    .with_description("Write decimals with all their digits and no exponent.")
)  # fmt: skip
_IGNORE_NULLS = (
    key("encode.ignore-null-fields").boolean_type().default_value(False)
    .with_description("Leave out fields that are NULL.")
)  # fmt: skip
_JSON_PARSER = (
    key("decode.json-parser.enabled").boolean_type().default_value(True)
    .with_description("Accepted and ignored: there is one parser.")
)  # fmt: skip

JSON_OPTIONS = (
    _FAIL_ON_MISSING, _IGNORE_ERRORS, _TIMESTAMP_STANDARD, _NULL_KEY_MODE, _NULL_KEY_LITERAL, _PLAIN_DECIMALS,
    _IGNORE_NULLS, _JSON_PARSER,
)  # fmt: skip


def json_format(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> JsonMessages:
    """Return the format 'json' as a table's options say."""
    options.chosen(_NULL_KEY_MODE, ("FAIL", "DROP", "LITERAL"))
    missing, ignore = options.get(_FAIL_ON_MISSING), options.get(_IGNORE_ERRORS)
    if missing and ignore:
        raise ProgramError(
            f"Table {options.table}: '{options.prefix}fail-on-missing-field' and"
            f" '{options.prefix}ignore-parse-errors' exclude each other."
        )
    return JsonMessages(
        names,
        types,
        options.chosen(_TIMESTAMP_STANDARD, ("SQL", "ISO-8601")),
        missing,
        ignore,
        options.get(_PLAIN_DECIMALS),
        options.get(_IGNORE_NULLS),
    )


# --- csv -------------------------------------------------------------------------------------------------------------

_DELIMITER = (
    key("field-delimiter").string_type().default_value(",")
    .with_description("The character between fields.")
)  # fmt: skip
_QUOTE = (
    key("quote-character").string_type().default_value('"')
    .with_description("The character around fields that hold special characters.")
)  # fmt: skip
_NO_QUOTE = (
    key("disable-quote-character").boolean_type().default_value(False)
    .with_description("Do without quotes.")
)  # fmt: skip
_COMMENTS = (
    key("allow-comments").boolean_type().default_value(False)
    .with_description("Leave out lines that begin with #.")
)  # fmt: skip
_ARRAY_DELIMITER = (
    key("array-element-delimiter").string_type().default_value(";")
    .with_description("What stands between the elements of arrays and the fields of rows.")
)  # fmt: skip
_ESCAPE = (
    key("escape-character").string_type().no_default_value()
    .with_description("The character before special characters.")
)  # fmt: skip
_NULL_LITERAL = (
    key("null-literal").string_type().no_default_value()
    .with_description("The text that stands for NULL. An empty field that is no text is NULL in any case.")
)  # fmt: skip
_SCIENTIFIC = (
    key("write-bigdecimal-in-scientific-notation").boolean_type().default_value(True)
    .with_description("Accepted and ignored: decimals are written with all their digits.")
)  # fmt: skip

CSV_OPTIONS = (
    _DELIMITER, _QUOTE, _NO_QUOTE, _COMMENTS, _IGNORE_ERRORS, _ARRAY_DELIMITER, _ESCAPE, _NULL_LITERAL, _SCIENTIFIC,
)  # fmt: skip


def csv_format(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> CsvMessages:
    """Return the format 'csv' as a table's options say."""
    delimiter = options.character(_DELIMITER)
    assert delimiter is not None
    return CsvMessages(
        names,
        types,
        delimiter,
        None if options.get(_NO_QUOTE) else options.character(_QUOTE),
        options.character(_ESCAPE),
        options.get(_NULL_LITERAL),
        options.get(_ARRAY_DELIMITER),
        options.get(_COMMENTS),
        options.get(_IGNORE_ERRORS),
    )


# --- parquet ---------------------------------------------------------------------------------------------------------

_COMPRESSION = (
    key("compression").string_type().default_value("snappy")
    .with_description("How Parquet files are compressed: snappy, zstd, gzip, lz4, brotli or none.")
)  # fmt: skip
_UTC = (
    key("utc-timezone").boolean_type().default_value(False)
    .with_description("Accepted and ignored: timestamps have no time zone.")
)  # fmt: skip


def parquet_format(names: tuple[str, ...], types: tuple[LogicalType, ...], options: TableOptions) -> ParquetFiles:
    """Return the format 'parquet' as a table's options say."""
    choices = ("snappy", "zstd", "gzip", "lz4", "brotli", "none", "uncompressed")
    chosen = options.chosen(_COMPRESSION, choices)
    return ParquetFiles(names, types, "none" if chosen == "uncompressed" else chosen)


FACTORIES = (
    FormatFactory("json", json_format, JSON_OPTIONS, description="JSON objects, one in a message or line."),
    FormatFactory("csv", csv_format, CSV_OPTIONS, description="Separated values, without a header."),
    FormatFactory("parquet", parquet_format, (_COMPRESSION, _UTC), messages=False, description="Parquet files."),
)
