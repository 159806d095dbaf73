"""Times read from and written to texts by patterns: DATE_FORMAT, TO_DATE, TO_TIMESTAMP, FROM_UNIXTIME and the like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions import time_patterns
from flott.table._functions.argument_checks import NUMBERS, TEXT, check
from flott.table._functions.clock_fields import DAY_NS, UNIT_NS
from flott.table._functions.function import CallArguments, Datum, Function, Kernel, KernelCall
from flott.table._functions.spark_forms import date_format
from flott.table._functions.time_text import read_dates, read_timestamp, read_timestamps
from flott.table._functions.time_zones import to_instant, to_local, zone_name
from flott.table._types.arrow import timestamp_unit
from flott.table._types.logical import (
    BIGINT,
    DATE,
    STRING,
    DecimalType,
    Family,
    LocalZonedTimestampType,
    LogicalType,
    NullType,
    TimestampType,
)

_SECONDS = "yyyy-MM-dd HH:mm:ss"


# --- patterns that are constants, and those that are columns ---------------------------------------------------------


def _by_pattern(column: pa.Array, patterns: Datum, work: Any, of: pa.DataType) -> pa.Array:
    """Return ``work(rows, pattern)`` for each pattern that occurs; NULL where the pattern is."""
    if isinstance(patterns, pa.Scalar):
        return work(column, patterns.as_py()) if patterns.is_valid else pa.nulls(len(column), of)
    codes = patterns.dictionary_encode()
    found = pa.nulls(len(column), of)
    for number, pattern in enumerate(codes.dictionary.to_pylist()):
        mine = pc.fill_null(pc.equal(codes.indices, number), False)
        if pc.all(mine).as_py():
            return work(column, pattern)
        found = pc.replace_with_mask(found, mine, work(column.filter(mine), pattern))
    return found


def _pattern(call: KernelCall, index: int, default: Any) -> Datum:
    return call.arguments[index] if index < len(call.arguments) else pa.scalar(default)


def _over_first(kernel: Kernel) -> Kernel:
    """Return a kernel of which the first argument is always a column; the others stay constants if they are."""

    def general(call: KernelCall) -> Datum:
        if all(isinstance(value, pa.Scalar) for value in call.arguments):
            first, *others = call.arguments
            return kernel(replace(call, arguments=[pa.repeat(first, 1), *others], length=1))[0]
        return kernel(replace(call, arguments=[call.column(0), *call.arguments[1:]]))

    return general


# --- writing ---------------------------------------------------------------------------------------------------------


def _format_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a timestamp and a pattern", (Family.DATE, Family.TIMESTAMP, *TEXT), TEXT)
    return STRING.as_nullable(arguments.nullable)


def _format_coerced(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    if len(arguments.types) != 2:
        return None
    of, pattern = arguments.types
    timed = of if of.family is Family.TIMESTAMP else TimestampType(3)
    return (timed, pattern if pattern.family is Family.CHARACTER else STRING)


def _format(call: KernelCall) -> Datum:
    column, patterns = call.arguments
    if isinstance(call.types[0], LocalZonedTimestampType):
        column = to_local(column, call.session.time_zone)
    return _by_pattern(column, patterns, time_patterns.write, pa.string())


def _from_unixtime_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "seconds and, if need be, a pattern", NUMBERS, TEXT, least=1)
    return STRING.as_nullable(arguments.nullable)


def _from_unixtime(call: KernelCall) -> Datum:
    shown = to_local(call.arguments[0].cast(pa.timestamp("s", tz="UTC")), call.session.time_zone)
    return _by_pattern(shown, _pattern(call, 1, _SECONDS), time_patterns.write, pa.string())


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(column: pa.Array, pattern: str, unit: str, precision: int) -> pa.Array:
    """Return texts as timestamps; what the pattern does not fit is tried in the usual form, as Flink does."""
    nanos, good = time_patterns.read(column, pattern)
    if not good.all():
        nanos, good = nanos.copy(), good.copy()
        for row in np.flatnonzero(~good):
            text = column[int(row)].as_py()
            other = None if text is None else read_timestamp(text.strip())
            if other is not None and -(2**63) <= other < 2**63:
                nanos[row], good[row] = other, True
    step = 10 ** (9 - precision)
    ticks = (nanos // step * step // UNIT_NS[unit]).astype(np.int64)
    return pa.array(ticks, type=pa.int64(), mask=None if good.all() else ~good).cast(pa.timestamp(unit))


def _to_date(call: KernelCall) -> Datum:
    column = call.arguments[0]
    if len(call.arguments) == 1:
        return read_dates(column)

    def days(rows: pa.Array, pattern: str) -> pa.Array:
        nanos, good = time_patterns.read(rows, pattern)
        return pa.array((nanos // DAY_NS).astype(np.int32), type=pa.int32(), mask=~good).cast(pa.date32())

    return _by_pattern(column, call.arguments[1], days, pa.date32())


def _reading_type(of: LogicalType) -> Any:
    """Return the ``infer`` of what reads a text by a pattern: NULL if the text does not fit."""

    def infer(arguments: CallArguments) -> LogicalType:
        check(arguments, "a text and, if need be, a pattern", TEXT, TEXT, least=1)
        return of.as_nullable()

    return infer


def _texts(arguments: CallArguments) -> tuple[LogicalType, ...] | None:
    return tuple(STRING if isinstance(of, NullType) else of for of in arguments.types)


def pattern_precision(arguments: CallArguments) -> int:
    """Return how many digits behind the second the pattern of a call asks for: 3 at least."""
    if len(arguments.types) < 2 or arguments.types[1].family is not Family.CHARACTER:
        return 3
    pattern = arguments.literals[1] if len(arguments.literals) > 1 else None
    if not isinstance(pattern, str):
        return 3
    return min(max([3, *(piece.width for piece in time_patterns.pieces(pattern) if piece.kind == "fraction")]), 9)


def _timestamp_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a text and, if need be, a pattern", TEXT, TEXT, least=1)
    return TimestampType(pattern_precision(arguments))


def _to_timestamp(call: KernelCall) -> Datum:
    assert isinstance(call.type, TimestampType)
    return _local(call, call.type.precision)


def _local(call: KernelCall, precision: int) -> pa.Array:
    unit = timestamp_unit(precision)
    if len(call.arguments) == 1:
        return read_timestamps(call.arguments[0], unit, precision)
    return _by_pattern(
        call.arguments[0],
        call.arguments[1],
        lambda rows, pattern: _read(rows, pattern, unit, precision),
        pa.timestamp(unit),
    )


def _ltz_type(arguments: CallArguments) -> LogicalType:
    if arguments.types and arguments.types[0].is_numeric:
        check(arguments, "a number and, if need be, a precision", NUMBERS, (Family.INTEGER,), least=1)
        digits = arguments.literals[1] if len(arguments.types) > 1 and arguments.literals else None
        if digits is not None and not 0 <= digits <= 9:
            raise arguments.refuse("a precision of 0 to 9")
        return LocalZonedTimestampType(max(3, digits or 0))
    check(arguments, "a text and, if need be, a pattern and a time zone", TEXT, TEXT, TEXT, least=1)
    if len(arguments.types) == 3 and isinstance(arguments.literals[2], str):
        zone_name(arguments.literals[2])
    return LocalZonedTimestampType(pattern_precision(arguments))


def _to_timestamp_ltz(call: KernelCall) -> Datum:
    assert isinstance(call.type, LocalZonedTimestampType)
    precision = call.type.precision
    if call.types[0].is_numeric:
        return _ltz_of_numbers(call, precision)
    local = _local(KernelCall(call.arguments[:2], call.types[:2], call.type, call.length, call.session), precision)
    if len(call.arguments) < 3:
        return to_instant(local, "UTC")
    there = pc.if_else(pc.is_valid(local), call.arguments[2], pa.scalar(None, pa.string()))
    return _by_pattern(local, there, to_instant, pa.timestamp(local.type.unit, tz="UTC"))


def _ltz_of_numbers(call: KernelCall, precision: int) -> pa.Array:
    """Return seconds (precision 0), milliseconds (3) and so on since the epoch as points in time."""
    column, unit = call.arguments[0], timestamp_unit(precision)
    digits = _pattern(call, 1, 3)

    def moments(rows: pa.Array, of: int) -> pa.Array:
        per_unit = 10 ** (9 - of)
        ticks_per_unit = per_unit / UNIT_NS[unit]
        if isinstance(call.types[0], DecimalType):
            rows = pc.cast(pc.trunc(rows), pa.int64(), safe=False)
        if pa.types.is_floating(rows.type):
            whole = pc.trunc(pc.multiply(rows.cast(pa.float64()), ticks_per_unit))
            return whole.cast(pa.int64(), safe=False).cast(pa.timestamp(unit, tz="UTC"))
        wide = rows.cast(pa.int64())
        if ticks_per_unit >= 1:
            return pc.multiply(wide, int(ticks_per_unit)).cast(pa.timestamp(unit, tz="UTC"))
        return pc.divide(wide, round(1 / ticks_per_unit)).cast(pa.timestamp(unit, tz="UTC"))

    return _by_pattern(column, digits, moments, pa.timestamp(unit, tz="UTC"))


# --- seconds of the epoch, and zones ---------------------------------------------------------------------------------

_NOT_READ = -(2**63)  #: what UNIX_TIMESTAMP returns for a text that it cannot read


def _unix_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "nothing, or a text and a pattern", TEXT, TEXT, least=0)
    return BIGINT.as_nullable(arguments.nullable)


def _unix(call: KernelCall) -> Datum:
    if not call.arguments:
        return pa.scalar(call.session.now_ms // 1000, pa.int64())
    return _unix_of_texts(call)


@_over_first
def _unix_of_texts(call: KernelCall) -> Datum:
    def seconds(rows: pa.Array, pattern: str) -> pa.Array:
        nanos, good = time_patterns.read(rows, pattern)
        local = pa.array((nanos // 1_000_000_000).astype(np.int64)).cast(pa.timestamp("s"))
        found = to_instant(local, call.session.time_zone).cast(pa.int64())
        found = pc.if_else(pa.array(good), found, _NOT_READ)
        return pc.if_else(pc.is_valid(rows), found, pa.scalar(None, pa.int64()))

    return _by_pattern(call.arguments[0], _pattern(call, 1, _SECONDS), seconds, pa.int64())


def _convert_type(arguments: CallArguments) -> LogicalType:
    check(arguments, "a text such as '1970-01-01 00:00:00' and two time zones", TEXT, TEXT, TEXT)
    return STRING.as_nullable()


def _convert(call: KernelCall) -> Datum:
    texts, sources, targets = call.arguments
    local = _by_pattern(texts, pa.scalar(_SECONDS), lambda rows, p: _read(rows, p, "ms", 3), pa.timestamp("ms"))
    moments = _by_pattern(local, sources, to_instant, pa.timestamp("ms", tz="UTC"))
    shown = _by_pattern(moments, targets, to_local, pa.timestamp("ms"))
    return time_patterns.write(shown, _SECONDS)


def _function(name: str, infer: Any, kernel: Any, syntax: str, description: str, **more: Any) -> Function:
    return Function(
        name,
        infer,
        _over_first(kernel),
        family="temporal",
        syntax=syntax,
        description=description,
        **{"coerce": _texts, **more},
    )


FUNCTIONS: tuple[Function, ...] = (
    _function(
        "DATE_FORMAT",
        _format_type,
        _format,
        "DATE_FORMAT(timestamp, string)",
        "Returns a timestamp as a text, by a pattern such as 'yyyy-MM-dd HH:mm:ss'.",
        coerce=_format_coerced,
        spark=date_format,
        may_fail=True,
    ),
    _function(
        "TO_DATE",
        _reading_type(DATE),
        _to_date,
        "TO_DATE(string1[, string2])",
        "Returns the day that a text names, by a pattern ('yyyy-MM-dd' if it is left away); NULL if it names none.",
    ),
    _function(
        "TO_TIMESTAMP",
        _timestamp_type,
        _to_timestamp,
        "TO_TIMESTAMP(string1[, string2])",
        "Returns the timestamp that a text names, by a pattern ('yyyy-MM-dd HH:mm:ss' if it is left away).",
    ),
    _function(
        "TO_TIMESTAMP_LTZ",
        _ltz_type,
        _to_timestamp_ltz,
        "TO_TIMESTAMP_LTZ(numeric[, precision]), TO_TIMESTAMP_LTZ(string1[, string2[, string3]])",
        "Returns the point in time of epoch seconds (precision 0) or milliseconds (3), or that which a text names by a "
        "pattern in a time zone (UTC if it is left away).",
        may_fail=True,
    ),
    _function(
        "FROM_UNIXTIME",
        _from_unixtime_type,
        _from_unixtime,
        "FROM_UNIXTIME(numeric[, string])",
        "Returns seconds since the epoch as a text in the time zone of the session, by a pattern.",
        coerce=lambda arguments: (BIGINT, *(STRING for _ in arguments.types[1:])),
    ),
    Function(
        "UNIX_TIMESTAMP",
        _unix_type,
        _unix,
        coerce=_texts,
        deterministic=False,
        family="temporal",
        syntax="UNIX_TIMESTAMP([string1[, string2]])",
        description="Returns the seconds since the epoch: now, or at the time that a text names in the session's zone.",
    ),
    _function(
        "CONVERT_TZ",
        _convert_type,
        _convert,
        "CONVERT_TZ(string1, string2, string3)",
        "Returns a time, written as 'yyyy-MM-dd HH:mm:ss', of time zone string2 as shown in time zone string3.",
        may_fail=True,
    ),
)
