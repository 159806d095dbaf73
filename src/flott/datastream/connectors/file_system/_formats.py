"""What is in a file, as values: one frozen class per format. ``flott.runtime.connectors.files`` reads them.

    StreamFormat                 record after record, positions are byte offsets; .gz, .bz2 and .xz files are unpacked
    ├── TextLineFormat           str
    ├── JsonLinesFormat          whatever each line holds, usually a dict
    ├── CsvFormat                dict, tuple or Row
    └── AvroFormat               dict or Row; blocks of records, compressed by themselves
    BulkFormat                   many records at a time, positions are row numbers
    └── ParquetFormat            dict or Row
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flott.datastream.connectors.base import OnError
from flott.errors import ProgramError

#: What to do with a record that cannot be read. ``"fail"`` and ``"skip"`` are short for the calls of these names.
ErrorChoice = Literal["fail", "skip"] | OnError

#: Turns the text of a CSV field into its value.
Converter = Callable[[str], Any]


class StreamFormat:
    """Reads records one after the other from the bytes of a file."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """One ``str`` per line, without its line end (``\\n`` or ``\\r\\n``)."""
        return TextLineFormat(charset_name)

    @staticmethod
    def json_lines_format(on_error: ErrorChoice = "fail") -> StreamFormat:
        """One JSON value per line, in UTF-8; blank lines hold no record."""
        return JsonLinesFormat(on_error)

    @staticmethod
    def csv_format(
        header: bool = True,
        delimiter: str = ",",
        names: Sequence[str] | None = None,
        types: Mapping[str, Converter] | Sequence[Converter] | None = None,
        on_error: ErrorChoice = "fail",
        charset_name: str = "UTF-8",
    ) -> StreamFormat:
        """Comma-separated values, quoted with ``"`` where needed; blank lines hold no record.

        With a header line, or with ``names``, records are dicts; ``names`` win over the header. Without either they
        are tuples. ``types`` says what becomes of the text, by name or by position, such as ``{"age": int}``: an empty
        field of a type other than ``str`` is ``None``.
        """
        return CsvFormat(
            header=header,
            delimiter=delimiter,
            names=None if names is None else tuple(names),
            types=dict(types) if isinstance(types, Mapping) else None if types is None else tuple(types),
            on_error=on_error,
            charset_name=charset_name,
            record="dict" if header or names is not None else "tuple",
        )

    @staticmethod
    def avro_format(
        schema: Any = None, record: Literal["dict", "row"] = "dict", on_error: ErrorChoice = "fail"
    ) -> StreamFormat:
        """Records of Avro files, as dicts or rows. Needs ``fastavro``.

        ``schema`` is an ``AvroSchema`` or its JSON text: records that were written with another one are read as of
        this one, where Avro allows it. ``None``: as they were written, each file with its own schema.
        """
        return AvroFormat(None if schema is None else str(schema), record, on_error)


@dataclass(frozen=True)
class TextLineFormat(StreamFormat):
    """Lines of text."""

    charset_name: str = "UTF-8"

    def __post_init__(self) -> None:
        check_charset(self.charset_name)


@dataclass(frozen=True)
class JsonLinesFormat(StreamFormat):
    """JSON values, one on each line, in UTF-8."""

    on_error: ErrorChoice = "fail"

    def __post_init__(self) -> None:
        check_on_error(self.on_error)


@dataclass(frozen=True)
class CsvFormat(StreamFormat):
    """Separated values; a quoted field may hold line ends, so a file is always read from front to back."""

    header: bool = True  #: the first line names the columns and is no record
    delimiter: str = ","
    names: tuple[str, ...] | None = None
    types: dict[str, Converter] | tuple[Converter, ...] | None = None
    on_error: ErrorChoice = "fail"
    charset_name: str = "UTF-8"
    record: Literal["dict", "tuple", "row"] = "dict"
    quote_char: str | None = '"'
    escape_char: str | None = None
    null_literal: str | None = None  #: a field with exactly this text is ``None``
    strict_header: bool = False  #: fail if the header does not say what ``names`` says

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        check_charset(self.charset_name)
        for what, char in (("delimiter", self.delimiter), ("quote", self.quote_char), ("escape", self.escape_char)):
            if char is not None and len(char) != 1:
                raise ProgramError(f"The {what} of a CSV file is one character, found {char!r}.")
        if isinstance(self.types, dict) and self.names is not None and (strange := set(self.types) - set(self.names)):
            raise ProgramError(f"Found types for the columns {sorted(strange)}, but the names are {list(self.names)}.")
        if self.record != "tuple" and not self.header and self.names is None:
            raise ProgramError("A CSV file without a header gives tuples unless the columns are named: pass names=….")


@dataclass(frozen=True)
class AvroFormat(StreamFormat):
    """Records of Avro files. They are cut between blocks."""

    schema: str | None = None  #: JSON; ``None``: that of each file
    record: Literal["dict", "row"] = "dict"
    on_error: ErrorChoice = "fail"

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        if self.record not in ("dict", "row"):
            raise ProgramError(f"Avro records are read as 'dict' or 'row', found {self.record!r}.")


class BulkFormat:
    """Reads many records at a time."""

    @staticmethod
    def parquet(columns: Sequence[str] | None = None) -> BulkFormat:
        """Return the rows of Parquet files as dicts; only the given columns, if any are given. Needs ``pyarrow``."""
        return ParquetFormat(None if columns is None else tuple(columns))


@dataclass(frozen=True)
class ParquetFormat(BulkFormat):
    """Rows of Parquet files."""

    columns: tuple[str, ...] | None = None
    record: Literal["dict", "row"] = "dict"
    batch_size: int = 4096  #: rows handed over at once


def check_charset(charset_name: str) -> None:
    """Refuse a character set Python does not know."""
    try:
        codecs.lookup(charset_name)
    except LookupError:
        raise ProgramError(f"Unknown character set {charset_name!r}: use a name such as 'UTF-8'.") from None


def check_on_error(on_error: object) -> None:
    """Refuse anything but what can be done with a bad record."""
    if on_error not in ("fail", "skip") and not isinstance(on_error, OnError):
        raise ProgramError(
            f"on_error is 'fail', 'skip' or OnError.dead_letter(sink), found {on_error!r}."
        )


def on_error_of(format: StreamFormat | BulkFormat) -> OnError:
    """Return what a format does with bad records."""
    chosen = getattr(format, "on_error", "fail")
    if isinstance(chosen, OnError):
        return chosen
    return OnError.skip() if chosen == "skip" else OnError.fail()
