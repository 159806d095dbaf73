"""Exact decimal arithmetic over columns.

A decimal is its unscaled whole number and a scale. As long as all numbers of a batch fit into 64 bits the work is that
of numpy on int64, an order of magnitude faster than 128-bit kernels; beyond, Python's integers keep it exact. A result
of too many digits is NULL, as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_INT64_LIMIT = 2**63 - 1
_POWERS = [10**digits for digits in range(80)]


@dataclass(frozen=True)
class Unscaled:
    """Numbers without their scale: an int64 array, or one of Python integers if they need more bits."""

    values: np.ndarray[Any, Any]
    valid: np.ndarray[Any, Any] | None  #: None: all of them

    @property
    def bound(self) -> int:
        """Return the largest absolute value."""
        if not len(self.values):
            return 0
        return max(abs(int(self.values.max())), abs(int(self.values.min())))

    def wide(self) -> np.ndarray[Any, Any]:
        """Return the numbers as Python integers."""
        return self.values if self.values.dtype == object else self.values.astype(object)


def valid_mask(column: pa.Array) -> np.ndarray[Any, Any] | None:
    """Return which values are there; None if all are."""
    return None if column.null_count == 0 else pc.is_valid(column).to_numpy(zero_copy_only=False)


def both_valid(one: np.ndarray[Any, Any] | None, other: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any] | None:
    """Return where both are there."""
    if one is None:
        return other
    return one if other is None else one & other


def raw_values(column: pa.Array, dtype: Any) -> np.ndarray[Any, Any]:
    """Return the values of a fixed-width column without a copy; what stands at NULLs is not defined."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), dtype=dtype)
    values: np.ndarray[Any, Any] = np.frombuffer(data, dtype=dtype)
    return values[column.offset : column.offset + len(column)]


def unscaled(column: pa.Array) -> Unscaled:
    """Return the unscaled numbers of a column of decimals or integers. NULLs are 0."""
    valid = valid_mask(column)
    of = column.type
    if pa.types.is_integer(of):
        values = raw_values(column, of.to_pandas_dtype()).astype(np.int64, copy=False)
    else:
        words = raw_values_of_words(column)
        values = words[:, 0]
        if of.precision > 18 and not np.array_equal(values >> 63, words[:, 1]):
            fits = (values >> 63) == words[:, 1]
            if valid is None or not bool((fits | ~valid).all()):
                low = words[:, 0].astype(np.uint64).astype(object)
                values = (words[:, 1].astype(object) << 64) | low
    if valid is not None:
        values = np.where(valid, values, 0)
    return Unscaled(values, valid)


def raw_values_of_words(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return the two 64-bit words, low one first, of each decimal."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros((len(column), 2), dtype=np.int64)
    words: np.ndarray[Any, Any] = np.frombuffer(data, dtype=np.int64, count=(column.offset + len(column)) * 2)
    return words.reshape(-1, 2)[column.offset :]


def decimal_column(numbers: Unscaled, precision: int, scale: int) -> pa.Array:
    """Return unscaled numbers as a column of decimals. Those with too many digits are NULL."""
    values, valid = numbers.values, numbers.valid
    limit = _POWERS[precision]
    if len(values) and numbers.bound >= limit:
        inside = (values < limit) & (values > -limit)
        valid = both_valid(valid, inside.astype(bool))
        values = np.where(inside, values, 0)
    words = np.empty((len(values), 2), dtype=np.int64)
    if values.dtype == object:
        words[:, 0] = (values & (2**64 - 1)).astype(np.uint64).view(np.int64) if len(values) else 0
        words[:, 1] = (values >> 64).astype(np.int64)
    else:
        words[:, 0] = values
        words[:, 1] = values >> 63
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [validity(valid), pa.py_buffer(words)])


def validity(valid: np.ndarray[Any, Any] | None) -> pa.Buffer | None:
    """Return the validity bitmap of a mask."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def rescaled(numbers: Unscaled, by: int) -> Unscaled:
    """Return numbers times ten to the power of ``by``, rounded half up (away from zero) if digits fall away."""
    if by == 0:
        return numbers
    if by > 0:
        factor = _POWERS[by]
        if numbers.bound == 0:
            return numbers
        if numbers.values.dtype != object and numbers.bound * factor <= _INT64_LIMIT:
            return Unscaled(numbers.values * np.int64(factor), numbers.valid)
        return Unscaled(numbers.wide() * factor, numbers.valid)
    if by < -38:
        return Unscaled(np.zeros(len(numbers.values), dtype=np.int64), numbers.valid)
    return Unscaled(_divided(numbers.values, _POWERS[-by]), numbers.valid)


def truncated(numbers: Unscaled, digits: int) -> Unscaled:
    """Return numbers without their last digits."""
    if digits <= 0:
        return numbers
    divisor = _POWERS[digits]
    if numbers.values.dtype != object:
        if divisor > _INT64_LIMIT:
            return Unscaled(np.zeros(len(numbers.values), dtype=np.int64), numbers.valid)
        values = numbers.values
        return Unscaled(np.sign(values) * (np.abs(values) // divisor), numbers.valid)
    wide = numbers.values
    return Unscaled(np.where(wide < 0, -(-wide // divisor), wide // divisor), numbers.valid)


def _divided(values: np.ndarray[Any, Any], divisor: int) -> np.ndarray[Any, Any]:
    """Return a division by a positive constant, rounded half up."""
    if values.dtype != object:
        if divisor > _INT64_LIMIT // 10:
            return _narrow(_divided(values.astype(object), divisor))
        whole = np.abs(values) // divisor
        rest = np.abs(values) - whole * divisor
        rounded: np.ndarray[Any, Any] = np.sign(values) * (whole + (rest >= (divisor + 1) // 2))
        return rounded
    if not len(values):
        return values
    absolute = np.abs(values)
    return _narrow(np.where(values < 0, -1, 1) * ((2 * absolute + divisor) // (2 * divisor)))


def _narrow(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return Python integers as int64 if they fit."""
    if values.dtype == object and (not len(values) or max(abs(values.max()), abs(values.min())) <= _INT64_LIMIT):
        return values.astype(np.int64)
    return values


def added(one: Unscaled, other: Unscaled, sign: int) -> Unscaled:
    """Return ``one + sign * other`` of numbers with one scale."""
    valid = both_valid(one.valid, other.valid)
    left, right = one.values, other.values
    if left.dtype == object or right.dtype == object or one.bound + other.bound > _INT64_LIMIT:
        left, right = one.wide(), other.wide()
    return Unscaled(left + right if sign > 0 else left - right, valid)


def multiplied(one: Unscaled, other: Unscaled) -> Unscaled:
    """Return products; their scale is the sum of the scales."""
    valid = both_valid(one.valid, other.valid)
    left, right = one.values, other.values
    if left.dtype == object or right.dtype == object or one.bound * other.bound > _INT64_LIMIT:
        left, right = one.wide(), other.wide()
    return Unscaled(left * right, valid)


def divided(one: Unscaled, other: Unscaled, shift: int) -> Unscaled:
    """Return ``one * 10 ** shift / other`` rounded half up; raise ``ZeroDivisionError`` if a divisor is 0."""
    valid = both_valid(one.valid, other.valid)
    zero = other.values == 0
    if bool((zero if valid is None else zero & valid).any()):
        raise ZeroDivisionError
    upper, lower = rescaled(one, shift), other
    divisors = np.where(zero, 1, lower.values)
    if upper.values.dtype != object and divisors.dtype != object and other.bound <= _INT64_LIMIT // 4:
        absolute = np.abs(divisors)
        whole = np.abs(upper.values) // absolute
        rest = np.abs(upper.values) - whole * absolute
        return Unscaled(np.sign(upper.values) * np.sign(divisors) * (whole + (2 * rest >= absolute)), valid)
    wide, absolute = upper.wide(), np.abs(divisors.astype(object))
    sign = np.where((wide < 0) != (divisors < 0), -1, 1)
    return Unscaled(_narrow(sign * ((2 * np.abs(wide) + absolute) // (2 * absolute))), valid)


def remainder(one: Unscaled, other: Unscaled) -> Unscaled:
    """Return remainders, with the sign of the dividend; raise ``ZeroDivisionError`` if a divisor is 0."""
    valid = both_valid(one.valid, other.valid)
    zero = other.values == 0
    if bool((zero if valid is None else zero & valid).any()):
        raise ZeroDivisionError
    divisors = np.where(zero, 1, other.values)
    if one.values.dtype != object and divisors.dtype != object:
        return Unscaled(np.fmod(one.values, divisors), valid)
    wide = one.wide()
    return Unscaled(np.where(wide < 0, -1, 1) * (np.abs(wide) % np.abs(divisors.astype(object))), valid)
