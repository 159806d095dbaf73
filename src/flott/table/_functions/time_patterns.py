"""Date and time patterns such as ``yyyy-MM-dd HH:mm:ss``, with the letters of Java, for reading and writing columns.

Fields of a fixed width are written and read as matrices of digits, all rows at once; only months and days in words and
texts of other widths are handled one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.argument_checks import EvaluationError
from flott.table._functions.clock_fields import DAY_NS, ClockFields
from flott.table._functions.decimals import valid_mask, validity
from flott.table._functions.time_text import clamped_day

MONTHS = ("January", "February", "March", "April", "May", "June",
          "July", "August", "September", "October", "November", "December")  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

#: Letters of fields that are numbers, with the name of the field.
_NUMBERS = {
    "y": "year", "u": "year", "M": "month", "L": "month", "d": "day", "D": "day_of_year",
    "H": "hour", "k": "clock_hour", "h": "half_hour", "K": "half_clock", "m": "minute", "s": "second",
    "Q": "quarter", "w": "iso_week", "n": "nano",
}  # fmt: skip
_WIDEST = {"year": 9, "nano": 9, "day_of_year": 3}


@dataclass(frozen=True)
class Piece:
    """A part of a pattern: a literal text, a number of a field, the fraction of a second, or a word."""

    kind: str  #: literal, number, fraction, month, weekday, half
    text: str = ""  #: of a literal; otherwise the name of the field
    width: int = 0  #: how many letters


@lru_cache(maxsize=512)
def pieces(pattern: str) -> tuple[Piece, ...]:
    """Return the parts of a pattern."""
    found: list[Piece] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter == "'":
            text, position = _quoted(pattern, position)
            found.append(Piece("literal", text))
            continue
        if not (letter.isascii() and letter.isalpha()):
            found.append(Piece("literal", letter))
            position += 1
            continue
        end = position
        while end < len(pattern) and pattern[end] == letter:
            end += 1
        found.append(_field(letter, end - position, pattern))
        position = end
    return tuple(found)


def _quoted(pattern: str, start: int) -> tuple[str, int]:
    """Return the text in quotes that begins at a position, and the position behind it. '' is a quote."""
    if pattern[start : start + 2] == "''":
        return "'", start + 2
    end = start + 1
    text = ""
    while end < len(pattern):
        if pattern[end] == "'":
            if pattern[end : end + 2] != "''":
                return text, end + 1
            end += 1
        text += pattern[end]
        end += 1
    raise EvaluationError(f"The date pattern {pattern!r} has a quote without an end.")


def _field(letter: str, width: int, pattern: str) -> Piece:
    if letter == "S":
        return Piece("fraction", "nano", width)
    if letter in "ML" and width >= 3:
        return Piece("month", "month", width)
    if letter == "E" or (letter in "ec" and width >= 3):
        return Piece("weekday", "iso_day_of_week", width)
    if letter == "a":
        return Piece("half", "hour", width)
    if letter in _NUMBERS:
        return Piece("number", _NUMBERS[letter], width)
    raise EvaluationError(f"The date pattern {pattern!r} has the letter {letter!r}, which has no meaning there.")


# --- writing ---------------------------------------------------------------------------------------------------------


def write(column: pa.Array, pattern: str) -> pa.Array:
    """Return timestamps without a zone as texts."""
    fields = ClockFields(column)
    parts: list[Any] = []
    matrices: list[Any] = []
    for group in _groups(pieces(pattern)):
        matrix = _matrix_of(group, fields)
        if matrix is not None:
            matrices.append(matrix)
            continue
        for piece in group:
            matrix = _digits_of(piece, fields)
            if matrix is not None:
                matrices.append(matrix)
                continue
            if matrices:
                parts.append(_strings(matrices, fields))
                matrices = []
            parts.append(_words(piece, fields))
    if matrices:
        parts.append(_strings(matrices, fields))
    if not parts:
        return pa.repeat(pa.scalar(""), fields.length)
    whole = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "")
    if fields.valid is None or (len(parts) == 1 and whole.null_count):
        return whole
    return pc.if_else(pa.array(fields.valid), whole, pa.scalar(None, pa.string()))


_DAY_FIELDS = ("year", "month", "day", "day_of_year", "quarter", "iso_week")
_SECOND_FIELDS = ("hour", "minute", "second", "clock_hour", "half_hour", "half_clock")

#: A table of all seconds of a day pays if there are so many rows.
_MANY_ROWS = 20_000


def _level(piece: Piece) -> str:
    """Return what a piece depends on: the day, the second of the day, nothing, or something else."""
    if piece.kind == "literal":
        return "any"
    if piece.kind == "number" and piece.text in _DAY_FIELDS:
        return "day"
    return "second" if piece.kind == "number" and piece.text in _SECOND_FIELDS else "other"


def _groups(parts: Sequence[Piece]) -> list[list[Piece]]:
    """Return the pieces in order, neighbours that depend on the same together."""
    groups: list[list[Piece]] = []
    level = ""
    for piece in parts:
        own = _level(piece)
        if groups and own in ("any", level):
            groups[-1].append(piece)
        else:
            groups.append([piece])
            level = own
    return groups


def _matrix_of(group: Sequence[Piece], fields: ClockFields) -> Any:
    """Return neighbouring pieces as one matrix of characters, looked up in that of all days or seconds of a day."""
    levels = {_level(piece) for piece in group} - {"any"}
    if levels == {"day"}:
        table, places = fields.days_between()
    elif levels == {"second"} and fields.length >= _MANY_ROWS:
        table, places = _seconds_of_a_day(), fields.second_of_day
    else:
        return None
    if places is None:
        return None
    matrices = [_digits_of(piece, table) for piece in group]
    if any(matrix is None for matrix in matrices):
        return None
    return np.concatenate(matrices, axis=1)[places]


@lru_cache(maxsize=1)
def _seconds_of_a_day() -> ClockFields:
    return ClockFields(pa.array(np.arange(86_400)).cast(pa.timestamp("s")))


def _value(name: str, fields: ClockFields) -> Any:
    match name:
        case "clock_hour":
            return np.where(fields.hour == 0, 24, fields.hour)
        case "half_hour":
            return (fields.hour + 11) % 12 + 1
        case "half_clock":
            return fields.hour % 12
        case "quarter":
            return (fields.month + 2) // 3
    return getattr(fields, name)


def _digits_of(piece: Piece, fields: ClockFields) -> Any:
    """Return a piece as a matrix of characters, a row for each value; None if the rows differ in width."""
    if piece.kind == "literal":
        text = np.frombuffer(piece.text.encode(), dtype=np.uint8)
        return np.broadcast_to(text, (fields.length, len(text)))
    if piece.kind == "fraction":
        return _matrix(fields.nano // 10 ** max(9 - piece.width, 0), min(piece.width, 9))
    if piece.kind != "number":
        return None
    values = _value(piece.text, fields)
    if piece.text == "year" and piece.width == 2:
        return _matrix(values % 100, 2)
    if not len(values) or (piece.width > 1 and values.min() >= 0 and values.max() < 10**piece.width):
        return _matrix(values, piece.width)
    return None


_PAIRS = np.frombuffer("".join(f"{number:02d}" for number in range(100)).encode(), dtype=np.uint16)


def _matrix(values: Any, width: int) -> Any:
    """Return numbers as digits, two of them at a time."""
    even = width + width % 2
    matrix = np.empty((len(values), even // 2), dtype=np.uint16)
    rest = values
    for place in range(even // 2 - 1, -1, -1):
        shorter = rest // 100 if place else 0
        matrix[:, place] = _PAIRS[rest - shorter * 100]
        rest = shorter
    return matrix.view(np.uint8)[:, even - width :]


def _strings(matrices: Sequence[Any], fields: ClockFields) -> pa.Array:
    """Return matrices of characters side by side as a column of texts."""
    whole = np.ascontiguousarray(matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1))
    width = whole.shape[1]
    wide = width * fields.length >= 2**31
    offsets = np.arange(fields.length + 1, dtype=np.int64 if wide else np.int32) * width
    of = pa.large_string() if wide else pa.string()
    buffers = [validity(fields.valid), pa.py_buffer(offsets), pa.py_buffer(whole)]
    return pa.Array.from_buffers(of, fields.length, buffers)


def _words(piece: Piece, fields: ClockFields) -> pa.Array:
    """Return a piece as a column of texts of different lengths."""
    if piece.kind == "number":
        text = pa.array(_value(piece.text, fields)).cast(pa.string())
        return pc.utf8_lpad(text, piece.width, "0") if piece.width > 1 else text
    words, index = _vocabulary(piece), _value(piece.text, fields) - 1
    if piece.kind == "half":
        index = (fields.hour >= 12).astype(np.int64)
    index = np.where(fields.valid, index, 0) if fields.valid is not None else index
    return pa.array(words).take(pa.array(index))


def _vocabulary(piece: Piece) -> Sequence[str]:
    words = {"month": MONTHS, "weekday": DAYS, "half": ("AM", "PM")}[piece.kind]
    return words if piece.kind == "half" or piece.width == 4 else [word[:3] for word in words]


# --- reading ---------------------------------------------------------------------------------------------------------


def read(column: pa.Array, pattern: str) -> tuple[Any, Any]:
    """Return the nanoseconds of the epoch that texts name, and which of the texts do. What a pattern leaves out is 0.

    The first array is of int64, or of Python integers if nanoseconds of 64 bits do not reach far enough.
    """
    parts = pieces(pattern)
    width = _fixed_width(parts)
    there = valid_mask(column)
    if width and len(column):
        lengths = pc.binary_length(column)
        if pc.all(pc.equal(lengths, width), skip_nulls=True).as_py():
            texts = column if there is None else pc.fill_null(column, "0" * width)
            found = _read_matrix(texts, parts, width)
            if found is not None:
                return found[0], found[1] if there is None else found[1] & there
    expression = _expression(pattern)
    values = [None if text is None else _read_one(text, parts, expression) for text in column.to_pylist()]
    good = np.array([value is not None for value in values], dtype=bool)
    numbers = [value or 0 for value in values]
    fits = all(-(2**63) <= number < 2**63 for number in numbers)
    return np.array(numbers, dtype=np.int64 if fits else object), good


def _fixed_width(parts: Sequence[Piece]) -> int | None:
    """Return the length of all texts of a pattern; None if they differ, or if there are words in it."""
    total = 0
    for piece in parts:
        if piece.kind == "literal" and piece.text.isascii():
            total += len(piece.text)
        elif piece.kind == "fraction" or (piece.kind == "number" and piece.width > 1 and _readable(piece)):
            total += piece.width
        else:
            return None
    return total


def _readable(piece: Piece) -> bool:
    return piece.text in ("month", "day", "hour", "minute", "second") or (piece.text == "year" and piece.width == 4)


def _read_matrix(column: pa.Array, parts: Sequence[Piece], width: int) -> tuple[Any, Any] | None:
    """Read texts of one length as a matrix of characters; None if they are not plain enough."""
    data = column.buffers()[2]
    start = column[0].as_py() and int(np.frombuffer(column.buffers()[1], np.int32)[column.offset])
    matrix = np.frombuffer(data, np.uint8)[start : start + width * len(column)].reshape(-1, width)
    good = np.ones(len(matrix), dtype=bool)
    values: dict[str, Any] = {}
    place = 0
    for piece in parts:
        size = len(piece.text) if piece.kind == "literal" else piece.width
        part = matrix[:, place : place + size]
        place += size
        if piece.kind == "literal":
            good &= (part == np.frombuffer(piece.text.encode(), np.uint8)).all(axis=1)
            continue
        digits = part.astype(np.int64) - 48
        good &= ((digits >= 0) & (digits <= 9)).all(axis=1)
        number = np.zeros(len(matrix), dtype=np.int64)
        for column_of_digits in digits.T:
            number = number * 10 + column_of_digits
        values[piece.text] = number * 10 ** (9 - size) if piece.kind == "fraction" and size <= 9 else number
    return _combined(values, good)


def _combined(values: dict[str, Any], good: Any) -> tuple[Any, Any] | None:
    zero = np.zeros(len(good), dtype=np.int64)
    year, month, day = values.get("year", zero + 1970), values.get("month", zero + 1), values.get("day", zero + 1)
    good = good & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    hour, minute, second = (values.get(name, zero) for name in ("hour", "minute", "second"))
    good &= (hour < 24) & (minute < 60) & (second < 60)
    months = np.where(good, (year - 1970) * 12 + month - 1, 0).astype("M8[M]")
    first = months.astype("M8[D]").astype(np.int64)
    last = (months + 1).astype("M8[D]").astype(np.int64) - 1
    days = np.minimum(first + day - 1, last)
    if good.any() and (days[good].min() < -106_000 or days[good].max() > 106_000):
        return None  # nanoseconds do not reach that far
    seconds = hour * 3600 + minute * 60 + second
    nanos = days * DAY_NS + seconds * 1_000_000_000 + values.get("nano", zero)
    return np.where(good, nanos, 0), good


@lru_cache(maxsize=512)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = pieces(pattern)
    text = ""
    for index, piece in enumerate(parts):
        follows_number = index + 1 < len(parts) and parts[index + 1].kind in ("number", "fraction")
        text += _group(piece, follows_number)
    return re.compile(text, re.ASCII | re.IGNORECASE)


def _group(piece: Piece, adjacent: bool) -> str:
    match piece.kind:
        case "literal":
            return re.escape(piece.text)
        case "fraction":
            return rf"(\d{{{piece.width}}})"
        case "number":
            if piece.width == 1:
                return rf"(\d{{1,{_WIDEST.get(piece.text, 2)}}}?)" if adjacent else r"(\d{1,9})"
            if piece.text == "year" and piece.width > 2 and not adjacent:
                return rf"(\d{{{piece.width},9}})"
            return rf"(\d{{{piece.width}}})"
    return "(" + "|".join(_vocabulary(piece)) + ")"


def _read_one(text: str, parts: Sequence[Piece], expression: re.Pattern[str]) -> int | None:
    match = expression.fullmatch(text)
    if match is None:
        return None
    values: dict[str, int] = {}
    afternoon = False
    for piece, found in zip((part for part in parts if part.kind != "literal"), match.groups(), strict=True):
        if piece.kind == "half":
            afternoon = found.upper() == "PM"
        elif piece.kind == "month":
            values["month"] = [word.upper() for word in _vocabulary(piece)].index(found.upper()) + 1
        elif piece.kind == "fraction":
            values["nano"] = int(found[:9].ljust(9, "0"))
        elif piece.kind == "number":
            values[piece.text] = int(found) + (2000 if piece.text == "year" and piece.width == 2 else 0)
    return _moment(values, afternoon)


def _moment(values: dict[str, int], afternoon: bool) -> int | None:
    hour = values.get("hour", values.get("clock_hour", 0) % 24)
    if "half_hour" in values or "half_clock" in values:
        hour = values.get("half_hour", values.get("half_clock", 0)) % 12 + (12 if afternoon else 0)
    minute, second = values.get("minute", 0), values.get("second", 0)
    year = values.get("year", 1970)
    day = clamped_day(year, values.get("month", 1), values.get("day", 1))
    if day is not None and "day_of_year" in values:
        first = clamped_day(year, 1, 1)
        day = None if first is None else first + values["day_of_year"] - 1
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    return day * DAY_NS + (hour * 3600 + minute * 60 + second) * 1_000_000_000 + values.get("nano", 0)
