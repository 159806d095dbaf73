"""Top-N within windows, and deduplication within windows. Task side."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flott.runtime.operators.columnar.base import Changes
from flott.runtime.operators.columnar.windowing.grouping import concatenated, group_rows, ranks_in, taken
from flott.runtime.operators.columnar.windowing.row_buffer import RowBuffer
from flott.runtime.operators.columnar.windowing.sorting import sorted_places
from flott.runtime.operators.columnar.windowing.waiting_operator import WaitingOperator
from flott.runtime.operators.columnar.windowing.zones import Flags, LocalClock, Longs, milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import RankWindows
from flott.table._types.arrow import arrow_schema


class RankWindowsOperator(WaitingOperator):
    """Keeps the first rows of each partition and window, and sends them when the window has ended."""

    operation: RankWindows

    def __init__(self, context: OperatorContext, operation: RankWindows):
        super().__init__(context, operation, [operation.input])
        self.clock = LocalClock(operation.settings.time_zone if operation.zoned else None)
        self._start, self._end = operation.window
        partition = operation.input.pick(operation.partition)
        self._partition = arrow_schema(partition.names, partition.types)
        #: The start of a window is a further key column: windows of the same end may differ in it.
        keys = self._partition.append(pa.field("start", pa.int64()))
        self._buffer = RowBuffer("rows", keys, self.input_schemas[0], grouping=len(self._partition))

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        self._buffer.open(self.state)
        if len(inputs[0]):
            self._take(inputs[0])
        self._fire(self.reached(time))

    def _take(self, changes: Changes) -> None:
        names = self.operation.input.names
        ends = milliseconds(changes.columns.column(self._end), names[self._end])
        changes, kept = self.without_late(changes, self.clock.passed(ends - 1, self.watermark), ends)
        if not len(changes):
            return
        ends = ends[kept]
        rows = changes.columns
        starts = milliseconds(rows.column(self._start), names[self._start])
        keys = [*(rows.column(place) for place in self.operation.partition), pa.array(starts)]
        groups, first = group_rows([*keys, pa.array(ends)], len(changes))
        best = self._best(groups, rows, np.arange(len(changes)))
        if not best.all():  # a row that is not among the first of its epoch is not among the first of all
            places = np.flatnonzero(best)
            rows, groups = rows.take(pa.array(places)), groups[places]
            distinct = [taken(column, first) for column in keys]
            keys, ends_kept = [taken(column, places) for column in keys], ends[places]
        else:
            distinct, ends_kept = [taken(column, first) for column in keys], ends
        positions, slots = self._buffer.matching(distinct, ends[first])
        added = self._buffer.add(keys, ends_kept, rows)
        if len(slots):
            self._drop_beaten(positions, slots, groups, added, rows)

    def _drop_beaten(self, positions: Longs, slots: Longs, groups: Longs, added: Longs, rows: pa.RecordBatch) -> None:
        """Remove rows that are no longer among the first of their window, of those that were there and came."""
        order = np.argsort(self._buffer.order(slots), kind="stable")
        slots, positions = slots[order], positions[order]
        every = np.concatenate((slots, added))
        both = concatenated([self._buffer.rows(slots), rows])
        best = self._best(np.concatenate((positions, groups)), both, np.arange(len(every)))
        self._buffer.remove(every[~best])

    def _best(self, groups: Longs, rows: pa.RecordBatch, arrival: Longs) -> Flags:
        order = self._sorted(groups, rows, arrival)
        found = np.empty(len(groups), np.bool_)
        found[order] = ranks_in(groups[order]) < self.operation.end
        return found

    def _sorted(self, groups: Longs, rows: pa.RecordBatch, arrival: Longs) -> Longs:
        """Return positions by group and rank. Rows come in the order of ``arrival``."""
        if not self.operation.latest:
            return sorted_places(self.operation.order, rows.columns, len(groups), first=[groups])
        backwards = np.argsort(-arrival, kind="stable")
        turned = rows.take(pa.array(backwards))
        return backwards[sorted_places(self.operation.order, turned.columns, len(groups), first=[groups[backwards]])]

    def _fire(self, reached: int) -> None:
        slots, ends = self._buffer.slots()
        slots = slots[self.clock.passed(ends - 1, reached)]
        if not len(slots):
            return
        slots = self._buffer.in_order(slots)
        rows = self._buffer.rows(slots)
        names = self.operation.input.names
        ends = milliseconds(rows.column(self._end), names[self._end])
        keys = self._buffer.keys(slots)
        groups, first = group_rows([*keys, pa.array(ends)], len(slots))
        # Groups in the order of their windows' ends.
        by_end = np.argsort(ends[first], kind="stable")
        place = np.empty(len(first), np.int64)
        place[by_end] = np.arange(len(first))
        groups = place[groups]
        order = self._sorted(groups, rows, np.arange(len(slots)))
        ranks = ranks_in(groups[order]) + 1
        wanted = (ranks >= self.operation.start) & (ranks <= self.operation.end)
        chosen = rows.take(pa.array(order[wanted]))
        self.send([*chosen.columns, pa.array(ranks[wanted])] if self.operation.rank else list(chosen.columns))
        self._buffer.remove(slots)

    def earliest(self) -> int | None:
        _, ends = self._buffer.slots()
        return int(ends.min()) if len(ends) else None
