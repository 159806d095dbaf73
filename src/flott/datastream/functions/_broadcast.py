"""Functions of a stream connected with a broadcast stream: rules for everybody, applied to each record.

Every subtask sees all records of the broadcast stream, in the same order, and keeps what it makes of them in broadcast
state. The other stream only reads that state. Contexts are implemented by the runtime and are valid during the call
only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flott.datastream.functions._basic import KEY, OUT, Function
from flott.datastream.functions._co import IN1, IN2
from flott.datastream.functions._process import CTX_KEY
from flott.datastream.time_domain import TimeDomain

if TYPE_CHECKING:
    from flott.datastream.functions._process import Emitted
    from flott.datastream.state._broadcast import BroadcastState, ReadOnlyBroadcastState
    from flott.datastream.state._descriptors import MapStateDescriptor, StateDescriptor
    from flott.datastream.timerservice import TimerService

K = TypeVar("K")
V = TypeVar("V")


class BaseBroadcastProcessFunction(Function):
    """What both kinds have in common. Extend one of the kinds, not this class."""

    class BaseContext(ABC):
        """What is known about the record being processed."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds; ``None`` if the stream has no timestamps."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The time of the clock on the wall, in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The event time up to which the records of both streams are complete."""

    class Context(BaseContext):
        """For records of the broadcast stream: broadcast state can be changed."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """The broadcast state of one of the descriptors that were passed to ``broadcast``."""

    class ReadOnlyContext(BaseContext):
        """For records of the other stream: broadcast state can be read."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
            """The broadcast state of one of the descriptors that were passed to ``broadcast``."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Handles the records of a stream by what a broadcast stream said so far::

        blocked = MapStateDescriptor("blocked", Types.STRING(), Types.BOOLEAN())

        class Screen(BroadcastProcessFunction[Payment, str, Payment]):
            def process_element(self, value, ctx):
                if value.account not in ctx.get_broadcast_state(blocked):
                    yield value

            def process_broadcast_element(self, value, ctx):
                ctx.get_broadcast_state(blocked).put(value, True)

        payments.connect(accounts.broadcast(blocked)).process(Screen())

    Within an epoch the records of the broadcast stream come first: a rule that arrives together with a record is known
    when the record is processed. Flink leaves that order open.

    ``process_broadcast_element`` runs in every subtask and must do the same to the state in each: it may depend on the
    records of the broadcast stream alone, not on those of the other one, on random numbers or on the subtask.
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """For records of the broadcast stream."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """For records of the other stream."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Emitted[OUT]:
        """Handle one record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Emitted[OUT]:
        """Handle one record of the broadcast stream. What it emits is emitted once by every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Handles the records of a keyed stream by what a broadcast stream said so far, with state and timers for each key.

    As in :class:`BroadcastProcessFunction`, the records of the broadcast stream come first within an epoch. They have
    no key, so ``process_broadcast_element`` reaches keyed state only by ``ctx.apply_to_keyed_state``, for all keys.
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """For records of the broadcast stream."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
        ) -> None:
            """Call ``function(key, state)`` for every key of this subtask that has the described keyed state.

            The function may change or clear the state, of its own key only. Flink's ``applyToKeyedState``; PyFlink has
            none::

                ctx.apply_to_keyed_state(ValueStateDescriptor("count"), lambda key, count: count.clear())
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, Generic[CTX_KEY]):
        """For records of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The clocks, and the timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> CTX_KEY:
            """The key of the record, or of the timer."""

    class OnTimerContext(ReadOnlyContext[CTX_KEY]):
        """For a timer that fires."""

        @abstractmethod
        def timestamp(self) -> int:
            """The time the timer was set for, in milliseconds."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock made the timer fire."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[KEY]
    ) -> Emitted[OUT]:
        """Handle one record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Emitted[OUT]:
        """Handle one record of the broadcast stream. What it emits is emitted once by every subtask."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[KEY]) -> Emitted[OUT]:
        """Handle a timer that was set for ``timestamp``. Does nothing by default."""
        return None
