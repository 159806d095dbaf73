"""Process functions of one input: they receive records with their time, and register timers on keyed streams.

Their return value is emitted; usually they are generators. A pair of an
:class:`~flott.datastream.output_tag.OutputTag` and a value goes to that side output, all other values to the main
output. The runtime implements the contexts, which are valid only during the call.
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

    #: The return value of a process function: records, and records for side outputs, or ``None``.
    Emitted: TypeAlias = Iterable[OUT | tuple[OutputTag, Any]] | None

CTX_KEY = TypeVar("CTX_KEY")


class ProcessFunction(Function, Generic[IN, OUT]):
    """Processes each record with its timestamp. It may emit to side outputs::

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
        """The context of the current record."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks, and on keyed streams the timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's event time in milliseconds, or ``None`` if the stream has no timestamps."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context) -> Emitted[OUT]:
        """Process one record."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """Processes each record of a keyed stream, with state and timers of the record's key::

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
        """The context of the current record."""

        @abstractmethod
        def get_current_key(self) -> CTX_KEY:
            """Return the key of the record or timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clocks and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the record's event time in milliseconds, or ``None`` if the stream has no timestamps."""

    class OnTimerContext(Context[CTX_KEY]):
        """The context of a firing timer."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the time for which the timer was registered, in milliseconds."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that made the timer fire."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context[KEY]) -> Emitted[OUT]:
        """Process one record."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[KEY]) -> Emitted[OUT]:
        """Process a timer that was registered for ``timestamp``. Does nothing by default."""
        return None
