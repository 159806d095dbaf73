"""Joins of rows whose times differ by an interval. Task side.

A row waits until event time has passed the last time at which a partner could be, and rows of outer joins that have
found none by then are sent alone. Rows that come behind the watermark still find the partners that wait, as in Flink.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.join_pairs import MAX_PAIRS, fetch_from, pair_condition, taken, unequal
from flott.runtime.operators.columnar.kept_rows import Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Ints, codes_of, portions, ranges
from flott.runtime.operators.columnar.time_columns import EARLIEST, TimeIndex, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.logical import JoinKind
from flott.table._plan.operations import JoinIntervals

#: The time of a row, and whether it has had a partner.
TIME, JOINED = "$time", "$joined"


@dataclass(frozen=True)
class WaitingSide:
    """One input, and its rows that wait."""

    left: bool
    schema: pa.Schema
    key: tuple[int, ...]
    time: int
    store: KeptRows
    outer: bool
    earliest_ms: int  #: partners are from this much after a row ...
    latest_ms: int  #: ... to this much after it


class JoinIntervalsOperator(ColumnarOperator):
    """Inner and outer joins; ``left time - right time`` is from ``lower_ms`` to ``upper_ms``."""

    def __init__(self, context: OperatorContext, operation: JoinIntervals):
        super().__init__(context, operation, [operation.left, operation.right])
        told = self._told = operation
        self._condition = pair_condition(told.condition, len(told.left), len(told.right))
        self._left = self._side(True, told.kind.left_outer, -told.upper_ms, -told.lower_ms)
        self._right = self._side(False, told.kind in (JoinKind.RIGHT, JoinKind.FULL), told.lower_ms, told.upper_ms)

    def _side(self, left: bool, outer: bool, earliest_ms: int, latest_ms: int) -> WaitingSide:
        told, schema = self._told, self.input_schemas[not left]
        key = told.keys.left if left else told.keys.right
        name = "interval-left" if left else "interval-right"
        store = KeptRows(self.context, name, schema, key, Apart.NUMBERED, extra=(TIME, JOINED))
        time = told.left_time if left else told.right_time
        return WaitingSide(left, schema, key, time, store, outer, earliest_ms, latest_ms)

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        told = self._told
        self._left.store.begin()
        self._right.store.begin()
        now = self.context.scope.now_ms if told.proctime else self.watermark
        self._take(self._left, self._right, inputs[0], now)
        self._take(self._right, self._left, inputs[1], now)
        ends = self.context.scope.now_ms if told.proctime else max(time.watermark, self.watermark)
        if time.ended:
            ends = MAX_WATERMARK
        for side in (self._left, self._right):
            self._release(side, ends)

    def _take(self, own: WaitingSide, other: WaitingSide, changes: Changes, now: int) -> None:
        columns, length = changes.columns, len(changes)
        if not length:
            return
        times = np.full(length, now, np.int64) if self._told.proctime else milliseconds(columns.column(own.time))
        alone = unequal(columns, own.key, self._told.keys.filter_nulls)
        no_partner = times == EARLIEST if alone is None else alone | (times == EARLIEST)
        joined = self._join(own, other, columns, times, np.flatnonzero(~no_partner))
        waits = ~no_partner & (times + own.latest_ms > now) if now > MIN_WATERMARK else ~no_partner
        stay = np.flatnonzero(waits)
        if len(stay):
            slots = own.store.append(columns.take(pa.array(stay)))
            own.store.counter(TIME)[slots] = times[stay]
            own.store.counter(JOINED)[slots] = joined[stay]
        if own.outer:
            lost = np.flatnonzero(~waits & ~joined)
            self._send_alone(own, taken(columns.columns, lost), len(lost))

    def _join(self, own: WaitingSide, other: WaitingSide, columns: pa.RecordBatch, times: Ints, rows: Ints) -> Ints:
        """Send pairs; return which rows have found a partner."""
        joined = np.zeros(len(times), np.bool_)
        if not len(rows):
            return joined
        at = pa.array(rows)
        keys = [columns.column(key).take(at) for key in own.key]
        codes, first = codes_of(keys, len(rows))
        picked = pa.array(first)
        positions, slots = other.store.matching([key.take(picked) for key in keys], len(first))
        if not len(slots):
            return joined
        index = TimeIndex(positions, other.store.counter(TIME)[slots])
        start = index.first_not_before(codes, times[rows] + own.earliest_ms)
        counts = np.maximum(index.first_after(codes, times[rows] + own.latest_ms) - start, 0)
        for begin, end in portions(counts, MAX_PAIRS):
            pair_rows = rows[np.repeat(np.arange(begin, end), counts[begin:end])]
            pair_slots = slots[index.order[ranges(start[begin:end], counts[begin:end])]]
            if not len(pair_rows):
                continue
            if self._condition is not None:
                pair_rows, pair_slots = self._true_pairs(own, other, columns, pair_rows, pair_slots)
            joined[pair_rows] = True
            partners = np.unique(pair_slots)
            if other.outer and len(partners):
                other.store.counter(JOINED)[partners] = 1
                other.store.table.mark(partners)
            mine, theirs = taken(columns.columns, pair_rows), other.store.rows(pair_slots)
            self.send([*mine, *theirs] if own.left else [*theirs, *mine])
        return joined

    def _true_pairs(
        self, own: WaitingSide, other: WaitingSide, columns: pa.RecordBatch, rows: Ints, slots: Ints
    ) -> tuple[Ints, Ints]:
        assert self._condition is not None
        mine = fetch_from(columns, rows)
        theirs = other.store.fetch(slots)
        left, right = (mine, theirs) if own.left else (theirs, mine)
        holds = self._condition.holds(left, right, len(rows), self.session)
        return rows[holds], slots[holds]

    def _release(self, side: WaitingSide, now: int) -> None:
        """Forget rows that no partner can come for."""
        store = side.store
        slots = store.table.all_slots()
        if not len(slots):
            return
        times = store.counter(TIME)[slots]
        passed = np.flatnonzero(times < now - side.latest_ms) if now < MAX_WATERMARK else np.arange(len(slots))
        if not len(passed):
            return
        gone = slots[passed]
        if side.outer:
            lonely = gone[store.counter(JOINED)[gone] == 0]
            lonely = lonely[np.lexsort((store.numbers(lonely), store.counter(TIME)[lonely]))]
            self._send_alone(side, store.rows(lonely), len(lonely))
        store.remove(gone)

    def _send_alone(self, side: WaitingSide, rows: list[pa.Array], length: int) -> None:
        if not length:
            return
        nulls = [pa.nulls(length, field.type) for field in (self._right if side.left else self._left).schema]
        self.send([*rows, *nulls] if side.left else [*nulls, *rows])

    def next_wakeup_ms(self) -> int | None:
        return self._next_release() if self._told.proctime else None

    def next_event_time_ms(self) -> int | None:
        return None if self._told.proctime else self._next_release()

    def _next_release(self) -> int | None:
        """Return when the first row of an outer join is sent alone, if nothing comes before."""
        found = []
        for side in (self._left, self._right):
            slots = side.store.table.all_slots() if side.outer else np.zeros(0, np.int64)
            if len(slots):
                found.append(int(side.store.counter(TIME)[slots].min()) + side.latest_ms + 1)
        return min(found, default=None)
