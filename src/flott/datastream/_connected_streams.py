"""``ConnectedStreams``: two streams as the inputs of one function. Driver side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import KEY, OUT, DataStream, check_type
from flott.datastream._keyed_stream import KeyedStream, key_of
from flott.datastream.functions._basic import Function, KeySelector
from flott.datastream.functions._callables import validate_function
from flott.datastream.functions._co import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from flott.graph.specs import CoFlatMapSpec, CoMapSpec, CoProcessSpec, KeySpec, OperatorSpec
from flott.graph.transformations import Operation

T1 = TypeVar("T1")
T2 = TypeVar("T2")


class ConnectedStreams(Generic[T1, T2]):
    """The result of ``connect``. If both streams are keyed, both inputs access the same state of a key."""

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]):
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: KeySelector[T1, KEY] | Callable[[T1], KEY] | int | str,
        key_selector2: KeySelector[T2, KEY] | Callable[[T2], KEY] | int | str,
        key_type: TypeHint | None = None,
    ) -> ConnectedStreams[T1, T2]:
        """Partition both streams by key. Both keys must have the same type."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction[T1, T2, OUT], output_type: TypeHint | None = None) -> DataStream[OUT]:
        """Emit one record for each record of either stream, and none if the function returns None."""
        validate_function(func, CoMapFunction, "map")
        return self._apply("Co-Map", CoMapSpec(func), output_type)

    def flat_map(
        self, func: CoFlatMapFunction[T1, T2, OUT], output_type: TypeHint | None = None
    ) -> DataStream[OUT]:
        """Emit any number of records for each record of either stream."""
        validate_function(func, CoFlatMapFunction, "flat_map")
        return self._apply("Co-Flat Map", CoFlatMapSpec(func), output_type)

    def process(
        self,
        func: CoProcessFunction[T1, T2, OUT] | KeyedCoProcessFunction[Any, T1, T2, OUT],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each record of either stream, and for each timer if they are keyed."""
        keyed = self._is_keyed_stream()
        # As in Flink, a function without a key may run on keyed streams, but not vice versa.
        kind: type[Function] = (
            KeyedCoProcessFunction if keyed and not isinstance(func, CoProcessFunction) else CoProcessFunction
        )
        validate_function(func, kind, "process")
        return self._apply("Co-Keyed-Process" if keyed else "Co-Process", CoProcessSpec(func), output_type)

    def _is_keyed_stream(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def _apply(self, name: str, spec: OperatorSpec, output_type: TypeHint | None) -> DataStream[Any]:
        keys: tuple[KeySpec | None, ...] = ()
        if self._is_keyed_stream():
            keys = (key_of(self.stream1), key_of(self.stream2))
        environment = self.stream1.get_execution_environment()
        operation = Operation(spec, keys, check_type(output_type, name))
        made = environment._program.add(name, operation, (self.stream1._id, self.stream2._id))
        return DataStream(environment, made.id, output_type)
