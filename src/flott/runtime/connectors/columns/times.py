"""Timestamps as text: whole columns at once, and single values for what the fast way refuses. Task side."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._types.arrow import timestamp_unit

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)([ T])(\d\d:\d\d(?::\d\d)?)(?:\.(\d{0,9}))?(Z)?")
_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime.datetime(1970, 1, 1)

#: The length of a timestamp without a fraction, and where the separator stands in it.
_SHORTEST, _SEPARATOR_AT = 19, 10


def parse_timestamp_text(text: str, separator: str | None, precision: int, zoned: bool) -> int:
    """Return a timestamp as a number in the unit of its precision; further digits are cut off.

    ``separator`` is what stands between date and time; None: a space or a T. A zoned one ends in Z.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None or (separator is not None and match[2] != separator) or (match[5] is not None) is not zoned:
        example = f"2026-01-31{separator or ' '}12:30:00.5{'Z' if zoned else ''}"
        raise ValueError(f"it is not written as {example}")
    per_second = _PER_SECOND[timestamp_unit(precision)]
    moment = datetime.datetime.fromisoformat(f"{match[1]}T{match[3]}")
    seconds = (moment - _EPOCH) // datetime.timedelta(seconds=1)
    return seconds * per_second + int((match[4] or "").ljust(9, "0")) * per_second // 1_000_000_000


def timestamps_of(texts: pa.Array, wanted: pa.TimestampType, separator: str | None, zoned: bool) -> pa.Array:
    """Return a column of texts as timestamps. Raises ``pa.ArrowInvalid`` if one is not written as it must be."""
    texts = texts if not texts.offset else pa.concat_arrays([texts])
    size = len(texts)
    if size == 0 or texts.null_count == size:
        return pa.nulls(size, wanted)
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32, count=size + 1)
    data = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    starts, ends = offsets[:-1], offsets[1:]
    if texts.null_count:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        starts, ends = starts[there], ends[there]
    if (ends - starts).min() < _SHORTEST:
        raise pa.ArrowInvalid("a timestamp is too short")
    if separator is not None and (data[starts + _SEPARATOR_AT] != ord(separator)).any():
        raise pa.ArrowInvalid(f"a timestamp has no {separator!r} between date and time")
    if ((data[ends - 1] == ord("Z")) != zoned).any() or (not zoned and (data[ends - 6] == ord("+")).any()):
        raise pa.ArrowInvalid("a timestamp is followed by a time zone or lacks it")
    return texts.cast(wanted)


def times_of(texts: pa.Array) -> pa.Array:
    """Return a column of texts as times of day. Raises ``pa.ArrowInvalid`` if one is not written as 12:30:00.5."""
    moments = pc.binary_join_element_wise("1970-01-01", texts, " ")
    return moments.cast(pa.timestamp("ms")).cast(pa.time32("ms"))


def timestamp_texts(column: pa.Array, separator: str, zoned: bool) -> pa.Array:
    """Return timestamps as text, with as many digits behind the second as they have and need."""
    plain = column.cast(pa.timestamp(column.type.unit))
    text = plain.cast(pa.string())  # 2026-01-31 12:30:00.500
    if column.type.unit != "ms" or pc.any(pc.match_substring(text, pattern=".")).as_py():
        text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
        text = pc.replace_substring_regex(text, r"\.$", "")
    if separator != " ":
        text = pc.replace_substring(text, pattern=" ", replacement=separator, max_replacements=1)
    return pc.binary_join_element_wise(text, "Z", "") if zoned else text


def time_texts(column: pa.Array) -> pa.Array:
    """Return times of day as text, without zeros at the end of the fraction."""
    text = column.cast(pa.string())
    text = pc.replace_substring_regex(text, r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(text, r"\.$", "")
