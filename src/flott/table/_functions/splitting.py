"""Functions that take strings apart, and those that format values into one."""

from __future__ import annotations

import datetime
import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._functions.java_patterns import java_pattern
from flott.table._functions.signatures import ANYTHING, INTEGER, TEXT, Parameter, by_row, define
from flott.table._types.logical import STRING, ArrayType, Family, LogicalType, MapType

_SEPARATOR = Parameter("STRING or INT", frozenset({Family.CHARACTER, Family.INTEGER}), STRING)


def split(text: str, delimiter: str) -> list[str]:
    """Return the parts between delimiters; an empty delimiter parts all characters."""
    return text.split(delimiter) if delimiter else list(text)


def split_index(text: str, separator: str | int, index: int) -> str | None:
    """Return the part at a position, counting from 0. The separator may be the code of a character."""
    if index < 0 or not text:
        return None
    between = chr(separator) if isinstance(separator, int) else separator
    parts = text.split(between) if between else text.split()
    return parts[index] if index < len(parts) else None


def _split_index(call: KernelCall) -> Datum:
    """Split with Arrow's kernel where separator and index are constants."""
    fixed = call.is_constant(1) and call.is_constant(2) and not call.is_constant(0)
    if not fixed or None in (call.constant(1), call.constant(2)) or call.constant(1) == "" or call.constant(2) < 0:
        return by_row(split_index)(call)
    separator, index = call.constant(1), call.constant(2)
    text = pc.if_else(pc.equal(call.arguments[0], ""), None, call.arguments[0])
    between = chr(separator) if isinstance(separator, int) else separator
    parts = pc.split_pattern(text, pattern=between, max_splits=index + 1)
    lengths = pc.fill_null(pc.list_value_length(parts), 0)
    starts = np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False))))[:-1]
    there = pc.greater(lengths, index)
    return parts.flatten().take(pc.if_else(there, pa.array(starts + index, pa.int64()), None))


def _java_split(text: str, pattern: str) -> list[str]:
    """Split as ``String.split`` of Java does: without empty parts at the end."""
    parts = [part for part in java_pattern(pattern).split(text) if part is not None]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def str_to_map(text: str, between_pairs: str = ",", between: str = "=") -> list[tuple[str, str | None]] | None:
    """Return the map that a text writes down."""
    if not text:
        return None
    found: dict[str, str | None] = {}
    for pair in _java_split(text, between_pairs):
        parts = _java_split(pair, between)
        found[parts[0]] = parts[1] if len(parts) == 2 else None
    return list(found.items())


# --- PRINTF ----------------------------------------------------------------------------------------------------------

_DIRECTIVE = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


def printf(pattern: str | None, *values: Any) -> str | None:
    """Return a text with values put in, as Java's formatter does; None if the format is wrong."""
    if pattern is None:
        return None
    taken = 0
    result = []
    end = 0
    try:
        for found in _DIRECTIVE.finditer(pattern):
            if "%" in pattern[end : found.start()]:
                return None
            result.append(pattern[end : found.start()])
            end = found.end()
            number, flags, width, digits, kind = found.groups()
            if kind in "%n":
                text = "%" if kind == "%" else "\n"
            else:
                taken += number is None
                value = values[int(number) - 1 if number else taken - 1]
                text = _formatted(value, flags, None if digits is None else int(digits), kind)
            if width is not None:
                text = _filled(text, int(width), flags)
            result.append(text)
    except (IndexError, ValueError, TypeError):
        return None
    return None if "%" in pattern[end:] else "".join(result) + pattern[end:]


def _formatted(value: Any, flags: str, digits: int | None, kind: str) -> str:
    lower = kind.lower()
    value = _internal(value)
    if lower == "b":
        text = "false" if value is None else str(value).lower() if isinstance(value, bool) else "true"
    elif value is None:
        text = "null"
    elif lower == "s":
        text = str(value).lower() if isinstance(value, bool) else str(value)
        text = text if digits is None else text[:digits]
    elif lower == "c":
        text = chr(value) if isinstance(value, int) else value if len(value) == 1 else _wrong(value)
    elif lower in "dxo":
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(value)
        grouped = "," if "," in flags else ""
        text = (
            format(value, f"{grouped}d") if lower == "d" else format(value % (1 << 64) if value < 0 else value, lower)
        )
        text = _signed(text, flags) if lower == "d" else text
    elif lower in "feg":
        if isinstance(value, bool | int | str):
            raise TypeError(value)
        places = 6 if digits is None else digits
        number = value if isinstance(value, Decimal) else Decimal(repr(value))
        grouped = "," if "," in flags else ""
        if lower == "f":
            text = format(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP), f"{grouped}f")
        else:
            text = format(float(number), f".{places}{lower}")
        text = _signed(text, flags)
    else:
        raise ValueError(kind)
    return text.upper() if kind.isupper() else text


def _wrong(value: Any) -> str:
    raise ValueError(value)


def _signed(text: str, flags: str) -> str:
    if text.startswith("-"):
        return f"({text[1:]})" if "(" in flags else text
    return f"+{text}" if "+" in flags else f" {text}" if " " in flags else text


def _filled(text: str, width: int, flags: str) -> str:
    if "-" in flags:
        return text.ljust(width)
    if "0" in flags:
        sign = text[:1] if text[:1] in "+-" else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return text.rjust(width)


def _internal(value: Any) -> Any:
    """Return a date as its days since 1970 and a time of day as its milliseconds, which is what Flink formats."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, datetime.date):
        return value.toordinal() - 719163
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    return value


def _split_type(call: CallArguments) -> LogicalType:
    return ArrayType(STRING, nullable=call.nullable)


FUNCTIONS: tuple[Function, ...] = (
    define(
        "SPLIT",
        (TEXT, TEXT),
        _split_type,
        by_row(split),
        family="collection",
        syntax="SPLIT(string, delimiter)",
        description="Returns the parts of the string between delimiters.",
    ),
    define(
        "SPLIT_INDEX",
        (TEXT, _SEPARATOR, INTEGER),
        STRING,
        _split_index,
        nullable=True,
        family="string",
        syntax="SPLIT_INDEX(string, separator, index)",
        description="Returns the part of the string at a position, counting from 0; NULL if there is none.",
    ),
    define(
        "STR_TO_MAP",
        (TEXT, TEXT, TEXT),
        MapType(STRING, STRING),
        by_row(str_to_map),
        optional=2,
        nullable=True,
        family="string",
        syntax="STR_TO_MAP(string[, delimiter, key_delimiter])",
        description="Returns the map of a string such as a=1,b=2; delimiters are Java regexes.",
    ),
    define(
        "PRINTF",
        (TEXT, ANYTHING),
        STRING,
        by_row(printf, strict=False),
        optional=1,
        repeats=True,
        nullable=True,
        family="string",
        syntax="PRINTF(format, value, ...)",
        description="Returns the values in a format of Java's formatter; NULL if the format is wrong.",
    ),
)
