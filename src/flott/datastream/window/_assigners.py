"""Window assigners: they determine the windows of a record.

    WindowAssigner
    ├── Tumbling-, Sliding-, Cumulative-   EventTimeWindows, ProcessingTimeWindows
    ├── GlobalWindows
    ├── CountTumbling-, CountSlidingWindowAssigner
    └── MergingWindowAssigner
        └── EventTimeSessionWindows, ProcessingTimeSessionWindows, each with a fixed or a dynamic gap

The form of the windows and the clock are separate classes, and a concrete assigner combines the two. Assigners are
values. ``assign_windows`` runs in tasks, once per record, unless the runtime knows the assigner and reads its lengths
instead (``size_ms``, ``slide_ms``, ``offset_ms``, ``gap_ms`` …).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from flott.common.serializer import TypeSerializer
from flott.common.typeinfo._types import Types
from flott.datastream.state._descriptors import ValueStateDescriptor
from flott.datastream.window._lengths import Length, check_positive, to_ms
from flott.datastream.window._timestamps import has_time
from flott.datastream.window._timestamps import no_timestamp_error as no_timestamp_error  # for the runtime
from flott.datastream.window._triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from flott.datastream.window._windows import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    T,
    TimeWindow,
    TimeWindowSerializer,
    W,
    Window,
)
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.datastream.functions._context import RuntimeContext
    from flott.datastream.stream_execution_environment import StreamExecutionEnvironment

W2 = TypeVar("W2", bound=Window)


class WindowAssigner(ABC, Generic[T, W]):
    """Determines the windows of a record, and their default trigger."""

    class WindowAssignerContext(ABC):
        """The services of the operator for an assigner."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the processing time of the current epoch, in milliseconds."""

        @abstractmethod
        def get_runtime_context(self) -> RuntimeContext:
            """Return the runtime context, with the state of the record's key."""

    @abstractmethod
    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[W]:
        """Return the windows of a record: one, several or none.

        If the stream has no timestamps, ``timestamp`` is ``MIN_LONG_VALUE`` of ``flott.common.constants``.
        """

    @abstractmethod
    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, W]:
        """Return the default trigger."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return the serializer of this assigner's windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the windows are event-time windows, which the watermark closes."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner of windows that can be merged, such as sessions."""

    class MergeCallback(ABC, Generic[W2]):
        """Receives the results of :meth:`MergingWindowAssigner.merge_windows`."""

        @abstractmethod
        def merge(self, to_be_merged: Iterable[W2], merge_result: W2) -> None:
            """Merge these windows into one."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergingWindowAssigner.MergeCallback[W]) -> None:
        """Report to the callback which windows of a key are merged."""


# ---------------------------------------------------------------------------------------------------------------------
# The clock
# ---------------------------------------------------------------------------------------------------------------------


class _TimeWindowAssigner(WindowAssigner[T, TimeWindow]):
    """Windows of time, by either clock."""

    @abstractmethod
    def _time_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> int:
        """Return the time of the record by this assigner's clock."""

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        return TimeWindowSerializer()


class _ByEventTime(_TimeWindowAssigner[T]):
    def _time_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> int:
        if not has_time(timestamp):
            raise no_timestamp_error(self)
        return timestamp

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ByProcessingTime(_TimeWindowAssigner[T]):
    def _time_of(self, timestamp: int | None, context: WindowAssigner.WindowAssignerContext) -> int:
        return context.get_current_processing_time()

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, TimeWindow]:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


# ---------------------------------------------------------------------------------------------------------------------
# Windows one after the other
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class _Tumbling(_TimeWindowAssigner[T]):
    size_ms: int
    offset_ms: int

    def __init__(self, size: int, offset: int):
        name = type(self).__name__
        _set(self, size_ms=check_positive(size, f"The size of {name} in milliseconds"))
        _set(self, offset_ms=_check_offset(offset, size, name, "size"))

    @classmethod
    def of(cls, size: Length, offset: Length | None = None) -> Self:
        """Return windows of this size. The offset shifts their start.

        With an offset of 15 minutes, windows of an hour start at 0:15, 1:15 and so on. Days that start at midnight of
        UTC+08:00
        have an offset of -8 hours.
        """
        return cls(to_ms(size, f"The size of {cls.__name__}"), _offset_ms(offset, cls.__name__))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time_of(timestamp, context)
        start = time - (time - self.offset_ms) % self.size_ms
        return (TimeWindow(start, start + self.size_ms),)


class TumblingEventTimeWindows(_ByEventTime[T], _Tumbling[T]):
    """Windows of one size without overlap. A record belongs to one window, by its timestamp.

    >>> from flott.common.time import Time
    >>> TumblingEventTimeWindows.of(Time.minutes(1))
    TumblingEventTimeWindows(size_ms=60000, offset_ms=0)
    """


class TumblingProcessingTimeWindows(_ByProcessingTime[T], _Tumbling[T]):
    """Windows of one size without overlap. A record belongs to one window, by its processing time."""


# ---------------------------------------------------------------------------------------------------------------------
# Windows that overlap
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class _Sliding(_TimeWindowAssigner[T]):
    size_ms: int
    slide_ms: int
    offset_ms: int

    def __init__(self, size: int, slide: int, offset: int):
        name = type(self).__name__
        _set(self, size_ms=check_positive(size, f"The size of {name} in milliseconds"))
        _set(self, slide_ms=check_positive(slide, f"The slide of {name} in milliseconds"))
        _set(self, offset_ms=_check_offset(offset, slide, name, "slide"))

    @classmethod
    def of(cls, size: Length, slide: Length, offset: Length | None = None) -> Self:
        """Return windows of this size that start every ``slide``. The offset shifts their start.

        A slide longer than the size leaves gaps, whose records belong to no window.
        """
        name = cls.__name__
        return cls(to_ms(size, f"The size of {name}"), to_ms(slide, f"The slide of {name}"), _offset_ms(offset, name))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time, size, slide = self._time_of(timestamp, context), self.size_ms, self.slide_ms
        last = time - (time - self.offset_ms) % slide
        return [TimeWindow(start, start + size) for start in range(last, time - size, -slide)]


class SlidingEventTimeWindows(_ByEventTime[T], _Sliding[T]):
    """Windows of one size that start at regular times. A record belongs to all that contain its timestamp.

    >>> from flott.common.time import Time
    >>> SlidingEventTimeWindows.of(Time.minutes(1), Time.seconds(10))
    SlidingEventTimeWindows(size_ms=60000, slide_ms=10000, offset_ms=0)
    """


class SlidingProcessingTimeWindows(_ByProcessingTime[T], _Sliding[T]):
    """Windows of one size that start at regular times. A record belongs to all that contain its processing time."""


# ---------------------------------------------------------------------------------------------------------------------
# Windows that grow
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class _Cumulative(_TimeWindowAssigner[T]):
    max_size_ms: int
    step_ms: int
    offset_ms: int

    def __init__(self, max_size: int, step: int, offset: int = 0):
        name = type(self).__name__
        _set(self, max_size_ms=check_positive(max_size, f"The largest size of {name} in milliseconds"))
        _set(self, step_ms=check_positive(step, f"The step of {name} in milliseconds"))
        _set(self, offset_ms=_check_offset(offset, max_size, name, "largest size"))
        if max_size % step:
            raise ProgramError(
                f"The largest size of {name} is a multiple of its step, found {max_size} ms and {step} ms."
            )

    @classmethod
    def of(cls, max_size: Length, step: Length, offset: Length | None = None) -> Self:
        """Return windows that start every ``max_size`` and end after one, two and more steps.

        The offset shifts the starts.
        """
        name = cls.__name__
        largest = to_ms(max_size, f"The largest size of {name}")
        return cls(largest, to_ms(step, f"The step of {name}"), _offset_ms(offset, name))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time, step = self._time_of(timestamp, context), self.step_ms
        start = time - (time - self.offset_ms) % self.max_size_ms
        first_end = time - (time - start) % step + step
        return [TimeWindow(start, end) for end in range(first_end, start + self.max_size_ms + 1, step)]


class CumulativeEventTimeWindows(_ByEventTime[T], _Cumulative[T]):
    """Windows of event time that share a start and end after growing numbers of steps, such as a daily total so far.

    This is Flink SQL's CUMULATE as an assigner; Flink's DataStream API has none.

    >>> from flott.common.time import Time
    >>> day = CumulativeEventTimeWindows.of(Time.days(1), Time.hours(1))
    """


class CumulativeProcessingTimeWindows(_ByProcessingTime[T], _Cumulative[T]):
    """Windows of processing time that share a start and end after growing numbers of steps."""


# ---------------------------------------------------------------------------------------------------------------------
# Sessions
# ---------------------------------------------------------------------------------------------------------------------


class SessionWindowTimeGapExtractor(ABC):
    """Determines for a record how long its session waits for the next one."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap in milliseconds, at least 1."""


class _Sessions(MergingWindowAssigner[T, TimeWindow], _TimeWindowAssigner[T]):
    def merge_windows(
        self, windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]
    ) -> None:
        TimeWindow.merge_windows(windows, callback)


@dataclass(frozen=True, init=False)
class _FixedGap(_Sessions[T]):
    gap_ms: int

    def __init__(self, session_gap: int):
        _set(self, gap_ms=check_positive(session_gap, f"The gap of {type(self).__name__} in milliseconds"))

    @classmethod
    def with_gap(cls, size: Length) -> Self:
        """Return sessions that end after this time without a record."""
        return cls(to_ms(size, f"The gap of {cls.__name__}"))

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time_of(timestamp, context)
        return (TimeWindow(time, time + self.gap_ms),)


@dataclass(frozen=True, init=False, repr=False)
class _DynamicGap(_Sessions[T]):
    extractor: SessionWindowTimeGapExtractor | Callable[[T], int]

    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor | Callable[[T], int]):
        extractor = session_window_time_gap_extractor
        if isinstance(extractor, type) or not (
            isinstance(extractor, SessionWindowTimeGapExtractor) or callable(extractor)
        ):
            raise ProgramError(
                f"{type(self).__name__} takes a SessionWindowTimeGapExtractor or a function from a record to"
                f" milliseconds, found {extractor!r}."
            )
        _set(self, extractor=extractor)

    @classmethod
    def with_dynamic_gap(cls, extractor: SessionWindowTimeGapExtractor | Callable[[T], int]) -> Self:
        """Return sessions that end after a time without a record that their records determine."""
        return cls(extractor)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = self._time_of(timestamp, context)
        extractor = self.extractor
        gap = extractor.extract(element) if isinstance(extractor, SessionWindowTimeGapExtractor) else extractor(element)
        check_positive(gap, "The session gap of a record in milliseconds")
        return (TimeWindow(time, time + gap),)

    def __repr__(self) -> str:
        # Without the address of a function, which would change the plan in each run.
        return f"{type(self).__name__}({getattr(self.extractor, '__name__', type(self.extractor).__name__)})"


class DynamicEventTimeSessionWindows(_ByEventTime[T], _DynamicGap[T]):
    """Sessions by the timestamps of records. Each record determines the gap of its session."""


class DynamicProcessingTimeSessionWindows(_ByProcessingTime[T], _DynamicGap[T]):
    """Sessions by processing time. Each record determines the gap of its session."""


class EventTimeSessionWindows(_ByEventTime[T], _FixedGap[T]):
    """Sessions by the timestamps of records. Records closer to each other than the gap are in one window.

    >>> from flott.common.time import Time
    >>> EventTimeSessionWindows.with_gap(Time.minutes(10))
    EventTimeSessionWindows(gap_ms=600000)
    """

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[T], int],
    ) -> DynamicEventTimeSessionWindows[T]:
        """Return sessions whose records determine the gap."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_ByProcessingTime[T], _FixedGap[T]):
    """Sessions by processing time. Records closer to each other than the gap are in one window."""

    @staticmethod
    def with_dynamic_gap(
        extractor: SessionWindowTimeGapExtractor | Callable[[T], int],
    ) -> DynamicProcessingTimeSessionWindows[T]:
        """Return sessions whose records determine the gap."""
        return DynamicProcessingTimeSessionWindows(extractor)


# ---------------------------------------------------------------------------------------------------------------------
# Without time
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """One window for all records of a key. It has no end: without a trigger it emits no result."""

    @staticmethod
    def create() -> GlobalWindows[T]:
        """Return the assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return (GlobalWindow.get(),)

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, GlobalWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class _CountWindowAssigner(WindowAssigner[T, CountWindow]):
    """Windows of a number of records of a key, which is counted in state."""

    window_size: int

    def get_default_trigger(self, env: StreamExecutionEnvironment) -> Trigger[T, CountWindow]:
        # The trigger purges, because a full window gets no further record and would otherwise never be dropped.
        return PurgingTrigger(CountTrigger(self.window_size))

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


def _count_one(context: WindowAssigner.WindowAssignerContext, descriptor: ValueStateDescriptor) -> int:
    """Return the number of the record among those of its key, from 0."""
    counted = context.get_runtime_context().get_state(descriptor)
    before: int = counted.value() or 0
    counted.update(before + 1)
    return before


_TUMBLING_COUNT: Final = ValueStateDescriptor("tumble-count-assigner", Types.LONG())
_SLIDING_COUNT: Final = ValueStateDescriptor("slide-count-assigner", Types.LONG())


@dataclass(frozen=True)
class CountTumblingWindowAssigner(_CountWindowAssigner[T]):
    """Windows of so many records of a key, without overlap. A window fires when it is full."""

    window_size: int

    def __post_init__(self) -> None:
        check_positive(self.window_size, "The size of CountTumblingWindowAssigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[T]:
        """Return windows of this many records."""
        return CountTumblingWindowAssigner(window_size)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        return (CountWindow(_count_one(context, _TUMBLING_COUNT) // self.window_size),)


@dataclass(frozen=True)
class CountSlidingWindowAssigner(_CountWindowAssigner[T]):
    """Windows of so many records of a key. A window starts with every ``window_slide``-th record.

    A window fires when it is full, as in PyFlink: the first result appears with record number ``window_size``, the next
    ``window_slide`` records later. Flink's Java API fires after every ``window_slide`` records, at first with fewer
    records
    than the size. :class:`~flott.datastream.window.CountTrigger` and ``CountEvictor`` on global windows do that.
    """

    window_size: int
    window_slide: int

    def __post_init__(self) -> None:
        check_positive(self.window_size, "The size of CountSlidingWindowAssigner")
        check_positive(self.window_slide, "The slide of CountSlidingWindowAssigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[T]:
        """Return windows of this many records, starting with every ``window_slide``-th."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def assign_windows(
        self, element: T, timestamp: int, context: WindowAssigner.WindowAssignerContext
    ) -> Collection[CountWindow]:
        number, slide = _count_one(context, _SLIDING_COUNT), self.window_slide
        before_first = max((number - self.window_size) // slide, -1)
        return [CountWindow(id) for id in range(number // slide, before_first, -1)]


# ---------------------------------------------------------------------------------------------------------------------
# Checking
# ---------------------------------------------------------------------------------------------------------------------


def _set(assigner: object, **fields: object) -> None:
    """Set fields of a frozen value whose constructor has PyFlink's parameter names."""
    for name, value in fields.items():
        object.__setattr__(assigner, name, value)


def _offset_ms(offset: Length | None, name: str) -> int:
    return 0 if offset is None else to_ms(offset, f"The offset of {name}")


def _check_offset(offset: object, limit: int, name: str, of_what: str) -> int:
    if isinstance(offset, int) and not isinstance(offset, bool) and abs(offset) < limit:
        return offset
    raise ProgramError(
        f"The offset of {name} is smaller than its {of_what} of {limit} ms in either direction, found {offset!r} ms."
    )
