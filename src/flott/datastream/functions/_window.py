"""Window functions: they see the records of one window, or what was folded of them, when the window fires.

    of a keyed stream         WindowFunction       ProcessWindowFunction
    of a stream without key   AllWindowFunction    ProcessAllWindowFunction

The ones on the right are given a context with clocks and state. What they return is emitted, as with process functions:
a pair of an :class:`~flott.datastream.output_tag.OutputTag` and a value goes to that side output. Contexts are
implemented by the runtime and are valid during the call only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from flott.datastream.functions._basic import IN, KEY, OUT, Function

if TYPE_CHECKING:
    from flott.datastream.functions._context import KeyedStateStore
    from flott.datastream.functions._process import Emitted
    from flott.datastream.window._windows import Window

W = TypeVar("W", bound="Window")
CTX_W = TypeVar("CTX_W", bound="Window")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Turns the records of a window of a key into any number of records::

        class Count(WindowFunction[Event, tuple[str, int], str, TimeWindow]):
            def apply(self, key, window, inputs):
                yield key, len(list(inputs))

    A window without records does not fire, so there is always at least one.
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Emitted[OUT]:
        """The records to emit for the window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Turns the records of a window, of whatever key, into any number of records."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Emitted[OUT]:
        """The records to emit for the window."""


class _WindowContext(ABC, Generic[CTX_W]):
    @abstractmethod
    def window(self) -> CTX_W:
        """The window that fires."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The processing time of the current epoch, in milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """How far event time has come, in milliseconds."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and this window. What is kept there must be cleared in ``clear``."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, the same for all its windows."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Turns the records of a window of a key into any number of records, and may keep state between windows::

        class Growth(ProcessWindowFunction[int, int, str, TimeWindow]):
            '''Emits by how much the total of a key has grown from one window to the next.'''

            last = ValueStateDescriptor("last", Types.LONG())

            def process(self, key, context, elements):
                last, total = context.global_state().get_state(self.last), sum(elements)
                yield total - (last.value() or 0)
                last.update(total)

    After ``reduce`` or ``aggregate`` there is one element: the folded value.
    """

    class Context(_WindowContext[CTX_W]):
        """The window that fires, the clocks and the state."""

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]) -> Emitted[OUT]:
        """The records to emit for the window."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """The window is over: clear the state it has in ``context.window_state()``. Does nothing by default."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Turns the records of a window, of whatever key, into any number of records; may keep state between windows."""

    class Context(_WindowContext[CTX_W]):
        """The window that fires, the clocks and the state."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Emitted[OUT]:
        """The records to emit for the window."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """The window is over: clear the state it has in ``context.window_state()``. Does nothing by default."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Emits what the window holds."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Emits what the window holds."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs
