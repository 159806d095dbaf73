"""Sorted results, and limits. Task side.

by event time first   rows are sent when the watermark has reached them
by processing time    rows of an epoch have the same one, and are sent in the order of the other keys
by nothing            a limit: the first rows that come
otherwise             everything is sent when the input ends
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.runtime.operators.columnar.base import Changes, ColumnarOperator
from flott.runtime.operators.columnar.kept_rows import COUNT, Apart, KeptRows
from flott.runtime.operators.columnar.key_codes import Ints
from flott.runtime.operators.columnar.rank_rows import RankRowsOperator
from flott.runtime.operators.columnar.sort_order import ranks_of
from flott.runtime.operators.columnar.time_columns import milliseconds
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.table._plan.operations import RankRows, SortRows
from flott.table._types.logical import TimeAttribute

#: How many rows a limit has seen; the time of the last row that was sent in order of event time.
SEEN, UNTIL = "$seen", "$until"


class SortRowsOperator(ColumnarOperator):
    """Sorts, and keeps ``fetch`` rows behind ``offset``."""

    def __init__(self, context: OperatorContext, operation: SortRows):
        super().__init__(context, operation, [operation.input])
        told = self._told = operation
        first = told.order[0] if told.order else None
        attribute = None if first is None else getattr(told.input.types[first.column], "attribute", None)
        plain = first is not None and not first.descending and told.fetch is None and not told.offset
        self._by_event_time = plain and attribute is TimeAttribute.ROWTIME
        self._by_processing_time = plain and attribute is TimeAttribute.PROCTIME
        schema = self.input_schemas[0]
        self._limit: RankRowsOperator | None = None
        self._store: KeptRows | None = None
        self._progress: KeptRows | None = None
        if first is None and told.retracts[0]:
            self._limit = self._limit_of_changes()
        elif first is None or self._by_event_time:
            self._progress = KeptRows(context, "progress", pa.schema([]), (), Apart.UNIQUE, extra=(SEEN, UNTIL))
        if first is not None and not self._by_processing_time:
            apart = Apart.COUNTED if told.retracts[0] else Apart.NUMBERED
            self._store = KeptRows(context, "rows", schema, (), apart)

    def _limit_of_changes(self) -> RankRowsOperator:
        """Return a top-N by the order in which rows come, which updates the result when a row is taken back."""
        told = self._told
        end = np.iinfo(np.int32).max if told.fetch is None else told.offset + told.fetch
        operator = RankRowsOperator(
            self.context,
            RankRows(
                output=told.output,
                settings=told.settings,
                input=told.input,
                function="ROW_NUMBER",
                partition=(),
                order=(),
                start=told.offset + 1,
                end=int(end),
                rank=False,
                retracts=(True,),
                update_before=told.update_before,
            ),
        )
        operator.emit = lambda batch: self.emit(batch)
        return operator

    def run(self, inputs: list[Changes], time: EventTime) -> None:
        (changes,) = inputs
        if self._store is not None:
            self._store.begin()
        if self._limit is not None:
            self._limit.run(inputs, time)
        elif not self._told.order:
            self._take_first(changes)
        elif self._by_processing_time:
            self._send_sorted(changes.columns, changes.kinds)
        elif self._by_event_time:
            self._take_by_time(changes, MAX_WATERMARK if time.ended else max(time.watermark, self.watermark))
        else:
            self._gather(changes, time.ended)

    # --- limits ------------------------------------------------------------------------------------------------------

    def _counter(self, name: str) -> tuple[Ints, Ints]:
        """Return a number of the operator's progress, as an array and the position in it."""
        assert self._progress is not None
        one = pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), 1, [None]))
        slots, new = self._progress.slots(one)
        if new.any():
            self._progress.counter(UNTIL)[slots] = MIN_WATERMARK
        return self._progress.counter(name), slots

    def _take_first(self, changes: Changes) -> None:
        told, length = self._told, len(changes)
        if not length:
            return
        counter, at = self._counter(SEEN)
        seen = int(counter[at][0])
        start = max(told.offset - seen, 0)
        stop = length if told.fetch is None else min(length, told.offset + told.fetch - seen)
        if stop > start:
            self.send(changes.columns.slice(start, stop - start).columns)
        if told.fetch is None or seen < told.offset + told.fetch:
            counter[at] = seen + length
            assert self._progress is not None
            self._progress.table.mark(at)

    # --- order -------------------------------------------------------------------------------------------------------

    def _take_by_time(self, changes: Changes, watermark: int) -> None:
        store, place = self._store, self._told.order[0].column
        assert store is not None
        assert self._progress is not None
        if not len(changes) and not store.table.size():
            return
        until, at = self._counter(UNTIL)
        if len(changes):
            times = milliseconds(changes.columns.column(place))
            timely = np.flatnonzero(times > until[at][0])
            if len(timely) < len(times):
                late = np.flatnonzero(times <= until[at][0])
                rows = changes.columns.take(pa.array(late)).to_pylist()
                self.refuse_late(rows, times[late].tolist(), None)
            if len(timely):
                store.append(changes.columns.take(pa.array(timely)))
        slots = store.table.all_slots()
        if not len(slots):
            return
        times = milliseconds(store.some_columns(slots, [place])[place])
        due = np.flatnonzero(times <= watermark)
        if not len(due):
            return
        slots = slots[due]
        slots = slots[np.argsort(store.numbers(slots), kind="stable")]
        self._send_sorted(pa.RecordBatch.from_arrays(store.rows(slots), schema=self.input_schemas[0]), None)
        store.remove(slots)
        until[at] = times[due].max()
        self._progress.table.mark(at)

    def _gather(self, changes: Changes, ended: bool) -> None:
        store = self._store
        assert store is not None
        if len(changes):
            if store.apart is Apart.COUNTED:
                slots, _ = store.slots(changes.columns)
                counts = store.counter(COUNT)
                np.add.at(counts, slots, changes.signs)
                store.table.mark(slots)
                store.remove(slots[counts[slots] <= 0])
            else:
                store.append(changes.columns)
        if not ended:
            return
        slots = store.table.all_slots()
        if store.apart is Apart.COUNTED:
            slots = np.repeat(slots, store.counter(COUNT)[slots])
        else:
            slots = slots[np.argsort(store.numbers(slots), kind="stable")]
        if len(slots):
            self._send_sorted(pa.RecordBatch.from_arrays(store.rows(slots), schema=self.input_schemas[0]), None)
        store.remove(slots)

    def _send_sorted(self, columns: pa.RecordBatch, kinds: Any) -> None:
        told = self._told
        keys = told.order[1:] if self._by_processing_time else told.order
        order = np.argsort(ranks_of(columns.column, keys, columns.num_rows), kind="stable")
        stop = len(order) if told.fetch is None else told.offset + told.fetch
        order = order[told.offset : stop]
        if len(order):
            self.send(columns.take(pa.array(order)).columns, None if kinds is None else kinds[order])

    def next_event_time_ms(self) -> int | None:
        if not self._by_event_time or self._store is None:
            return None
        slots = self._store.table.all_slots()
        place = self._told.order[0].column
        return int(milliseconds(self._store.some_columns(slots, [place])[place]).min()) if len(slots) else None
