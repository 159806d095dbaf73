"""An aggregate call over groups of rows that are all at hand. Task side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.partials import Partials
from flott.runtime.operators.columnar.windowing.sorting import sorted_places
from flott.runtime.operators.columnar.windowing.zones import Longs
from flott.table._functions.aggregates.accumulation import Groups
from flott.table._functions.aggregates.library import make_accumulation
from flott.table._plan.logical import AggregateCall, Schema
from flott.table._plan.window_partials import parts_of
from flott.table._types.arrow import arrow_type


def evaluated(call: AggregateCall, schema: Schema, rows: pa.RecordBatch, groups: Longs, count: int) -> pa.Array:
    """Return the result of a call for each of ``count`` groups; the rows of a group are in order."""
    if parts_of(0, call, schema, False) is not None:
        partials = Partials(schema, [(0, call)], False)
        return _filled(partials, rows, groups, count)
    if call.filter is not None:
        chosen = np.flatnonzero(pc.fill_null(rows.column(call.filter), False).to_numpy(zero_copy_only=False))
        rows, groups = rows.take(pa.array(chosen)), groups[chosen]
        call = replace(call, filter=None)
    if call.order:
        order = sorted_places(call.order, rows.columns, len(groups))
        rows, groups = rows.take(pa.array(order)), groups[order]
    types = tuple(schema.types[place] for place in call.arguments)
    accumulation = make_accumulation(call, types, retracts=False)
    state = accumulation.empty(count)
    if len(groups):
        arguments = [rows.column(place) for place in call.arguments]
        state = accumulation.fold(Groups(groups, count, np.ones(len(groups), np.int64)), state, arguments)
    found = accumulation.result(state)
    wanted = arrow_type(call.type)
    return found if found.type == wanted else found.cast(wanted)


def _filled(partials: Partials, rows: pa.RecordBatch, groups: Longs, count: int) -> pa.Array:
    """Return results of groups of which some may have no rows."""
    present = np.unique(groups)
    dense = np.searchsorted(present, groups)
    parts = partials.of_rows(Changes(rows), dense, len(present))
    if len(present) < count:
        places = np.full(count, -1, np.int64)
        places[present] = np.arange(len(present))
        mask = places < 0
        arrays = []
        for part, column in zip(partials.parts, parts.columns, strict=True):
            spread = column.take(pa.array(np.where(mask, 0, places), mask=mask))
            arrays.append(spread.fill_null(0) if part.update == "count" else spread)
        parts = pa.RecordBatch.from_arrays(arrays, schema=parts.schema)
    return partials.results(parts)[0]
