"""EXTRACT and its short forms (YEAR, HOUR, ...), and FLOOR and CEIL of times to a unit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.argument_checks import DATETIME, over_columns
from flott.table._functions.clock_fields import DAY_NS, UNIT_NS, ClockFields
from flott.table._functions.decimals import raw_values, validity
from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._functions.spark_forms import field_of_day
from flott.table._functions.time_zones import to_instant, to_local
from flott.table._types.logical import (
    BIGINT,
    DateType,
    Family,
    LocalZonedTimestampType,
    LogicalType,
    SymbolType,
    TimestampType,
    TimeType,
    YearMonthIntervalType,
)

# --- EXTRACT ---------------------------------------------------------------------------------------------------------

#: Units that need a day, and those that need a time of day.
_OF_DAY = (
    "MILLENNIUM",
    "CENTURY",
    "DECADE",
    "YEAR",
    "ISOYEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DOY",
    "DOW",
    "ISODOW",
)
_OF_TIME = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH")
_QUICK = {"HOUR": pc.hour, "MINUTE": pc.minute, "SECOND": pc.second}


def _extracted(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) == 2 and isinstance(arguments.types[0], SymbolType):
        unit, of = arguments.types[0].symbol, arguments.types[1]
        known = unit in (*_OF_DAY, *_OF_TIME) and of.family in (*DATETIME, Family.INTERVAL, Family.NULL)
        if known and not (isinstance(of, TimeType) and unit in _OF_DAY):
            return BIGINT.as_nullable(of.nullable)
    raise arguments.refuse("a unit, FROM, and a time that has it")


def _extract(call: KernelCall) -> Datum:
    assert isinstance(call.types[0], SymbolType)
    return _unit_of(call.types[0].symbol, call.arguments[1], call.types[1], call)


def _unit_of(unit: str, value: Datum, of: LogicalType, call: KernelCall) -> Datum:
    if isinstance(value, pa.Scalar):
        return _unit_of(unit, pa.repeat(value, 1), of, call)[0]
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    if pa.types.is_null(value.type):
        return pa.nulls(len(value), pa.int64())
    if of.family is Family.INTERVAL:
        return _of_interval(unit, value, of)
    if unit == "EPOCH" and isinstance(of, LocalZonedTimestampType):
        return _numbers(ClockFields(value.cast(pa.timestamp(value.type.unit))), "EPOCH")
    shown = to_local(value, call.session.time_zone) if isinstance(of, LocalZonedTimestampType) else value
    if unit in _QUICK and not isinstance(of, DateType):
        return _QUICK[unit](shown)
    return _numbers(ClockFields(shown), unit)


def _numbers(fields: ClockFields, unit: str) -> pa.Array:
    found = np.ascontiguousarray(_field(fields, unit), dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(found), [validity(fields.valid), pa.py_buffer(found)])


def _field(fields: ClockFields, unit: str) -> Any:
    match unit:
        case "MILLENNIUM":
            return (fields.year + 999) // 1000
        case "CENTURY":
            return (fields.year + 99) // 100
        case "DECADE":
            return fields.year // 10
        case "QUARTER":
            return (fields.month + 2) // 3
        case "WEEK":
            return fields.iso_week
        case "DOW":
            return fields.iso_day_of_week % 7 + 1
        case "MILLISECOND":
            return fields.nano // 1_000_000
        case "MICROSECOND":
            return fields.nano // 1_000
    names = {"ISOYEAR": "iso_year", "ISODOW": "iso_day_of_week", "DOY": "day_of_year", "NANOSECOND": "nano"}
    names["EPOCH"] = "epoch_second"
    return getattr(fields, names.get(unit, unit.lower()))


_INTERVAL_STEPS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000, "MILLISECOND": 1}
_INTERVAL_LIMITS = {"HOUR": 24, "MINUTE": 60, "SECOND": 60, "MILLISECOND": 1000}


def _of_interval(unit: str, value: pa.Array, of: LogicalType) -> pa.Array:
    months = isinstance(of, YearMonthIntervalType)
    numbers = value.cast(pa.int64())
    if months:
        if unit == "YEAR":
            return pc.divide(numbers, 12)
        return pc.subtract(numbers, pc.multiply(pc.divide(numbers, 12), 12))
    if unit == "EPOCH":
        return pc.divide(numbers, 1000)
    units = pc.divide(numbers, _INTERVAL_STEPS.get(unit, 86_400_000))
    limit = _INTERVAL_LIMITS.get(unit)
    return units if limit is None else pc.subtract(units, pc.multiply(pc.divide(units, limit), limit))


def _short(name: str, unit: str, what: str) -> Function:
    def infer(arguments: CallArguments) -> LogicalType:
        if len(arguments.types) == 1:
            of = arguments.types[0]
            fits = not isinstance(of, TimeType) if unit in _OF_DAY else True
            if fits and of.family in (*DATETIME, Family.NULL):
                return BIGINT.as_nullable(of.nullable)
        raise arguments.refuse("a day" if unit in _OF_DAY else "a time")

    def kernel(call: KernelCall) -> Datum:
        return _unit_of(unit, call.arguments[0], call.types[0], call)

    argument = "date" if unit in _OF_DAY else "timestamp"
    return Function(
        name,
        infer,
        kernel,
        family="temporal",
        syntax=f"{name}({argument})",
        description=f"Returns {what} as BIGINT.",
        spark=field_of_day({"WEEK": "weekofyear"}.get(name, name.lower())),
    )


# --- FLOOR and CEIL --------------------------------------------------------------------------------------------------

_DAYS_UP = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "DECADE", "CENTURY", "MILLENNIUM")
_STEPS_NS = {
    "NANOSECOND": 1,
    "MICROSECOND": 1_000,
    "MILLISECOND": 1_000_000,
    "SECOND": 1_000_000_000,
    "MINUTE": 60_000_000_000,
    "HOUR": 3_600_000_000_000,
    "DAY": DAY_NS,
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120}
_YEARS = {"CENTURY": 100, "MILLENNIUM": 1000}


def temporal_rounded_type(arguments: CallArguments) -> LogicalType | None:
    """Return the type of FLOOR or CEIL of a time to a unit: its own; None if it cannot be rounded to that."""
    if len(arguments.types) != 2 or not isinstance(arguments.types[1], SymbolType):
        return None
    of, unit = arguments.types[0], arguments.types[1].symbol
    if of.family not in DATETIME or unit not in (*_DAYS_UP, *_STEPS_NS):
        return None
    return None if isinstance(of, TimeType) and unit in _DAYS_UP and unit != "DAY" else of


def rounded_time(upwards: bool) -> Kernel:
    """Return the kernel of FLOOR or CEIL of a time to a unit."""

    def kernel(call: KernelCall) -> Datum:
        value, of = call.arguments[0], call.types[0]
        unit = call.types[1]
        assert isinstance(unit, SymbolType)
        if isinstance(of, LocalZonedTimestampType):
            zone = call.session.time_zone
            return to_instant(_rounded(to_local(value, zone), TimestampType(of.precision), unit.symbol, upwards), zone)
        return _rounded(value, of, unit.symbol, upwards)

    return over_columns(kernel)


def _rounded(column: pa.Array, of: LogicalType, unit: str, upwards: bool) -> pa.Array:
    if isinstance(of, DateType):
        if unit not in _DAYS_UP:
            return column
        days = raw_values(column, np.int32).astype(np.int64)
        if unit == "DAY" and upwards:
            found = days + 1  # as in Flink: the next day, always
        else:
            found = _whole(days, unit)
            found = np.where(found < days, _next(found, unit), found) if upwards else found
        return _like(found.astype(np.int32), column)
    if isinstance(of, TimeType):
        millis = raw_values(column, np.int32).astype(np.int64)
        return _like(_stepped(millis, max(_STEPS_NS[unit] // 1_000_000, 1), upwards).astype(np.int32), column)
    values = raw_values(column, np.int64)
    tick = UNIT_NS[column.type.unit]
    if unit in _STEPS_NS:
        return _like(_stepped(values, max(_STEPS_NS[unit] // tick, 1), upwards), column)
    per_day = DAY_NS // tick
    start = _whole(values // per_day, unit)
    if upwards:
        start = np.where(start * per_day < values, _next(start, unit), start)
    return _like(start * per_day, column)


def _stepped(values: Any, step: int, upwards: bool) -> Any:
    return -(-values // step) * step if upwards else values // step * step


def _whole(days: Any, unit: str) -> Any:
    """Return the first day of the unit that each day is in. A week begins with Sunday."""
    if unit == "DAY":
        return days
    if unit == "WEEK":
        return days - (days + 4) % 7
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64) + 1970 * 12
    if unit in _MONTHS:
        step = _MONTHS[unit]
        return _first_day(months // step * step)
    years = _YEARS[unit]
    return _first_day(((months // 12 - 1) // years * years + 1) * 12)


def _next(days: Any, unit: str) -> Any:
    """Return the first day of the next unit."""
    if unit in ("DAY", "WEEK"):
        return days + (1 if unit == "DAY" else 7)
    months = days.astype("M8[D]").astype("M8[M]").astype(np.int64) + 1970 * 12
    return _first_day(months + (_MONTHS[unit] if unit in _MONTHS else _YEARS[unit] * 12))


def _first_day(months: Any) -> Any:
    return (months - 1970 * 12).astype("M8[M]").astype("M8[D]").astype(np.int64)


def _like(values: Any, column: pa.Array) -> pa.Array:
    found = pa.Array.from_buffers(column.type, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
    return found if column.null_count == 0 else pc.if_else(pc.is_valid(column), found, pa.scalar(None, column.type))


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "EXTRACT",
        _extracted,
        _extract,
        family="temporal",
        syntax="EXTRACT(timeintervalunit FROM temporal)",
        description="Returns a field of a time or an interval as BIGINT, such as EXTRACT(DAY FROM DATE '2006-06-05').",
    ),
    _short("YEAR", "YEAR", "the year"),
    _short("QUARTER", "QUARTER", "the quarter of the year, 1 to 4,"),
    _short("MONTH", "MONTH", "the month, 1 to 12,"),
    _short("WEEK", "WEEK", "the ISO week of the year, 1 to 53,"),
    _short("DAYOFYEAR", "DOY", "the day of the year, 1 to 366,"),
    _short("DAYOFMONTH", "DAY", "the day of the month, 1 to 31,"),
    _short("DAYOFWEEK", "DOW", "the day of the week, from 1 for Sunday to 7,"),
    _short("HOUR", "HOUR", "the hour of the day, 0 to 23,"),
    _short("MINUTE", "MINUTE", "the minute of the hour, 0 to 59,"),
    _short("SECOND", "SECOND", "the second of the minute, 0 to 59,"),
)
