"""Evictors: they remove records of a window when it fires. Flink's; PyFlink has none.

A window with an evictor keeps all its records, also for ``reduce`` and ``aggregate``. Values; their methods run in
tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple

from flott.datastream.window._lengths import Length, check_positive, positive_ms
from flott.datastream.window._timestamps import has_time
from flott.datastream.window._windows import T, W
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.metrics.metricbase import MetricGroup


class TimestampedValue(NamedTuple, Generic[T]):
    """A record of a window with its timestamp."""

    value: T
    timestamp: int  #: in milliseconds; ``MIN_LONG_VALUE`` if the stream has none

    def has_timestamp(self) -> bool:
        return has_time(self.timestamp)


class Evictor(ABC, Generic[T, W]):
    """Removes records from a window before or after its function sees them, or both::

        class WithoutTests(Evictor[Event, TimeWindow]):
            def evict_before(self, elements, size, window, ctx):
                elements[:] = [element for element in elements if not element.value.is_test]

            def evict_after(self, elements, size, window, ctx):
                pass

    Records are in the order of arrival. Removed records are lost permanently.
    """

    class EvictorContext(ABC):
        """The clocks."""

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
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Remove records from the list before the window's function sees them. The list has ``size`` records."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        """Remove records from the list after the window's function has seen them. The list has ``size`` records."""


class _EvictingOnce(Evictor[T, W]):
    """Evicts either before or after the function, by the same rule."""

    do_evict_after: bool

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue[T]]) -> None: ...

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, ctx: Evictor.EvictorContext
    ) -> None:
        if self.do_evict_after:
            self._evict(elements)


@dataclass(frozen=True)
class CountEvictor(_EvictingOnce[T, W]):
    """Keeps the last records, up to a number.

    >>> elements = [TimestampedValue(letter, 0) for letter in "abc"]
    >>> CountEvictor.of(2)._evict(elements)
    >>> [element.value for element in elements]
    ['b', 'c']
    """

    max_count: int
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_positive(self.max_count, "The number of records a CountEvictor keeps")

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[T, W]:
        """Return an evictor that keeps this many records."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        del elements[: -self.max_count]


@dataclass(frozen=True)
class TimeEvictor(_EvictingOnce[T, W]):
    """Keeps the records that are newer than the window's latest timestamp minus a duration.

    Records without a timestamp are kept.
    """

    window_size: int  #: in milliseconds
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        check_positive(self.window_size, "The length of a TimeEvictor in milliseconds")

    @staticmethod
    def of(window_size: Length, do_evict_after: bool = False) -> TimeEvictor[T, W]:
        """Return an evictor that keeps the records of this duration."""
        return TimeEvictor(positive_ms(window_size, "The length of a TimeEvictor"), do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        cutoff = max((element.timestamp for element in elements), default=0) - self.window_size
        elements[:] = [element for element in elements if element.timestamp > cutoff or not element.has_timestamp()]


@dataclass(frozen=True)
class DeltaEvictor(_EvictingOnce[T, W]):
    """Keeps the records that differ from the last one by less than a threshold.

    The function returns the difference of two records, of which the second is the last one of the window.
    """

    threshold: float
    delta_function: Callable[[T, T], float]
    do_evict_after: bool = False

    def __post_init__(self) -> None:
        if not callable(self.delta_function):
            raise ProgramError(
                f"DeltaEvictor takes a function of two records that gives a number, found {self.delta_function!r}."
            )

    @staticmethod
    def of(
        threshold: float, delta_function: Callable[[T, T], float], do_evict_after: bool = False
    ) -> DeltaEvictor[T, W]:
        """Return an evictor that keeps the records whose difference from the last one is below the threshold."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue[T]]) -> None:
        if elements:
            last, delta = elements[-1].value, self.delta_function
            elements[:] = [element for element in elements if delta(element.value, last) < self.threshold]
