"""Interval join: pairs of records of two keyed inputs whose timestamps are close enough. Task side.

Every record waits in a timeline of its key and side; one that comes in is joined with those of the other side whose
timestamps fit, which stand side by side and are found by bisection. A pair meets exactly once: when its later arrival
comes in. Pairs of one arrival come in the order of the partners' timestamps.

What is late is decided as in Flink: a record *before* the watermark (one at the watermark is not). What has waited is
forgotten when the watermark has passed the last time at which a partner could be, so nothing that is not late finds its
partner gone. (In Flink a record exactly at the watermark can.) Forgetting needs no timer: it costs what is forgotten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any

from flott.common.typeinfo import TypeInformation
from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.functions._join import ProcessJoinFunction
from flott.errors import ProgramError
from flott.graph.specs import IntervalJoinSpec
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.kinds.timelines import Timeline, TimelineTable
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import EventTime, OperatorContext, RecordFailure
from flott.runtime.operators.process import emit_tagged

LEFT_WAITING = "_interval-join-left"
RIGHT_WAITING = "_interval-join-right"

_Call = Callable[[Any, Any, "PairContext"], Iterable[Any] | None]


class PairContext(ProcessJoinFunction.Context):
    """The one context object of an operator: its fields are set before each call."""

    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left = self.right = MIN_WATERMARK

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return max(self.left, self.right)


class Side:
    """One input of the join, and what of it waits."""

    def __init__(
        self,
        context: OperatorContext,
        index: int,
        name: str,
        record_type: TypeInformation | None,
        late_tag_id: str | None,
    ):
        keyed, state = KeyedInput.of(context, index), context.keyed_state
        assert keyed is not None, "an interval join needs keyed inputs"
        assert state is not None
        self.index = index
        self.select_in = keyed.select_in
        self.waiting: TimelineTable = state.timeline_table(name)
        state.schemas.declare((name,), StateTypes(record_type, own="records that wait for the other side of the join"))
        self.late_tag_id = late_tag_id
        self.patience_ms = 0  #: for so long after its own time a record waits
        self.earliest_ms = 0  #: partners are from this much after a record ...
        self.latest_ms = 0  #: ... to this much after it


class IntervalJoinOperator(FunctionOperator):
    """Runs a ProcessJoinFunction on pairs."""

    def __init__(self, context: OperatorContext, spec: IntervalJoinSpec):
        super().__init__(context, spec.function)
        assert context.keyed_state is not None
        self._current: CurrentKey = context.keyed_state.current
        self._pair = PairContext()
        self._left = left = Side(context, 0, LEFT_WAITING, spec.left_type, spec.left_late_tag_id)
        self._right = right = Side(context, 1, RIGHT_WAITING, spec.right_type, spec.right_late_tag_id)
        left.earliest_ms, left.latest_ms = spec.lower_ms, spec.upper_ms
        right.earliest_ms, right.latest_ms = -spec.upper_ms, -spec.lower_ms
        for side in (left, right):
            side.patience_ms = max(side.latest_ms, 0)
        self._call: _Call = spec.function.process_element

    def process(self, batch: RowBatch) -> None:
        self._take(self._left, self._right, batch)

    def process_second(self, batch: RowBatch) -> None:
        self._take(self._right, self._left, batch)

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        for side in (self._left, self._right):
            side.waiting.trim(self.watermark - side.patience_ms)
        return advanced

    # --- a batch -----------------------------------------------------------------------------------------------------

    def _take(self, own: Side, other: Side, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        if not values:
            return
        if timestamps is None or (earliest := min(timestamps)) <= MIN_WATERMARK:
            raise self._no_timestamp(batch)
        select, cursor = own.select_in(values), iter(values)
        try:
            keys = [select(value) for value in cursor]
        except Exception as error:
            raise self.record_failure(batch, cursor, own.index) from error
        if earliest < self.watermark:
            keys, values, timestamps = self._without_late(own, keys, values, timestamps)
        own.waiting.add(keys, timestamps, values)
        if other.waiting.entries:
            self._join(own, other.waiting.entries, keys, values, timestamps)

    def _without_late(
        self, side: Side, keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> tuple[list[Any], list[Any], list[int]]:
        watermark = self.watermark
        late = [timestamp < watermark for timestamp in timestamps]
        self.refuse_late(list(compress(values, late)), list(compress(timestamps, late)), side.late_tag_id)
        timely = [not is_late for is_late in late]
        return list(compress(keys, timely)), list(compress(values, timely)), list(compress(timestamps, timely))

    def _join(
        self, own: Side, partners: dict[Any, Timeline], keys: list[Any], values: list[Any], timestamps: list[int]
    ) -> None:
        """Join records with those that wait."""
        earliest_ms, latest_ms, current, clock = own.earliest_ms, own.latest_ms, self._current, self.clocks.event
        find, join = partners.get, self._join_left if own is self._left else self._join_right
        out: list[Any] = []
        stamps: list[int] = []
        for value, key, timestamp in zip(values, keys, timestamps, strict=True):
            held = find(key)
            if held is None:
                continue
            times = held[0]
            start = bisect_left(times, timestamp + earliest_ms)
            stop = bisect_right(times, timestamp + latest_ms, start)
            if start < stop:
                current.key = key
                clock.time = timestamp
                join(value, timestamp, times[start:stop], held[1][start:stop], out, stamps)
                if len(out) >= MAX_BATCH_RECORDS:
                    self._emit(out, stamps)
                    out, stamps = [], []
        self._emit(out, stamps)

    # The same for either side, so that no pair pays for being turned round.

    def _join_left(
        self, left: Any, timestamp: int, times: list[int], rights: list[Any], out: list[Any], stamps: list[int]
    ) -> None:
        pair, call = self._pair, self._call
        pair.left = timestamp
        for right, time in zip(rights, times, strict=True):
            pair.right = time
            try:
                produced = call(left, right, pair)
                if produced is not None:
                    out.extend(produced)
            except Exception as error:
                raise self._pair_failure(left, right) from error
            stamps += [time if time > timestamp else timestamp] * (len(out) - len(stamps))

    def _join_right(
        self, right: Any, timestamp: int, times: list[int], lefts: list[Any], out: list[Any], stamps: list[int]
    ) -> None:
        pair, call = self._pair, self._call
        pair.right = timestamp
        for left, time in zip(lefts, times, strict=True):
            pair.left = time
            try:
                produced = call(left, right, pair)
                if produced is not None:
                    out.extend(produced)
            except Exception as error:
                raise self._pair_failure(left, right) from error
            stamps += [time if time > timestamp else timestamp] * (len(out) - len(stamps))

    def _emit(self, out: list[Any], stamps: list[int]) -> None:
        """Emit in portions, however many pairs one record was part of."""
        for start in range(0, len(out), MAX_BATCH_RECORDS):
            stop = start + MAX_BATCH_RECORDS
            emit_tagged(self, out[start:stop], stamps[start:stop])

    def _pair_failure(self, left: Any, right: Any) -> RecordFailure:
        return self.failure(
            "joining two records",
            record=(left, right),
            has_record=True,
            key=self._current.key,
            has_key=True,
            timestamp=self._pair.get_timestamp(),
        )

    def _no_timestamp(self, batch: RowBatch) -> RecordFailure:
        index = 0 if batch.timestamps is None else batch.timestamps.index(min(batch.timestamps))
        failure = self.failure("joining a record", record=batch.values[index], has_record=True)
        failure.__cause__ = ProgramError(
            "interval_join() joins records by their timestamps, found a record without one. Call"
            " assign_timestamps_and_watermarks() with a WatermarkStrategy that has a timestamp assigner, before"
            " key_by()."
        )
        return failure
