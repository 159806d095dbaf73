"""Bodies of dates and times."""

from __future__ import annotations

import datetime
from operator import attrgetter
from typing import Any
from zoneinfo import ZoneInfo

from flott.common.time import Instant
from flott.runtime.managed_state.files.column_bodies import (
    BOOLEANS,
    INTS,
    TEXTS,
    Codec,
    Cursor,
    Parts,
    Unrepresentable,
    unknown_tag,
)

_INSTANTS = 0x20
_DAYS = 0x21
_MICROS = 0x22
_UTC_MICROS = 0x23
_ZONED = 0x24

_UNIX_DAY = datetime.date(1970, 1, 1).toordinal()
_UNIX = datetime.datetime(1970, 1, 1)
_UNIX_UTC = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


class InstantCodec(Codec):
    """Points of time: seconds, and nanoseconds into them."""

    python_type = Instant

    def _pack(self, values: list[Any], parts: Parts) -> int:
        INTS.write([value.seconds for value in values], parts)
        INTS.write([value.nanos for value in values], parts)
        return _INSTANTS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _INSTANTS:
            raise unknown_tag(tag)
        return list(map(Instant, INTS.read(cursor, count), INTS.read(cursor, count)))


class DateCodec(Codec):
    """Days since 1970-01-01."""

    python_type = datetime.date

    def _pack(self, values: list[Any], parts: Parts) -> int:
        INTS.write_known([value.toordinal() - _UNIX_DAY for value in values], parts)
        return _DAYS

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        if tag != _DAYS:
            raise unknown_tag(tag)
        return [datetime.date.fromordinal(day + _UNIX_DAY) for day in INTS.read(cursor, count)]


class TimestampCodec(Codec):
    """Microseconds since 1970, on the clock they were read from; with a time zone, its name beside them."""

    python_type = datetime.datetime

    def _pack(self, values: list[Any], parts: Parts) -> int:
        zones = set(map(attrgetter("tzinfo"), values))
        folds = any(map(attrgetter("fold"), values))
        if not folds and zones <= {None}:
            INTS.write_known([(value - _UNIX) // _MICROSECOND for value in values], parts)
            return _MICROS
        if not folds and zones == {datetime.UTC}:
            INTS.write_known([(value - _UNIX_UTC) // _MICROSECOND for value in values], parts)
            return _UTC_MICROS
        INTS.write_known([(value.replace(tzinfo=None) - _UNIX) // _MICROSECOND for value in values], parts)
        _pack_zones(values, parts)
        return _ZONED

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        micros = INTS.read(cursor, count)
        if tag == _MICROS:
            return [_UNIX + datetime.timedelta(0, 0, micro) for micro in micros]
        if tag == _UTC_MICROS:
            return [_UNIX_UTC + datetime.timedelta(0, 0, micro) for micro in micros]
        if tag == _ZONED:
            return [
                (_UNIX + datetime.timedelta(0, 0, micro)).replace(tzinfo=zone, fold=fold)
                for micro, (zone, fold) in zip(micros, _unpack_zones(cursor, count), strict=True)
            ]
        raise unknown_tag(tag)


class TimeCodec(Codec):
    """Microseconds since midnight; with a time zone, its name beside them."""

    python_type = datetime.time

    def _pack(self, values: list[Any], parts: Parts) -> int:
        micros = [
            ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond for value in values
        ]
        INTS.write_known(micros, parts)
        if not any(map(attrgetter("fold"), values)) and set(map(attrgetter("tzinfo"), values)) <= {None}:
            return _MICROS
        _pack_zones(values, parts)
        return _ZONED

    def _unpack(self, tag: int, cursor: Cursor, count: int) -> list[Any]:
        micros = INTS.read(cursor, count)
        times = [(_UNIX + datetime.timedelta(0, 0, micro)).time() for micro in micros]
        if tag == _MICROS:
            return times
        if tag == _ZONED:
            zones = _unpack_zones(cursor, count)
            return [time.replace(tzinfo=zone, fold=fold) for time, (zone, fold) in zip(times, zones, strict=True)]
        raise unknown_tag(tag)


def _pack_zones(values: list[Any], parts: Parts) -> None:
    TEXTS.write([_spell_zone(value.tzinfo) for value in values], parts)
    BOOLEANS.write([bool(value.fold) for value in values], parts)


def _unpack_zones(cursor: Cursor, count: int) -> list[tuple[datetime.tzinfo | None, int]]:
    names = TEXTS.read(cursor, count)
    zones = {name: _zone_of(name) for name in dict.fromkeys(names)}
    folds = map(int, BOOLEANS.read(cursor, count))
    return list(zip(map(zones.__getitem__, names), folds, strict=True))


def _spell_zone(zone: datetime.tzinfo | None) -> str:
    """``Z``, an offset such as ``+01:00``, a name of the time zone database, or nothing."""
    if zone is None:
        return ""
    if zone is datetime.UTC:
        return "Z"
    if type(zone) is datetime.timezone and len(zone.__getinitargs__()) == 1:  # type: ignore[attr-defined]
        offset: datetime.timedelta = zone.utcoffset(None)
        sign = "-" if offset < datetime.timedelta(0) else "+"
        return f"{sign}{(datetime.datetime.min + abs(offset)).time().isoformat()}"
    if type(zone) is ZoneInfo and zone.key and ZoneInfo(zone.key) is zone:
        return zone.key
    raise Unrepresentable


def _zone_of(name: str) -> datetime.tzinfo | None:
    if not name:
        return None
    if name == "Z":
        return datetime.UTC
    if name[0] not in "+-":
        return ZoneInfo(name)
    clock = datetime.time.fromisoformat(name[1:])
    offset = datetime.timedelta(0, clock.second, clock.microsecond, 0, clock.minute, clock.hour)
    return datetime.timezone(-offset if name[0] == "-" else offset)
