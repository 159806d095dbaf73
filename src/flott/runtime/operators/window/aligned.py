"""Tumbling and sliding event-time windows that are folded as records come and fire once, at their end. Task side.

Such windows are cut alike for every key. So their values are held pane by pane (one pane per window), a batch is
divided among windows as a whole, and a record costs its fold and one lookup, however many windows and keys are open.
The end of a window needs no timers: when the watermark passes it, its pane is emitted and dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import repeat
from math import gcd
from typing import Any

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.functions._basic import Function
from flott.datastream.window._assigners import SlidingEventTimeWindows, TumblingEventTimeWindows
from flott.datastream.window._triggers import EventTimeTrigger
from flott.datastream.window._windows import TimeWindow
from flott.errors import ProgramError
from flott.graph.specs import WindowSpec
from flott.runtime.operators.operator import MAX_BATCH_RECORDS, EventTime, OperatorContext, position_of
from flott.runtime.operators.window.contents import Aggregating, Reducing, make_fold
from flott.runtime.operators.window.operator import WindowedOperator

PANES = "_window-panes"


def fires_once_at_its_end(spec: WindowSpec) -> bool:
    """Whether a window emits one result, made of one folded value, when event time passes its end, and then is over."""
    return (
        type(spec.trigger) is EventTimeTrigger
        and spec.evictor is None
        and spec.allowed_lateness_ms == 0
        and spec.fold is not None
        and not _uses_state(spec.fold.function)
    )


def _uses_state(function: Any) -> bool:
    """A function that wants to be opened may ask for state, which needs the current key at every record."""
    return isinstance(function, Function) and type(function).open is not Function.open


def is_aligned(spec: WindowSpec) -> bool:
    """Whether :class:`AlignedWindowOperator` can run the spec."""
    return type(spec.assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows) and fires_once_at_its_end(spec)


class AlignedWindowOperator(WindowedOperator):
    """Windows that begin at the same times for every key."""

    def __init__(self, context: OperatorContext, spec: WindowSpec):
        super().__init__(context, spec)
        assigner = spec.assigner
        assert isinstance(assigner, TumblingEventTimeWindows | SlidingEventTimeWindows)
        assert spec.fold is not None
        self._size = assigner.size_ms
        self._offset = assigner.offset_ms
        self._slide = assigner.slide_ms if isinstance(assigner, SlidingEventTimeWindows) else self._size
        #: Records of one slice of time belong to the same windows.
        self._slice = gcd(self._size, self._slide)
        self._panes = self.state.pane_table(PANES)
        self._fold = make_fold(spec.fold)

    # --- records -----------------------------------------------------------------------------------------------------

    def process(self, values: list[Any], timestamps: list[int] | None) -> None:
        if timestamps is None or (lowest := min(timestamps)) == MIN_WATERMARK:
            raise self.without_time(values, timestamps)
        first = self._slice_of(lowest)
        if max(timestamps) < first + self._slice:
            self._put(first, values, timestamps)
        elif timestamps == sorted(timestamps):
            self._put_ascending(values, timestamps)
        else:
            self._put_mixed(values, timestamps)

    def _slice_of(self, timestamp: int) -> int:
        return timestamp - (timestamp - self._offset) % self._slice

    def _put_ascending(self, values: list[Any], timestamps: list[int]) -> None:
        begin = 0
        while begin < len(values):
            first = self._slice_of(timestamps[begin])
            end = bisect_left(timestamps, first + self._slice, begin)
            self._put(first, values[begin:end], timestamps[begin:end])
            begin = end

    def _put_mixed(self, values: list[Any], timestamps: list[int]) -> None:
        slices: dict[int, tuple[list[Any], list[int]]] = {}
        length, offset = self._slice, self._offset
        for value, timestamp in zip(values, timestamps, strict=True):
            first = timestamp - (timestamp - offset) % length
            part = slices.get(first)
            if part is None:
                part = slices[first] = ([], [])
            part[0].append(value)
            part[1].append(timestamp)
        for first, (part_values, part_timestamps) in slices.items():
            self._put(first, part_values, part_timestamps)

    def _put(self, first: int, values: list[Any], timestamps: list[int]) -> None:
        """Fold records of one slice into all windows they belong to."""
        assigned = self._windows_at(first)
        windows = [start for start in assigned if start + self._size - 1 > self.watermark]
        if not windows:
            if assigned:  # otherwise the slice lies between windows, because they slide by more than their size
                self.refuse_late(values, timestamps, self.spec.late_tag_id)
            return
        cursor = iter(values)
        try:
            keys = list(map(self.select, cursor))
            if len(keys) != len(values):  # a selector that raises StopIteration ends a map() without a sound
                raise ProgramError("A key selector raised StopIteration.")
            for start in windows:
                held, marks = self._panes.open(start)
                marks.update(zip(keys, repeat(None)))
                cursor = iter(values)
                if isinstance(self._fold, Aggregating):
                    _aggregate(self._fold, keys, cursor, held)
                else:
                    _reduce(self._fold, keys, cursor, held)
        except Exception as error:
            raise self.record_failure(values, cursor, timestamps) from error

    def _windows_at(self, first: int) -> range:
        """The starts of the windows that contain a slice, latest first."""
        latest = first - (first - self._offset) % self._slide
        return range(latest, first - self._size, -self._slide)

    # --- the end of windows ------------------------------------------------------------------------------------------

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        over = self.watermark - self._size + 1  # windows that start here or before have ended
        for start in sorted(start for start in self._panes.panes if start <= over):
            self._emit(TimeWindow(start, start + self._size), self._panes.drop(start))
        return advanced

    def next_event_time_ms(self) -> int | None:
        earliest = min(self._panes.panes, default=None)
        return None if earliest is None else earliest + self._size - 1

    def _emit(self, window: TimeWindow, held: dict[Any, Any]) -> None:
        keys = self.state.in_group_order(held)
        cursor = iter(keys)
        try:
            if self.function is None:
                result = self._fold.result
                results = [result(held[key]) for key in cursor]
            else:
                for key in cursor:
                    self.current.key = key
                    self.fire(key, window, [self._fold.result(held[key])])
                    self.forget(key, window)
                    self.flush(MAX_BATCH_RECORDS)
                results = []
        except Exception as error:
            raise self.window_failure(window, keys[position_of(cursor, len(keys))]) from error
        self.flush()
        last = window.max_timestamp()
        for begin in range(0, len(results), MAX_BATCH_RECORDS):
            part = results[begin : begin + MAX_BATCH_RECORDS]
            self.emit(part, [last] * len(part))


# The loops over a batch: what they touch is local.


def _aggregate(fold: Aggregating, keys: list[Any], values: Iterator[Any], held: dict[Any, Any]) -> None:
    add, create = fold.add, fold.create
    for value, key in zip(values, keys, strict=True):
        try:
            accumulator = held[key]
        except KeyError:
            accumulator = create()
        held[key] = add(value, accumulator)


def _reduce(fold: Reducing, keys: list[Any], values: Iterator[Any], held: dict[Any, Any]) -> None:
    reduce = fold.reduce
    for value, key in zip(values, keys, strict=True):
        if key in held:
            held[key] = reduce(held[key], value)
        else:
            held[key] = value
