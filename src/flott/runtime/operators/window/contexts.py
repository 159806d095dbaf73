"""What triggers, evictors, assigners and window functions are handed. One object each per operator: the fields they
show are set before each call, so none is made per record. Task side.
"""

from __future__ import annotations

from typing import Any

from flott.common.watermark_strategy import MAX_WATERMARK
from flott.datastream.functions._callables import as_reduce
from flott.datastream.functions._context import KeyedStateStore, RuntimeContext
from flott.datastream.functions._window import ProcessAllWindowFunction, ProcessWindowFunction
from flott.datastream.state._descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from flott.datastream.window._assigners import WindowAssigner
from flott.datastream.window._evictors import Evictor
from flott.datastream.window._triggers import Trigger
from flott.errors import ProgramError
from flott.metrics import MetricGroup
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.ttl.expiring_handles import ExpiringMergingState
from flott.runtime.operators.context import TableStateStore, state_handle
from flott.runtime.operators.function_operator import FunctionOperator
from flott.runtime.operators.window.holdings import TRIGGER_STATE
from flott.runtime.operators.window.namespaces import namespace_of

WINDOW_STATE = "_window:"


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """What an assigner may know."""

    def __init__(self, operator: FunctionOperator):
        self._scope = operator.context.scope
        self._runtime = operator.runtime_context

    def get_current_processing_time(self) -> int:
        return self._scope.now_ms

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime


class _Clocks:
    """What triggers and evictors may both know: the time, and where metrics go."""

    def __init__(self, operator: FunctionOperator):
        self._operator = operator

    def get_current_processing_time(self) -> int:
        return self._operator.context.scope.now_ms

    def get_current_watermark(self) -> int:
        return self._operator.watermark

    def get_metric_group(self) -> MetricGroup:
        return self._operator.metrics


class WindowTriggerContext(_Clocks, Trigger.OnMergeContext):
    """Clocks, timers and state of the trigger of one window of one key."""

    def __init__(self, operator: FunctionOperator, state: KeyedState, event: TimerTable, processing: TimerTable):
        super().__init__(operator)
        self._state = state
        self._event = event
        self._processing = processing
        self._entry = CurrentKey()  # (key, namespace): what the trigger's state handles show
        self._key: Any = None
        self._namespace: Any = None
        self._merged: list[Any] = []
        self._handles: dict[str, Any] = {}

    def turn_to(self, key: Any, namespace: Any, merged: list[Any] | None = None) -> None:
        """Turn to a window; ``merged``: the namespaces that have become part of it."""
        self._key, self._namespace, self._merged = key, namespace, merged or []
        self._entry.key = (key, namespace)

    def register_processing_time_timer(self, time: int) -> None:
        if not self._operator.ending:
            self._processing.register(time, self._key, self._namespace)

    def register_event_time_timer(self, time: int) -> None:
        # Once the input has ended, a trigger that fires again and again would never stop in a global window.
        for_ever = self._namespace is None and self._operator.watermark == MAX_WATERMARK
        if not (for_ever or self._operator.ending):
            self._event.register(time, self._key, self._namespace)

    def delete_processing_time_timer(self, time: int) -> None:
        self._processing.delete(time, self._key, self._namespace)

    def delete_event_time_timer(self, time: int) -> None:
        self._event.delete(time, self._key, self._namespace)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        handle = self._handles.get(state_descriptor.name)
        if handle is None:
            handle = state_handle(TableStateStore(self._state, self._entry, TRIGGER_STATE), state_descriptor)
            if handle is None:
                raise ProgramError(f"There is no state of kind {type(state_descriptor).__name__}.")
            self._handles[state_descriptor.name] = handle
        return handle

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        name = TRIGGER_STATE + state_descriptor.name
        into = (self._key, self._namespace)
        others = [(self._key, namespace) for namespace in self._merged]
        handle = self.get_partitioned_state(state_descriptor)
        if isinstance(handle, ExpiringMergingState):
            handle.unite(into, others)
            return
        match state_descriptor:
            case ListStateDescriptor():
                self._state.list_table(name, namespaced=True).unite(into, others)
            case ReducingStateDescriptor():
                reduce = as_reduce(state_descriptor.get_reduce_function())
                self._state.value_table(name, namespaced=True).unite(into, others, reduce)
            case AggregatingStateDescriptor():
                merge = state_descriptor.get_agg_function().merge
                self._state.value_table(name, namespaced=True).unite(into, others, merge)
            case _:
                raise ProgramError(
                    f"A trigger merges its state {state_descriptor.name!r}, a {type(state_descriptor).__name__}. Only"
                    " reducing, aggregating and list state can be merged when windows become one."
                )


class WindowEvictorContext(_Clocks, Evictor.EvictorContext):
    """What an evictor may know."""


class WindowProcessContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """What a process window function may know about the window that fires."""

    def __init__(self, operator: FunctionOperator, state: KeyedState, windows_merge: bool):
        self._operator = operator
        self._windows_merge = windows_merge
        self._entry = CurrentKey()
        self._window: Any = None
        self._window_store = TableStateStore(state, self._entry, WINDOW_STATE)
        self._global_store = TableStateStore(state, state.current)

    def turn_to(self, key: Any, window: Any) -> None:
        """Turn to a window."""
        self._window = window
        self._entry.key = (key, namespace_of(window))

    def window(self) -> Any:
        return self._window

    def current_processing_time(self) -> int:
        return self._operator.context.scope.now_ms

    def current_watermark(self) -> int:
        return self._operator.watermark

    def window_state(self) -> KeyedStateStore:
        if self._windows_merge:
            raise ProgramError(
                f"Operator {self._operator.context.operator.label} asks for the state of a window, but its windows"
                " merge, and what a function keeps for them cannot be merged. Use global_state(), which is per key."
            )
        return self._window_store

    def global_state(self) -> KeyedStateStore:
        return self._global_store
