"""The text of days, times and intervals as CAST writes and reads it, over columns."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.clock_fields import DAY_NS, UNIT_NS

_PLAIN_TIMESTAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?)?$"
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}( .*)?$"
_TIMESTAMP = re.compile(r"(\d{4,})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?", re.ASCII)
_TIME = re.compile(r"\s*(\d{1,2})\s*(?::\s*(\d{1,2})\s*(?::\s*(\d{1,2})\s*(?:\.(\d*))?)?)?\s*", re.ASCII)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


# --- writing ---------------------------------------------------------------------------------------------------------


def timestamp_text(column: pa.Array, precision: int) -> pa.Array:
    """Return timestamps without a zone as ``2020-01-31 12:00:00.123``, with as many digits as the type has."""
    return _with_digits(column.cast(pa.string()), {"s": 0, "ms": 3, "us": 6, "ns": 9}[column.type.unit], precision)


def time_text(column: pa.Array, precision: int) -> pa.Array:
    """Return times of day as ``12:00:00``, with digits behind it if the type has some."""
    return _with_digits(column.cast(pa.string()), 3, min(precision, 3))


def _with_digits(text: pa.Array, there: int, wanted: int) -> pa.Array:
    drop = there - wanted + (1 if wanted == 0 and there else 0)
    return pc.utf8_slice_codeunits(text, 0, -drop) if drop > 0 else text


def interval_text(column: pa.Array, months: bool) -> pa.Array:
    """Return intervals as ``+1-06`` (years and months) or ``+1 12:00:00.000`` (days and time)."""
    write = _months_text if months else _milliseconds_text
    values = column.cast(pa.int64()).to_pylist()
    return pa.array([None if value is None else write(value) for value in values], type=pa.string())


def _months_text(months: int) -> str:
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else '+'}{years}-{rest:02d}"


def _milliseconds_text(milliseconds: int) -> str:
    seconds, thousandths = divmod(abs(milliseconds), 1000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{'-' if milliseconds < 0 else '+'}{days} {hour:02d}:{minute:02d}:{second:02d}.{thousandths:03d}"


# --- reading ---------------------------------------------------------------------------------------------------------


def read_dates(column: pa.Array) -> pa.Array:
    """Return texts as days; NULL where a text is none. What follows a space is not looked at."""
    good = pc.match_substring_regex(column, _PLAIN_DATE)
    if pc.all(good, skip_nulls=True).as_py():
        try:
            return pc.utf8_slice_codeunits(column, 0, 10).cast(pa.date32())
        except pa.ArrowInvalid:
            pass
    return _each(column, read_date).cast(pa.int32()).cast(pa.date32())


def read_date(text: str) -> int | None:
    """Return the day of the epoch that a text such as 2020-1-31, 2020-1 or 2020 names."""
    head = text.split(" ")[0] if text.find(" ") > 0 else text
    parts = [part.strip() for part in head.split("-")]
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    year, month, day = (*map(int, parts), *(1, 1, 1)[len(parts) :])
    return _day(year, month, day)


def _day(year: int, month: int, day: int) -> int | None:
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def read_times(column: pa.Array, precision: int) -> pa.Array:
    """Return texts as times of day in milliseconds, cut to a precision; NULL where a text is none."""
    step = 10 ** (3 - min(precision, 3))

    def read(text: str) -> int | None:
        found = read_time(text)
        return None if found is None else found // step * step

    return _each(column, read).cast(pa.int32()).cast(pa.time32("ms"))


def read_time(text: str) -> int | None:
    """Return the milliseconds of the day that a text such as 23, 23:45 or 12:34:56.789 names."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    return (hour * 3600 + minute * 60 + second) * 1000 + int((match[4] or "")[:3].ljust(3, "0"))


def read_timestamps(column: pa.Array, unit: str, precision: int) -> pa.Array:
    """Return texts as timestamps without a zone, cut to a precision; NULL where a text is none."""
    good = pc.match_substring_regex(column, _PLAIN_TIMESTAMP)
    if pc.all(good, skip_nulls=True).as_py():
        try:
            return cut(column.cast(pa.timestamp("ns")), "ns", unit, precision)
        except pa.ArrowInvalid:  # a day that does not exist, or beyond what nanoseconds reach
            pass
    per_tick = UNIT_NS[unit]
    step = 10 ** (9 - precision)

    def read(text: str) -> int | None:
        found = read_timestamp(text)
        if found is None:
            return None
        ticks = found // step * step // per_tick
        return ticks if -(2**63) <= ticks < 2**63 else None

    return _each(column, read).cast(pa.timestamp(unit))


def read_timestamp(text: str) -> int | None:
    """Return the nanoseconds of the epoch that a text such as 2020-01-31 12:00:00.5 names."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day = clamped_day(int(match[1]), int(match[2]), int(match[3]))
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    if day is None or hour > 23 or minute > 59 or second > 59:
        return None
    seconds = hour * 3600 + minute * 60 + second
    return day * DAY_NS + seconds * 1_000_000_000 + int((match[7] or "").ljust(9, "0"))


def clamped_day(year: int, month: int, day: int) -> int | None:
    """Return the day of the epoch. A day up to 31 that the month does not have is its last one, as in Java."""
    if not 1 <= month <= 12 or not 1 <= day <= 31 or not 1 <= year <= 9999:
        return None
    return _day(year, month, min(day, monthrange(year, month)[1]))


def _each(column: pa.Array, read: Callable[[str], int | None]) -> pa.Array:
    return pa.array([None if text is None else read(text) for text in column.to_pylist()], type=pa.int64())


def cut(column: pa.Array, unit: str, wanted: str, precision: int) -> pa.Array:
    """Return timestamps in another unit, without the digits that the precision has no place for."""
    values: Any = column.cast(pa.int64())
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False) if values.null_count else values.to_numpy()
    step = max(10 ** (9 - precision) // UNIT_NS[unit], 1)
    if step > 1:
        numbers = numbers // step * step
    if UNIT_NS[wanted] > UNIT_NS[unit]:
        numbers = numbers // (UNIT_NS[wanted] // UNIT_NS[unit])
    elif UNIT_NS[wanted] < UNIT_NS[unit]:
        factor = UNIT_NS[unit] // UNIT_NS[wanted]
        if len(numbers) and int(np.abs(numbers).max()) > (2**63 - 1) // factor:
            raise OverflowError(f"A timestamp is out of the range of {precision} digits behind the second.")
        numbers = numbers * factor
    found = pa.array(numbers, type=pa.int64())
    if values.null_count:
        found = pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.int64()))
    return found.cast(pa.timestamp(wanted))
