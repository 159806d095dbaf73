"""``KeyedStream``: a stream divided by key. What reads it has state and timers for each key. Driver side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn

from flott.common.typeinfo._type_information import TypeInformation
from flott.datastream._data_stream import KEY, OUT, DataStream, T
from flott.datastream.functions import _aggregations as aggregations
from flott.datastream.functions._basic import KeySelector, ReduceFunction
from flott.datastream.functions._callables import validate_function
from flott.datastream.functions._process import KeyedProcessFunction
from flott.errors import ProgramError
from flott.graph.partitioning import Partitioning
from flott.graph.specs import KeySpec, ProcessSpec, ReduceSpec
from flott.graph.transformations import TransformationId


class KeyedStream(DataStream[T], Generic[T, KEY]):
    """What ``key_by`` returns. All records of a key reach the same subtask of the operator that comes next.

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
        self, func: KeyedProcessFunction[KEY, T, OUT], output_type: TypeInformation | None = None
    ) -> DataStream[OUT]:
        """Any number of records for each record and each timer; the function has state for each key."""
        validate_function(func, KeyedProcessFunction, "process")
        return self._apply("KeyedProcess", ProcessSpec(func), output_type)

    def reduce(self, func: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Combine all records of a key, one after the other; each step is emitted."""
        validate_function(func, ReduceFunction, "reduce")
        return self._apply("Keyed Reduce", ReduceSpec(func), self._type)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """The running total of one field; the other fields are those of the key's first record."""
        return self._aggregate(aggregations.rolling_sum(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """The smallest value so far of one field; the other fields are those of the key's first record."""
        return self._aggregate(aggregations.rolling_min(position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """The largest value so far of one field; the other fields are those of the key's first record."""
        return self._aggregate(aggregations.rolling_max(position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """The record with the smallest value so far in one field."""
        return self._aggregate(aggregations.rolling_min_by(position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """The record with the largest value so far in one field."""
        return self._aggregate(aggregations.rolling_max_by(position_to_max_by))

    def key_by(
        self,
        key_selector: KeySelector[T, OUT] | Callable[[T], OUT] | int | str,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream[T, OUT]:
        """Divide by another key instead."""
        return self._origin.key_by(key_selector, key_type)

    def _aggregate(self, aggregation: aggregations.RollingAggregation) -> DataStream[T]:
        return self._apply("Keyed Aggregation", ReduceSpec(aggregation), self._type)

    def _keys(self) -> tuple[KeySpec | None, ...]:
        return (self._key,)

    def _redistribute(self, method: str, how: Partitioning) -> NoReturn:
        raise ProgramError(
            f"{method}() after key_by() would override the partitioning by key, on which state and timers depend. Call"
            f" {method}() before key_by(), or on the stream that a keyed operator returns."
        )


def key_of(stream: DataStream[Any]) -> KeySpec | None:
    """How a stream is keyed, or None if it is not."""
    return stream._key if isinstance(stream, KeyedStream) else None
