"""Dates and times as text, as Flink's JSON and CSV formats have them. Pure; runs in tasks.

    date        2026-01-02
    time        03:04:05, with up to nine digits of a second
    timestamp   2026-01-02T03:04:05.123 (ISO-8601), 2026-01-02 03:04:05.123 (SQL); no time zone but UTC
    instant     2026-01-02T03:04:05.123Z

Every parser raises ``ValueError``. Python has microseconds: further digits of a timestamp or a time are cut off.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

from flott.common._text_form import text_form
from flott.common.time import Instant
from flott.common.typeinfo._basic import BasicTypeInfo
from flott.errors import ProgramError

#: The two notations of timestamps, by Flink's names.
SEPARATORS = {"ISO-8601": "T", "SQL": " "}

_EPOCH = datetime.datetime(1970, 1, 1)
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(?:Z|\+00:?00)")

instant_text: Callable[[Instant], str] = text_form(BasicTypeInfo.INSTANT_TYPE_INFO())


def checked_timestamp_format(name: str) -> str:
    """Return the name of a notation of timestamps, and refuse others."""
    if name not in SEPARATORS:
        raise ProgramError(f"The format of timestamps is 'ISO-8601' or 'SQL', found {name!r}.")
    return name


def parse_date(text: str) -> datetime.date:
    if len(text) != 10 or text[4] != "-" or text[7] != "-":  # Python takes other notations of ISO 8601 as well
        raise ValueError(f"expected a date such as 2026-01-31, found {text!r}")
    return datetime.date.fromisoformat(text)


def parse_time(text: str) -> datetime.time:
    if text[2:3] != ":":
        raise ValueError(f"expected a time such as 12:30:00, found {text!r}")
    value = datetime.time.fromisoformat(text)
    _check_zone(value)
    return value.replace(tzinfo=None)


def parse_timestamp(text: str) -> datetime.datetime:
    if len(text) < 16 or text[10] not in "T " or text[4] != "-":
        raise ValueError(f"expected a timestamp such as 2026-01-31T12:30:00.5, found {text!r}")
    value = datetime.datetime.fromisoformat(text)
    if value.tzinfo is None:
        return value
    _check_zone(value)
    return value.replace(tzinfo=None)


def _check_zone(value: datetime.datetime | datetime.time) -> None:
    if value.utcoffset():
        raise ValueError(f"expected no time zone but UTC, found {value.isoformat()}")


def parse_instant(text: str) -> Instant:
    match = _INSTANT.fullmatch(text)
    if match is None:
        raise ValueError(f"expected an instant such as 2026-01-31T12:30:00Z, found {text!r}")
    seconds = (datetime.datetime.fromisoformat(match[1]) - _EPOCH) // datetime.timedelta(seconds=1)
    return Instant(seconds, int((match[2] or "").ljust(9, "0")))


def time_text(value: datetime.time) -> str:
    """
    >>> time_text(datetime.time(12, 0, 0, 500000))
    '12:00:00.5'
    """
    text = value.isoformat()
    return text.rstrip("0") if value.microsecond else text


def timestamp_text(value: datetime.datetime, separator: str = "T") -> str:
    """
    >>> timestamp_text(datetime.datetime(2026, 1, 2, 3, 4, 5, 120000), " ")
    '2026-01-02 03:04:05.12'
    """
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    text = value.isoformat(separator)
    return text.rstrip("0") if value.microsecond else text
