"""What user functions are handed: the runtime context in ``open``, and the timer service. Task side."""

from __future__ import annotations

import operator
import random
from typing import Any

from flott.datastream.functions._callables import as_reduce
from flott.datastream.functions._context import RuntimeContext
from flott.datastream.state._descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flott.datastream.state._handles import AggregatingState, ListState, MapState, ReducingState, ValueState
from flott.datastream.timerservice import TimerService
from flott.errors import ProgramError
from flott.metrics import MetricGroup
from flott.runtime.operators.operator import Operator, OperatorContext
from flott.runtime.state.handles import (
    CurrentKey,
    TableAggregatingState,
    TableListState,
    TableMapState,
    TableReducingState,
    TableValueState,
)
from flott.runtime.state.keyed_state import KeyedState
from flott.runtime.state.timers import TimerTable


class TaskRuntimeContext(RuntimeContext):
    """The RuntimeContext of one operator subtask."""

    def __init__(self, context: OperatorContext, metrics: MetricGroup):
        self._context = context
        self._metrics = metrics
        self._random = random.Random()
        self.reseed()

    def reseed(self) -> None:
        """Begin the epoch's own sequence of random numbers: a repeated epoch draws the same ones."""
        context, scope = self._context, self._context.scope
        self._random.seed(f"{scope.seed}:{context.operator.id}:{context.subtask}:{scope.epoch}")

    def get_task_name(self) -> str:
        return self._context.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._context.subtask

    def get_attempt_number(self) -> int:
        return self._context.scope.attempt

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._context.task_name} ({self._context.subtask + 1}/{self._context.parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._metrics

    def get_random(self) -> random.Random:
        return self._random

    # --- keyed state -------------------------------------------------------------------------------------------------

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        state = self._keyed(state_descriptor)
        table = state.value_table(state_descriptor.name, state_descriptor.type_info)
        return TableValueState(table, state.current)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        state = self._keyed(state_descriptor)
        return TableListState(state.list_table(state_descriptor.name), state.current)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        state = self._keyed(state_descriptor)
        return TableMapState(state.map_table(state_descriptor.name), state.current)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        state = self._keyed(state_descriptor)
        table = state.value_table(state_descriptor.name, state_descriptor.type_info)
        return TableReducingState(table, state.current, as_reduce(state_descriptor.get_reduce_function()))

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        state = self._keyed(state_descriptor)
        table = state.value_table(state_descriptor.name, state_descriptor.type_info)
        return TableAggregatingState(table, state.current, state_descriptor.get_agg_function())

    def _keyed(self, descriptor: StateDescriptor) -> KeyedState:
        if descriptor.ttl_config is not None:
            raise ProgramError(
                f"State {descriptor.name!r} of operator {self._context.operator.label} asks for a time to live, which"
                " this version of Flott does not have. Remove enable_time_to_live(), or clear the state with a timer."
            )
        if self._context.keyed_state is None:
            raise ProgramError(
                f"Operator {self._context.operator.label} asks for the keyed state {descriptor.name!r}, but its input"
                " is not keyed. Call key_by(...) before it."
            )
        return self._context.keyed_state


class KeyedTimerService(TimerService):
    """Timers of the current key."""

    def __init__(self, owner: Operator, event: TimerTable, processing: TimerTable, current: CurrentKey):
        self._operator = owner
        self._scope = owner.context.scope
        self._event = event
        self._processing = processing
        self._current = current

    def current_processing_time(self) -> int:
        return self._scope.now_ms

    def current_watermark(self) -> int:
        return self._operator.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._processing.register(_whole(timestamp), self._current.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        self._event.register(_whole(timestamp), self._current.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._processing.delete(_whole(timestamp), self._current.key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._event.delete(_whole(timestamp), self._current.key)


class UnkeyedTimerService(TimerService):
    """Tells the time; timers need a key."""

    def __init__(self, owner: Operator):
        self._operator = owner

    def current_processing_time(self) -> int:
        return self._operator.context.scope.now_ms

    def current_watermark(self) -> int:
        return self._operator.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def register_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._refuse()

    def _refuse(self) -> None:
        raise ProgramError(
            f"Operator {self._operator.context.operator.label} sets a timer, but its input is not keyed. Timers belong"
            " to a key: call key_by(...) before process(...)."
        )


def _whole(timestamp: Any) -> int:
    """A timestamp that compares, sorts and is saved as a number of milliseconds."""
    if timestamp.__class__ is int:
        return timestamp
    if isinstance(timestamp, float) and timestamp.is_integer():
        return int(timestamp)
    try:
        return operator.index(timestamp)
    except TypeError:
        raise ProgramError(
            f"A timer's timestamp is a whole number of milliseconds, found {timestamp!r} ({type(timestamp).__name__})."
        ) from None
