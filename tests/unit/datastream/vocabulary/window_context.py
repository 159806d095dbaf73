"""A context for triggers and assigners that keeps timers and state in dicts, for tests without a runtime."""

from __future__ import annotations

from typing import Any

from flott.datastream.functions._callables import as_reduce
from flott.datastream.functions._context import RuntimeContext
from flott.datastream.state._descriptors import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from flott.datastream.state._handles import ReducingState, ValueState
from flott.datastream.window import Trigger, Window, WindowAssigner
from flott.metrics.metricbase import MetricGroup


class DictValueState(ValueState[Any]):
    """One value, in a dict under a name."""

    def __init__(self, held: dict[Any, Any], name: Any):
        self.held, self.name = held, name

    def value(self) -> Any:
        return self.held.get(self.name)

    def update(self, value: Any) -> None:
        self.held[self.name] = value

    def clear(self) -> None:
        self.held.pop(self.name, None)


class DictReducingState(ReducingState[Any]):
    """One reduced value, in a dict under a name."""

    def __init__(self, held: dict[Any, Any], name: Any, reduce: Any):
        self.held, self.name, self.reduce = held, name, as_reduce(reduce)

    def get(self) -> Any:
        return self.held.get(self.name)

    def add(self, value: Any) -> None:
        self.held[self.name] = self.reduce(self.held[self.name], value) if self.name in self.held else value

    def clear(self) -> None:
        self.held.pop(self.name, None)


class FakeTriggerContext(Trigger.OnMergeContext):
    """The clocks stand where the test puts them; ``window`` is the one whose state and timers are meant."""

    def __init__(self, window: Window):
        self.window = window
        self.merged: list[Window] = []
        self.watermark = -(2**63)
        self.now = 0
        self.state: dict[tuple[Window, str], Any] = {}
        self.event_timers: set[tuple[int, Window]] = set()
        self.processing_timers: set[tuple[int, Window]] = set()

    def get_current_processing_time(self) -> int:
        return self.now

    def get_metric_group(self) -> MetricGroup:
        raise NotImplementedError

    def get_current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self.processing_timers.add((time, self.window))

    def register_event_time_timer(self, time: int) -> None:
        self.event_timers.add((time, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        self.processing_timers.discard((time, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        self.event_timers.discard((time, self.window))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        name = (self.window, state_descriptor.name)
        if isinstance(state_descriptor, ReducingStateDescriptor):
            return DictReducingState(self.state, name, state_descriptor.get_reduce_function())
        return DictValueState(self.state, name)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        into = self.get_partitioned_state(state_descriptor)
        for window in self.merged:
            if (window, state_descriptor.name) in self.state:
                into.add(self.state.pop((window, state_descriptor.name)))

    def event_times(self) -> list[int]:
        """When event-time timers of the current window fire."""
        return sorted(time for time, window in self.event_timers if window == self.window)

    def processing_times(self) -> list[int]:
        """When processing-time timers of the current window fire."""
        return sorted(time for time, window in self.processing_timers if window == self.window)


class FakeAssignerContext(WindowAssigner.WindowAssignerContext):
    """A clock, and the state of one key."""

    def __init__(self, now: int = 0):
        self.now = now
        self.counts: dict[str, int] = {}

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> RuntimeContext:
        return self  # type: ignore[return-value]  # of the runtime context, assigners use get_state alone

    def get_state(self, descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return DictValueState(self.counts, descriptor.name)
