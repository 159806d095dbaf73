"""The time now, in the forms of SQL. Each gives one value for an epoch, so that a repeated epoch answers alike."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from flott.table._functions.argument_checks import no_arguments
from flott.table._functions.function import CallArguments, Datum, Function, KernelCall
from flott.table._functions.time_zones import to_local
from flott.table._types.arrow import arrow_type
from flott.table._types.logical import (
    DATE,
    STRING,
    LocalZonedTimestampType,
    LogicalType,
    TimestampType,
    TimeType,
    plain,
)


def _now(call: KernelCall) -> pa.Scalar:
    return pa.scalar(call.session.now_ms, pa.timestamp("ms", tz="UTC"))


def _shown(call: KernelCall) -> pa.Scalar:
    """Return what a clock in the session's zone shows."""
    return to_local(pa.array([call.session.now_ms], pa.timestamp("ms", tz="UTC")), call.session.time_zone)[0]


def _date(call: KernelCall) -> Datum:
    return pa.scalar(_shown(call).as_py().date(), pa.date32())


def _time(call: KernelCall) -> Datum:
    return pa.scalar(_shown(call).as_py().time().replace(microsecond=0), pa.time32("ms"))


def _text(read: Callable[[KernelCall], str]) -> Callable[[KernelCall], Datum]:
    return lambda call: pa.scalar(read(call), pa.string())


def _watermark_type(arguments: CallArguments) -> LogicalType:
    if len(arguments.types) != 1 or not isinstance(arguments.types[0], TimestampType | LocalZonedTimestampType):
        raise arguments.refuse("a column with a watermark")
    return plain(arguments.types[0]).as_nullable()


def _watermark(call: KernelCall) -> Datum:
    of = arrow_type(call.type)
    return pa.scalar(call.session.watermark_ms, pa.timestamp("ms", tz=of.tz)).cast(of)


def _clock(name: str, of: LogicalType, kernel: Callable[[KernelCall], Datum], description: str, call: bool) -> Function:
    return Function(
        name,
        no_arguments(of),
        kernel,
        deterministic=False,
        family="temporal",
        syntax=f"{name}()" if call else name,
        description=description,
    )


_LTZ = LocalZonedTimestampType(3)

FUNCTIONS: tuple[Function, ...] = (
    _clock("CURRENT_DATE", DATE, _date, "Returns the current day in the time zone of the session.", False),
    _clock("CURRENT_TIME", TimeType(0), _time, "Returns the current time of day in the zone of the session.", False),
    _clock("LOCALTIME", TimeType(0), _time, "Returns the current time of day in the zone of the session.", False),
    _clock("CURRENT_TIMESTAMP", _LTZ, _now, "Returns the current point in time as TIMESTAMP_LTZ(3).", False),
    _clock(
        "LOCALTIMESTAMP",
        TimestampType(3),
        _shown,
        "Returns the current day and time in the time zone of the session as TIMESTAMP(3).",
        False,
    ),
    _clock("NOW", _LTZ, _now, "Returns the current point in time as TIMESTAMP_LTZ(3).", True),
    _clock("CURRENT_ROW_TIMESTAMP", _LTZ, _now, "Returns the processing time of the row as TIMESTAMP_LTZ(3).", True),
    _clock("PROCTIME", _LTZ, _now, "Returns the processing time, as a time attribute if it declares a column.", True),
    _clock(
        "CURRENT_DATABASE",
        STRING,
        _text(lambda call: call.session.database),
        "Returns the name of the current database.",
        True,
    ),
    Function(
        "CURRENT_WATERMARK",
        _watermark_type,
        _watermark,
        deterministic=False,
        family="temporal",
        syntax="CURRENT_WATERMARK(rowtime)",
        description="Returns the watermark that the former epoch ended with, or NULL if none has arrived.",
    ),
)
