"""Window join: rows of both inputs that have equal keys and the same window. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.join_pairs import MAX_PAIRS, fetch_from, pair_condition, unequal
from flott.runtime.operators.columnar.windowing.grouping import concatenated, group_rows
from flott.runtime.operators.columnar.windowing.row_buffer import RowBuffer
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Flags, LocalClock, Longs, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.logical import JoinKind, Schema
from flott.table._plan.operations import JoinWindows


class JoinWindowsOperator(WaitingOperator):
    """Keeps the rows of both inputs until their window has ended, and joins them then."""

    operation: JoinWindows

    def __init__(self, context: OperatorContext, operation: JoinWindows):
        super().__init__(context, operation, [operation.left, operation.right])
        self.clock = LocalClock(operation.settings.time_zone if operation.zoned else None)
        self._keys = (operation.keys.left, operation.keys.right)
        self._windows = (operation.left_window, operation.right_window)
        self._inputs: tuple[Schema, Schema] = (operation.left, operation.right)
        self._condition = pair_condition(operation.condition, len(operation.left), len(operation.right))
        self._buffers = []
        for side, name in enumerate(("left", "right")):
            schema = self.input_schemas[side]
            keys = pa.schema([schema.field(place) for place in self._keys[side]])
            self._buffers.append(RowBuffer(name, keys, schema))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        reached = self.reached(time)
        due = []
        for side, changes in enumerate(inputs):
            self._buffers[side].open(self.state)
            due.append(self._take(side, changes, reached))
        self._fire(due, reached)

    def _take(self, side: int, changes: Changes, reached: int) -> pa.RecordBatch:
        """Keep rows until their window has ended; return those of windows that have."""
        ends = self._ends(side, changes.columns)
        changes, kept = self.without_late(changes, self.clock.passed(ends - 1, self.watermark), ends)
        rows, ends = changes.columns, ends[kept]
        over = self.clock.passed(ends - 1, reached)
        if not over.all():
            later = np.flatnonzero(~over)
            waiting = rows.take(pa.array(later))
            self._buffers[side].add([waiting.column(place) for place in self._keys[side]], ends[later], waiting)
            rows = rows.take(pa.array(np.flatnonzero(over)))
        return rows

    def _ends(self, side: int, rows: pa.RecordBatch) -> Longs:
        column = self._windows[side][1]
        return milliseconds(rows.column(column), self._inputs[side].names[column])

    # --- joining -----------------------------------------------------------------------------------------------------

    def _fire(self, due: list[pa.RecordBatch], reached: int) -> None:
        sides = []
        for side, buffer in enumerate(self._buffers):
            slots, ends = buffer.slots()
            slots = buffer.in_order(slots[self.clock.passed(ends - 1, reached)])
            rows = concatenated([buffer.rows(slots), due[side]]) if len(slots) else due[side]
            buffer.remove(slots)
            order = np.argsort(self._ends(side, rows), kind="stable")
            sides.append(rows.take(pa.array(order)))
        if any(rows.num_rows for rows in sides):
            self._join(*sides)

    def _join(self, left: pa.RecordBatch, right: pa.RecordBatch) -> None:
        """Send the joined rows, by the ends of windows."""
        number = left.num_rows
        columns = []
        for one, other in zip((*self._keys[0], *self._windows[0]), (*self._keys[1], *self._windows[1]), strict=True):
            first, second = left.column(one), right.column(other)
            columns.append(pa.concat_arrays([first, second if second.type == first.type else second.cast(first.type)]))
        groups, _ = group_rows(columns, number + right.num_rows)
        here, there = groups[:number].copy(), groups[number:].copy()
        for side, rows, ids in ((0, left, here), (1, right, there)):
            lonely = unequal(rows, self._keys[side], self.operation.keys.filter_nulls)
            if lonely is not None:
                ids[lonely] = -1 - side
        matched_left, matched_right = np.zeros(number, np.bool_), np.zeros(right.num_rows, np.bool_)
        parts: list[tuple[Longs, Longs]] = []
        for lefts, rights in _pairs(here, there):
            if self._condition is not None:
                holds = self._condition.holds(
                    fetch_from(left, lefts), fetch_from(right, rights), len(lefts), self.session
                )
                lefts, rights = lefts[holds], rights[holds]
            matched_left[lefts] = True
            matched_right[rights] = True
            parts.append((lefts, rights))
        self._send(left, right, parts, matched_left, matched_right)

    def _send(
        self,
        left: pa.RecordBatch,
        right: pa.RecordBatch,
        parts: list[tuple[Longs, Longs]],
        matched_left: Flags,
        matched_right: Flags,
    ) -> None:
        kind = self.operation.kind
        if kind in (JoinKind.SEMI, JoinKind.ANTI):
            chosen = matched_left if kind is JoinKind.SEMI else ~matched_left
            self.send(list(left.take(pa.array(np.flatnonzero(chosen))).columns))
            return
        lefts = [one for one, _ in parts]
        rights = [other for _, other in parts]
        if kind.left_outer:
            alone = np.flatnonzero(~matched_left)
            lefts.append(alone)
            rights.append(np.full(len(alone), -1, np.int64))
        if kind.right_outer:
            alone = np.flatnonzero(~matched_right)
            lefts.append(np.full(len(alone), -1, np.int64))
            rights.append(alone)
        if not lefts:
            return
        one, other = np.concatenate(lefts), np.concatenate(rights)
        if len(one):
            ends = np.where(one >= 0, _at(self._ends(0, left), one), _at(self._ends(1, right), other))
            order = np.argsort(ends, kind="stable")
            self.send([*_rows(left, one[order]), *_rows(right, other[order])])

    def earliest(self) -> int | None:
        ends = [int(found.min()) for found in (buffer.slots()[1] for buffer in self._buffers) if len(found)]
        return min(ends, default=None)


def _at(values: Longs, places: Longs) -> Longs:
    return values[places] if len(values) else np.zeros(len(places), np.int64)


def _rows(rows: pa.RecordBatch, places: Longs) -> list[pa.Array]:
    """Return columns of rows; place -1 is a row of nulls."""
    missing = places < 0
    at = pa.array(places, mask=missing) if missing.any() else pa.array(places)
    return [column.take(at) for column in rows.columns]


def _pairs(left: Longs, right: Longs) -> list[tuple[Longs, Longs]]:
    """Return pairs of positions of equal numbers, in the order of the left ones, in parts of a limited size."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    begin, end = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    counts = end - begin
    total = np.cumsum(counts)
    parts, start = [], 0
    while start < len(left):
        before = int(total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(total, before + MAX_PAIRS, "right")), start + 1)
        many = counts[start:stop]
        places = np.repeat(np.arange(start, stop), many)
        steps = np.arange(len(places)) - np.repeat(np.cumsum(many) - many, many)
        if len(places):
            parts.append((places, order[begin[places] + steps]))
        start = stop
    return parts
