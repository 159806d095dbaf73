"""Windows: the buckets into which a stream is divided. Small values that name a bucket, made once per record.

    Window
    ├── TimeWindow     an interval of time
    ├── CountWindow    the n-th window of so many records
    └── GlobalWindow   everything

Serializers stand at the end; a program meets them only where it writes a window assigner of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from io import BytesIO
from struct import Struct
from typing import TYPE_CHECKING, TypeVar

from flott.common.constants import MAX_LONG_VALUE
from flott.common.serializer import TypeSerializer

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeVar as DefaultedTypeVar  # known to type checkers, needed by nobody else

    from flott.datastream.window._assigners import MergingWindowAssigner


class Window(ABC):
    """A bucket of records. A kind of window of one's own is hashable, comparable by value, and can be pickled."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest timestamp that still belongs to the window, in milliseconds."""


#: The records of a window, and its kind. What is made without saying which, as by CountTrigger.of(3), fits all.
if TYPE_CHECKING:
    T = DefaultedTypeVar("T", default=Any)
    W = DefaultedTypeVar("W", bound=Window, default=Any)
else:
    T = TypeVar("T")
    W = TypeVar("W", bound=Window)


class TimeWindow(Window):
    """The interval from ``start`` (inclusive) to ``end`` (exclusive), in milliseconds.

    >>> TimeWindow(0, 10).cover(TimeWindow(5, 15))
    TimeWindow(start=0, end=15)
    """

    # Written out and not a frozen dataclass: one is made for every record and every window it belongs to.
    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int):
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the windows overlap or touch: sessions that touch are one session."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window that holds the timestamp, where windows of this size follow one another.

        >>> TimeWindow.get_window_start_with_offset(-1, 0, 10)
        -10
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Tell the callback which of the windows become one: those that overlap or touch, directly or in a row.

        Each group is given in ascending order. A window that stands alone is not mentioned.
        """
        group: list[TimeWindow] = []
        end = 0
        for window in sorted(set(windows), key=_interval):
            if group and window.start > end:
                _report(group, end, callback)
                group = []
            end = max(end, window.end) if group else window.end
            group.append(window)
        _report(group, end, callback)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return self.start == other.start and self.end == other.end

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __lt__(self, other: object) -> bool:
        return _interval(self) < _interval(other) if isinstance(other, TimeWindow) else NotImplemented

    def __le__(self, other: object) -> bool:
        return _interval(self) <= _interval(other) if isinstance(other, TimeWindow) else NotImplemented

    def __reduce__(self) -> tuple[object, ...]:
        return TimeWindow, (self.start, self.end)

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


def _interval(window: TimeWindow) -> tuple[int, int]:
    return window.start, window.end


def _report(group: list[TimeWindow], end: int, callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
    if len(group) > 1:
        callback.merge(group, TimeWindow(group[0].start, end))


class CountWindow(Window):
    """The window number ``id`` of a key, counted from 0."""

    __slots__ = ("id",)

    def __init__(self, id: int):
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_LONG_VALUE

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, CountWindow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[object, ...]:
        return CountWindow, (self.id,)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The one window of :class:`~flott.datastream.window.GlobalWindows`: all records of a key, for ever."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The window; all of them are equal."""
        return _GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        return MAX_LONG_VALUE

    def __eq__(self, other: object) -> bool:
        return True if isinstance(other, GlobalWindow) else NotImplemented

    def __hash__(self) -> int:
        return 0

    def __reduce__(self) -> tuple[object, ...]:
        return GlobalWindow, ()

    def __repr__(self) -> str:
        return "GlobalWindow"


_GLOBAL_WINDOW = GlobalWindow()

# ---------------------------------------------------------------------------------------------------------------------
# Serializers: big-endian longs, as Flink writes them
# ---------------------------------------------------------------------------------------------------------------------

_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Writes start and end, 16 bytes."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(_TWO_LONGS.size)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Writes the number, 8 bytes."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(*_LONG.unpack(stream.read(_LONG.size)))


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Writes one byte, which says nothing."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()
