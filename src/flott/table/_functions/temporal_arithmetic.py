"""Times plus and minus intervals, differences of times, and intervals times numbers, over columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.decimals import raw_values
from flott.table._types.coercion import is_datetime
from flott.table._types.logical import (
    DateType,
    DayTimeIntervalType,
    Family,
    LogicalType,
    NullType,
    TimeType,
    YearMonthIntervalType,
)

DAY_MS = 86_400_000
_PER_MS = {"s": 1, "ms": 1, "us": 1_000, "ns": 1_000_000}


def temporal_type(operator: str, one: LogicalType, other: LogicalType) -> LogicalType | None:
    """Return the type of ``one operator other`` if times or intervals take part; None if there is no such operation."""
    nullable = one.nullable or other.nullable
    if isinstance(one, NullType):
        one = other if other.family is Family.INTERVAL else one
    if isinstance(other, NullType):
        other = one if one.family is Family.INTERVAL else other
    if operator == "+" and one.family is Family.INTERVAL and is_datetime(other):
        one, other = other, one
    if operator in "+-" and is_datetime(one) and other.family is Family.INTERVAL:
        if isinstance(one, TimeType) and isinstance(other, YearMonthIntervalType):
            return None
        return one.as_nullable(nullable)
    if operator in "+-" and one.family is Family.INTERVAL and type(one) is type(other):
        merged = one if one.as_nullable() == other.as_nullable() else type(one)()
        return merged.as_nullable(nullable)
    if operator == "*" and other.family is Family.INTERVAL and one.is_numeric:
        one, other = other, one
    if operator in "*/" and one.family is Family.INTERVAL and other.is_numeric:
        return one.as_nullable(nullable)
    return None


def months_added(column: pa.Array, months: pa.Array, sign: int) -> pa.Array:
    """Return days or timestamps so many months later. The last day of a month is the latest day there is."""
    of = column.type
    if pa.types.is_date32(of):
        return _days_after_months(column, months, sign)
    unit = of.unit
    per_day = {"s": 86_400, "ms": DAY_MS, "us": DAY_MS * 1_000, "ns": DAY_MS * 1_000_000}[unit]
    values = raw_values(column, np.int64)
    days = np.floor_divide(values, per_day)
    rest = values - days * per_day
    moved = _moved_days(days, raw_values(months, np.int32).astype(np.int64) * sign)
    return _like(moved * per_day + rest, of, column, months)


def _days_after_months(column: pa.Array, months: pa.Array, sign: int) -> pa.Array:
    days = raw_values(column, np.int32).astype(np.int64)
    moved = _moved_days(days, raw_values(months, np.int32).astype(np.int64) * sign)
    return _like(moved.astype(np.int32), column.type, column, months)


def _moved_days(days: np.ndarray[Any, Any], months: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return days of the epoch moved by months."""
    month = days.astype("M8[D]").astype("M8[M]")
    within = days - month.astype("M8[D]").astype(np.int64)
    target = month + months
    first = target.astype("M8[D]").astype(np.int64)
    last = (target + 1).astype("M8[D]").astype(np.int64) - 1
    moved: np.ndarray[Any, Any] = np.minimum(first + within, last)
    return moved


def _like(values: np.ndarray[Any, Any], of: pa.DataType, *columns: pa.Array) -> pa.Array:
    """Return values as a column of a type that is NULL where one of the columns is."""
    found = pa.Array.from_buffers(of, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
    for column in columns:
        if column.null_count:
            found = pc.if_else(pc.is_valid(column), found, pa.scalar(None, of))
    return found


def plus_interval(
    column: pa.Array, interval: pa.Array, of: LogicalType, interval_of: LogicalType, sign: int
) -> pa.Array:
    """Return times moved by intervals."""
    if isinstance(interval_of, YearMonthIntervalType):
        return months_added(column, interval, sign)
    assert isinstance(interval_of, DayTimeIntervalType)
    millis = raw_values(interval, np.int64) * sign
    if isinstance(of, DateType):
        days = raw_values(column, np.int32) + _toward_zero(millis, DAY_MS).astype(np.int32)
        return _like(days.astype(np.int32), column.type, column, interval)
    if isinstance(of, TimeType):
        moved = np.mod(raw_values(column, np.int32).astype(np.int64) + millis, DAY_MS)
        return _like(moved.astype(np.int32), column.type, column, interval)
    moved = raw_values(column, np.int64) + millis * _PER_MS[column.type.unit]
    return _like(moved, column.type, column, interval)


def _toward_zero(values: np.ndarray[Any, Any], divisor: int) -> np.ndarray[Any, Any]:
    return np.where(values < 0, -(-values // divisor), values // divisor)


def scaled_interval(interval: pa.Array, number: pa.Array, operator: str) -> pa.Array:
    """Return intervals times or divided by a number, cut to whole months or milliseconds."""
    of = interval.type
    width = np.int32 if pa.types.is_int32(of) else np.int64
    values = raw_values(interval, width).astype(np.int64)
    if pa.types.is_integer(number.type):
        factors = pc.fill_null(number.cast(pa.int64()), 1).to_numpy(zero_copy_only=False)
        if operator == "*":
            scaled = values * factors
        else:
            if bool((factors == 0).any()):
                raise ZeroDivisionError
            scaled = np.sign(values) * np.sign(factors) * (np.abs(values) // np.abs(factors))
    else:
        exact = pc.fill_null(number.cast(pa.float64()), 1.0).to_numpy(zero_copy_only=False)
        scaled = np.trunc(values * exact if operator == "*" else values / exact).astype(np.int64)
    return _like(scaled.astype(width), of, interval, number)


def summed_intervals(one: pa.Array, other: pa.Array, sign: int) -> pa.Array:
    """Return sums or differences of intervals of one kind."""
    return pc.add(one, other) if sign > 0 else pc.subtract(one, other)


def difference(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return the milliseconds between two times of day or timestamps, as an interval."""
    if pa.types.is_date32(one.type):
        days = pc.subtract(one.cast(pa.int32()).cast(pa.int64()), other.cast(pa.int32()).cast(pa.int64()))
        return pc.multiply(days, DAY_MS).cast(pa.duration("ms"))
    if pa.types.is_time32(one.type):
        return pc.subtract(one.cast(pa.int32()), other.cast(pa.int32())).cast(pa.int64()).cast(pa.duration("ms"))
    left, right = (_milliseconds(column) for column in (one, other))
    return pc.subtract(left, right).cast(pa.duration("ms"))


def _milliseconds(column: pa.Array) -> pa.Array:
    values = raw_values(column, np.int64)
    return _like(np.floor_divide(values, _PER_MS[column.type.unit]), pa.int64(), column)


def difference_type(one: LogicalType, other: LogicalType) -> LogicalType | None:
    """Return the type of a difference of times."""
    if not is_datetime(one) or not is_datetime(other):
        return None
    if isinstance(one, TimeType) is not isinstance(other, TimeType):
        return None
    return DayTimeIntervalType(nullable=one.nullable or other.nullable)
