"""OVER: aggregates over the rows before each row, in the order of time. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.errors import ProgramError
from flott.runtime.operators.columnar.accumulator_table import AccumulatorRows, DistinctValues
from flott.runtime.operators.columnar.aggregate_over_sorted import SortedOverOperator
from flott.runtime.operators.columnar.aggregate_over_values import ValueOverOperator
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.windowing.frames import frame_results
from flott.runtime.operators.columnar.windowing.grouping import (
    batch_of,
    concatenated,
    group_rows,
    ranks_in,
    starts_of,
    taken,
)
from flott.runtime.operators.columnar.windowing.row_buffer import AT, RowBuffer
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Flags, LocalClock, Longs, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._functions.aggregates.accumulation import Accumulation, Groups, Numbers, State, take
from flott.table._functions.aggregates.library import make_accumulation
from flott.table._functions.aggregates.numeric import Counted
from flott.table._plan.logical import AggregateCall
from flott.table._plan.operations import AggregateOver
from flott.table._types.arrow import arrow_schema, arrow_type
from flott.table._types.logical import is_rowtime

_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_UNKNOWN = ("LEAD", "NTILE", "PERCENT_RANK", "CUME_DIST")


def over_aggregation(context: OperatorContext, operation: AggregateOver) -> ColumnarOperator:
    """Return the operator for complete input, or for an order: by time, or by other columns."""
    if operation.complete:
        return SortedOverOperator(context, operation)
    for call in operation.calls:
        if call.function in _UNKNOWN:
            raise ProgramError(
                f"{call.function} needs rows behind the current one, and a stream does not end. Use LAG, ROW_NUMBER,"
                " RANK or DENSE_RANK, or run the query in batch mode."
            )
    if operation.frame.upper != 0:
        raise ProgramError("A frame of OVER ends at CURRENT ROW in a stream, found another end.")
    timed = bool(operation.order) and (
        operation.proctime or is_rowtime(operation.input.types[operation.order[0].column])
    )
    return TimeOverOperator(context, operation) if timed else ValueOverOperator(context, operation)


class TimeOverOperator(WaitingOperator):
    """Holds rows back until the watermark has passed them; then appends aggregates in the order of their time.

    Aggregates from the beginning on are kept as accumulators; for other frames and LAG the last rows are kept.
    """

    operation: AggregateOver

    def __init__(self, context: OperatorContext, operation: AggregateOver):
        super().__init__(context, operation, [operation.input])
        self.clock = LocalClock()
        self.proctime = operation.proctime
        self._time = operation.order[0].column
        partition = operation.input.pick(operation.partition)
        keys = arrow_schema(partition.names, partition.types)
        self._keys = pa.schema([pa.field(f"$key{place}", field.type) for place, field in enumerate(keys)])
        bounded = operation.frame.lower is not None
        self._running: dict[int, tuple[AggregateCall, Accumulation]] = {}
        self._framed: dict[int, AggregateCall] = {}
        for number, call in enumerate(operation.calls):
            if call.function in _RANKS:
                self._running[number] = (call, Counted())
            elif bounded or call.function == "LAG":
                self._framed[number] = call
            else:
                types = tuple(operation.input.types[place] for place in call.arguments)
                self._running[number] = (call, make_accumulation(call, types, retracts=False))
        #: The columns that are kept; that of time if the calls need none, so that there are rows.
        self._needed = sorted({place for call in self._framed.values() for place in call.columns})
        self._needed = self._needed or [self._time]
        at = {place: position for position, place in enumerate(self._needed)}
        self._framed = {number: call.moved(at) for number, call in self._framed.items()}
        self._held_schema = operation.input.pick(tuple(self._needed))
        held = arrow_schema(self._held_schema.names, self._held_schema.types)
        self._waiting = RowBuffer("waiting", keys, self.input_schemas[0])
        self._history = RowBuffer("history", keys, held)
        self._depth, self._span_ms = self._kept_before()

    def _kept_before(self) -> tuple[int, int | None]:
        """Return how many rows before the current one are looked at, and how many milliseconds."""
        offsets = [_offset(call) for call in self._framed.values() if call.function == "LAG"]
        lower = self.operation.frame.lower
        if lower is None or all(call.function == "LAG" for call in self._framed.values()):
            return max(offsets, default=0), None
        if self.operation.frame.rows:
            return max([*offsets, -lower]), None
        return max(offsets, default=0), -lower

    # --- rows --------------------------------------------------------------------------------------------------------

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self._open()
        rows, reached = inputs[0].columns, self.reached(time)
        if self.proctime:
            if rows.num_rows:
                self._process(rows, np.full(rows.num_rows, self.context.scope.now_ms, np.int64), reached)
            return
        times = milliseconds(rows.column(self._time), self.operation.input.names[self._time])
        changes, kept = self.without_late(inputs[0], self._late(rows, times), times)
        rows, times = changes.columns, times[kept]
        rows, times = self._due(rows, times, reached)
        if rows.num_rows:
            self._process(rows, times, reached)
        elif self._span_ms is not None:
            self._forget(reached)

    def _open(self) -> None:
        state, ttl_ms = self.state, self.operation.ttl_ms
        now_ms = self.context.scope.now_ms
        self._waiting.open(state)
        if self._framed:
            self._history.open(state)
        if self._running:
            accumulations = [accumulation for _, accumulation in self._running.values()]
            self._totals = AccumulatorRows(
                state, "totals", self._keys, len(self._keys), accumulations, now_ms if ttl_ms else None
            )
            if ttl_ms:
                self._totals.table.now_ms = now_ms
                self._totals.table.expire(now_ms - ttl_ms)
        self._distinct = {
            number: DistinctValues(
                state,
                f"distinct{number}",
                self._keys,
                pa.schema([self.input_schemas[0].field(p) for p in call.arguments]),
            )
            for number, (call, _) in self._running.items()
            if call.distinct
        }

    def _late(self, rows: pa.RecordBatch, times: Longs) -> Flags:
        """Return which rows are late: behind the watermark.

        Frames of a number of rows look at the last rows of a key only. There a row is late, as in Flink, if a row of
        its key was sent that is not older.
        """
        late = times <= self.watermark
        if self.operation.frame.lower is None or not self.operation.frame.rows or not late.any():
            return late
        places = np.flatnonzero(late)
        keys = [taken(rows.column(place), places) for place in self.operation.partition]
        at, slots = self._former(batch_of(keys, self._keys, len(places)))
        last = np.full(len(places), MIN_WATERMARK, np.int64)
        np.maximum.at(last, at, self._history.table.column(AT)[slots])
        late[places] = times[places] <= last
        return late

    def _due(self, rows: pa.RecordBatch, times: Longs, reached: int) -> tuple[pa.RecordBatch, Longs]:
        """Return all rows that the watermark has passed, in the order of time; the others wait."""
        now = times <= reached
        later = np.flatnonzero(~now)
        slots, held = self._waiting.slots()
        slots = self._waiting.in_order(slots[held <= reached])
        before, before_times = self._waiting.rows(slots), self._waiting.table.column(AT)[slots]
        self._waiting.remove(slots)
        if len(later):
            waiting = rows.take(pa.array(later))
            keys = [waiting.column(place) for place in self.operation.partition]
            self._waiting.add(keys, times[later], waiting)
            chosen = np.flatnonzero(now)
            rows, times = rows.take(pa.array(chosen)), times[chosen]
        if len(slots):
            rows, times = concatenated([before, rows]), np.concatenate((before_times, times))
        order = np.argsort(times, kind="stable")
        return (
            (rows, times)
            if np.array_equal(order, np.arange(len(order)))
            else (rows.take(pa.array(order)), times[order])
        )

    # --- aggregates --------------------------------------------------------------------------------------------------

    def _process(self, rows: pa.RecordBatch, times: Longs, reached: int) -> None:
        """Append aggregates to rows, which are in the order of time, and send them in that order."""
        keys = [rows.column(place) for place in self.operation.partition]
        ids, first = group_rows(keys, rows.num_rows)
        order = np.argsort(ids, kind="stable")
        ids, moments = ids[order], times[order]
        by_key = rows.take(pa.array(order))
        distinct = batch_of([taken(column, first) for column in keys], self._keys, len(first))
        peers = _last_peers(ids, moments)
        results: dict[int, pa.Array] = {}
        if self._running:
            self._run_totals(by_key, ids, len(first), peers, distinct, results)
        if self._framed:
            self._run_frames(by_key, ids, moments, peers, distinct, reached, results)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        columns = [taken(results[number], back) for number in range(len(self.operation.calls))]
        self.send([*rows.columns, *columns])

    def _run_totals(
        self,
        rows: pa.RecordBatch,
        ids: Longs,
        count: int,
        peers: Longs,
        distinct: pa.RecordBatch,
        results: dict[int, pa.Array],
    ) -> None:
        """Continue the aggregates from the beginning on."""
        slots, _ = self._totals.table.slots(distinct)
        counts, states = self._totals.counts(slots), self._totals.load(slots)
        ends = np.append(np.flatnonzero(np.diff(ids)), len(ids) - 1)
        keys = [rows.column(place) for place in self.operation.partition]
        saved: list[State] = []
        for (number, (call, accumulation)), initial in zip(self._running.items(), states, strict=True):
            if call.function in _RANKS:
                found, state = _ranks(call.function, ids, peers, counts, initial)
                results[number] = found.cast(arrow_type(call.type))
                saved.append(state)
                continue
            signs = np.ones(len(ids), np.int64)
            if call.filter is not None:
                kept = pc.fill_null(rows.column(call.filter), False)
                signs = kept.to_numpy(zero_copy_only=False).astype(np.int64)
            arguments = [rows.column(place) for place in call.arguments]
            if number in self._distinct:
                signs = self._distinct[number].signs(keys, arguments, signs)
            scanned = accumulation.scan(Groups(ids, count, signs, True), initial, arguments)
            saved.append([take(column, ends) for column in scanned])
            seen = scanned if self.operation.frame.rows else [take(column, peers) for column in scanned]
            results[number] = accumulation.result(seen).cast(arrow_type(call.type))
        self._totals.store(slots, counts + np.bincount(ids, minlength=count), saved)

    def _run_frames(
        self,
        rows: pa.RecordBatch,
        ids: Longs,
        times: Longs,
        peers: Longs,
        distinct: pa.RecordBatch,
        reached: int,
        results: dict[int, pa.Array],
    ) -> None:
        """Look at the rows before each row, of this epoch and of former ones."""
        history = self._history
        places, slots = self._former(distinct)
        order = np.lexsort((history.order(slots), places))
        places, slots = places[order], slots[order]
        needed = [rows.column(place) for place in self._needed]
        held = batch_of(needed, arrow_schema(self._held_schema.names, self._held_schema.types), len(ids))
        former = history.rows(slots)
        # Former rows of a key stand before the new ones.
        groups = np.concatenate((places, ids))
        every = np.concatenate((history.table.column(AT)[slots], times))
        new = np.concatenate((np.zeros(len(slots), np.int64), np.ones(len(ids), np.int64)))
        merged = np.lexsort((np.arange(len(groups)), new, groups))
        groups, every = groups[merged], every[merged]
        both = concatenated([former, held]).take(pa.array(merged))
        at = np.empty(len(merged), np.int64)
        at[merged] = np.arange(len(merged))
        own = at[len(slots) :]
        begins = np.maximum.accumulate(np.where(starts_of(groups), np.arange(len(groups)), 0))
        low, high = self._frames(groups, every, begins, own, peers)
        for number, call in self._framed.items():
            if call.function == "LAG":
                results[number] = _lagged(call, both, own, begins)
            else:
                results[number] = frame_results(call, self._held_schema, both, low, high)
        self._keep(rows, held, groups, every, merged, slots, reached)

    def _former(self, distinct: pa.RecordBatch) -> tuple[Longs, Longs]:
        """Return pairs of a position of a key and the slot of a row that is kept of it."""
        if not len(self._keys):
            slots = self._history.table.all_slots()
            count = distinct.num_rows
            return np.repeat(np.arange(count), len(slots)), np.tile(slots, count)
        return self._history.table.matching(distinct, len(self._keys))

    def _frames(self, groups: Longs, times: Longs, begins: Longs, own: Longs, peers: Longs) -> tuple[Longs, Longs]:
        lower = self.operation.frame.lower
        if lower is None:
            return own, own
        if self.operation.frame.rows:
            return np.maximum(begins[own], own + lower), own
        # Times as ranks, so that a group and a time are one number that grows with both.
        targets = times[own] + lower
        values = np.unique(np.concatenate((times, targets)))
        width = len(values)
        known = groups * width + np.searchsorted(values, times)
        wanted = groups[own] * width + np.searchsorted(values, targets)
        return np.searchsorted(known, wanted, "left"), own[peers]

    def _keep(
        self,
        rows: pa.RecordBatch,
        held: pa.RecordBatch,
        groups: Longs,
        times: Longs,
        merged: Longs,
        slots: Longs,
        reached: int,
    ) -> None:
        """Keep the rows that later ones look at."""
        behind = ranks_in(groups[::-1])[::-1]
        kept = behind < self._depth
        if self._span_ms is not None:
            kept |= times >= reached + (0 if self.proctime else 1) - self._span_ms
        flags = np.empty(len(merged), np.bool_)
        flags[merged] = kept
        number = len(slots)
        self._history.remove(slots[~flags[:number]])
        fresh = np.flatnonzero(flags[number:])
        keys = [taken(rows.column(place), fresh) for place in self.operation.partition]
        moments = np.empty(len(merged), np.int64)
        moments[merged] = times
        self._history.add(keys, moments[number:][fresh], held.take(pa.array(fresh)))
        if self._span_ms is not None:
            self._forget(reached)

    def _forget(self, reached: int) -> None:
        """Remove rows that are too old to be looked at, of keys that have no new rows."""
        if self._framed and self._span_ms is not None and not self._depth:
            slots, times = self._history.slots()
            self._history.remove(slots[times < reached + (0 if self.proctime else 1) - self._span_ms])

    # --- wake-ups ----------------------------------------------------------------------------------------------------

    def next_wakeup_ms(self) -> int | None:
        return None

    def next_event_time_ms(self) -> int | None:
        if self.proctime:
            return None
        _, times = self._waiting.slots()
        return int(times.min()) if len(times) else None


def _last_peers(ids: Longs, times: Longs) -> Longs:
    """Return for each row the position of the last one of the same key and time."""
    if not len(ids):
        return ids
    last = np.append((ids[1:] != ids[:-1]) | (times[1:] != times[:-1]), True)
    ends: Longs = np.flatnonzero(last)
    found: Longs = ends[np.cumsum(last) - last]
    return found


def _ranks(function: str, ids: Longs, peers: Longs, counts: Longs, initial: State) -> tuple[pa.Array, State]:
    """Return ranks of rows, and the number of different times of each key."""
    places = ranks_in(ids)
    begins = starts_of(ids)
    new_peer = np.append(True, peers[1:] != peers[:-1]) if len(peers) else begins
    before = counts[ids]
    different = np.cumsum(new_peer)
    own = different - (different - new_peer)[np.maximum.accumulate(np.where(begins, np.arange(len(ids)), 0))]
    dense = initial[0].values[ids] + own
    ends = np.append(np.flatnonzero(np.diff(ids)), len(ids) - 1)
    state: State = [Numbers(dense[ends])]
    if function == "ROW_NUMBER":
        return pa.array(before + places + 1), state
    if function == "DENSE_RANK":
        return pa.array(dense), state
    first = np.maximum.accumulate(np.where(new_peer, np.arange(len(ids)), 0))
    return pa.array(before + places[first] + 1), state


def _offset(call: AggregateCall) -> int:
    offset = call.literals[0] if call.literals else 1
    return 1 if offset is None else int(offset)


def _lagged(call: AggregateCall, rows: pa.RecordBatch, own: Longs, begins: Longs) -> pa.Array:
    """Return the values of earlier rows; the default where there is none."""
    source = own - _offset(call)
    missing = source < begins[own]
    column = rows.column(call.arguments[0])
    found = column.take(pa.array(np.where(missing, 0, source), mask=missing))
    default = call.literals[1] if len(call.literals) > 1 else None
    if default is not None and missing.any():
        found = pc.if_else(pa.array(missing), pa.scalar(default).cast(found.type), found)
    return found.cast(arrow_type(call.type))
