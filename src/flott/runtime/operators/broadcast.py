"""BroadcastProcessFunction and KeyedBroadcastProcessFunction. Task side.

The second input is the broadcast one, and its records of an epoch come first. They have no key: a function
that asks for keyed state while one is processed is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from flott.datastream.functions._broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from flott.datastream.state._broadcast import BroadcastState, ReadOnlyBroadcastState
from flott.datastream.state._descriptors import MapStateDescriptor, StateDescriptor
from flott.datastream.timerservice import TimerService
from flott.errors import ProgramError
from flott.graph.specs import BroadcastProcessSpec
from flott.runtime.managed_state.handles import CurrentKey
from flott.runtime.managed_state.operator.operator_handles import ReadOnlyBroadcastView, TaskOperatorStateStore
from flott.runtime.managed_state.operator.operator_shares import Mode
from flott.runtime.managed_state.ttl.expiring_handles import ExpiringState
from flott.runtime.managed_state.ttl.time_to_live import TimeToLive, table_name
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.context import state_handle
from flott.runtime.operators.operator import OperatorContext
from flott.runtime.operators.process import CallContext, ProcessOperator, RecordContext


class _NoKey:
    """The current key while a record without one is processed: no state can be looked up under it."""

    def __hash__(self) -> int:
        raise ProgramError(
            "A record of the broadcast stream has no key, so keyed state and timers cannot be used in"
            " process_broadcast_element(). Call ctx.apply_to_keyed_state(descriptor, function) to reach the state of"
            " all keys."
        )


NO_KEY = _NoKey()


class _DeclaredStates(BaseBroadcastProcessFunction.BaseContext):
    """The part of a context that knows the time, and the broadcast states that were declared."""

    _timers: TimerService
    _states: Mapping[str, Any]

    def current_processing_time(self) -> int:
        return self._timers.current_processing_time()

    def current_watermark(self) -> int:
        return self._timers.current_watermark()

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> Any:
        state = self._states.get(state_descriptor.name)
        return state if state is not None else self._refuse(state_descriptor)

    def _refuse(self, descriptor: MapStateDescriptor) -> NoReturn:
        raise ProgramError(
            f"The function asks for the broadcast state {descriptor.name!r}, which was not declared. Declared are"
            f" {', '.join(map(repr, self._states))}: pass the descriptor to broadcast(...), too."
        )


class DataContext(
    RecordContext, _DeclaredStates, KeyedBroadcastProcessFunction.OnTimerContext[Any],
    BroadcastProcessFunction.ReadOnlyContext,
):  # fmt: skip
    """What the stream that is not broadcast sees, of records and of timers."""

    def __init__(
        self, timers: TimerService, current: CurrentKey, states: Mapping[str, ReadOnlyBroadcastState[Any, Any]]
    ):
        super().__init__(timers, current)
        self._states = states


class BroadcastContext(
    CallContext, _DeclaredStates, KeyedBroadcastProcessFunction.Context, BroadcastProcessFunction.Context
):
    """What the broadcast stream sees."""

    def __init__(self, timers: TimerService, owner: BroadcastOperator, states: Mapping[str, BroadcastState[Any, Any]]):
        super().__init__(timers)
        self._owner = owner
        self._states = states

    def apply_to_keyed_state(self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        self._owner.apply_to_keyed_state(state_descriptor, function)


class BroadcastOperator(ProcessOperator):
    """Runs a function of two inputs, of which the second one is broadcast."""

    leading_input = 1

    def __init__(self, context: OperatorContext, spec: BroadcastProcessSpec):
        store = TaskOperatorStateStore(context.operator_state)
        self._writable = {known.name: store.get_broadcast_state(known) for known in spec.descriptors}
        self._readable = {
            name: ReadOnlyBroadcastView(context.operator_state.named(name, Mode.BROADCAST), name)
            for name in self._writable
        }
        super().__init__(context, spec.function)

    def make_context(self, timers: TimerService) -> RecordContext:
        self.broadcast_record = BroadcastContext(timers, self, self._writable)
        return DataContext(timers, self.current, self._readable)

    def prepare(self) -> None:
        self._first = self.loop(0, self.function.process_element, self.record)
        self._second = self.loop(1, self.function.process_broadcast_element, self.broadcast_record)

    def process_second(self, batch: RowBatch) -> None:
        self.current.key = NO_KEY
        self._second(batch)

    def apply_to_keyed_state(self, descriptor: StateDescriptor, function: Callable[[Any, Any], None]) -> None:
        """Call ``function(key, state)`` for every key that has the state, in an order that depends on the keys only."""
        state = state_handle(self.runtime_context, descriptor)
        if state is None:
            raise ProgramError(f"apply_to_keyed_state() takes the descriptor of a keyed state, found {descriptor!r}.")
        assert self.context.keyed_state is not None  # or asking would have failed
        ttl = TimeToLive.of(descriptor.ttl_config)
        try:
            for key in self.context.keyed_state.keys_with(table_name(descriptor.name, ttl)):
                self.current.key = key
                if not isinstance(state, ExpiringState) or state.holds():
                    function(key, state)
        finally:
            self.current.key = NO_KEY
