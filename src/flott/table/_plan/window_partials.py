"""Partial aggregates of windows: the columns that are kept by key and slice, and sent between the two phases.

A call that has *parts* is kept as a few columns per slice, which are merged when a window ends. All other calls
(DISTINCT, functions without a merge, MIN and MAX of a changelog) keep their values and are evaluated when it ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from flott.table._plan.logical import AggregateCall, Schema, Window, WindowKind
from flott.table._types.logical import BIGINT, DOUBLE, DecimalType, Family, LogicalType

#: The column of the ends of slices, in partial aggregates.
SLICE_END = "$slice_end"
#: The column that counts rows, so that a window of which all rows were retracted is not emitted.
ROWS = "$rows"


@dataclass(frozen=True)
class Part:
    """A column of partial aggregates: ``update`` makes it of input rows, ``merge`` of parts."""

    name: str
    type: LogicalType
    update: str  #: rows, count, sum, min, max
    merge: str  #: sum, min, max


def sum_type(of: LogicalType) -> LogicalType:
    """Return the type in which numbers of a type are added up."""
    if isinstance(of, DecimalType):
        return DecimalType(38, of.scale)
    return DOUBLE if of.family is Family.APPROXIMATE else BIGINT


def parts_of(position: int, call: AggregateCall, input: Schema, retracts: bool) -> tuple[Part, ...] | None:
    """Return the parts of a call; None if its values must be kept."""
    if call.distinct or call.user is not None or call.order:
        return None
    count = Part(f"$count{position}", BIGINT, "count", "sum")
    if call.function == "COUNT":
        return (count,)
    if len(call.arguments) != 1:
        return None
    of = input.types[call.arguments[0]]
    if call.function in ("SUM", "$SUM0", "SUM0", "AVG") and of.is_numeric:
        return (Part(f"$sum{position}", sum_type(of), "sum", "sum"), count)
    if call.function in ("MIN", "MAX") and not retracts and of.family not in (Family.COLLECTION, Family.OTHER):
        name = call.function.lower()
        return (Part(f"${name}{position}", of.as_nullable(), name, name),)
    return None


def can_be_partial(calls: tuple[AggregateCall, ...], input: Schema, window: Window | None, retracts: bool) -> bool:
    """Return whether a window aggregation can run in two phases: all of its calls have parts, its windows are aligned.

    Processing time is not known before the exchange, so its windows have one phase.
    """
    return (
        window is not None
        and window.kind is not WindowKind.SESSION
        and not window.proctime
        and window.count is None
        and all(parts_of(place, call, input, retracts) is not None for place, call in enumerate(calls))
    )


def partial_schema(input: Schema, keys: tuple[int, ...], calls: tuple[AggregateCall, ...], retracts: bool) -> Schema:
    """Return the columns of partial aggregates: keys, parts, the count of rows if rows may be retracted, slice ends."""
    parts = [part for place, call in enumerate(calls) for part in parts_of(place, call, input, retracts) or ()]
    if retracts:
        parts.append(Part(ROWS, BIGINT, "rows", "sum"))
    columns = Schema(tuple(part.name for part in parts), tuple(part.type for part in parts))
    return input.pick(keys) + columns + Schema((SLICE_END,), (BIGINT.as_nullable(False),))
