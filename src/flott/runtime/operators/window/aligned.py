"""Tumbling, sliding and cumulative event-time windows that fire once, at their end. Task side.

Such windows are cut alike for every key. So what they hold, one folded value or all elements, is held pane by pane (one
pane per window), a batch is divided among windows as a whole, and a record costs its fold and one lookup, however many
windows and keys are open. The end of a window needs no timers: when the watermark passes it, its pane is emitted and
dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, cast

from flott.common.watermark_strategy import MIN_WATERMARK
from flott.datastream.functions._basic import Function
from flott.datastream.window._triggers import EventTimeTrigger
from flott.datastream.window._windows import TimeWindow
from flott.errors import ProgramError
from flott.graph.specs import WindowSpec
from flott.runtime.managed_state.kinds.panes import PaneTable
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.operator import EventTime, OperatorContext, position_of
from flott.runtime.operators.window.contents import Aggregating, Reducing, make_fold
from flott.runtime.operators.window.holdings import ELEMENT_PANES, FOLDED_PANES
from flott.runtime.operators.window.namespaces import namespace_of
from flott.runtime.operators.window.operator import WindowedOperator
from flott.runtime.operators.window.slicing import slicing_of


def fires_once_at_its_end(spec: WindowSpec) -> bool:
    """Return whether a window is evaluated once, when event time passes its end, and then is over."""
    return (
        type(spec.trigger) is EventTimeTrigger
        and spec.evictor is None
        and spec.allowed_lateness_ms == 0
        and (spec.fold is None or not _uses_state(spec.fold.function))
    )


def _uses_state(function: Any) -> bool:
    """Return whether a function may ask for state when it is opened: that needs the current key at every record."""
    return isinstance(function, Function) and type(function).open is not Function.open


def is_aligned(spec: WindowSpec) -> bool:
    """Return whether :class:`AlignedWindowOperator` can run the spec."""
    return slicing_of(spec.assigner) is not None and fires_once_at_its_end(spec)


class AlignedWindowOperator(WindowedOperator):
    """Windows that begin at the same times for every key."""

    def __init__(self, context: OperatorContext, spec: WindowSpec):
        super().__init__(context, spec)
        slicing = slicing_of(spec.assigner)
        assert slicing is not None
        self._slicing = slicing
        self._fold = make_fold(spec.fold) if spec.fold is not None else None
        #: A pane is a window: its start and its end.
        self._panes: PaneTable
        if self._fold is None:
            self._panes = self.state.list_pane_table(ELEMENT_PANES)
            self.hold(ELEMENT_PANES)
        else:
            self._panes = self.state.pane_table(FOLDED_PANES)
            self.hold(FOLDED_PANES)

    def take_over(self, key: Any, window: Any, held: Any) -> None:
        if window.max_timestamp() <= self.watermark:
            self.forget(key, window)
            return
        values, marks = self._panes.open(namespace_of(window))
        values[key] = held
        marks[key] = 0

    # --- records -----------------------------------------------------------------------------------------------------

    def process(self, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        if timestamps is None or (lowest := min(timestamps)) == MIN_WATERMARK:
            raise self.without_time(batch)
        first = self._slicing.first(lowest)
        if max(timestamps) < first + self._slicing.length_ms:
            self._put(first, values, timestamps)
        elif timestamps == sorted(timestamps):
            self._put_ascending(values, timestamps)
        else:
            self._put_mixed(values, timestamps)

    def _put_ascending(self, values: list[Any], timestamps: list[int]) -> None:
        begin = 0
        while begin < len(values):
            first = self._slicing.first(timestamps[begin])
            end = bisect_left(timestamps, first + self._slicing.length_ms, begin)
            self._put(first, values[begin:end], timestamps[begin:end])
            begin = end

    def _put_mixed(self, values: list[Any], timestamps: list[int]) -> None:
        slices: dict[int, tuple[list[Any], list[int]]] = {}
        length, offset = self._slicing.length_ms, self._slicing.offset_ms
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
        """Put records of one slice into all windows they belong to."""
        assigned = self._slicing.windows(first)
        windows = [window for window in assigned if window[1] - 1 > self.watermark]
        if not windows:
            if assigned:  # otherwise the slice lies between windows, because they slide by more than their size
                self.refuse_late(values, timestamps, self.spec.late_tag_id)
            return
        cursor = iter(values)
        try:
            keys = list(map(self.select_in(values), cursor))
            if len(keys) != len(values):  # a selector that raises StopIteration ends a map() without a sound
                raise ProgramError("A key selector raised StopIteration.")
            for window in windows:
                held, marks = self._panes.open(window, keys)
                cursor = iter(values)
                if self._fold is None:
                    _append(keys, cursor, held, marks)
                    continue
                marks.update(zip(keys, repeat(0)))
                if isinstance(self._fold, Aggregating):
                    _aggregate(self._fold, keys, cursor, held)
                else:
                    _reduce(self._fold, keys, cursor, held)
        except Exception as error:
            raise self.record_failure(RowBatch(values, timestamps), cursor) from error

    # --- the end of windows ------------------------------------------------------------------------------------------

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        over = [window for window in self._windows() if window[1] - 1 <= self.watermark]
        for window in sorted(over, key=_end):
            for part in self._panes.release(window):
                self._emit(TimeWindow(*window), part)
        return advanced

    def next_event_time_ms(self) -> int | None:
        earliest = min(self._windows(), key=_end, default=None)
        return None if earliest is None else _end(earliest) - 1

    def _windows(self) -> Iterable[tuple[int, int]]:
        """Return the open windows."""
        return cast("Iterable[tuple[int, int]]", self._panes.panes)

    def _emit(self, window: TimeWindow, held: dict[Any, Any]) -> None:
        self.clocks.event.time = window.max_timestamp()
        keys = self.state.in_group_order(held)
        cursor = iter(keys)
        try:
            if self.function is None:
                assert self._fold is not None
                result = self._fold.result
                results = [result(held[key]) for key in cursor]
            else:
                for key in cursor:
                    self.current.key = key
                    self.fire(key, window, held[key] if self._fold is None else [self._fold.result(held[key])])
                    self.forget(key, window)
                    self.flush(MAX_BATCH_RECORDS)
                results = []
        except Exception as error:
            raise self.window_failure(window, keys[position_of(cursor, len(keys))]) from error
        self.flush()
        last = window.max_timestamp()
        for begin in range(0, len(results), MAX_BATCH_RECORDS):
            part = results[begin : begin + MAX_BATCH_RECORDS]
            self.emit(RowBatch(part, [last] * len(part)))


def _end(window: tuple[int, int]) -> int:
    return window[1]


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


def _append(keys: list[Any], values: Iterator[Any], held: dict[Any, Any], marks: dict[Any, int]) -> None:
    for value, key in zip(values, keys, strict=True):
        try:
            elements = held[key]
        except KeyError:
            held[key] = [value]
            marks[key] = 0
        else:
            if key not in marks:
                marks[key] = len(elements)
            elements.append(value)
