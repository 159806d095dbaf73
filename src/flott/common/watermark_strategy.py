"""How a stream gets its timestamps and watermarks.

``WatermarkStrategy`` is the specification, a frozen value made on the driver. The task calls its ``generator_factory``
once per split and feeds the generator; the runtime keeps ``vars(generator)`` as the generator's state, so a generator
holds plain values and nothing else. No clock is read here: idleness and alignment are judged by the runtime.
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
    """Says that no record with this timestamp or an older one is to be expected."""

    timestamp: int

    def get_timestamp(self) -> int:
        return self.timestamp


class TimestampAssigner(ABC):
    """Gives every record its event time."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """The event time of ``value`` in milliseconds since 1970 UTC.

        ``record_timestamp`` is the one it carries already, ``MIN_WATERMARK`` if it carries none.
        """


class FunctionTimestampAssigner(TimestampAssigner):
    """A plain function as an assigner."""

    def __init__(self, function: Callable[[Any, int], int]):
        self._function = function
        # Shadows the method: the function is called for every record, and a second frame would cost as much as most.
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
    """Where a generator puts its watermarks."""

    @abstractmethod
    def emit_watermark(self, watermark: Watermark) -> None:
        """Advances event time; a watermark behind the last one is ignored. Ends idleness."""

    @abstractmethod
    def mark_idle(self) -> None:
        """Nobody downstream should wait for this stream until it is active again."""

    @abstractmethod
    def mark_active(self) -> None:
        """This stream counts again."""


class WatermarkGenerator(ABC):
    """Makes watermarks from what it sees. Subclass it and hand the class to ``WatermarkStrategy.for_generator``."""

    @abstractmethod
    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        """Called for every record; may emit at once."""

    @abstractmethod
    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        """Called from time to time, at the latest when an epoch ends."""


class BoundedOutOfOrdernessGenerator(WatermarkGenerator):
    """Follows the newest timestamp at a fixed distance."""

    def __init__(self, out_of_orderness_ms: int):
        self.out_of_orderness_ms = out_of_orderness_ms
        # Chosen so that nothing underflows and current() is the lowest watermark until the first record.
        self.max_timestamp = MIN_WATERMARK + out_of_orderness_ms + 1

    def on_event(self, value: Any, timestamp: int, output: WatermarkOutput) -> None:
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def on_batch(self, timestamps: list[int]) -> None:
        """As ``on_event`` for many records at once."""
        if timestamps:
            self.max_timestamp = max(self.max_timestamp, max(timestamps))

    def current(self) -> int:
        """The watermark it would emit now."""
        return self.max_timestamp - self.out_of_orderness_ms - 1

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(self.current()))


class MonotonousGenerator(BoundedOutOfOrdernessGenerator):
    """For timestamps that never go back: the newest one closes all before it."""

    def __init__(self) -> None:
        super().__init__(0)


@dataclass(frozen=True, slots=True)
class BoundedOutOfOrdernessFactory:
    """Makes the generator; a value and not a closure, so that strategies can be compared and pickled."""

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
    #: None: the records keep the timestamps their source gave them.
    timestamp_assigner: TimestampAssigner | None = None
    #: None: the stream never counts as idle.
    idle_timeout_ms: int | None = None
    #: Sources with the same group wait for each other; the drift is set if and only if the group is.
    alignment_group: str | None = None
    max_drift_ms: int | None = None
    alignment_interval_ms: int = 1000
    #: Event time is the clock of the epoch that reads a record; then there is no generator and no assigner.
    ingestion_time: bool = False

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For streams, or splits, whose timestamps only ascend."""
        return WatermarkStrategy(MonotonousGenerator)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """For records that come late by ``max_out_of_orderness`` at most."""
        millis = _millis(max_out_of_orderness, "max_out_of_orderness")
        if millis < 0:
            raise ProgramError(f"max_out_of_orderness must not be negative, found {max_out_of_orderness}.")
        return WatermarkStrategy(BoundedOutOfOrdernessFactory(millis))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For programs that use processing time only."""
        return WatermarkStrategy()

    @staticmethod
    def for_generator(factory: Callable[[], WatermarkGenerator]) -> WatermarkStrategy:
        """With the program's own generator: its class, or any function that makes one. Not in PyFlink."""
        if not callable(factory):
            raise ProgramError(
                f"for_generator takes a WatermarkGenerator class or a function without parameters, found {factory!r}."
            )
        return WatermarkStrategy(factory)

    @staticmethod
    def for_ingestion_time() -> WatermarkStrategy:
        """A record's time is the time it is read, and event time follows the clock, with and without records.

        Never goes back, even where the clock does. Not in PyFlink.
        """
        return WatermarkStrategy(ingestion_time=True)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """With timestamps from the records; a function of (value, record_timestamp) will do."""
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
        """A split without records for so long no longer holds back the watermark.

        Without effect in ingestion time, which follows the clock and waits for no split.
        """
        return replace(self, idle_timeout_ms=_positive_millis(idle_timeout, "idle_timeout"))

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """Splits ahead of the slowest of their group by more than the drift pause until it catches up.

        ``update_interval`` is kept for Flink's sake: who pauses is decided anew before every epoch.
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

if not TYPE_CHECKING:  # a type checker would take any name for one of this module
    __getattr__ = names_of(__name__)
