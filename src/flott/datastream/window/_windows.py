"""Windows: small values that identify a group of records, created once per record.

    Window
    ├── TimeWindow     an interval of time
    ├── CountWindow    the n-th window of so many records
    └── GlobalWindow   everything

The serializers at the end are only used by programs that write their own window assigner.
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

    from typing_extensions import TypeVar as DefaultedTypeVar  # needed only by type checkers

    from flott.datastream.window._assigners import MergingWindowAssigner


class Window(ABC):
    """A group of records. A custom window must be hashable, comparable by value, and picklable."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp of the window, in milliseconds."""


#: The record type and the window type. If unspecified, as in CountTrigger.of(3), they match all.
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

    # This is not a frozen dataclass, because one is created for every record and each of its windows.
    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int):
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the windows overlap or touch. Sessions that touch are merged."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window that contains the timestamp, for consecutive windows of this size.

        >>> TimeWindow.get_window_start_with_offset(-1, 0, 10)
        -10
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Report to the callback which windows are merged: those that overlap or touch, directly or transitively.

        Each group is in ascending order. A window without a neighbour is not reported.
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
    """The only window of :class:`~flott.datastream.window.GlobalWindows`: all records of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window. All instances are equal."""
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
    """Writes one byte without content."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()
