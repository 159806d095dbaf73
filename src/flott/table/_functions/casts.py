"""Casts between logical types, over columns: CAST, which fails where a value cannot be converted, and TRY_CAST."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.table._functions.argument_checks import EvaluationError
from flott.table._functions.cast_nested import to_nested
from flott.table._functions.cast_numbers import Converted, to_boolean, to_number
from flott.table._functions.cast_text import to_bytes, to_text
from flott.table._functions.cast_times import to_date, to_interval, to_time, to_timestamp
from flott.table._functions.function import Datum, Kernel, KernelCall, Session
from flott.table._types.arrow import arrow_type
from flott.table._types.coercion import needs_cast
from flott.table._types.logical import (
    BinaryType,
    CharType,
    DateType,
    Family,
    LocalZonedTimestampType,
    LogicalType,
    NullType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)


def cast_kernel(source: LogicalType, target: LogicalType, safe: bool) -> Kernel:
    """Return what converts columns of one type to another; ``safe``: to NULL where a value cannot be converted."""
    if not needs_cast(source, target):
        return lambda call: call.arguments[0]
    wanted = arrow_type(target)

    def cast(call: KernelCall) -> Datum:
        value = call.arguments[0]
        constant = isinstance(value, pa.Scalar)
        column = pa.repeat(value, 1) if constant else call.column(0)
        if column.null_count == len(column):
            found = pa.nulls(len(column), wanted)
        else:
            found, failed = convert(column, source, target, call.session)
            if failed is not None:
                found = _without_failures(column, found, failed, source, target, safe)
        return found[0] if constant else found

    return cast


def cast_datum(value: Datum, source: LogicalType, target: LogicalType, length: int, session: Session) -> Datum:
    """Return a column or constant converted to another type."""
    return cast_kernel(source, target, False)(KernelCall((value,), (source,), target, length, session))


def _without_failures(
    column: pa.Array, found: pa.Array, failed: Any, source: LogicalType, target: LogicalType, safe: bool
) -> pa.Array:
    if safe:
        lost = pc.fill_null(failed, False).to_numpy(zero_copy_only=False)
        return found.take(pa.array(np.arange(len(found)), mask=lost))  # works for nested columns, too
    first = pc.index(failed, True).as_py()
    if first < 0:
        return found
    raise EvaluationError(
        f"{column[first].as_py()!r} ({source}) cannot be cast to {target}. TRY_CAST gives NULL for such a value."
    )


def convert(column: pa.Array, source: LogicalType, target: LogicalType, session: Session) -> Converted:
    """Return a column converted, and where that was not possible."""
    if isinstance(source, NullType):
        return pa.nulls(len(column), arrow_type(target)), None
    if not needs_cast(source, target):
        return column, None
    if target.is_numeric:
        return to_number(column, source, target)
    zone = session.time_zone
    match target:
        case CharType() | VarCharType():
            return to_text(column, source, target, zone), None
        case BinaryType() | VarBinaryType():
            return to_bytes(column, source, target), None
        case DateType():
            return to_date(column, source, zone)
        case TimeType():
            return to_time(column, source, target, zone)
        case TimestampType() | LocalZonedTimestampType():
            return to_timestamp(column, source, target, zone)
    match target.family:
        case Family.BOOLEAN:
            return to_boolean(column, source)
        case Family.INTERVAL:
            return to_interval(column, source, target)
        case Family.COLLECTION:
            return to_nested(column, source, target, lambda part, ours, theirs: convert(part, ours, theirs, session))
    raise AssertionError(f"There is no cast from {source} to {target}.")
