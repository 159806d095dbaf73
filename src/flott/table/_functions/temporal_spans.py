"""TIMESTAMPADD, TIMESTAMPDIFF and OVERLAPS: times and the spans between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.argument_checks import DATETIME, over_columns
from flott.table._functions.clock_fields import UNIT_NS
from flott.table._functions.decimals import both_valid, raw_values, valid_mask, validity
from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._functions.temporal_arithmetic import DAY_MS, months_added, plus_interval
from flott.table._functions.time_zones import to_instant, to_local
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import common_type
from flott.table._types.logical import (
    BIGINT,
    BOOLEAN,
    INT,
    DateType,
    DayTimeIntervalType,
    Family,
    LocalZonedTimestampType,
    LogicalType,
    NullType,
    RowType,
    SymbolType,
    TimestampType,
    TimeType,
    YearMonthIntervalType,
)

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}
_DAYS = {"DAY": DAY_MS, "WEEK": 7 * DAY_MS}
_TIMES = {"HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000, "MILLISECOND": 1}
_MILLIS = {**_DAYS, **_TIMES}
_FINE_NS = {"MICROSECOND": 1_000, "NANOSECOND": 1}
_UNITS = (*_MONTHS, *_MILLIS, *_FINE_NS)


def _unit(call: KernelCall) -> str:
    assert isinstance(call.types[0], SymbolType)
    return call.types[0].symbol


# --- TIMESTAMPADD ----------------------------------------------------------------------------------------------------


def _added_type(arguments: CallArguments) -> LogicalType:
    types = arguments.types
    if len(types) == 3 and isinstance(types[0], SymbolType) and types[0].symbol in _UNITS:
        unit, _, of = types[0].symbol, types[1], types[2]
        if types[1].family in (Family.INTEGER, Family.NULL) and of.family in DATETIME:
            nullable = arguments.nullable
            if isinstance(of, DateType) and unit not in (*_MONTHS, *_DAYS):
                return TimestampType(6, nullable=nullable)
            least = {"MILLISECOND": 3, "MICROSECOND": 6, "NANOSECOND": 9}.get(unit, 0)
            if isinstance(of, TimestampType | LocalZonedTimestampType) and of.precision < least:
                return type(of)(least, nullable=nullable)
            if not (isinstance(of, TimeType) and unit in _MONTHS):
                return of.as_nullable(nullable)
    raise arguments.refuse("a unit, an integer and a time")


def _added_coerced(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    if len(arguments.types) != 3 or arguments.types[1].family not in (Family.INTEGER, Family.NULL):
        return None
    return (arguments.types[0], BIGINT, _added_type(arguments))


@over_columns
def _added(call: KernelCall) -> Datum:
    _, numbers, column = call.arguments
    unit, of = _unit(call), call.types[2]
    if unit in _MONTHS:
        months = pc.multiply(numbers, _MONTHS[unit]).cast(pa.int32(), safe=False)
        if isinstance(of, LocalZonedTimestampType):
            zone = call.session.time_zone
            return to_instant(months_added(to_local(column, zone), months, 1), zone)
        return months_added(column, months, 1)
    if unit in _FINE_NS:
        ticks = pc.divide(pc.multiply(numbers, _FINE_NS[unit]), UNIT_NS[column.type.unit])
        return pc.add(column, ticks.cast(pa.duration(column.type.unit)))
    interval = pc.multiply(numbers, _MILLIS[unit]).cast(pa.duration("ms"))
    return plus_interval(column, interval, of, DayTimeIntervalType(), 1)


# --- TIMESTAMPDIFF ---------------------------------------------------------------------------------------------------


def _difference_type(arguments: CallArguments) -> LogicalType:
    types = arguments.types
    if len(types) == 3 and isinstance(types[0], SymbolType) and types[0].symbol in _UNITS:
        timed = all(of.family in (*DATETIME, Family.NULL) for of in types[1:])
        if timed and isinstance(types[1], TimeType) is isinstance(types[2], TimeType):
            of = BIGINT if types[0].symbol in _FINE_NS else INT
            return of.as_nullable(arguments.nullable)
    raise arguments.refuse("a unit and two times")


def _difference_coerced(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    if len(arguments.types) != 3:
        return None
    of = common_type(arguments.types[1:])
    if of is None:
        return None
    if isinstance(of, NullType):
        of = TimestampType(3)
    return (arguments.types[0], of, of)


@over_columns
def _difference(call: KernelCall) -> Datum:
    _, start, end = call.arguments
    unit, of = _unit(call), call.types[1]
    if isinstance(of, LocalZonedTimestampType) and unit in _MONTHS:
        start, end = (to_local(column, call.session.time_zone) for column in (start, end))
    valid = both_valid(valid_mask(start), valid_mask(end))
    first, last = _nanos(start), _nanos(end)
    (left, left_rest), (right, right_rest) = first, last
    if unit in _MONTHS:
        months = _months_between(left, left_rest, right, right_rest)
        found = _toward_zero(months, _MONTHS[unit])
    else:
        step = _FINE_NS.get(unit) or _MILLIS[unit] * 1_000_000
        if step >= 1_000_000:
            millis = (right - left) * DAY_MS + (right_rest // 1_000_000 - left_rest // 1_000_000)
            found = _toward_zero(millis, step // 1_000_000)
        else:
            found = _toward_zero((right - left) * DAY_MS * 1_000_000 + right_rest - left_rest, step)
    wanted = arrow_type(call.type)
    values = np.ascontiguousarray(found.astype(wanted.to_pandas_dtype()))
    return pa.Array.from_buffers(wanted, len(values), [validity(valid), pa.py_buffer(values)])


def _nanos(column: pa.Array) -> tuple[Any, Any]:
    """Return the day of each value, and the nanoseconds of the day."""
    of = column.type
    if pa.types.is_date32(of):
        return raw_values(column, np.int32).astype(np.int64), np.zeros(len(column), dtype=np.int64)
    if pa.types.is_time32(of):
        return np.zeros(len(column), dtype=np.int64), raw_values(column, np.int32).astype(np.int64) * 1_000_000
    per_day = DAY_MS * 1_000_000 // UNIT_NS[of.unit]
    values = raw_values(column, np.int64)
    days = values // per_day
    return days, (values - days * per_day) * UNIT_NS[of.unit]


def _toward_zero(values: Any, step: int) -> Any:
    return values if step == 1 else np.sign(values) * (np.abs(values) // step)


def _months_between(start: Any, start_rest: Any, end: Any, end_rest: Any) -> Any:
    """Return the whole months from one time to another."""
    back = end < start
    early, late = np.where(back, end, start), np.where(back, start, end)
    months = _month(late) - _month(early)
    months = np.where(_moved(early, months) > late, months - 1, months)
    months = np.where(back, -months, months)
    same_day = _moved(start, months) == end
    return np.where(same_day & (end_rest < start_rest), months - 1, months)


def _month(days: Any) -> Any:
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _moved(days: Any, months: Any) -> Any:
    month = days.astype("M8[D]").astype("M8[M]")
    within = days - month.astype("M8[D]").astype(np.int64)
    target = month + months
    last = (target + 1).astype("M8[D]").astype(np.int64) - 1
    return np.minimum(target.astype("M8[D]").astype(np.int64) + within, last)


# --- OVERLAPS --------------------------------------------------------------------------------------------------------


def _overlaps_type(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) == 2:
        parts = [of.types for of in arguments.types if isinstance(of, RowType) and len(of.fields) == 2]
        if len(parts) == 2 and all(start.family in DATETIME for start, _ in parts):
            nullable = any(of.nullable for part in parts for of in part)
            return BOOLEAN.as_nullable(nullable)
    raise arguments.refuse("two spans, each of a start and an end or an interval")


@over_columns
def _overlaps(call: KernelCall) -> Datum:
    spans = [_span(column, of) for column, of in zip(call.arguments, call.types, strict=True)]
    (start, end), (other_start, other_end) = spans
    return pc.and_kleene(pc.greater_equal(end, other_start), pc.greater_equal(other_end, start))


def _span(column: pa.Array, of: LogicalType) -> tuple[Any, Any]:
    """Return the earlier and the later end of each span."""
    assert isinstance(of, RowType)
    start, end = column.flatten()
    if isinstance(of.types[1], DayTimeIntervalType | YearMonthIntervalType):
        end = plus_interval(start, end, of.types[0], of.types[1], 1)
    turned = pc.less(end, start)
    return pc.if_else(turned, end, start), pc.if_else(turned, start, end)


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "TIMESTAMPADD",
        _added_type,
        _added,
        coerce=_added_coerced,
        family="temporal",
        syntax="TIMESTAMPADD(timeintervalunit, interval, timepoint)",
        description="Returns a time so many units later.",
    ),
    Function(
        "TIMESTAMPDIFF",
        _difference_type,
        _difference,
        coerce=_difference_coerced,
        family="temporal",
        syntax="TIMESTAMPDIFF(timepointunit, timepoint1, timepoint2)",
        description="Returns the whole units from timepoint1 to timepoint2; negative if timepoint2 is the earlier one.",
    ),
    Function(
        "OVERLAPS",
        _overlaps_type,
        _overlaps,
        family="temporal",
        syntax="(timepoint1, temporal1) OVERLAPS (timepoint2, temporal2)",
        description="Returns TRUE if two spans have a time in common. A span has a start, and an end or an interval.",
    ),
)
