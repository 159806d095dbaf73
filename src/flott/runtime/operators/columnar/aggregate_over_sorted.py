"""OVER in batch mode: all rows are there, so each partition is sorted once and every frame is possible. Task side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.errors import ProgramError
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.windowing.frames import frame_results
from flott.runtime.operators.columnar.windowing.grouping import group_rows, starts_of, taken
from flott.runtime.operators.columnar.windowing.kept_values import evaluated_calls
from flott.runtime.operators.columnar.windowing.sorting import order_ranks, sorted_places
from flott.runtime.operators.columnar.windowing.zones import Longs, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._functions.aggregates.accumulation import Groups, take
from flott.table._functions.aggregates.library import make_accumulation
from flott.table._plan.logical import AggregateCall
from flott.table._plan.operations import AggregateOver
from flott.table._types.arrow import arrow_type

#: Further from every time and number than a frame reaches: the place of NULLs in a frame of RANGE.
_BEYOND = 1 << 61


@dataclass(frozen=True)
class OrderedPartitions:
    """Rows by partition, each in order. All arrays have one entry for each row."""

    columns: pa.RecordBatch
    ids: Longs  #: the number of its partition
    peers: Longs  #: a number that is equal for rows that are equal in order, and grows

    @cached_property
    def own(self) -> Longs:
        """Return the position of each row."""
        return np.arange(len(self.ids))

    @cached_property
    def first(self) -> Longs:
        """Return the first row of its partition."""
        return _firsts(self.ids)

    @cached_property
    def last(self) -> Longs:
        """Return the last row of its partition."""
        return _lasts(self.ids)

    @cached_property
    def first_peer(self) -> Longs:
        """Return the first row that is equal in order."""
        return _firsts(self.peers)

    @cached_property
    def last_peer(self) -> Longs:
        """Return the last row that is equal in order."""
        return _lasts(self.peers)

    @property
    def sizes(self) -> Longs:
        """Return how many rows its partition has."""
        return self.last - self.first + 1


class SortedOverOperator(ColumnarOperator):
    """Sorts the rows of each partition and appends the results of all calls. It keeps no state.

    A batch job brings all rows in one epoch, and they are inserts.
    """

    operation: AggregateOver

    def __init__(self, context: OperatorContext, operation: AggregateOver):
        super().__init__(context, operation, [operation.input])

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        rows = inputs[0].columns
        if not rows.num_rows:
            return
        told = self.operation
        groups, _ = group_rows([rows.column(place) for place in told.partition], rows.num_rows)
        order = sorted_places(told.order, rows.columns, rows.num_rows, first=[groups])
        ordered, ids = rows.take(pa.array(order)), groups[order]
        keys = [order_ranks(ordered.column(key.column), key) for key in told.order]
        changes = starts_of(ids)
        for key in keys:
            changes[1:] |= key[1:] != key[:-1]
        sorted_rows = OrderedPartitions(ordered, ids, np.cumsum(changes))
        frames: tuple[Longs, Longs] | None = None
        results = []
        for call in told.calls:
            found = _ranked(call, sorted_rows)
            if found is None:
                frames = frames or self._frames(sorted_rows)
                found = self._aggregated(call, sorted_rows, *frames)
            results.append(found.cast(arrow_type(call.type)))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        self.send([*rows.columns, *(taken(result, back) for result in results)])

    # --- frames ------------------------------------------------------------------------------------------------------

    def _frames(self, rows: OrderedPartitions) -> tuple[Longs, Longs]:
        """Return the first and the last row of each frame. A frame without rows ends before it begins."""
        frame = self.operation.frame
        if frame.rows:
            low = rows.first if frame.lower is None else np.maximum(rows.first, rows.own + frame.lower)
            high = rows.last if frame.upper is None else np.minimum(rows.last, rows.own + frame.upper)
            return low, high
        low, high = rows.first, rows.last
        if frame.lower == 0:
            low = rows.first_peer
        elif frame.lower is not None:
            low = self._reached(rows, frame.lower, "left")
        if frame.upper == 0:
            high = rows.last_peer
        elif frame.upper is not None:
            high = self._reached(rows, frame.upper, "right") - 1
        return low, high

    def _reached(self, rows: OrderedPartitions, distance: int, side: str) -> Longs:
        """Return how far a distance from each row reaches within its partition."""
        values = self._distances(rows)
        targets = values + distance
        # Values as ranks, so that a partition and a value are one number that grows with both.
        known = np.unique(np.concatenate((values, targets)))
        places = rows.ids * len(known) + np.searchsorted(known, values)
        wanted = rows.ids * len(known) + np.searchsorted(known, targets)
        return np.searchsorted(places, wanted, side)  # type: ignore[call-overload, no-any-return]

    def _distances(self, rows: OrderedPartitions) -> Longs:
        """Return the values of the sort key as numbers that grow, between which distances are measured."""
        key = self.operation.order[0]
        column = rows.columns.column(key.column)
        missing = ~column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_integer(column.type):
            values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            times = column.cast(pa.timestamp("ms")) if pa.types.is_date(column.type) else column
            values = milliseconds(times.fill_null(pa.scalar(0).cast(times.type)))
        else:
            raise ProgramError(
                f"A frame of RANGE with a distance is ordered by a time or an integer, found"
                f" {self.operation.input.types[key.column]}. Use ROWS, or order by another column."
            )
        values = -values if key.descending else values
        return np.where(missing, _BEYOND if key.nulls_last else -_BEYOND, values)

    # --- aggregates --------------------------------------------------------------------------------------------------

    def _aggregated(self, call: AggregateCall, rows: OrderedPartitions, low: Longs, high: Longs) -> pa.Array:
        lower, upper = self.operation.frame.lower, self.operation.frame.upper
        if lower is None and upper in (0, None):
            return self._running(call, rows, high)
        schema, filled = self.operation.input, low <= high
        if filled.all():
            return frame_results(call, schema, rows.columns, low, high)
        some = np.flatnonzero(filled)
        nothing = np.zeros(0, np.int64)
        empty = evaluated_calls([replace(call)], schema, rows.columns.slice(0, 0), nothing, nothing, 1)[0]
        found = frame_results(call, schema, rows.columns, low[some], high[some])
        places = np.full(len(low), len(some))
        places[some] = np.arange(len(some))
        return taken(pa.concat_arrays([found, empty.cast(found.type)]), places)

    def _running(self, call: AggregateCall, rows: OrderedPartitions, high: Longs) -> pa.Array:
        """Return aggregates from the beginning of the partition to the end of each frame, in one pass."""
        columns, length = rows.columns, len(rows.ids)
        kept = np.ones(length, np.bool_)
        if call.filter is not None:
            kept = pc.fill_null(columns.column(call.filter), False).to_numpy(zero_copy_only=False)
        arguments = [columns.column(place) for place in call.arguments]
        if call.distinct:
            places = np.flatnonzero(kept)
            values = [pa.array(rows.ids[places]), *(taken(argument, places) for argument in arguments)]
            _, first = group_rows(values, len(places))
            kept = np.zeros(length, np.bool_)
            kept[places[first]] = True
        types = tuple(self.operation.input.types[place] for place in call.arguments)
        accumulation = make_accumulation(call, types, retracts=False)
        groups = Groups(rows.ids, int(rows.ids[-1]) + 1, kept.astype(np.int64), True)
        scanned = accumulation.scan(groups, accumulation.empty(groups.count), arguments)
        return accumulation.result([take(column, high) for column in scanned])


# --- calls that look at positions ------------------------------------------------------------------------------------


def _ranked(call: AggregateCall, rows: OrderedPartitions) -> pa.Array | None:
    """Return the results of a call that depends on positions only; None for an aggregate."""
    match call.function:
        case "ROW_NUMBER":
            return pa.array(rows.own - rows.first + 1)
        case "RANK":
            return pa.array(rows.first_peer - rows.first + 1)
        case "DENSE_RANK":
            return pa.array(rows.peers - rows.peers[rows.first] + 1)
        case "PERCENT_RANK":
            return pa.array((rows.first_peer - rows.first) / np.maximum(rows.sizes - 1, 1))
        case "CUME_DIST":
            return pa.array((rows.last_peer - rows.first + 1) / rows.sizes)
        case "NTILE":
            return pa.array(_tiles(rows, int(call.literals[0])))
        case "LAG":
            return _shifted(call, rows, -1)
        case "LEAD":
            return _shifted(call, rows, 1)
    return None


def _tiles(rows: OrderedPartitions, count: int) -> Longs:
    """Return the number of each row's bucket. The first buckets have one row more if the rows cannot be shared out."""
    if count < 1:
        raise ProgramError(f"NTILE takes a number of buckets that is at least 1, found {count}.")
    places = rows.own - rows.first
    size, rest = rows.sizes // count, rows.sizes % count
    in_larger = rest * (size + 1)
    larger = places // (size + 1)
    smaller = rest + (places - in_larger) // np.maximum(size, 1)
    return np.where(places < in_larger, larger, smaller) + 1


def _shifted(call: AggregateCall, rows: OrderedPartitions, direction: int) -> pa.Array:
    """Return the values of rows before or behind each row; the default where the partition has none."""
    literals = (*call.literals, None, None)[:2]
    source = rows.own + direction * (1 if literals[0] is None else int(literals[0]))
    missing = (source < rows.first) | (source > rows.last)
    column = rows.columns.column(call.arguments[0])
    found = column.take(pa.array(np.where(missing, 0, source), mask=missing))
    if literals[1] is not None and missing.any():
        found = pc.if_else(pa.array(missing), pa.scalar(literals[1]).cast(found.type), found)
    return found


def _firsts(numbers: Longs) -> Longs:
    """Return the position of the first equal number; equal ones stand together."""
    return np.maximum.accumulate(np.where(starts_of(numbers), np.arange(len(numbers)), 0))


def _lasts(numbers: Longs) -> Longs:
    """Return the position of the last equal number; equal ones stand together."""
    begins = starts_of(numbers)
    ends = np.append(np.flatnonzero(begins)[1:], len(numbers)) - 1
    found: Longs = ends[np.cumsum(begins) - 1]
    return found
