"""Triggers: they determine when a window emits its result.

A trigger contains only its settings. It keeps data of a window in the state of its context, so that one trigger serves
all windows of all keys. Values; their methods run in tasks.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, cast

from flott.common.typeinfo._type_information import TypeInformation
from flott.common.typeinfo._types import Types
from flott.datastream.state._descriptors import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from flott.datastream.window._lengths import Length, check_positive, positive_ms
from flott.datastream.window._timestamps import has_time, no_timestamp_error
from flott.datastream.window._windows import GlobalWindow, T, TimeWindow, W
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.datastream.state._handles import ReducingState, State, ValueState
    from flott.metrics.metricbase import MetricGroup


class TriggerResult(Enum):
    """What happens to a window: whether its function is called, and whether its records are dropped.

    An empty window emits no result, regardless of its trigger.
    """

    CONTINUE = (False, False)  #: no action
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)  #: the records stay in the window
    PURGE = (False, True)

    def __init__(self, fires: bool, purges: bool):
        # Separate attributes, because the descriptor behind `value` is slow and the result is read per record.
        self._fires = fires
        self._purges = purges

    def is_fire(self) -> bool:
        return self._fires

    def is_purge(self) -> bool:
        return self._purges


class Trigger(ABC, Generic[T, W]):
    """Decides when a window of a key is evaluated.

    It is called for each record, and for each timer that it registered::

        class EveryTenth(Trigger[Event, TimeWindow]):
            count = ReducingStateDescriptor("count", operator.add, Types.LONG())

            def on_element(self, element, timestamp, window, ctx):
                count = ctx.get_partitioned_state(self.count)
                count.add(1)
                return TriggerResult.FIRE if count.get() % 10 == 0 else TriggerResult.CONTINUE
            ...

    It has no state of its own, because windows of many keys share it. For merging windows, :meth:`can_merge` returns
    true
    and :meth:`on_merge` merges their state.
    """

    class TriggerContext(ABC):
        """The clocks, the timers and the state of the window."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time of the current epoch, in milliseconds."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Return the group in which the operator registers its metrics."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the current watermark, in milliseconds."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Call :meth:`Trigger.on_processing_time` when processing time reaches ``time``."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Call :meth:`Trigger.on_event_time` when the watermark reaches ``time``."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Delete a processing-time timer, if there is one at ``time``."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Delete an event-time timer, if there is one at ``time``."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> State:
            """Return the state of this key and this window."""

    class OnMergeContext(TriggerContext):
        """The argument of :meth:`Trigger.on_merge`: the context of the resulting window."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Merge the state of the merged windows into that of the result: lists, reducing and aggregating state."""

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handle one more record of the window.

        If the stream has no timestamps, ``timestamp`` is ``MIN_LONG_VALUE`` of ``flott.common.constants``.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handle a processing-time timer that was registered for ``time``."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Handle an event-time timer that was registered for ``time``."""

    def can_merge(self) -> bool:
        """Return whether windows with this trigger may be merged."""
        return False

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Merge the state of windows that were merged to ``window``, and register its timers."""
        raise NotImplementedError(
            f"Windows with the trigger {self!r} cannot merge: {type(self).__name__} has no on_merge()."
        )

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Clear the state and delete the timers of a window that is dropped."""


# ---------------------------------------------------------------------------------------------------------------------
# At the end of the window
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for each later record."""

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # After the watermark, the record that caused the merge fires the window in on_element.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger[T]:
        """Return the trigger."""
        return EventTimeTrigger()


@dataclass(frozen=True)
class ProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when processing time passes the end of the window."""

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        # After its end, the record that caused the merge registers the timer in on_element.
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger[T]:
        """Return the trigger."""
        return ProcessingTimeTrigger()


# ---------------------------------------------------------------------------------------------------------------------
# Again and again
# ---------------------------------------------------------------------------------------------------------------------

#: The next time a window fires; the earliest of merging windows.
_NEXT_FIRE: Final = ReducingStateDescriptor("fire-time", min, Types.LONG())


def _next_fire(ctx: Trigger.TriggerContext) -> ReducingState[int]:
    return cast("ReducingState[int]", ctx.get_partitioned_state(_NEXT_FIRE))


@dataclass(frozen=True)
class ContinuousEventTimeTrigger(Trigger[T, W]):
    """Fires each time the watermark passes a multiple of the interval, and at the end of the window.

    >>> from flott.common.time import Time
    >>> ContinuousEventTimeTrigger.of(Time.seconds(10))
    ContinuousEventTimeTrigger(interval=10000)
    """

    interval: int  #: in milliseconds

    def __post_init__(self) -> None:
        check_positive(self.interval, "The interval of a ContinuousEventTimeTrigger in milliseconds")

    @staticmethod
    def of(interval: Length) -> ContinuousEventTimeTrigger[T, W]:
        """Return a trigger with this interval."""
        return ContinuousEventTimeTrigger(positive_ms(interval, "The interval of a ContinuousEventTimeTrigger"))

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        next_fire = _next_fire(ctx)
        if next_fire.get() is None:
            if not has_time(timestamp):
                raise no_timestamp_error(self)
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, next_fire)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        next_fire = _next_fire(ctx)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        self.register_next_fire_timestamp(time, window, ctx, next_fire)
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(_NEXT_FIRE)
        time = _next_fire(ctx).get()
        if time is not None:
            ctx.register_event_time_timer(time)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())
        next_fire = _next_fire(ctx)
        time = next_fire.get()
        if time is not None:
            ctx.delete_event_time_timer(time)
            next_fire.clear()

    def register_next_fire_timestamp(
        self, time: int, window: W, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fire one interval after ``time``, or at the end of the window if that is earlier."""
        following = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(following)
        ctx.register_event_time_timer(following)


@dataclass(frozen=True)
class ContinuousProcessingTimeTrigger(Trigger[T, W]):
    """Fires each time processing time passes a multiple of the interval, and at the end of the window."""

    interval: int  #: in milliseconds

    def __post_init__(self) -> None:
        check_positive(self.interval, "The interval of a ContinuousProcessingTimeTrigger in milliseconds")

    @staticmethod
    def of(interval: Length) -> ContinuousProcessingTimeTrigger[T, W]:
        """Return a trigger with this interval."""
        return ContinuousProcessingTimeTrigger(
            positive_ms(interval, "The interval of a ContinuousProcessingTimeTrigger")
        )

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        next_fire = _next_fire(ctx)
        if next_fire.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, next_fire)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        next_fire = _next_fire(ctx)
        if next_fire.get() != time:
            return TriggerResult.CONTINUE
        next_fire.clear()
        self.register_next_fire_timestamp(time, window, ctx, next_fire)
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(_NEXT_FIRE)
        time = _next_fire(ctx).get()
        if time is not None:
            ctx.register_processing_time_timer(time)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        next_fire = _next_fire(ctx)
        time = next_fire.get()
        if time is not None:
            ctx.delete_processing_time_timer(time)
            next_fire.clear()

    def register_next_fire_timestamp(
        self, time: int, window: W, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Fire one interval after ``time``, or at the end of the window if that is earlier."""
        end = window.max_timestamp()
        following = time + self.interval
        # An end in the past belongs to an event-time window and is unrelated to this clock. A timer for it would fire
        # immediately and repeatedly.
        if time < end < following:
            following = end
        fire_timestamp_state.add(following)
        ctx.register_processing_time_timer(following)


# ---------------------------------------------------------------------------------------------------------------------
# By what arrives
# ---------------------------------------------------------------------------------------------------------------------

#: The number of records of a window since it last fired.
_COUNT: Final = ReducingStateDescriptor("count", operator.add, Types.LONG())


@dataclass(frozen=True)
class CountTrigger(Trigger[T, W]):
    """Fires at every ``window_size``-th record of a window."""

    window_size: int

    def __post_init__(self) -> None:
        check_positive(self.window_size, "The count of a CountTrigger")

    @staticmethod
    def of(window_size: int) -> CountTrigger[T, W]:
        """Return a trigger for this many records."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = cast("ReducingState[int]", ctx.get_partitioned_state(_COUNT))
        count.add(1)
        if (count.get() or 0) < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(_COUNT)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(_COUNT).clear()


@dataclass(frozen=True)
class DeltaTrigger(Trigger[T, W]):
    """Fires when a record differs enough from the one that fired last (at first, from the window's first record).

    The function gives the difference of two records, the older one first. Flink's; PyFlink has none.

    >>> trigger = DeltaTrigger.of(10.0, lambda old, new: new["speed"] - old["speed"])
    """

    threshold: float  #: a larger difference fires
    delta_function: Callable[[T, T], float]
    state_type: TypeInformation | None = None  #: of the stored record; None: pickled
    _last: ValueStateDescriptor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_callable(self.delta_function, "DeltaTrigger")
        object.__setattr__(self, "_last", ValueStateDescriptor("last-element", self.state_type))

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[T, T], float], state_type: TypeInformation | None = None
    ) -> DeltaTrigger[T, W]:
        """Return a trigger with this threshold and this function of the difference."""
        return DeltaTrigger(threshold, delta_function, state_type)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        last = cast("ValueState[T]", ctx.get_partitioned_state(self._last))
        older = last.value()
        if older is None:
            last.update(element)
            return TriggerResult.CONTINUE
        if self.delta_function(older, element) > self.threshold:
            last.update(element)
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._last).clear()


def _check_callable(function: object, owner: str) -> None:
    if not callable(function):
        raise ProgramError(f"{owner} takes a function of two records that gives a number, found {function!r}.")


@dataclass(frozen=True)
class NeverTrigger(Trigger[T, GlobalWindow]):
    """Never fires. It is the default of :class:`~flott.datastream.window.GlobalWindows`, which has no end."""

    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        pass

    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        pass


# ---------------------------------------------------------------------------------------------------------------------
# Around another trigger
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PurgingTrigger(Trigger[T, W]):
    """Fires when another trigger fires, and drops the records of the window.

    >>> PurgingTrigger.of(CountTrigger.of(100))
    PurgingTrigger(nested_trigger=CountTrigger(window_size=100))
    """

    nested_trigger: Trigger[T, W]

    def __post_init__(self) -> None:
        _check_nested(self.nested_trigger, "PurgingTrigger")

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Return the same trigger, purging."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


def _check_nested(trigger: object, owner: str) -> None:
    if not isinstance(trigger, Trigger):
        raise ProgramError(f"{owner} takes a Trigger such as CountTrigger.of(100), found {trigger!r}.")


#: The time at which the timeout of the nested trigger ends.
_TIMEOUT: Final = ValueStateDescriptor("timeout", Types.LONG())


def _timeout(ctx: Trigger.TriggerContext) -> ValueState[int]:
    return cast("ValueState[int]", ctx.get_partitioned_state(_TIMEOUT))


@dataclass(frozen=True)
class ProcessingTimeoutTrigger(Trigger[T, W]):
    """Fires when another trigger fires, or after a timeout in processing time.

    The timeout starts with the first record since the window last fired, or again with each record. Flink's; PyFlink
    has
    none.

    >>> from flott.common.time import Duration
    >>> trigger = ProcessingTimeoutTrigger.of(CountTrigger.of(100), Duration.of_seconds(1))
    """

    nested_trigger: Trigger[T, W]
    interval: int  #: in milliseconds
    reset_timer_on_new_record: bool = False
    should_clear_on_timeout: bool = True  #: otherwise the nested trigger keeps its state, and no new timeout starts

    def __post_init__(self) -> None:
        _check_nested(self.nested_trigger, "ProcessingTimeoutTrigger")
        check_positive(self.interval, "The timeout of a ProcessingTimeoutTrigger in milliseconds")

    @staticmethod
    def of(
        nested_trigger: Trigger[T, W],
        timeout: Length,
        reset_timer_on_new_record: bool = False,
        should_clear_on_timeout: bool = True,
    ) -> ProcessingTimeoutTrigger[T, W]:
        """Return the same trigger, with a timeout."""
        interval = positive_ms(timeout, "The timeout of a ProcessingTimeoutTrigger")
        return ProcessingTimeoutTrigger(nested_trigger, interval, reset_timer_on_new_record, should_clear_on_timeout)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_element(element, timestamp, window, ctx)
        if result.is_fire():
            self.clear(window, ctx)
            return result
        timeout = _timeout(ctx)
        due = timeout.value()
        if due is None or self.reset_timer_on_new_record:
            if due is not None:
                ctx.delete_processing_time_timer(due)
            due = ctx.get_current_processing_time() + self.interval
            timeout.update(due)
            ctx.register_processing_time_timer(due)
        return result

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        is_timeout = _timeout(ctx).value() == time
        result = self.nested_trigger.on_processing_time(time, window, ctx)
        if not is_timeout and not result.is_fire():
            return result
        if self.should_clear_on_timeout:
            self.clear(window, ctx)
        return TriggerResult.FIRE_AND_PURGE if result.is_purge() else TriggerResult.FIRE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        result = self.nested_trigger.on_event_time(time, window, ctx)
        if result.is_fire() and self.should_clear_on_timeout:
            self.clear(window, ctx)
        return result

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        timeout = _timeout(ctx)
        due = timeout.value()
        if due is not None:
            ctx.delete_processing_time_timer(due)
            timeout.clear()
        self.nested_trigger.clear(window, ctx)
