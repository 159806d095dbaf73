"""Records as a table: its columns, and the table as text or HTML. Pure.

Rows, named tuples, dataclasses and dicts have column names; the fields of a tuple are Flink's ``f0``, ``f1``, …; any
other record is a single ``value``. The records determine the columns. The type is used only if there are no records.
"""

from __future__ import annotations

import datetime
import html
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from flott.common.typeinfo._composite import RowTypeInfo, TupleTypeInfo
from flott.common.typeinfo._records import RecordTypeInfo
from flott.common.typeinfo._type_information import TypeInformation
from flott.common.types import Row

#: The only column of records without fields.
SCALAR = ("value",)

#: A longer cell is truncated: in text by terminal columns, in HTML by characters.
MAX_TEXT_CELL = 40
MAX_HTML_CELL = 200

#: The types for which str() is more readable than repr().
_PLAIN = (str, numbers.Number, datetime.date, datetime.time, type(None))


def columns_of(records: Sequence[Any], known: TypeInformation | None = None) -> tuple[str, ...]:
    """Return the names of the columns, in the order in which the records have them."""
    present = [record for record in records if record is not None]
    if not present:
        return _columns_of_type(known)
    if len({_family(record) for record in present}) > 1:
        return SCALAR
    named = [_fields_of(record) for record in present]
    return tuple(dict.fromkeys(name for record in named for name in record)) or SCALAR


def text_table(columns: Sequence[str], records: Sequence[Any]) -> str:
    """Return aligned columns under their names. Numbers are aligned to the right."""
    header = [_cropped(_printable(name), MAX_TEXT_CELL) for name in columns]
    cells = [[_cropped(text, MAX_TEXT_CELL) for text in _cells(record, columns)] for record in records]
    widths = [max(map(_width, column)) for column in zip(header, *cells, strict=True)]
    to_the_right = _numeric(columns, records)
    lines = [header, ["-" * width for width in widths], *cells]
    return "\n".join("  ".join(map(_aligned, line, widths, to_the_right)).rstrip() for line in lines)


def html_table(columns: Sequence[str], records: Sequence[Any]) -> str:
    """Return the table for a notebook. All content of the records is escaped."""
    styles = [' style="text-align: right"' if right else "" for right in _numeric(columns, records)]
    head = "".join(f"<th>{html.escape(_printable(name))}</th>" for name in columns)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{style}>{html.escape(_cropped(text, MAX_HTML_CELL))}</td>"
            for style, text in zip(styles, _cells(record, columns), strict=True)
        )
        + "</tr>"
        for record in records
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# ---------------------------------------------------------------------------------------------------------------------
# Records and their fields
# ---------------------------------------------------------------------------------------------------------------------


def _columns_of_type(known: TypeInformation | None) -> tuple[str, ...]:
    if isinstance(known, (RowTypeInfo, RecordTypeInfo)):
        return tuple(known.get_field_names()) or SCALAR
    if isinstance(known, TupleTypeInfo):
        return tuple(_positions(len(known.get_field_types()))) or SCALAR
    return SCALAR


def _family(record: Any) -> str:
    """Return the family of a record. Records of one family can share columns."""
    if isinstance(record, Row):
        return "row"
    if isinstance(record, tuple):
        return "named tuple" if hasattr(record, "_fields") else "tuple"
    if isinstance(record, dict):
        return "dict" if all(isinstance(key, str) for key in record) else "value"
    return "dataclass" if is_dataclass(record) and not isinstance(record, type) else "value"


def _fields_of(record: Any) -> Mapping[str, Any]:
    """Return the fields by name. A record that is a single value has none."""
    match _family(record):
        case "row":
            return dict(zip(record._fields or _positions(len(record)), record, strict=False))
        case "named tuple":
            return dict(zip(record._fields, record, strict=True))
        case "tuple":
            return dict(zip(_positions(len(record)), record, strict=True))
        case "dict":
            found: dict[str, Any] = record
            return found
        case "dataclass":
            return {field.name: getattr(record, field.name, None) for field in fields(record)}
    return {}


def _positions(arity: int) -> list[str]:
    return [f"f{position}" for position in range(arity)]


def _values(record: Any, columns: Sequence[str]) -> list[Any]:
    """Return one value for each column, and ``Ellipsis`` if the record has none."""
    named = _fields_of(record)
    if record is None or not columns_cover(columns, named):
        return [record, *[...] * (len(columns) - 1)]
    return [named.get(name, ...) for name in columns]


def columns_cover(columns: Sequence[str], named: Mapping[str, Any]) -> bool:
    """Return whether a record is shown by field and not as a whole."""
    return bool(named) and all(name in columns for name in named)


def _numeric(columns: Sequence[str], records: Sequence[Any]) -> list[bool]:
    by_column = list(zip(*(_values(record, columns) for record in records), strict=True)) or [()] * len(columns)
    shown = [[value for value in column if value is not None and value is not ...] for column in by_column]
    return [bool(column) and all(map(_is_number, column)) for column in shown]


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


# ---------------------------------------------------------------------------------------------------------------------
# Cells
# ---------------------------------------------------------------------------------------------------------------------


def _cells(record: Any, columns: Sequence[str]) -> list[str]:
    return ["" if value is ... else _text(value) for value in _values(record, columns)]


def _text(value: Any) -> str:
    try:
        return _printable(str(value) if isinstance(value, _PLAIN) else repr(value))
    except Exception as error:  # the user's __repr__ failed, which must not fail the table
        return f"<{type(value).__name__}, whose repr() raises {type(error).__name__}>"


def _printable(text: str) -> str:
    """Return the text without line breaks and terminal control characters."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text[: 4 * MAX_HTML_CELL]
    )


def _cropped(text: str, width: int) -> str:
    if len(text) <= width // 2 or _width(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"


def _aligned(text: str, width: int, to_the_right: bool) -> str:
    space = " " * (width - _width(text))
    return space + text if to_the_right else text + space


def _width(text: str) -> int:
    """Return the width in terminal columns."""
    from rich.cells import cell_len  # imported here, because tasks load this module and may not have rich

    return cell_len(text)
