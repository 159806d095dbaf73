"""Casts to numbers and BOOLEAN, over columns.

Integers wrap when they are narrowed, floating-point numbers saturate, decimals round half up and become NULL if they
have too many digits; a text that is no number fails.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions import decimals, rounding
from flott.table._functions.decimals import Unscaled, raw_values, valid_mask, validity
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import BooleanType, DecimalType, DoubleType, Family, FloatType, IntegerType, LogicalType

#: A converted column and where a value could not be converted (None: nowhere).
Converted = tuple[pa.Array, Any]

_INTEGER_TEXT = r"^[+-]?[0-9]+(\.[0-9]*)?$"
_NUMBER_TEXT = r"^[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)$"
_TRUE, _FALSE = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]
_BLANKS = " \t\n\r\f\v"


def to_number(column: pa.Array, source: LogicalType, target: LogicalType) -> Converted:
    """Return a column as numbers of a type."""
    if isinstance(target, DecimalType):
        return _to_decimal(column, source, target)
    if isinstance(target, IntegerType):
        return _to_integer(column, source, target)
    assert isinstance(target, FloatType | DoubleType)
    return _to_approximate(column, source, target)


def to_boolean(column: pa.Array, source: LogicalType) -> Converted:
    """Return a column as BOOLEAN: numbers other than 0 are TRUE; texts are TRUE, YES, 1 and so on, in any case."""
    if isinstance(source, BooleanType):
        return column, None
    if source.family is not Family.CHARACTER:
        zero = pa.scalar(0, column.type) if not pa.types.is_decimal(column.type) else pa.scalar(Decimal(0), column.type)
        return pc.not_equal(column, zero), None
    words = pc.utf8_lower(pc.utf8_trim(column, _BLANKS))
    yes = pc.is_in(words, value_set=pa.array(_TRUE))
    known = pc.or_(yes, pc.is_in(words, value_set=pa.array(_FALSE)))
    found = pc.if_else(known, yes, pa.scalar(None, pa.bool_()))
    return found, _failures(column, found)


def _failures(column: pa.Array, found: pa.Array) -> Any:
    """Return where a value was lost; None if none was."""
    if found.null_count == column.null_count:
        return None
    return pc.and_(pc.is_valid(column), pc.is_null(found))


# --- integers --------------------------------------------------------------------------------------------------------


def _to_integer(column: pa.Array, source: LogicalType, target: IntegerType) -> Converted:
    wanted = arrow_type(target)
    match source.family:
        case Family.INTEGER:
            return pc.cast(column, wanted, safe=False), None
        case Family.BOOLEAN:
            return pc.cast(column, wanted), None
        case Family.DECIMAL:
            return _integers_of_decimals(column, wanted), None
        case Family.APPROXIMATE:
            return _integers_of_floats(column, target, wanted), None
        case Family.INTERVAL:
            return pc.cast(_interval_units(column, source), wanted, safe=False), None
    return _integers_of_text(column, target, wanted)


def _interval_units(column: pa.Array, source: LogicalType) -> pa.Array:
    """Return an interval of a single field as the number of its units."""
    from flott.table._functions.interval_units import unit_of

    raw = column.cast(pa.int64())
    return pc.divide(raw, unit_of(source))


def _integers_of_decimals(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    numbers = decimals.truncated(decimals.unscaled(column), column.type.scale)
    values = numbers.values
    if values.dtype == object:  # the lowest bits stay, as in Java
        values = np.array([(value & (2**64 - 1)) for value in values], dtype=np.uint64).view(np.int64)
    return _column(values.astype(wanted.to_pandas_dtype()), numbers.valid, wanted)


def _integers_of_floats(column: pa.Array, target: IntegerType, wanted: pa.DataType) -> pa.Array:
    values = raw_values(column, column.type.to_pandas_dtype()).astype(np.float64)
    bits = max(target.bits, 32)  # smaller ones are made from INT
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    with np.errstate(invalid="ignore"):
        whole = np.trunc(np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf))
        inside = (whole > low) & (whole < float(high))
        cut = np.where(inside, whole, 0).astype(np.int64)
    cut = np.where(inside, cut, np.where(whole <= low, low, high))
    return _column(cut.astype(wanted.to_pandas_dtype()), valid_mask(column), wanted)


def _column(values: np.ndarray[Any, Any], valid: np.ndarray[Any, Any] | None, of: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(of, len(values), [validity(valid), pa.py_buffer(np.ascontiguousarray(values))])


def _has_letter_x(column: pa.Array) -> bool:
    """Return whether a text may be a number like 0x10, which Arrow reads and Flink does not."""
    data = column.buffers()[2]
    if data is None:
        return False
    letters = np.frombuffer(data, dtype=np.uint8)
    return bool(((letters | 32) == ord("x")).any())


def _integers_of_text(column: pa.Array, target: IntegerType, wanted: pa.DataType) -> Converted:
    if not _has_letter_x(column):
        try:
            return column.cast(wanted), None
        except pa.ArrowInvalid:
            pass
    trimmed = pc.utf8_trim(column, _BLANKS)
    good = pc.match_substring_regex(trimmed, _INTEGER_TEXT)
    digits = pc.if_else(good, pc.replace_substring_regex(trimmed, r"^\+|\..*$", ""), pa.scalar(None, pa.string()))
    try:
        found = digits.cast(wanted)
    except pa.ArrowInvalid:
        low, high = -(2 ** (target.bits - 1)), 2 ** (target.bits - 1) - 1
        numbers = (None if text is None else int(text) for text in digits.to_pylist())
        found = pa.array([n if n is not None and low <= n <= high else None for n in numbers], type=wanted)
    return found, _failures(column, found)


# --- floating-point numbers ------------------------------------------------------------------------------------------


def _to_approximate(column: pa.Array, source: LogicalType, target: LogicalType) -> Converted:
    wanted = arrow_type(target)
    match source.family:
        case Family.BOOLEAN:
            return pc.cast(pc.cast(column, pa.int8()), wanted), None
        case Family.DECIMAL:
            return pc.cast(column, wanted), None
        case Family.CHARACTER:
            return _floats_of_text(column, wanted)
    return pc.cast(column, wanted, safe=False), None


def _floats_of_text(column: pa.Array, wanted: pa.DataType) -> Converted:
    trimmed = pc.utf8_trim(column, _BLANKS)
    good = pc.match_substring_regex(trimmed, _NUMBER_TEXT)
    plain = pc.replace_substring_regex(trimmed, r"([0-9.])[fFdD]$|^\+", r"\1")
    found = pc.if_else(good, plain, pa.scalar(None, pa.string())).cast(wanted)
    return found, _failures(column, found)


# --- decimals --------------------------------------------------------------------------------------------------------


def _to_decimal(column: pa.Array, source: LogicalType, target: DecimalType) -> Converted:
    match source.family:
        case Family.DECIMAL | Family.INTEGER:
            scale = column.type.scale if isinstance(source, DecimalType) else 0
            return _rescaled(decimals.unscaled(column), scale, target), None
        case Family.BOOLEAN:
            return _rescaled(decimals.unscaled(pc.cast(column, pa.int8())), 0, target), None
        case Family.INTERVAL:
            return _rescaled(decimals.unscaled(_interval_units(column, source)), 0, target), None
        case Family.APPROXIMATE:
            return _decimals_of_floats(column, target), None
    return _decimals_of_text(column, target)


def _rescaled(numbers: Unscaled, scale: int, target: DecimalType) -> pa.Array:
    return decimals.decimal_column(decimals.rescaled(numbers, target.scale - scale), target.precision, target.scale)


def _decimals_of_floats(column: pa.Array, target: DecimalType) -> pa.Array:
    """Return the decimals nearest to the exact binary values."""
    values = raw_values(column, column.type.to_pandas_dtype()).astype(np.float64)
    whole, sure = rounding.scaled(values, target.scale, cut=False, slack=4e-16)
    valid = valid_mask(column)
    doubtful = ~sure if valid is None else ~sure & valid
    found = _rescaled(Unscaled(whole.astype(np.int64), valid), target.scale, target)
    if not doubtful.any():
        return found
    exact = [Decimal(value) if np.isfinite(value) else None for value in values[doubtful].tolist()]
    return pc.replace_with_mask(found, pa.array(doubtful), _quantized(exact, target))


def _decimals_of_text(column: pa.Array, target: DecimalType) -> Converted:
    texts = [None if text is None else text.strip(_BLANKS) for text in column.to_pylist()]
    found = _quantized([None if text is None else _decimal(text) for text in texts], target)
    return found, _failures(column, found)


_DECIMAL_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _decimal(text: str) -> Decimal | None:
    return Decimal(text) if _DECIMAL_TEXT.fullmatch(text) else None


def _quantized(values: list[Decimal | None], target: DecimalType) -> pa.Array:
    step, limit = Decimal(1).scaleb(-target.scale), Decimal(10) ** (target.precision - target.scale)
    with localcontext() as context:
        context.prec, context.rounding = 400, ROUND_HALF_UP
        found: list[Decimal | None] = []
        for value in values:
            try:
                rounded = None if value is None else value.quantize(step)
            except InvalidOperation:
                rounded = None
            found.append(rounded if rounded is not None and abs(rounded) < limit else None)
    return pa.array(found, type=arrow_type(target))
