"""Parses and formats Flink's duration strings (``10 s``, ``500ms``, ``1 min``). No other module does."""

from __future__ import annotations

import re

_UNITS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (86_400_000_000_000, ("d", "day", "days")),
    (3_600_000_000_000, ("h", "hour", "hours")),
    (60_000_000_000, ("min", "m", "minute", "minutes")),
    (1_000_000_000, ("s", "sec", "secs", "second", "seconds")),
    (1_000_000, ("ms", "milli", "millis", "millisecond", "milliseconds")),
    (1_000, ("us", "µs", "micro", "micros", "microsecond", "microseconds")),
    (1, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
)
_NANOS_BY_LABEL = {label: nanos for nanos, labels in _UNITS for label in labels} | {"": 1_000_000}
_AMOUNT = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)
_ISO = re.compile(r"\s*P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?\s*", re.IGNORECASE)


def parse_nanos(text: str) -> int:
    """Return the nanoseconds of ``10 s``, of ``PT10S`` or of a bare number, which means milliseconds as in Flink.

    >>> parse_nanos("500ms")
    500000000
    """
    match = _AMOUNT.fullmatch(text)
    if match and match[2].lower() in _NANOS_BY_LABEL:
        return int(match[1]) * _NANOS_BY_LABEL[match[2].lower()]
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups()[:4])
        whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return whole * 1_000_000_000 + int((iso[5] or "").ljust(9, "0"))
    raise ValueError(f"{text!r} is not a duration")


def format_nanos(nanos: int) -> str:
    """Return the shortest exact form with one unit: ``90 s`` and not ``1.5 min``."""
    if nanos == 0:
        return "0 ms"
    for size, labels in _UNITS:
        if nanos % size == 0:
            return f"{nanos // size} {labels[0]}"
    raise AssertionError("unreachable: every integer is a multiple of one nanosecond")


def rounded_millis(millis: int) -> str:
    """Return a duration with its two largest units.

    >>> rounded_millis(488_000), rounded_millis(999), rounded_millis(90_061_000)
    ('8 min 8 s', '999 ms', '1 d 1 h')
    """
    parts = []
    left = max(0, millis) * 1_000_000
    for size, labels in _UNITS[:5]:
        amount, left = divmod(left, size)
        if amount:
            parts.append(f"{amount} {labels[0]}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 ms"
