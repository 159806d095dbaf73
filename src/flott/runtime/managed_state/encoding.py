"""Bytes for keys: one canonical encoding, so that equal keys are equal bytes in every process and version.

Two keys that Python calls equal (``1``, ``1.0``, ``True``, ``Decimal(1)``) are the same key, because state tables are
dictionaries; so numbers are encoded by value, not by type. Lists, dicts and sets are frozen before they come here. A
key without an identity that outlives its process (a NaN, an object hashed by its address) is refused.

Layout: one letter for the kind, then the value. Composite keys are their parts, each behind its length.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Iterable
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from flott.common._frozen import FrozenDict, FrozenList
from flott.common.types import Row
from flott.errors import KeyTypeError

_SMALL = 1 << 63
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NOT_A_NUMBER = (
    "The key is NaN (or NaT), which is not equal to itself, so its records would never meet. Map it to None (or any"
    " ordinary value) in the key selector."
)


def encode_key(key: Any) -> bytes:
    """Return the canonical bytes of a key."""
    kind = key.__class__
    if kind is str:
        return b"s" + key.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]
    if kind is int:
        return _encode_int(key)
    if kind is tuple:
        return b"t" + _encode_parts(key)
    return _encode_other(key)


def _encode_int(value: int) -> bytes:
    if -_SMALL <= value < _SMALL:
        # Shifted to unsigned big-endian, so that bytes sort as numbers do.
        return b"i" + (value + _SMALL).to_bytes(8, "big")
    return b"I" + f"{value:x}".encode()  # hexadecimal: Python refuses to spell thousands of decimal digits


def _encode_parts(parts: Iterable[Any]) -> bytes:
    return _join(map(encode_key, parts))


def _join(encoded: Iterable[bytes]) -> bytes:
    return b"".join([len(part).to_bytes(4, "big") + part for part in encoded])


def _encode_float(value: float) -> bytes:
    if value != value:
        raise KeyTypeError(_NOT_A_NUMBER)
    if value.is_integer():
        return _encode_int(int(value))
    return b"f" + struct.pack(">d", value)


def _encode_decimal(value: Decimal) -> bytes:
    if value.is_nan():
        raise KeyTypeError(_NOT_A_NUMBER)
    if value.is_infinite():
        return _encode_float(float(value))
    if value == value.to_integral_value():
        return _encode_int(int(value))
    if Decimal(float(value)) == value:
        return _encode_float(float(value))
    # From the digits themselves: Decimal's own arithmetic rounds to the precision of the thread it runs in.
    sign, digits, exponent = value.as_tuple()
    spelled = "".join(map(str, digits))
    significant = spelled.strip("0")
    assert isinstance(exponent, int)
    exponent += len(spelled) - len(spelled.rstrip("0"))
    return b"d" + f"{'-' if sign else ''}{significant}E{exponent}".encode()


def _encode_datetime(value: datetime.datetime) -> bytes:
    value = value.replace(fold=0)  # which equality and hash do not look at either
    if value.utcoffset() is None:
        return b"W" + value.isoformat().encode()
    return b"w" + _spell(value - _EPOCH)  # one instant, whatever the time zone


def _encode_time(value: datetime.time) -> bytes:
    value = value.replace(fold=0)
    offset = value.utcoffset()
    if offset is None:
        return b"T" + value.isoformat().encode()
    since_midnight = datetime.timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    return b"z" + _spell(since_midnight - offset)


def _spell(duration: datetime.timedelta) -> bytes:
    nanoseconds = getattr(duration, "nanoseconds", 0)  # those of a pandas Timedelta
    beyond = f",{nanoseconds}" if nanoseconds else ""
    return f"{duration.days},{duration.seconds},{duration.microseconds}{beyond}".encode()


def _encode_row(row: Row) -> bytes:
    # Equality looks at the kind of change, and at names but not at their order.
    kind, names = row.get_row_kind().value, row._fields
    if names is None:
        return b"r" + _encode_parts((kind, *row))
    return b"R" + _encode_parts((kind, *sorted(zip(names, map(encode_key, row), strict=False))))


def _encode_other(key: Any) -> bytes:  # the order matters: subclasses before their bases
    match key:
        case None:
            return b"n"
        case str():
            return b"s" + str.__str__(key).encode("utf-8", "surrogatepass")
        case int():  # bool, IntEnum
            return _encode_int(int(key))
        case float():
            return _encode_float(float(key))
        case bytes():
            return b"b" + bytes(key)
        case tuple():  # NamedTuple equals the tuple of its fields
            return b"t" + _encode_parts(key)
        case Row():
            return _encode_row(key)
        case Enum():
            return b"e" + f"{type(key).__module__}.{type(key).__qualname__}.{key.name}".encode()
        case Decimal():
            return _encode_decimal(key)
        case UUID():
            return b"u" + key.bytes
        case frozenset():
            return b"S" + _join(sorted(map(encode_key, key)))
        case FrozenList():
            return b"L" + _encode_parts(key)
        case FrozenDict():
            return b"M" + _join(sorted(_encode_parts(item) for item in key.items()))
    hashed_by: Any = type(key).__hash__
    if hashed_by is None or hashed_by is object.__hash__ or isinstance(key, type):
        raise KeyTypeError(_refusal(key))
    if key != key:  # NaT of numpy or pandas
        raise KeyTypeError(_NOT_A_NUMBER)
    return _encode_hashable(key)


def _encode_hashable(key: Any) -> bytes:
    match key:
        case datetime.datetime():
            return _encode_datetime(key)
        case datetime.date():
            return b"D" + key.isoformat().encode()
        case datetime.time():
            return _encode_time(key)
        case datetime.timedelta():
            return b"l" + _spell(key)
    if dataclasses.is_dataclass(key):
        return _encode_dataclass(key)
    if hasattr(key, "item") and hasattr(key, "dtype"):  # a numpy scalar
        plain = key.item()
        # Some have no Python equal (long doubles), or one that depends on their unit (dates).
        if type(plain) is not type(key) and getattr(key.dtype, "kind", "") not in ("M", "m"):
            return encode_key(plain)
    raise KeyTypeError(_refusal(key))


def _encode_dataclass(key: Any) -> bytes:
    compared = [getattr(key, field.name) for field in dataclasses.fields(key) if field.compare]
    return b"c" + _encode_parts((f"{type(key).__module__}.{type(key).__qualname__}", *compared))


def _refusal(key: Any) -> str:
    shown = repr(key)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    reason = (
        "is mutable and cannot be hashed"
        if type(key).__hash__ is None
        else "has no identity that is the same in every process"
    )
    return (
        f"The key {shown} of type {type(key).__qualname__} {reason}. Use a str, number, bytes, tuple, date, UUID, Enum,"
        " Row or frozen dataclass as the key; a list becomes one with tuple(...)."
    )
