"""Points in time as clocks on the wall show them, and back, over columns."""

from __future__ import annotations

import re
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.argument_checks import EvaluationError

_UTC = {"UTC", "GMT", "Z", "Etc/UTC", "Etc/GMT", "UT", "Zulu"}
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?00)?")


@lru_cache(maxsize=256)
def zone_name(name: str) -> str:
    """Return the name by which Arrow knows a time zone: ``GMT+8`` is ``+08:00``; raise if there is no such zone."""
    if name in _UTC:
        return "UTC"
    offset = _OFFSET.fullmatch(name)
    if offset is not None and int(offset[2]) <= 18:
        return f"{offset[1]}{int(offset[2]):02d}:{offset[3] or '00'}"
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(
            f"{name!r} is no time zone. Expected a name such as 'Europe/Berlin' or an offset such as '+02:00'."
        ) from None
    return name


def to_local(column: pa.Array, zone: str) -> pa.Array:
    """Return points in time as timestamps without a zone: what a clock in the zone shows."""
    unit, name = column.type.unit, zone_name(zone)
    if name == "UTC":
        return column.cast(pa.timestamp(unit))
    return pc.local_timestamp(column.cast(pa.timestamp(unit, tz=name)))


def to_instant(column: pa.Array, zone: str) -> pa.Array:
    """Return the points in time at which a clock in a zone shows the timestamps.

    Of two such points the earlier one counts. A time that the clock skips is read as if it had not been put forward.
    """
    unit, name = column.type.unit, zone_name(zone)
    utc = pa.timestamp(unit, tz="UTC")
    if name == "UTC":
        return pc.assume_timezone(column, "UTC")
    try:
        return pc.assume_timezone(column, name, ambiguous="earliest").cast(utc)
    except pa.ArrowInvalid:
        before = pc.assume_timezone(column, name, ambiguous="earliest", nonexistent="earliest")
        shown = pc.local_timestamp(before)
        skipped = pc.subtract(column, shown)  # zero wherever the clock does show the time
        return pc.add(before.cast(utc), skipped)
