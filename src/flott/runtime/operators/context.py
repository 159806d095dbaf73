"""What user functions are handed: the runtime context in ``open``, and the timer service. Task side."""

from __future__ import annotations

import operator
import random
from typing import Any, TypeVar

from flott.common._accumulators import Accumulator, DoubleCounter, Histogram, IntCounter, LongCounter
from flott.datastream.functions._callables import as_reduce
from flott.datastream.functions._context import KeyedStateStore, RuntimeContext
from flott.datastream.state._descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from flott.datastream.state._handles import AggregatingState, ListState, MapState, ReducingState, State, ValueState
from flott.datastream.timerservice import TimerService
from flott.errors import ProgramError
from flott.metrics import MetricGroup
from flott.runtime.managed_state.backends.hashmap import KeyedState
from flott.runtime.managed_state.handles import (
    CurrentKey,
    TableAggregatingState,
    TableReducingState,
    TableValueState,
    list_state,
    map_state,
)
from flott.runtime.managed_state.kinds.timers import TimerTable
from flott.runtime.managed_state.kinds.values import ValueTable
from flott.runtime.managed_state.schema.state_types import StateTypes
from flott.runtime.managed_state.ttl.expiring_handles import (
    ExpiringAggregatingState,
    ExpiringListState,
    ExpiringMapState,
    ExpiringReducingState,
    ExpiringValueState,
)
from flott.runtime.managed_state.ttl.expiry import Expiry
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive, former_names, table_name
from flott.runtime.operators.operator import Operator, OperatorContext

A = TypeVar("A", bound=Accumulator[Any, Any])


class TaskRuntimeContext(RuntimeContext):
    """The RuntimeContext of one operator subtask."""

    def __init__(self, context: OperatorContext, metrics: MetricGroup):
        self._context = context
        self._metrics = metrics
        self._random = random.Random()
        self.accumulators: dict[str, Accumulator[Any, Any]] = {}
        self.begin()

    def begin(self) -> None:
        """Begin an epoch: a repeated one draws the same random numbers and adds up the same."""
        self.reseed()
        for accumulator in self.accumulators.values():
            accumulator.reset_local()

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

    # --- accumulators ------------------------------------------------------------------------------------------------

    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        if not isinstance(accumulator, Accumulator):
            raise ProgramError(
                f"add_accumulator({name!r}) takes an accumulator such as flott.common.IntCounter(), found"
                f" {accumulator!r}."
            )
        if name in self.accumulators:
            raise ProgramError(
                f"Operator {self._context.operator.label} has an accumulator {name!r} already. Register it once, in"
                " open(), and keep it in a field; get_accumulator() gives it again."
            )
        self.accumulators[name] = accumulator

    def get_accumulator(self, name: str) -> Accumulator[Any, Any]:
        if name not in self.accumulators:
            raise ProgramError(
                f"Operator {self._context.operator.label} has no accumulator {name!r}; it has"
                f" {', '.join(sorted(self.accumulators)) or 'none'}. Register it with add_accumulator() in open()."
            )
        return self.accumulators[name]

    def get_int_counter(self, name: str) -> IntCounter:
        return self._accumulator(name, IntCounter)

    def get_long_counter(self, name: str) -> LongCounter:
        return self._accumulator(name, LongCounter)

    def get_double_counter(self, name: str) -> DoubleCounter:
        return self._accumulator(name, DoubleCounter)

    def get_histogram(self, name: str) -> Histogram:
        return self._accumulator(name, Histogram)

    def _accumulator(self, name: str, kind: type[A]) -> A:
        if name not in self.accumulators:
            self.add_accumulator(name, kind())
        accumulator = self.accumulators[name]
        if type(accumulator) is not kind:
            raise ProgramError(
                f"The accumulator {name!r} of operator {self._context.operator.label} is a"
                f" {type(accumulator).__name__}, not a {kind.__name__}. Choose another name for one of them."
            )
        return accumulator

    # --- keyed state -------------------------------------------------------------------------------------------------

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return self._keyed(state_descriptor).get_state(state_descriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._keyed(state_descriptor).get_list_state(state_descriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return self._keyed(state_descriptor).get_map_state(state_descriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        return self._keyed(state_descriptor).get_reducing_state(state_descriptor)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        return self._keyed(state_descriptor).get_aggregating_state(state_descriptor)

    def _keyed(self, descriptor: StateDescriptor) -> TableStateStore:
        state = self._context.keyed_state
        if state is None:
            raise ProgramError(
                f"Operator {self._context.operator.label} asks for the keyed state {descriptor.name!r}, but its input"
                " is not keyed. Call key_by(...) before it."
            )
        return TableStateStore(state, state.current)


class TableStateStore(KeyedStateStore):
    """Handles to keyed state over tables. ``current`` holds the entry the handles show: the current key, or for
    state that belongs to a window (``prefix`` is then the name of its owner) the pair of key and window."""

    def __init__(self, state: KeyedState, current: CurrentKey, prefix: str = ""):
        self._state = state
        self._current = current
        self._prefix = prefix
        self._namespaced = bool(prefix)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        table, expiry = self._values(state_descriptor)
        if expiry is not None:
            return ExpiringValueState(table, self._current, expiry)
        return TableValueState(table, self._current)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        state, ttl = self._identity(state_descriptor)
        table = self._state.list_table(table_name(state, ttl), namespaced=self._namespaced)
        self._declare(state_descriptor)
        if (expiry := self._state.lifetimes.declare(state, table, ttl)) is not None:
            return ExpiringListState(table, self._current, expiry)
        return list_state(table, self._current)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        state, ttl = self._identity(state_descriptor)
        table = self._state.map_table(table_name(state, ttl), namespaced=self._namespaced)
        self._declare(state_descriptor)
        if (expiry := self._state.lifetimes.declare(state, table, ttl)) is not None:
            return ExpiringMapState(table, self._current, expiry)
        return map_state(table, self._current)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        reduce = as_reduce(state_descriptor.get_reduce_function())
        table, expiry = self._values(state_descriptor)
        if expiry is not None:
            return ExpiringReducingState(table, self._current, expiry, reduce)
        return TableReducingState(table, self._current, reduce)

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        aggregate = state_descriptor.get_agg_function()
        table, expiry = self._values(state_descriptor)
        if expiry is not None:
            return ExpiringAggregatingState(table, self._current, expiry, aggregate)
        return TableAggregatingState(table, self._current, aggregate)

    def _values(self, descriptor: StateDescriptor) -> tuple[ValueTable, Expiry | None]:
        state, ttl = self._identity(descriptor)
        table = self._state.value_table(table_name(state, ttl), namespaced=self._namespaced)
        self._declare(descriptor)
        return table, self._state.lifetimes.declare(state, table, ttl)

    def _declare(self, descriptor: StateDescriptor) -> None:
        """Tell the types of a state, wherever it is: what was saved of other types is converted now, or refused."""
        state, ttl = self._identity(descriptor)
        self._state.schemas.declare((table_name(state, ttl), *former_names(state, ttl)), StateTypes.of(descriptor))

    def _identity(self, descriptor: StateDescriptor) -> tuple[str, TimeToLive | None]:
        """Return what the state is called, with its owner, and how long it lives."""
        return self._prefix + descriptor.name, TimeToLive.of(descriptor.ttl_config)


def state_handle(store: KeyedStateStore, descriptor: StateDescriptor) -> State | None:
    """Return the handle for a descriptor of any kind of keyed state; None if it is not one."""
    match descriptor:
        case ValueStateDescriptor():
            return store.get_state(descriptor)
        case ReducingStateDescriptor():
            return store.get_reducing_state(descriptor)
        case AggregatingStateDescriptor():
            return store.get_aggregating_state(descriptor)
        case ListStateDescriptor():
            return store.get_list_state(descriptor)
        case MapStateDescriptor():
            return store.get_map_state(descriptor)
    return None


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
        if not self._operator.ending:
            self._processing.register(_whole(timestamp), self._current.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        if not self._operator.ending:
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
    """Return a timestamp as a number of milliseconds, which compares, sorts and is saved."""
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
