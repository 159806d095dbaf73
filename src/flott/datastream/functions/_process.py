"""Process functions of one input: they see a record together with its time, and on keyed streams they set timers.

What they return is emitted: usually they are generators. A pair of an :class:`~flott.datastream.output_tag.OutputTag`
and a value goes to that side output; everything else goes to the main one. Contexts are implemented by the runtime and
are valid during the call only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from flott.datastream.functions._basic import IN, KEY, OUT, Function
from flott.datastream.time_domain import TimeDomain

if TYPE_CHECKING:
    from flott.datastream.output_tag import OutputTag
    from flott.datastream.timerservice import TimerService

    #: What a process function hands back: records, and records for side outputs; ``None`` if there is nothing.
    Emitted: TypeAlias = Iterable[OUT | tuple[OutputTag, Any]] | None

CTX_KEY = TypeVar("CTX_KEY")


class ProcessFunction(Function, Generic[IN, OUT]):
    """Handles each record with its timestamp and may send records to side outputs::

        late = OutputTag("late")

        class SplitLate(ProcessFunction[Event, Event]):
            def process_element(self, value, ctx):
                if ctx.timestamp() < ctx.timer_service().current_watermark():
                    yield late, value
                else:
                    yield value

    Timers need a key: see :class:`KeyedProcessFunction`.
    """

    class Context(ABC):
        """What is known about the record being processed."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The clocks, and on keyed streams the timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds; ``None`` if the stream has no timestamps."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context) -> Emitted[OUT]:
        """Handle one record."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """Handles each record of a keyed stream, with state and timers of the record's key::

        class Quiet(KeyedProcessFunction[str, Event, str]):
            '''Emits a key when nothing was seen of it for a minute.'''

            def open(self, runtime_context):
                self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

            def process_element(self, value, ctx):
                self.last.update(ctx.timestamp())
                ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

            def on_timer(self, timestamp, ctx):
                if timestamp == self.last.value() + 60_000:
                    yield ctx.get_current_key()
    """

    class Context(ABC, Generic[CTX_KEY]):
        """What is known about the record being processed."""

        @abstractmethod
        def get_current_key(self) -> CTX_KEY:
            """The key of the record, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The clocks, and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's event time in milliseconds; ``None`` if the stream has no timestamps."""

    class OnTimerContext(Context[CTX_KEY]):
        """What is known about the timer that fires."""

        @abstractmethod
        def timestamp(self) -> int:
            """The time the timer was set for, in milliseconds."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock made the timer fire."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context[KEY]) -> Emitted[OUT]:
        """Handle one record."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[KEY]) -> Emitted[OUT]:
        """Handle a timer that was set for ``timestamp``. Does nothing by default."""
        return None
