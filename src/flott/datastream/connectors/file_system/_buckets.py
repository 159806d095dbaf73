"""Which directory below the base path a record is written to. Runs in tasks; reads no clock but the epoch's."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flott._absent import no_java_object
from flott.errors import ProgramError


class BucketAssigner(ABC):
    """Names the bucket of a record: a directory relative to the base path, ``""`` for the base path itself."""

    get_java_object = no_java_object("get_java_object")

    @abstractmethod
    def buckets(self, values: list[Any], now_ms: int) -> str | list[str]:
        """Return the bucket of all the records, or one for each."""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Everything goes into the base path."""
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """By the processing time of the epoch, in Java's notation; ``None``: the time zone of the machine."""
        return DateTimeBucketAssigner(format_str, timezone_id)

    @staticmethod
    def by(function: Callable[[Any], str]) -> BucketAssigner:
        """By the record: ``BucketAssigner.by(lambda order: f"country={order['country']}")``. Flott only."""
        return FunctionBucketAssigner(function)


@dataclass(frozen=True)
class BasePathBucketAssigner(BucketAssigner):
    """One bucket for everything."""

    def buckets(self, values: list[Any], now_ms: int) -> str | list[str]:
        return ""


@dataclass(frozen=True)
class DateTimeBucketAssigner(BucketAssigner):
    """One bucket for each hour, or whatever the pattern tells apart."""

    format_str: str = "yyyy-MM-dd--HH"
    timezone_id: str | None = None

    def __post_init__(self) -> None:
        strftime_pattern(self.format_str)
        if self.timezone_id is not None:
            time_zone(self.timezone_id)

    def buckets(self, values: list[Any], now_ms: int) -> str | list[str]:
        zone = None if self.timezone_id is None else time_zone(self.timezone_id)
        now = datetime.fromtimestamp(now_ms // 1000, zone).replace(microsecond=now_ms % 1000 * 1000)
        return now.strftime(strftime_pattern(self.format_str).replace("%_ms", f"{now_ms % 1000:03d}"))


@dataclass(frozen=True)
class FunctionBucketAssigner(BucketAssigner):
    """Whatever a function of the record says."""

    function: Callable[[Any], str]

    def buckets(self, values: list[Any], now_ms: int) -> str | list[str]:
        return list(map(self.function, values))


# Java's DateTimeFormatter letters that make sense in a directory name, and what strftime calls them.
_STRFTIME = {
    "yyyy": "%Y", "uuuu": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "dd": "%d", "DDD": "%j", "HH": "%H", "hh": "%I",
    "mm": "%M", "ss": "%S", "SSS": "%_ms", "a": "%p", "EEE": "%a", "ww": "%V", "YYYY": "%G",
}  # fmt: skip
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def strftime_pattern(java: str) -> str:
    """A Java date pattern in Python's notation; ``%_ms`` stands for milliseconds, which Python has no letter for.

    >>> strftime_pattern("yyyy-MM-dd--HH")
    '%Y-%m-%d--%H'
    """
    parts: list[str] = []
    position = 0
    while position < len(java):
        token = _TOKEN.match(java, position)
        if token is None:
            raise ProgramError(f"The date pattern {java!r} has a quote that is never closed.")
        position = token.end()
        if token[2] is None:
            literal = token[0] if token[1] is None else token[1].replace("''", "'") or "'"
            parts.append(literal.replace("%", "%%"))
        elif token[0] in _STRFTIME:
            parts.append(_STRFTIME[token[0]])
        else:
            raise ProgramError(
                f"The date pattern {java!r} has {token[0]!r}; Flott knows {', '.join(_STRFTIME)}, and text in 'quotes'."
            )
    return "".join(parts)


_OFFSET = re.compile(r"(?:GMT|UTC|Z)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?")


def time_zone(timezone_id: str) -> tzinfo:
    """Return the zone of a name such as ``Europe/Berlin``, ``UTC`` or ``GMT-08:00``."""
    offset = _OFFSET.fullmatch(timezone_id)
    if offset and timezone_id:
        minutes = int(offset[2] or 0) * 60 + int(offset[3] or 0)
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(timezone_id)
    except (ZoneInfoNotFoundError, ValueError):
        raise ProgramError(f"Unknown time zone {timezone_id!r}: use a name such as 'Europe/Berlin' or 'UTC'.") from None
