"""Time columns as milliseconds, and the clock that windows are aligned with. Task side.

Windows of TIMESTAMP columns are aligned as the columns are. Those of TIMESTAMP_LTZ columns are aligned with the wall
clock of the session's time zone: a day begins at midnight there, whether it has 23, 24 or 25 hours. Their bounds are
*local* milliseconds (what the wall clock shows, counted as if it were UTC); watermarks are instants.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.errors import ProgramError

Longs: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

#: Offsets of time zones change at multiples of a quarter of an hour.
_QUARTER_MS = 900_000
_HOUR_MS = 3_600_000
_EPOCH = datetime(1970, 1, 1)
_PER_MS = {"ns": 1_000_000, "us": 1_000}
#: Instants that ``datetime`` can represent, with a day to spare.
_FIRST_MS, _LAST_MS = -62_135_510_400_000, 253_402_214_400_000


def milliseconds(column: pa.Array, name: str = "time") -> Longs:
    """Return a column of timestamps as milliseconds, rounded down. A null has no place in time and is refused."""
    if column.null_count:
        raise ProgramError(
            f"The time column {name!r} is NULL in {column.null_count} row(s). A row of a window needs a time: filter"
            f" them out with WHERE {name} IS NOT NULL."
        )
    unit = column.type.unit
    values: Longs = column.view(pa.int64()).to_numpy(zero_copy_only=False)
    if unit == "s":
        return values * 1000
    return values if unit == "ms" else values // _PER_MS[unit]


def timestamps(values: Longs, of: pa.DataType) -> pa.Array:
    """Return milliseconds as a column of a type of timestamps."""
    scaled = values * _PER_MS.get(of.unit, 1)
    return pa.array(np.ascontiguousarray(scaled if of.unit != "s" else values // 1000), pa.int64()).view(of)


class LocalClock:
    """Converts between instants and the wall clock of a time zone. Of no zone: they are the same."""

    def __init__(self, zone: str | None = None):
        self.zone = None if zone is None or zone in ("UTC", "Z", "Etc/UTC", "GMT") else zone_named(zone)

    def local(self, instants: Longs) -> Longs:
        """Return what the wall clock shows at instants."""
        if self.zone is None or not len(instants):
            return instants
        quarters, places = np.unique(instants // _QUARTER_MS, return_inverse=True)
        offsets = np.array([self._offset(int(quarter) * _QUARTER_MS) for quarter in quarters], np.int64)
        return instants + offsets[places]

    def instants(self, locals_: Longs) -> Longs:
        """Return when the wall clock shows times: the first time of two, and behind a gap as far as into it."""
        if self.zone is None or not len(locals_):
            return locals_
        different, places = np.unique(locals_, return_inverse=True)
        found: Longs = np.array([self._instant(int(one)) for one in different], np.int64)
        return found[places]

    def deadlines(self, locals_: Longs) -> Longs:
        """Return when the wall clock has shown times for good.

        A time that is shown twice, when the clock is set back, counts from the second time. One that is never shown,
        when the clock is set forward, counts from the moment of the change.
        """
        if self.zone is None or not len(locals_):
            return locals_
        different, places = np.unique(locals_, return_inverse=True)
        found: Longs = np.array([self._deadline(int(one)) for one in different], np.int64)
        return found[places]

    def passed(self, locals_: Longs, instant: int) -> Flags:
        """Return which times the wall clock has shown for good at an instant."""
        if self.zone is None:
            return locals_ <= instant
        if instant >= MAX_WATERMARK:
            return np.ones(len(locals_), np.bool_)
        if instant <= MIN_WATERMARK:
            return np.zeros(len(locals_), np.bool_)
        return self.deadlines(locals_) <= instant

    def _offset(self, instant: int) -> int:
        assert self.zone is not None
        return _offset_at(self.zone, min(max(instant, _FIRST_MS), _LAST_MS))

    def _instant(self, local: int) -> int:
        if not _FIRST_MS <= local <= _LAST_MS:
            return local
        shown = (_EPOCH + timedelta(milliseconds=local)).replace(tzinfo=self.zone)
        offset = shown.utcoffset()
        assert offset is not None
        return local - _milliseconds_of(offset)

    def _deadline(self, local: int) -> int:
        first, later = self._instant(local), self._instant(local + _HOUR_MS)
        if first == later:
            return first - first % _HOUR_MS
        if later - first > _HOUR_MS:
            return later - _HOUR_MS
        return first


@lru_cache(maxsize=4096)
def _offset_at(zone: Any, instant: int) -> int:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=instant)
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return _milliseconds_of(offset)


def _milliseconds_of(offset: timedelta) -> int:
    return offset // timedelta(milliseconds=1)


@lru_cache(maxsize=64)
def zone_named(name: str) -> Any:
    """Return a time zone by its name, or by its offset such as GMT+08:00 or +08:00."""
    text = name.removeprefix("GMT").removeprefix("UTC")
    if text[:1] in ("+", "-"):
        hours, _, minutes = text[1:].partition(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-offset if text[0] == "-" else offset)
    return ZoneInfo(name)
