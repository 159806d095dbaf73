"""Joins of two streams, by window and by interval. Driver side, except for the functions of a window join.

PyFlink has none of these. Calls and names are those of Flink's Java API::

    orders.join(prices).where(article).equal_to(article).window(assigner).apply(function)
    orders.key_by(article).interval_join(prices.key_by(article)).between(earliest, latest).process(function)

A window join has no operator of its own. Both streams are tagged, united and keyed, and a window function separates
them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from flott.common.time import Duration, Time
from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import KEY, OUT, DataStream, check_type
from flott.datastream._field_functions import as_selector
from flott.datastream._keyed_stream import KeyedStream
from flott.datastream._windowed_stream import WindowedStream
from flott.datastream.functions._basic import Function, KeySelector
from flott.datastream.functions._callables import as_key_selector, validate_function
from flott.datastream.functions._join import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from flott.datastream.functions._window import WindowFunction
from flott.datastream.output_tag import OutputTag
from flott.datastream.window._assigners import WindowAssigner
from flott.datastream.window._evictors import Evictor
from flott.datastream.window._lengths import to_ms
from flott.datastream.window._triggers import Trigger
from flott.errors import ProgramError
from flott.graph.specs import IntervalJoinSpec, SourceSpec
from flott.graph.transformations import Operation

if TYPE_CHECKING:
    from flott.datastream.functions._context import RuntimeContext

T1 = TypeVar("T1")
T2 = TypeVar("T2")

#: A record of either stream with the number of its stream.
Tagged = tuple[int, Any]
FIRST, SECOND = 1, 2

_Selector = KeySelector[Any, KEY] | Callable[[Any], KEY] | int | str


# --- joins within windows ---------------------------------------------------------------------------------------------


class JoinedStreams(Generic[T1, T2]):
    """The result of ``join``: two streams whose records are joined in pairs within a window.

    >>> from flott.common import Time
    >>> from flott.datastream import StreamExecutionEnvironment
    >>> from flott.datastream.window import TumblingProcessingTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> orders, prices = env.from_collection([("tea", 3)]), env.from_collection([("tea", 2.5)])
    >>> windows = TumblingProcessingTimeWindows.of(Time.seconds(5))
    >>> joined = orders.join(prices).where(0).equal_to(0).window(windows).apply(lambda one, other: one[1] * other[1])
    """

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]):
        self._streams = (stream1, stream2)

    def where(self, key_selector: _Selector[KEY], key_type: TypeHint | None = None) -> Where[JoinedWindows]:
        """Set the key of the first stream's records."""
        return Where("join", self._streams, key_selector, key_type, JoinedWindows)


class CoGroupedStreams(Generic[T1, T2]):
    """The result of ``co_group``: two streams whose records are grouped by key and window."""

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]):
        self._streams = (stream1, stream2)

    def where(self, key_selector: _Selector[KEY], key_type: TypeHint | None = None) -> Where[CoGroupedWindows]:
        """Set the key of the first stream's records."""
        return Where("co_group", self._streams, key_selector, key_type, CoGroupedWindows)


class _JoinWindows:
    """Two keyed streams with common windows. The settings are those of a windowed stream.

    A window assigner, trigger or evictor that examines records receives pairs: 1 and a record of the first stream, or 2
    and
    a record of the second.
    """

    def __init__(self, windows: WindowedStream[Tagged, Any, Any]):
        self._windows = windows

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Replace the assigner's default trigger."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Set the evictor."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> Self:
        """Set how long after its end an event-time window accepts records. Each of them makes it fire again."""
        self._windows.allowed_lateness(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send late records to a side output, as pairs of 1 or 2, the number of their stream, and the record.

        Flink's joins have no such output.
        """
        self._windows.side_output_late_data(output_tag)
        return self


class JoinedWindows(_JoinWindows):
    """A window join that lacks only its function."""

    def apply(
        self,
        function: JoinFunction[Any, Any, OUT] | FlatJoinFunction[Any, Any, OUT] | Callable[[Any, Any], OUT],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Call the function with every pair of records of the same key and window, one of each stream.

        A record without a match is not passed. Results have the last timestamp of the window.
        """
        if isinstance(function, FlatJoinFunction):
            validate_function(function, FlatJoinFunction, "apply")
        else:
            validate_function(function, JoinFunction, "apply")
        return self._windows.apply(PairsOfWindow(function), output_type).name("Window Join")


class CoGroupedWindows(_JoinWindows):
    """A co-group that lacks only its function."""

    def apply(
        self,
        function: CoGroupFunction[Any, Any, OUT] | Callable[[Iterable[Any], Iterable[Any]], Iterable[OUT] | None],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Call the function once for each key and window, with the records of both streams. One of them may be empty.

        Results have the last timestamp of the window.
        """
        validate_function(function, CoGroupFunction, "apply")
        return self._windows.apply(GroupsOfWindow(function), output_type).name("Window CoGroup")


WINDOWS = TypeVar("WINDOWS", bound=_JoinWindows)


class Where(Generic[WINDOWS]):
    """Two streams, and the key of the first one."""

    def __init__(
        self,
        method: str,
        streams: tuple[DataStream[Any], DataStream[Any]],
        key_selector: _Selector[Any],
        key_type: TypeHint | None,
        make: type[WINDOWS],
    ):
        self._method = method
        self._streams = streams
        self._selector = as_selector(key_selector, "where")
        self._key_type = check_type(key_type, "where")
        self._make = make

    def equal_to(self, key_selector: _Selector[Any], key_type: TypeHint | None = None) -> EqualTo[WINDOWS]:
        """Set the key of the second stream's records, which must equal that of the first stream's."""
        second = check_type(key_type, "equal_to")
        if self._key_type is not None and second is not None and self._key_type != second:
            raise ProgramError(
                f"The keys of where() are of type {self._key_type!r} and those of equal_to() of type {second!r}; they"
                " would never be equal. Make one selector convert its key."
            )
        key = TaggedKey(self._selector, as_selector(key_selector, "equal_to"))
        return EqualTo(self._method, self._streams, key, self._key_type or second, self._make)


class EqualTo(Generic[WINDOWS]):
    """Two streams, and the keys of both."""

    def __init__(
        self,
        method: str,
        streams: tuple[DataStream[Any], DataStream[Any]],
        key: TaggedKey,
        key_type: TypeHint | None,
        make: type[WINDOWS],
    ):
        self._method = method
        self._streams = streams
        self._key = key
        self._key_type = key_type
        self._make = make

    def window(self, assigner: WindowAssigner[Any, Any]) -> WINDOWS:
        """Set the windows of the join."""
        first, second = (_tagged(stream, number) for number, stream in enumerate(self._streams, FIRST))
        keyed = first.union(second).key_by(self._key, self._key_type)
        return self._make(keyed.window(assigner))


def _tagged(stream: DataStream[Any], number: int) -> DataStream[Tagged]:
    if isinstance(stream, KeyedStream):
        stream = stream._origin  # it will be partitioned by the key of the join
    tagged = stream.map(Tag(number)).name(f"Input {number}")
    step = stream._transformation.step
    if isinstance(step, Operation):  # the parallelism of its input, so that records are not moved
        parallelism = stream._transformation.parallelism
        if parallelism is None and isinstance(step.spec, SourceSpec):
            parallelism = step.spec.source.preferred_parallelism
        tagged._refine(parallelism=parallelism, max_parallelism=stream._transformation.max_parallelism)
    return tagged._refine(implicit=True)


# --- what runs in tasks -----------------------------------------------------------------------------------------------


class Tag:
    """Adds the number of its stream to each record."""

    __slots__ = ("number",)

    def __init__(self, number: int):
        self.number = number

    def __call__(self, value: Any) -> Tagged:
        return self.number, value


class TaggedKey:
    """Returns the key of a tagged record."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]):
        self._selectors = {FIRST: as_key_selector(first), SECOND: as_key_selector(second)}

    def __call__(self, tagged: Tagged) -> Any:
        number, value = tagged
        return self._selectors[number](value)


class _TakingApart(WindowFunction[Tagged, OUT, Any, Any]):
    """A window function around a function of both streams, which it opens and closes."""

    def __init__(self, function: Any):
        self.function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self.function, Function):
            self.function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self.function, Function):
            self.function.close()


class PairsOfWindow(_TakingApart[OUT]):
    """Combines every record of the first stream with every record of the second."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Tagged]) -> Iterator[OUT]:
        first, second = _apart(inputs)
        function = self.function
        if isinstance(function, FlatJoinFunction):
            for one in first:
                for other in second:
                    yield from function.join(one, other) or ()
            return
        join = function.join if isinstance(function, JoinFunction) else function
        for one in first:
            for other in second:
                yield join(one, other)


class GroupsOfWindow(_TakingApart[OUT]):
    """Passes all records of the first stream and all of the second."""

    def apply(self, key: Any, window: Any, inputs: Iterable[Tagged]) -> Iterable[OUT] | None:
        function = self.function
        call = function.co_group if isinstance(function, CoGroupFunction) else function
        return call(*_apart(inputs))


def _apart(inputs: Iterable[Tagged]) -> tuple[list[Any], list[Any]]:
    first: list[Any] = []
    second: list[Any] = []
    for number, value in inputs:
        (first if number == FIRST else second).append(value)
    return first, second


# --- joins by distance in time ----------------------------------------------------------------------------------------


class IntervalJoin(Generic[T1, T2]):
    """The result of ``interval_join``: two keyed streams without bounds."""

    def __init__(self, left: KeyedStream[T1, Any], right: KeyedStream[T2, Any]):
        self._left = left
        self._right = right

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined[T1, T2]:
        """Set the bounds of the difference between the timestamps of a right and a left record.

        Both bounds are inclusive. A negative bound matches earlier records.
        """
        lower_ms = to_ms(lower_bound, "The lower bound of between()")
        upper_ms = to_ms(upper_bound, "The upper bound of between()")
        return IntervalJoined(self._left, self._right, lower_ms, upper_ms)


class IntervalJoined(Generic[T1, T2]):
    """Two keyed streams and their bounds, without a function."""

    def __init__(self, left: KeyedStream[T1, Any], right: KeyedStream[T2, Any], lower_ms: int, upper_ms: int):
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._lower_inclusive = True
        self._upper_inclusive = True
        self._left_late: OutputTag | None = None
        self._right_late: OutputTag | None = None

    def lower_bound_exclusive(self) -> Self:
        """Exclude records exactly at the lower bound."""
        self._lower_inclusive = False
        return self

    def upper_bound_exclusive(self) -> Self:
        """Exclude records exactly at the upper bound."""
        self._upper_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> Self:
        """Send late left records to a side output. Without a tag they are counted and dropped."""
        self._left_late = _check_tag(output_tag, "side_output_left_late_data")
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> Self:
        """Send late right records to a side output. Without a tag they are counted and dropped."""
        self._right_late = _check_tag(output_tag, "side_output_right_late_data")
        return self

    def process(
        self, process_join_function: ProcessJoinFunction[T1, T2, OUT], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Call the function with every pair of records of the same key within the bounds.

        Results have the later of both timestamps.
        """
        validate_function(process_join_function, ProcessJoinFunction, "process")
        spec = IntervalJoinSpec(
            process_join_function,
            *self._inclusive_bounds(),
            None if self._left_late is None else self._left_late.tag_id,
            None if self._right_late is None else self._right_late.tag_id,
            self._left._declared(),
            self._right._declared(),
        )
        environment = self._left.get_execution_environment()
        result_type = check_type(output_type, "process")
        operation = Operation(spec, (*self._left._keys(), *self._right._keys()), result_type)
        made = environment._program.add("Interval Join", operation, (self._left._id, self._right._id))
        return DataStream(environment, made.id, result_type)

    def _inclusive_bounds(self) -> tuple[int, int]:
        lower = self._lower_ms if self._lower_inclusive else self._lower_ms + 1
        upper = self._upper_ms if self._upper_inclusive else self._upper_ms - 1
        if lower > upper:
            opening, closing = "[" if self._lower_inclusive else "(", "]" if self._upper_inclusive else ")"
            raise ProgramError(
                f"between() found the interval {opening}{self._lower_ms} ms, {self._upper_ms} ms{closing}, in which no"
                " record can be. Give the lower bound first, and leave a whole millisecond between exclusive bounds."
            )
        return lower, upper


def _check_tag(output_tag: object, method: str) -> OutputTag:
    if isinstance(output_tag, OutputTag):
        return output_tag
    raise ProgramError(f'{method}() takes an OutputTag such as OutputTag("late"), found {output_tag!r}.')
