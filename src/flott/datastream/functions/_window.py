"""Window functions: they receive the records of one window, or their aggregate, when the window fires.

    of a keyed stream         WindowFunction       ProcessWindowFunction
    of a stream without key   AllWindowFunction    ProcessAllWindowFunction

Those on the right receive a context with clocks and state. The return value is emitted, as with process functions: a
pair of an :class:`~flott.datastream.output_tag.OutputTag` and a value goes to that side output. The runtime implements
the contexts, which are valid only during the call.
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
    """Converts the records of a window of a key to any number of records::

        class Count(WindowFunction[Event, tuple[str, int], str, TimeWindow]):
            def apply(self, key, window, inputs):
                yield key, len(list(inputs))

    A window without records does not fire, so there is always at least one.
    """

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Emitted[OUT]:
        """Return the records to emit for the window."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Converts the records of a window, regardless of their key, to any number of records."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Emitted[OUT]:
        """Return the records to emit for the window."""


class _WindowContext(ABC, Generic[CTX_W]):
    @abstractmethod
    def window(self) -> CTX_W:
        """Return the firing window."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time of the current epoch, in milliseconds."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark, in milliseconds."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Return the state of this key and this window. It must be cleared in ``clear``."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Return the state of this key, which all its windows share."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Converts the records of a window of a key to any number of records, and may keep state between windows::

        class Growth(ProcessWindowFunction[int, int, str, TimeWindow]):
            '''Emits the growth of a key's total from one window to the next.'''

            last = ValueStateDescriptor("last", Types.LONG())

            def process(self, key, context, elements):
                last, total = context.global_state().get_state(self.last), sum(elements)
                yield total - (last.value() or 0)
                last.update(total)

    After ``reduce`` or ``aggregate`` there is one element: the aggregated value.
    """

    class Context(_WindowContext[CTX_W]):
        """The firing window, the clocks and the state."""

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]) -> Emitted[OUT]:
        """Return the records to emit for the window."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Clear the state in ``context.window_state()`` when the window has ended. Does nothing by default."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Converts the records of a window, regardless of their key, to any number of records.

    It may keep state between windows.
    """

    class Context(_WindowContext[CTX_W]):
        """The firing window, the clocks and the state."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Emitted[OUT]:
        """Return the records to emit for the window."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Clear the state in ``context.window_state()`` when the window has ended. Does nothing by default."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Emits the content of the window."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Emits the content of the window."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs
