"""Casts to texts and bytes, over columns: every type has a text."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.roaring import bitmap_text
from flott.table._functions.time_text import interval_text, time_text, timestamp_text
from flott.table._functions.time_zones import to_local
from flott.table._types.logical import (
    UNLIMITED,
    ArrayType,
    BinaryType,
    BitmapType,
    CharType,
    DecimalType,
    Family,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    RawType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
    YearMonthIntervalType,
)

_NULL = "NULL"  #: how a NULL is written inside of an array, map or row


def to_text(column: pa.Array, source: LogicalType, target: CharType | VarCharType, zone: str) -> pa.Array:
    """Return a column as texts of a type: cut to its length, and filled up with blanks if the length is fixed."""
    text = text_of(column, source, zone)
    if target.length == UNLIMITED:
        return text
    if not isinstance(source, CharType | VarCharType) or source.length > target.length:
        text = pc.utf8_slice_codeunits(text, 0, target.length)
    return pc.utf8_rpad(text, target.length, " ") if isinstance(target, CharType) else text


def text_of(column: pa.Array, source: LogicalType, zone: str) -> pa.Array:
    """Return the text of each value."""
    match source:
        case CharType() | VarCharType():
            return column
        case DecimalType():
            return _decimal_text(column)
        case TimestampType():
            return timestamp_text(column, source.precision)
        case LocalZonedTimestampType():
            return timestamp_text(to_local(column, zone), source.precision)
        case TimeType():
            return time_text(column, source.precision)
        case ArrayType() | MapType() | MultisetType() | RowType():
            return _nested_text(column, source, zone)
        case RawType():
            return _each(column, lambda value: str(pickle.loads(value)))
        case BitmapType():
            return _each(column, bitmap_text)
    match source.family:
        case Family.BOOLEAN:
            return pc.if_else(column, "TRUE", "FALSE")
        case Family.APPROXIMATE:
            return _float_text(column)
        case Family.INTERVAL:
            return interval_text(column, isinstance(source, YearMonthIntervalType))
        case Family.BINARY:
            return _decoded(column)
    return column.cast(pa.string())


def _each(column: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in column.to_pylist()], type=pa.string())


def _decimal_text(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    if pc.any(pc.match_substring(text, "E"), skip_nulls=True).as_py():  # small numbers come with an exponent
        return _each(column, lambda value: f"{value:f}")
    return text


def _decoded(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return _each(column, lambda value: value.decode("utf-8", errors="replace"))


# --- floating-point numbers: the text that Java gives them -----------------------------------------------------------


def _float_text(column: pa.Array) -> pa.Array:
    text = column.cast(pa.string())
    size = pc.abs(column)
    usual = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(size, 0.0))
    whole = pc.and_(usual, pc.invert(pc.match_substring(text, ".")))
    text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pc.all(usual, skip_nulls=True).as_py():
        return text
    return pa.array(
        [
            written if written is None or plain else _scientific(written)
            for written, plain in zip(text.to_pylist(), usual.to_pylist(), strict=True)
        ],
        type=pa.string(),
    )


def _scientific(text: str) -> str:
    """Return a number as Java writes those that are very large or very small: 1.5E10."""
    if text.endswith("nan"):
        return "NaN"
    if text.endswith("inf"):
        return "-Infinity" if text.startswith("-") else "Infinity"
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{exponent + len(digits) - 1}"


# --- arrays, maps and rows -------------------------------------------------------------------------------------------


def _nested_text(column: pa.Array, source: LogicalType, zone: str) -> pa.Array:
    if isinstance(source, RowType):
        parts = [text_of(part, of, zone).to_pylist() for part, of in zip(column.flatten(), source.types, strict=True)]
        rows = zip(*parts, strict=True) if parts else [()] * len(column)
        texts = ["(" + ", ".join(_NULL if part is None else part for part in row) + ")" for row in rows]
        mask = None if column.null_count == 0 else pc.is_null(column).to_numpy(zero_copy_only=False)
        return pa.array(texts, type=pa.string(), mask=mask)
    if isinstance(source, ArrayType):
        return _joined(column, [text_of(column.values, source.element, zone)], "[", "]")
    assert isinstance(source, MapType | MultisetType)
    key = source.key if isinstance(source, MapType) else source.element
    items = column.items if not isinstance(source, MapType) else text_of(column.items, source.value, zone)
    return _joined(column, [text_of(column.keys, key, zone), items.cast(pa.string())], "{", "}")


def _joined(column: pa.Array, parts: list[pa.Array], opening: str, closing: str) -> pa.Array:
    """Return the elements of each list in brackets; those of a map as ``key=value``."""
    texts = [[_NULL if text is None else text for text in part.to_pylist()] for part in parts]
    entries = texts[0] if len(texts) == 1 else [f"{key}={value}" for key, value in zip(*texts, strict=True)]
    offsets = np.asarray(column.offsets)
    found = [f"{opening}{', '.join(entries[start:end])}{closing}" for start, end in pairwise(offsets)]
    mask = None if column.null_count == 0 else pc.is_null(column).to_numpy(zero_copy_only=False)
    return pa.array(found, type=pa.string(), mask=mask)


# --- bytes -----------------------------------------------------------------------------------------------------------


def to_bytes(column: pa.Array, source: LogicalType, target: BinaryType | VarBinaryType) -> pa.Array:
    """Return a column as bytes: texts in UTF-8; cut to the length, filled up with zeros if that is fixed."""
    raw = column.cast(pa.binary())
    if target.length == UNLIMITED:
        return raw
    raw = pc.binary_slice(raw, 0, target.length)
    if isinstance(target, BinaryType):
        length = target.length
        return pa.array(
            [None if value is None else value.ljust(length, b"\0") for value in raw.to_pylist()], type=pa.binary()
        )
    return raw
