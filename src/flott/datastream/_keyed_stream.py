"""``KeyedStream``: a stream partitioned by key. Operators that read it have state and timers per key. Driver side."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, overload

from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import KEY, OUT, DataStream, T, U
from flott.datastream.functions import _aggregations as aggregations
from flott.datastream.functions._basic import KeySelector, ReduceFunction
from flott.datastream.functions._callables import validate_function
from flott.datastream.functions._process import KeyedProcessFunction
from flott.errors import ProgramError
from flott.graph.partitioning import Partitioning
from flott.graph.specs import KeySpec, ProcessSpec, ReduceSpec
from flott.graph.transformations import TransformationId

if TYPE_CHECKING:
    from flott.datastream._joined_streams import IntervalJoin
    from flott.datastream._windowed_stream import WindowedStream
    from flott.datastream.window._assigners import WindowAssigner
    from flott.datastream.window._windows import CountWindow, W


class KeyedStream(DataStream[T], Generic[T, KEY]):
    """The result of ``key_by``. All records of a key reach the same subtask of the next operator.

    >>> from flott.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> sink = env.from_collection([("a", 1), ("b", 2), ("a", 3)]).key_by(0).sum(1).print()
    >>> [vertex.name for vertex in env.get_job_graph().vertices]
    ['Source: Collection Source', 'Keyed Aggregation -> Sink: Print']
    """

    def __init__(self, origin: DataStream[T], ident: TransformationId, key: KeySpec):
        super().__init__(origin._environment, ident, origin._type)
        self._origin = origin
        self._key = key

    def process(  # type: ignore[override]  # as in Flink: a keyed stream takes keyed functions
        self, func: KeyedProcessFunction[KEY, T, OUT], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Emit any number of records for each record and each timer. The function has state per key."""
        validate_function(func, KeyedProcessFunction, "process")
        return self._apply("KeyedProcess", ProcessSpec(func), output_type)

    def reduce(self, func: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Combine all records of a key in order, and emit each intermediate result."""
        validate_function(func, ReduceFunction, "reduce")
        return self._apply("Keyed Reduce", ReduceSpec(func, self._declared()), self._type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Emit the running sum of one field. The other fields are those of the key's first record."""
        return self._aggregate(aggregations.rolling_sum(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Emit the smallest value so far of one field. The other fields are those of the key's first record."""
        return self._aggregate(aggregations.rolling_min(position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Emit the largest value so far of one field. The other fields are those of the key's first record."""
        return self._aggregate(aggregations.rolling_max(position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Emit the record with the smallest value so far in one field."""
        return self._aggregate(aggregations.rolling_min_by(position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Emit the record with the largest value so far in one field."""
        return self._aggregate(aggregations.rolling_max_by(position_to_max_by))

    @overload
    def key_by(
        self, key_selector: KeySelector[T, OUT] | Callable[[T], OUT], key_type: TypeHint | None = None
    ) -> KeyedStream[T, OUT]: ...

    @overload
    def key_by(self, key_selector: int | str, key_type: TypeHint | None = None) -> KeyedStream[T, Any]: ...

    def key_by(
        self,
        key_selector: KeySelector[T, OUT] | Callable[[T], OUT] | int | str,
        key_type: TypeHint | None = None,
    ) -> KeyedStream[T, Any]:
        """Partition by another key instead."""
        return self._origin.key_by(key_selector, key_type)

    def window(self, window_assigner: WindowAssigner[Any, W]) -> WindowedStream[T, KEY, W]:
        """Assign the records of each key to windows."""
        from flott.datastream._windowed_stream import WindowedStream  # that module imports this one

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T, KEY, CountWindow]:
        """Assign the records of each key to windows of ``size``.

        With a slide, a window starts at every ``slide``-th record.
        """
        from flott.datastream._windowed_stream import count_assigner  # that module imports this one

        return self.window(count_assigner(size, slide))

    def interval_join(self, other_stream: KeyedStream[U, KEY]) -> IntervalJoin[T, U]:
        """Join records of both streams with the same key whose event times are within an interval. Not in PyFlink.

        Continue with ``between(...).process(...)``.
        """
        from flott.datastream._joined_streams import IntervalJoin  # that module imports this one

        self._check_other(other_stream, "interval_join")
        if not isinstance(other_stream, KeyedStream):
            raise ProgramError("interval_join() joins two keyed streams, found one that is not. Call key_by() on it.")
        types = (self._key.key_type, other_stream._key.key_type)
        if None not in types and types[0] != types[1]:
            raise ProgramError(
                f"interval_join() found keys of type {types[0]!r} on the left and {types[1]!r} on the right; they would"
                " never be equal. Make one selector convert its key."
            )
        return IntervalJoin(self, other_stream)

    def _aggregate(self, aggregation: aggregations.RollingAggregation) -> DataStream[T]:
        return self._apply("Keyed Aggregation", ReduceSpec(aggregation, self._declared()), self._type)

    def _keys(self) -> tuple[KeySpec | None, ...]:
        return (self._key,)

    def cache(self) -> NoReturn:
        """Refuse the call, as Flink does."""
        raise ProgramError("cache() is not for a keyed stream. Call it before key_by().")

    def _redistribute(self, method: str, how: Partitioning) -> NoReturn:
        raise ProgramError(
            f"{method}() after key_by() would override the partitioning by key, on which state and timers depend. Call"
            f" {method}() before key_by(), or on the stream that a keyed operator returns."
        )


def key_of(stream: DataStream[Any]) -> KeySpec | None:
    """Return how a stream is keyed, or None if it is not."""
    return stream._key if isinstance(stream, KeyedStream) else None
