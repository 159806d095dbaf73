"""The window operator: any assigner, trigger, evictor and lateness. Task side.

For every record: assign it to windows, put it into those that are not over, ask the trigger what to do. For every
timer: ask the trigger, and forget the window once nothing can be added to it any more.

The common kinds have operators of their own that give the same results faster: see ``aligned`` and ``sessions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flott.common.watermark_strategy import MAX_WATERMARK, MIN_WATERMARK
from flott.datastream.functions._basic import Function
from flott.datastream.functions._window import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flott.datastream.window._assigners import MergingWindowAssigner, no_timestamp_error
from flott.datastream.window._triggers import TriggerResult
from flott.errors import ProgramError
from flott.graph.specs import WindowSpec
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.operators.batch import MAX_BATCH_RECORDS, RowBatch
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.keys import KeyedInput
from flott.runtime.operators.operator import EventTime, OperatorContext
from flott.runtime.operators.process import EVENT_TIMERS, PROCESSING_TIMERS, emit_tagged
from flott.runtime.operators.window.contents import (
    ElementContents,
    EvictedContents,
    FoldedContents,
    WindowContents,
    make_fold,
)
from flott.runtime.operators.window.contexts import (
    AssignerContext,
    WindowEvictorContext,
    WindowProcessContext,
    WindowTriggerContext,
)
from flott.runtime.operators.window.holdings import declare_types, released
from flott.runtime.operators.window.merging import MergingWindows
from flott.runtime.operators.window.namespaces import end_of, is_end, namespace_of, window_of

#: The window function as one call: (key, window, elements) -> results.
WindowCall = Callable[[Any, Any, list[Any]], Iterable[Any] | None]


class WindowedOperator(FunctionOperator):
    """What all window operators have in common: the functions, the key, the results on their way out."""

    holding: str  #: the name of the state in which it holds what is in its windows

    def __init__(self, context: OperatorContext, spec: WindowSpec):
        super().__init__(context, spec.function)
        assert context.keyed_state is not None, "windows need a keyed input"
        keyed = KeyedInput.of(context, 0)
        assert keyed is not None
        self.spec = spec
        self.state = context.keyed_state
        self.select_in = keyed.select_in
        self.current = keyed.current
        self.window_context = WindowProcessContext(self, self.state, isinstance(spec.assigner, MergingWindowAssigner))
        self.call: WindowCall = self._window_call(spec.function)
        self.out: list[Any] = []
        self.stamps: list[int] = []

    def open(self) -> None:
        fold = self.spec.fold.function if self.spec.fold is not None else None
        if isinstance(fold, Function):
            try:
                fold.open(self.runtime_context)
            except Exception as error:
                raise self.failure("open()") from error
        super().open()

    def close(self) -> None:
        try:
            super().close()
        finally:
            fold = self.spec.fold.function if self.spec.fold is not None else None
            if isinstance(fold, Function):
                fold.close()

    def _window_call(self, function: Any) -> WindowCall:
        context = self.window_context
        match function:
            case None:
                return lambda key, window, elements: elements
            case WindowFunction():
                return function.apply
            case AllWindowFunction():
                return lambda key, window, elements: function.apply(window, elements)
            case ProcessWindowFunction():

                def process(key: Any, window: Any, elements: list[Any]) -> Iterable[Any] | None:
                    context.turn_to(key, window)
                    return function.process(key, context, elements)

                return process
            case ProcessAllWindowFunction():

                def process_all(key: Any, window: Any, elements: list[Any]) -> Iterable[Any] | None:
                    context.turn_to(key, window)
                    return function.process(context, elements)

                return process_all
        raise ProgramError(f"{type(function).__name__} is not a window function.")

    def without_time(self, batch: RowBatch) -> Exception:
        """Return the failure of a batch in which a record has no timestamp."""
        index = 0 if batch.timestamps is None else batch.timestamps.index(MIN_WATERMARK)
        failure = self.failure("assigning windows", record=batch.values[index], has_record=True, index=index)
        failure.__cause__ = no_timestamp_error(self.spec.assigner)
        return failure

    def fire(self, key: Any, window: Any, elements: list[Any]) -> None:
        """Run the window function; its results carry the last timestamp of the window."""
        produced = self.call(key, window, elements)
        if produced is None:
            return
        before = len(self.out)
        self.out.extend(produced)
        self.stamps.extend([window.max_timestamp()] * (len(self.out) - before))

    def forget(self, key: Any, window: Any) -> None:
        """Let the function clear what it kept for a window that is over."""
        if isinstance(self.function, ProcessWindowFunction | ProcessAllWindowFunction):
            self.window_context.turn_to(key, window)
            self.function.clear(self.window_context)

    def flush(self, at_least: int = 1) -> None:
        """Pass on what has been produced."""
        if len(self.out) >= at_least:
            out, stamps = self.out, self.stamps
            self.out, self.stamps = [], []
            emit_tagged(self, out, stamps)

    def window_failure(self, window: Any, key: Any) -> Exception:
        """Return the failure of a window that fires."""
        return self.failure(f"firing {window!r}", key=key, has_key=True, timestamp=window.max_timestamp())

    def begin(self) -> None:
        super().begin()
        self.out, self.stamps = [], []
        for key, window, held in released(self.state, self.holding):
            self.current.key = key
            self.take_over(key, window, held)

    def hold(self, name: str) -> None:
        """Hold what is in windows in the state of this name."""
        self.holding = name
        declare_types(self.state, name, self.spec)

    def take_over(self, key: Any, window: Any, held: Any) -> None:
        """Go on with a window that another operator held, before the program was changed."""
        raise NotImplementedError


class WindowOperator(WindowedOperator):
    """Windows of any kind."""

    def __init__(self, context: OperatorContext, spec: WindowSpec):
        super().__init__(context, spec)
        self._assigner, self._trigger = spec.assigner, spec.trigger
        self._lateness = spec.allowed_lateness_ms
        self._event_time = spec.assigner.is_event_time()
        self._event: TimerTable = self.state.timer_table(EVENT_TIMERS)
        self._processing: TimerTable = self.state.timer_table(PROCESSING_TIMERS)
        self._assigner_context = AssignerContext(self)
        self._trigger_context = WindowTriggerContext(self, self.state, self._event, self._processing)
        self._contents = self._make_contents()
        self.hold(self._contents.holding)
        self._merging: MergingWindows | None = None
        if isinstance(spec.assigner, MergingWindowAssigner):
            self._merging = MergingWindows(self.state, spec.assigner)

    def _make_contents(self) -> WindowContents:
        spec = self.spec
        fold = make_fold(spec.fold) if spec.fold is not None else None
        if spec.evictor is not None:
            return EvictedContents(self.state, spec.evictor, WindowEvictorContext(self), fold)
        return ElementContents(self.state) if fold is None else FoldedContents(self.state, fold)

    def take_over(self, key: Any, window: Any, held: Any) -> None:
        if self._is_over(window):
            self.forget(key, window)
            return
        namespace = namespace_of(window)
        if self._merging is not None:
            self._merging.open(key, namespace)
        self._contents.restore((key, namespace), held)
        if window.max_timestamp() > self.watermark:
            self._event.register(window.max_timestamp(), key, namespace)
        self._timers.register(self._cleanup_time(window), key, namespace)

    # --- records -----------------------------------------------------------------------------------------------------

    def process(self, batch: RowBatch) -> None:
        values, timestamps = batch.values, batch.timestamps
        if self._event_time and (timestamps is None or min(timestamps) == MIN_WATERMARK):
            raise self.without_time(batch)
        cursor = iter(values)
        self.clocks.event.follow(cursor, timestamps)
        late: list[int] = []
        select = self.select_in(values)
        take = self._merge_in if self._merging is not None else self._put_in
        try:
            for index, value in enumerate(cursor):
                timestamp = MIN_WATERMARK if timestamps is None else timestamps[index]
                self.current.key = key = select(value)
                windows = self._assigner.assign_windows(value, timestamp, self._assigner_context)
                taken = refused = False
                for window in windows:
                    if take(key, window, value, timestamp):
                        taken = True
                    else:
                        refused = True
                if refused and not taken:
                    late.append(index)
        except Exception as error:
            raise self.record_failure(batch, cursor) from error
        if late and timestamps is not None:
            self.refuse_late([values[i] for i in late], [timestamps[i] for i in late], self.spec.late_tag_id)
        self.flush()

    def _put_in(self, key: Any, window: Any, value: Any, timestamp: int) -> bool:
        """Put a record into a window; False if the window is over."""
        if self._is_over(window):
            return False
        namespace = namespace_of(window)
        self._contents.add((key, namespace), value, timestamp)
        self._ask_on_element(key, window, namespace, namespace, value, timestamp)
        return True

    def _merge_in(self, key: Any, window: Any, value: Any, timestamp: int) -> bool:
        """Put a record into a window that merges with others: its own window joins those that are open."""
        assert self._merging is not None
        actual = self._merging.add(key, window, lambda *merged: self._on_merge(key, *merged))
        namespace = namespace_of(actual)
        if self._is_over(actual):
            self._merging.retire(key, namespace)
            return False
        _, place = self._merging.state_namespace(key, namespace)
        self._contents.add((key, place), value, timestamp)
        self._ask_on_element(key, actual, namespace, place, value, timestamp)
        return True

    def _on_merge(self, key: Any, merged: Any, gone: list[Any], place: Any, places: list[Any]) -> None:
        if self._is_over(merged):
            raise ProgramError(
                f"Merging made the window {merged!r}, which ended before the watermark {self.watermark}. A"
                " MergingWindowAssigner must merge windows into one that covers all of them."
            )
        context = self._trigger_context
        context.turn_to(key, namespace_of(merged), [namespace_of(window) for window in gone])
        self._trigger.on_merge(merged, context)
        for window in gone:
            context.turn_to(key, namespace_of(window))
            self._trigger.clear(window, context)
            self._timers.delete(self._cleanup_time(window), key, namespace_of(window))
        self._contents.merge((key, place), [(key, other) for other in places])

    def _ask_on_element(
        self, key: Any, window: Any, namespace: Any, place: Any, value: Any, timestamp: int
    ) -> None:
        self._trigger_context.turn_to(key, namespace)
        self._obey(self._trigger.on_element(value, timestamp, window, self._trigger_context), key, window, place)
        if (cleanup := self._cleanup_time(window)) != MAX_WATERMARK:
            self._timers.register(cleanup, key, namespace)

    def _obey(self, result: TriggerResult, key: Any, window: Any, place: Any) -> None:
        """Do what the trigger says with the contents of a window."""
        if result is TriggerResult.CONTINUE:
            return
        entry = (key, place)
        if result.is_fire():
            elements = self._contents.take(entry, window, stays=not result.is_purge())
            if elements is not None:
                if elements or self.spec.fold is None:  # there is no result of reducing nothing
                    self.fire(key, window, elements)
                self._contents.fired(entry, window)
        if result.is_purge():
            self._contents.clear(entry)

    # --- when a window is over ---------------------------------------------------------------------------------------

    @property
    def _timers(self) -> TimerTable:
        return self._event if self._event_time else self._processing

    def _is_over(self, window: Any) -> bool:
        """Return whether nothing may be added to a window any more."""
        return self._event_time and self._cleanup_time(window) <= self.watermark

    def _cleanup_time(self, window: Any) -> int:
        """Return when a window is forgotten; the end of time if never."""
        last: int = window.max_timestamp()
        return min(last + self._lateness, MAX_WATERMARK) if self._event_time else last

    # --- timers ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        super().begin()
        self._fire_processing_timers()

    def advance(self, time: EventTime) -> EventTime:
        advanced = super().advance(time)
        self._fire_processing_timers()
        self._fire_timers(self._event, self.watermark, self._trigger.on_event_time, self._event_time)
        return advanced

    def end_keys(self) -> None:
        super().end_keys()
        ask = self._trigger.on_processing_time
        self._fire_timers(self._processing, MAX_WATERMARK, ask, not self._event_time)

    def next_wakeup_ms(self) -> int | None:
        earliest = self._processing.next_timestamp()
        return None if earliest is None else earliest + 1

    def next_event_time_ms(self) -> int | None:
        return self._event.next_timestamp()

    def _fire_processing_timers(self) -> None:
        # A millisecond later, as in Flink: records that come in the last millisecond of a window belong to it.
        past = self.context.scope.now_ms - 1
        self._fire_timers(self._processing, past, self._trigger.on_processing_time, not self._event_time)

    def _fire_timers(
        self,
        timers: TimerTable,
        time: int,
        ask: Callable[[int, Any, Any], TriggerResult],
        is_domain_of_windows: bool,
    ) -> None:
        clock = self.clocks.event
        clock.follow(None, None)
        while (timer := timers.pop_due(time)) is not None:
            timestamp, key, namespace = timer
            self.current.key = key
            if timers is self._event:
                clock.time = timestamp
            asks = not is_end(namespace)
            if not asks:
                (namespace,) = namespace
                if timers.is_set(timestamp, key, namespace):
                    continue  # the trigger has a timer there again, which will do
            window = window_of(namespace)
            place = namespace
            if self._merging is not None:
                is_open, place = self._merging.state_namespace(key, namespace)
                if not is_open:
                    continue  # a timer of a window that has become part of another
            try:
                if asks:
                    self._trigger_context.turn_to(key, namespace)
                    self._obey(ask(timestamp, window, self._trigger_context), key, window, place)
                end = self._cleanup_time(window)
                if timestamp < end if is_domain_of_windows else not self._is_over(window):
                    self._make_sure_of_the_end(key, window, namespace)
                # Later than its end: it is long forgotten, unless the program was changed to allow for less lateness.
                elif is_domain_of_windows and (timestamp == end or (key, place) in self._contents):
                    self._forget_window(key, window, namespace, place)
            except Exception as error:
                raise self.window_failure(window, key) from error
            self.flush(MAX_BATCH_RECORDS)
        self.flush()

    def _make_sure_of_the_end(self, key: Any, window: Any, namespace: Any) -> None:
        """Register a timer for the end of a window if there is none.

        A trigger that deletes its timer at the end of a window deletes the one that forgets the window, if they are
        due at the same time; and a program that was changed may allow for more lateness than the timer knows. The end
        then gets a timer of its own, which the trigger is not asked about.
        """
        end = self._cleanup_time(window)
        if end != MAX_WATERMARK and not self._timers.is_set(end, key, namespace):
            self._timers.register(end, key, end_of(namespace))

    def _forget_window(self, key: Any, window: Any, namespace: Any, place: Any) -> None:
        self._timers.delete(self._cleanup_time(window), key, end_of(namespace))
        self._contents.clear((key, place))
        self._trigger_context.turn_to(key, namespace)
        self._trigger.clear(window, self._trigger_context)
        self.forget(key, window)
        if self._merging is not None:
            self._merging.retire(key, namespace)

