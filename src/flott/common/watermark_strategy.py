"""Timestamps and watermarks of a stream.

``WatermarkStrategy`` is the specification, a frozen value created on the driver. The task calls its
``generator_factory`` once per split and feeds the generator. The runtime saves ``vars(generator)`` as its state, so a
generator contains only plain values. No clock is read here: the runtime decides idleness and alignment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flott._absent import names_of
from flott.common.time import Duration
from flott.errors import ProgramError

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "BoundedOutOfOrdernessGenerator",
    "MonotonousGenerator",
    "TimestampAssigner",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


@dataclass(frozen=True, slots=True, order=True)
class Watermark:
    """States that no record with this timestamp or an older one is expected."""

    timestamp: int

    def get_timestamp(self) -> int:
        return self.timestamp


class TimestampAssigner(ABC):
    """Assigns an event time to every record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time of ``value`` in milliseconds since 1970 UTC.

        ``record_timestamp`` is its current timestamp, or ``MIN_WATERMARK`` if it has none.
        """


class FunctionTimestampAssigner(TimestampAssigner):
    """A plain function as an assigner."""

    def __init__(self, function: Callable[[Any, int], int]):
        self._function = function
        # Replaces the method, because a second call per record would be expensive.
        self.extract_timestamp = function  # type: ignore[method-assign,assignment]

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return self._function(value, record_timestamp)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionTimestampAssigner) and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return f"FunctionTimestampAssigner({self._function!r})"


class WatermarkOutput(ABC):
    """Receives the watermarks of a generator."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Advance event time, and end idleness. A watermark below the last one is ignored."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Mark the stream as idle: downstream operators do not wait for it until it is active again."""

    @abstractmethod
    def mark_active(self) -> None:
        """Mark the stream as active."""


class WatermarkGenerator(ABC):
    """Produces watermarks from records. Pass a subclass to ``WatermarkStrategy.for_generator``."""

    @abstractmethod
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Handle a record; may emit immediately."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Handle the end of an epoch, at the latest."""


class BoundedOutOfOrdernessGenerator(WatermarkGenerator):
    """Follows the newest timestamp at a fixed distance."""

    def __init__(self, out_of_orderness_ms: int):
        self.out_of_orderness_ms = out_of_orderness_ms
        # The initial value prevents an underflow and makes current() the lowest watermark until the first record.
        self.max_timestamp = MIN_WATERMARK + out_of_orderness_ms + 1

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def on_batch(self, timestamps: list[int]) -> None:
        """Handle many records at once, as ``on_event`` does one."""
        if timestamps:
            self.max_timestamp = max(self.max_timestamp, max(timestamps))

    def current(self) -> int:
        """Return the watermark that it would emit now."""
        return self.max_timestamp - self.out_of_orderness_ms - 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(self.current()))


class MonotonousGenerator(BoundedOutOfOrdernessGenerator):
    """For ascending timestamps: the newest timestamp closes all before it."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrdernessFactory:
    """Creates the generator. It is a value and not a closure, so that strategies can be compared and pickled."""

    out_of_orderness_ms: int

    def __call__(self) -> BoundedOutOfOrdernessGenerator:
        return BoundedOutOfOrdernessGenerator(self.out_of_orderness_ms)


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """Timestamps, watermarks, idleness and alignment of one stream.

    >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    >>> strategy.with_idleness(Duration.of_minutes(1)).idle_timeout_ms
    60000
    """

    #: None: the stream has no watermarks.
    generator_factory: Callable[[], WatermarkGenerator] | None = None
    #: None: the records keep the timestamps of their source.
    timestamp_assigner: TimestampAssigner | None = None
    #: None: the stream is never idle.
    idle_timeout_ms: int | None = None
    #: Sources of the same group are aligned. The drift is set if and only if the group is.
    alignment_group: str | None = None
    max_drift_ms: int | None = None
    alignment_interval_ms: int = 1000
    #: Event time is the clock of the epoch that reads a record. Then there is no generator and no assigner.
    ingestion_time: bool = False

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return a strategy for streams, or splits, with ascending timestamps."""
        return WatermarkStrategy(MonotonousGenerator)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Return a strategy for records that are late by at most ``max_out_of_orderness``."""
        millis = _millis(max_out_of_orderness, "max_out_of_orderness")
        if millis < 0:
            raise ProgramError(f"max_out_of_orderness must not be negative, found {max_out_of_orderness}.")
        return WatermarkStrategy(BoundedOutOfOrdernessFactory(millis))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return a strategy for programs that use only processing time."""
        return WatermarkStrategy()

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """Return a strategy with a custom generator: its class, or a function that creates one. Not in PyFlink."""
        if not callable(factory):
            raise ProgramError(
                f"for_generator takes a WatermarkGenerator class or a function without parameters, found {factory!r}."
            )
        return WatermarkStrategy(factory)

    @staticmethod
    def for_ingestion_time() -> WatermarkStrategy:
        """Return a strategy in which the timestamp of a record is the time at which it is read.

        Event time follows the clock, with and without records. It never goes back, even if the clock does. Not in
        PyFlink.
        """
        return WatermarkStrategy(ingestion_time=True)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Return the strategy with timestamps by an assigner or a function of (value, record_timestamp)."""
        self._refuse_ingestion_time("with_timestamp_assigner", "records are stamped with the clock")
        if isinstance(timestamp_assigner, TimestampAssigner):
            return replace(self, timestamp_assigner=timestamp_assigner)
        extract = getattr(timestamp_assigner, "extract_timestamp", timestamp_assigner)
        if not callable(extract):
            raise ProgramError(
                "with_timestamp_assigner takes a TimestampAssigner or a function (value, record_timestamp) -> int, "
                f"found {timestamp_assigner!r}."
            )
        return replace(self, timestamp_assigner=FunctionTimestampAssigner(extract))

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return the strategy with an idle timeout, after which a split without records does not hold event time back.

        It has no effect on ingestion time, which follows the clock and waits for no split.
        """
        return replace(self, idle_timeout_ms=_positive_millis(idle_timeout, "idle_timeout"))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Return the strategy with alignment: a split ahead of the slowest in its group by more than the drift pauses.

        ``update_interval`` exists for compatibility with Flink: alignment is decided before every epoch.
        """
        self._refuse_ingestion_time("with_watermark_alignment", "all sources follow the same clock")
        drift = _positive_millis(max_allowed_watermark_drift, "max_allowed_watermark_drift")
        interval = 1000 if update_interval is None else _positive_millis(update_interval, "update_interval")
        return replace(self, alignment_group=watermark_group, max_drift_ms=drift, alignment_interval_ms=interval)

    def _refuse_ingestion_time(self, method: str, because: str) -> None:
        if self.ingestion_time:
            raise ProgramError(
                f"{method} has no meaning in ingestion time, where {because}. Leave it away, or start from"
                " for_bounded_out_of_orderness(...) to use the records' own time."
            )


def _millis(duration: Duration, parameter: str) -> int:
    if not isinstance(duration, Duration):
        raise ProgramError(f"{parameter} takes a Duration such as Duration.of_seconds(5), found {duration!r}.")
    return duration.to_millis()


def _positive_millis(duration: Duration, parameter: str) -> int:
    millis = _millis(duration, parameter)
    if millis <= 0:
        raise ProgramError(f"{parameter} must be at least one millisecond, found {duration}.")
    return millis

if not TYPE_CHECKING:  # otherwise a type checker accepts any name of this module
    __getattr__ = names_of(__name__)
