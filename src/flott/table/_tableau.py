"""Prints rows as a table of text, in Flink's form."""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TextIO

from flott.common.types import Row
from flott.table._types import logical

_WIDEST = 30  #: a column of a stream is at most this wide, as in Flink
_NULL = "<NULL>"
_WIDTHS: dict[type, int] = {
    logical.BooleanType: 7,
    logical.TinyIntType: 4,
    logical.SmallIntType: 6,
    logical.IntType: 11,
    logical.BigIntType: 20,
    logical.DateType: 10,
}


def print_rows(rows: Iterable[Row], schema: logical.RowType, out: TextIO, *, changelog: bool) -> None:
    """Write rows to a stream. With ``changelog`` they are written as they come, each with its kind."""
    if changelog:
        _print_changelog(rows, schema, out)
    else:
        _print_table(rows, schema, out)


def text_of(value: Any, of: logical.LogicalType | None = None) -> str:
    """Return a value as SQL shows it."""
    match value:
        case None:
            return _NULL
        case bool():
            return "TRUE" if value else "FALSE"
        case datetime.datetime():
            return _timestamp_text(value, of)
        case bytes():
            return "x'" + value.hex() + "'"
        case Row():
            return f"({', '.join(text_of(item) for item in value)})"
        case tuple():
            return f"({', '.join(text_of(item) for item in value)})"
        case list():
            return f"[{', '.join(text_of(item) for item in value)}]"
        case dict():
            return "{" + ", ".join(f"{text_of(key)}={text_of(item)}" for key, item in value.items()) + "}"
    return str(value)


def _timestamp_text(value: datetime.datetime, of: logical.LogicalType | None) -> str:
    precision = of.precision if isinstance(of, logical.TimestampType | logical.LocalZonedTimestampType) else 6
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{value.microsecond:06d}".ljust(len(text) + 1 + precision, "0")[: len(text) + 1 + precision].rstrip(
        "." if precision == 0 else ""
    )


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _cell(text: str, width: int) -> str:
    if _width(text) > width:
        cut = ""
        for character in text:
            if _width(cut + character) > width - 3:
                break
            cut += character
        text = cut + "..."
    return " " * (width - _width(text)) + text


def _line(widths: list[int]) -> str:
    return "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"


def _cells(texts: Iterable[str], widths: list[int]) -> str:
    return "|" + "|".join(f" {_cell(text, width)} " for text, width in zip(texts, widths, strict=True)) + "|\n"


def _texts(row: Row, schema: logical.RowType) -> list[str]:
    return [text_of(value, of) for value, of in zip(row, schema.types, strict=True)]


def _print_changelog(rows: Iterable[Row], schema: logical.RowType, out: TextIO) -> None:
    widths = [2, *(max(_width(field.name), _column_width(field.type)) for field in schema.fields)]
    out.write(_line(widths) + _cells(["op", *schema.names], widths) + _line(widths))
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the last one is the number of rows
        out.write(_cells([str(row.get_row_kind()), *_texts(row, schema)], widths))
        out.flush()
    out.write((_line(widths) if count else "") + _summary(count))


def _column_width(of: logical.LogicalType) -> int:
    """Return the width of a column whose rows are not known yet."""
    return max(_value_width(of), len(_NULL) if of.nullable else 0)


def _value_width(of: logical.LogicalType) -> int:
    match of:
        case logical.DecimalType():
            return of.precision + 2
        case logical.CharType() | logical.VarCharType():
            return min(of.length, _WIDEST)
        case logical.TimestampType() | logical.LocalZonedTimestampType():
            return 19 if of.precision == 0 else 20 + of.precision
        case logical.TimeType():
            return 8 if of.precision == 0 else 9 + of.precision
    return _WIDTHS.get(type(of), _WIDEST)


def _print_table(rows: Iterable[Row], schema: logical.RowType, out: TextIO) -> None:
    """Print all rows with columns as wide as the first thousand rows need; a text of several lines without a table."""
    remaining: Iterator[Row] = iter(rows)
    first = [_texts(row, schema) for row in islice(remaining, 1000)]
    if not first:
        out.write("Empty set\n")
        return
    if len(first) == len(schema.names) == 1 and "\n" in first[0][0]:  # a plan, or the statement that creates a table
        out.write(first[0][0].rstrip("\n") + "\n")
        return
    columns = zip(schema.names, *first, strict=True)
    widths = [max(_width(text) for text in column) for column in columns]
    out.write(_line(widths) + _cells(schema.names, widths) + _line(widths))
    count = 0
    for texts in first:
        out.write(_cells(texts, widths))
        count += 1
    for row in remaining:
        out.write(_cells(_texts(row, schema), widths))
        count += 1
    out.write(_line(widths) + _summary(count))


def _summary(count: int) -> str:
    return f"{count} row{'' if count == 1 else 's'} in set\n"
