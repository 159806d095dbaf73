"""Aggregates over frames of consecutive rows: from one position to another, for each row. Task side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.operators.columnar.windowing.kept_values import evaluated_calls
from flott.runtime.operators.columnar.windowing.partials import Partials, counted
from flott.runtime.operators.columnar.windowing.sorting import order_ranks
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._plan.logical import AggregateCall, Schema, SortKey
from flott.table._types.logical import Family

#: So many pairs of a frame and a row are looked at together.
_MAX_PAIRS = 1 << 20


def frame_results(call: AggregateCall, schema: Schema, rows: pa.RecordBatch, low: Longs, high: Longs) -> pa.Array:
    """Return the result of a call for the rows from ``low`` to ``high``, both included, of each frame."""
    if not call.distinct and call.user is None:
        if call.function == "COUNT" or (
            call.function in ("SUM", "$SUM0", "AVG") and schema.types[call.arguments[0]].family is Family.INTEGER
        ):
            return _by_running_sums(call, schema, rows, low, high)
        if call.function in ("MIN", "MAX") and not pa.types.is_nested(rows.column(call.arguments[0]).type):
            return _extremes(call, rows, low, high)
    return _one_by_one(call, schema, rows, low, high)


def _by_running_sums(call: AggregateCall, schema: Schema, rows: pa.RecordBatch, low: Longs, high: Longs) -> pa.Array:
    partials = Partials(schema, [(0, call)], False)
    taken = counted(rows, call)
    flags = np.ones(rows.num_rows, np.int64)
    if taken is not None:
        flags = taken.to_numpy(zero_copy_only=False).astype(np.int64)
    arrays = []
    for part in partials.parts:
        values = flags
        if part.update == "sum":
            column = pc.fill_null(rows.column(call.arguments[0]), 0).cast(pa.int64())
            values = column.to_numpy(zero_copy_only=False) * flags
        totals = np.concatenate((np.zeros(1, np.int64), np.cumsum(values)))
        arrays.append(pa.array(totals[high + 1] - totals[low]))
    return partials.results(pa.RecordBatch.from_arrays(arrays, schema=partials.schema))[0]


def _extremes(call: AggregateCall, rows: pa.RecordBatch, low: Longs, high: Longs) -> pa.Array:
    """Return least or greatest values by a table of the extremes of runs whose lengths are powers of two."""
    column = rows.column(call.arguments[0])
    if call.filter is not None:
        kept = pc.fill_null(rows.column(call.filter), False)
        column = pc.if_else(kept, column, pa.scalar(None, column.type))
    largest = call.function == "MAX"
    ranks = order_ranks(column, SortKey(0, descending=largest, nulls_last=True))
    levels = [ranks]
    longest = int((high - low).max(initial=0)) + 1
    width = 1
    while 2 * width <= longest:
        last = levels[-1]
        levels.append(np.minimum(last[:-width], last[width:]))
        width *= 2
    lengths = high - low + 1
    exponents = np.frexp(lengths.astype(np.float64))[1] - 1
    best = np.empty(len(low), np.int64)
    for exponent, level in enumerate(levels):
        own = np.flatnonzero(exponents == exponent)
        if len(own):
            best[own] = np.minimum(level[low[own]], level[high[own] + 1 - (1 << exponent)])
    order = np.argsort(ranks, kind="stable")
    found: pa.Array = column.take(pa.array(order[np.searchsorted(ranks[order], best)]))
    return found


def _one_by_one(call: AggregateCall, schema: Schema, rows: pa.RecordBatch, low: Longs, high: Longs) -> pa.Array:
    """Return results by looking at all rows of each frame."""
    lengths = high - low + 1
    ends = np.cumsum(lengths)
    parts, start = [], 0
    while start < len(low):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _MAX_PAIRS, "right")), start + 1)
        many = lengths[start:stop]
        frames = np.repeat(np.arange(stop - start), many)
        places = low[start:stop][frames] + np.arange(len(frames)) - np.repeat(np.cumsum(many) - many, many)
        inside = rows.take(pa.array(places))
        ones = np.ones(len(frames), np.int64)
        parts += evaluated_calls([replace(call)], schema, inside, ones, frames, stop - start)
        start = stop
    return pa.concat_arrays(parts)
