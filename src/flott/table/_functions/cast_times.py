"""Casts to days, times, timestamps and intervals, over columns. A TIMESTAMP_LTZ is shown in the zone of the session."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.argument_checks import EvaluationError
from flott.table._functions.cast_numbers import Converted, to_number
from flott.table._functions.clock_fields import ClockFields
from flott.table._functions.interval_units import unit_of
from flott.table._functions.time_text import cut, read_dates, read_times, read_timestamps
from flott.table._functions.time_zones import to_instant, to_local
from flott.table._types.arrow import arrow_type, timestamp_unit
from flott.table._types.logical import (
    BIGINT,
    DateType,
    Family,
    LocalZonedTimestampType,
    LogicalType,
    TimestampType,
    TimeType,
    YearMonthIntervalType,
)


def to_date(column: pa.Array, source: LogicalType, zone: str) -> Converted:
    """Return a column as days."""
    if source.family is Family.CHARACTER:
        return _checked(column, read_dates(column))
    return pc.floor_temporal(_shown(column, source, zone), unit="day").cast(pa.date32()), None


def to_time(column: pa.Array, source: LogicalType, target: TimeType, zone: str) -> Converted:
    """Return a column as times of day."""
    if source.family is Family.CHARACTER:
        return _checked(column, read_times(column, target.precision))
    fields = ClockFields(column if isinstance(source, TimeType) else _shown(column, source, zone))
    step = 10 ** (3 - min(target.precision, 3))
    millis = (fields.second_of_day * 1000 + fields.nano // 1_000_000) // step * step
    mask = None if fields.valid is None else ~fields.valid
    return pa.array(millis.astype(np.int32), type=pa.int32(), mask=mask).cast(pa.time32("ms")), None


def to_timestamp(
    column: pa.Array, source: LogicalType, target: TimestampType | LocalZonedTimestampType, zone: str
) -> Converted:
    """Return a column as timestamps, with or without the zone of the session."""
    unit, precision = timestamp_unit(target.precision), target.precision
    try:
        if isinstance(source, LocalZonedTimestampType) and isinstance(target, LocalZonedTimestampType):
            bare = cut(column.cast(pa.timestamp(column.type.unit)), column.type.unit, unit, precision)
            return pc.assume_timezone(bare, "UTC"), None
        if source.family is Family.CHARACTER:
            local, failed = _checked(column, read_timestamps(column, unit, precision))
        else:
            shown = _on_a_day(column, source) if isinstance(source, TimeType) else _shown(column, source, zone)
            local, failed = cut(shown, shown.type.unit, unit, precision), None
    except OverflowError as error:
        raise EvaluationError(str(error)) from None
    return (to_instant(local, zone) if isinstance(target, LocalZonedTimestampType) else local), failed


def _shown(column: pa.Array, source: LogicalType, zone: str) -> pa.Array:
    """Return days and timestamps as timestamps without a zone."""
    if isinstance(source, DateType):
        return column.cast(pa.timestamp("s")).cast(pa.timestamp("ms"))
    return to_local(column, zone) if isinstance(source, LocalZonedTimestampType) else column


def _on_a_day(column: pa.Array, source: LogicalType) -> pa.Array:
    """Return times of day on the first day of the epoch."""
    return column.cast(pa.int32()).cast(pa.int64()).cast(pa.timestamp("ms"))


def _checked(column: pa.Array, found: pa.Array) -> Converted:
    if found.null_count == column.null_count:
        return found, None
    return found, pc.and_(pc.is_valid(column), pc.is_null(found))


def to_interval(column: pa.Array, source: LogicalType, target: LogicalType) -> Converted:
    """Return intervals, or numbers of the only field of an interval, as intervals."""
    wanted = arrow_type(target)
    if source.family is Family.INTERVAL:
        return column.cast(wanted), None
    numbers, failed = to_number(column, source, BIGINT)
    units = pc.multiply(numbers, unit_of(target))
    return (units.cast(wanted, safe=False) if isinstance(target, YearMonthIntervalType) else units.cast(wanted)), failed
