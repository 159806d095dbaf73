"""Functions of a stream that is connected with a broadcast stream.

Every subtask sees all records of the broadcast stream, in the same order, and keeps broadcast state. The other stream
only reads that state. The runtime implements the contexts, which are valid only during the call.
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
    """The common base class. Extend one of its subclasses."""

    class BaseContext(ABC):
        """The context of the current record."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's event time in milliseconds, or ``None`` if the stream has no timestamps."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the time of the wall clock in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the event time up to which the records of both streams are complete."""

    class Context(BaseContext):
        """The context of broadcast records, in which broadcast state can be changed."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """Return the broadcast state of one of the descriptors that were passed to ``broadcast``."""

    class ReadOnlyContext(BaseContext):
        """The context of other records, in which broadcast state can only be read."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
            """Return the broadcast state of one of the descriptors that were passed to ``broadcast``."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Processes the records of a stream with state that a broadcast stream determines::

        blocked = MapStateDescriptor("blocked", Types.STRING(), Types.BOOLEAN())

        class Screen(BroadcastProcessFunction[Payment, str, Payment]):
            def process_element(self, value, ctx):
                if value.account not in ctx.get_broadcast_state(blocked):
                    yield value

            def process_broadcast_element(self, value, ctx):
                ctx.get_broadcast_state(blocked).put(value, True)

        payments.connect(accounts.broadcast(blocked)).process(Screen())

    Within an epoch, the records of the broadcast stream come first: a rule that arrives in the same epoch as a record
    applies to it. Flink does not define this order.

    ``process_broadcast_element`` runs in every subtask and must change the state in the same way in each. It may depend
    only
    on the records of the broadcast stream, not on those of the other one, on random numbers or on the subtask.
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of broadcast records."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of other records."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Emitted[OUT]:
        """Process one record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Emitted[OUT]:
        """Process one record of the broadcast stream. Its output is emitted once by every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Processes the records of a keyed stream with broadcast state, and with state and timers for each key.

    As in :class:`BroadcastProcessFunction`, the records of the broadcast stream come first within an epoch. They have
    no
    key, so ``process_broadcast_element`` accesses keyed state only by ``ctx.apply_to_keyed_state``, for all keys.
    """

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of broadcast records."""

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
        """The context of records of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks and the timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> CTX_KEY:
            """Return the key of the record or timer."""

    class OnTimerContext(ReadOnlyContext[CTX_KEY]):
        """The context of a firing timer."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time for which the timer was registered, in milliseconds."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that made the timer fire."""

    @abstractmethod
    def process_element(
        self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[KEY]
    ) -> Emitted[OUT]:
        """Process one record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Emitted[OUT]:
        """Process one record of the broadcast stream. Its output is emitted once by every subtask."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[KEY]) -> Emitted[OUT]:
        """Process a timer that was registered for ``timestamp``. Does nothing by default."""
        return None
