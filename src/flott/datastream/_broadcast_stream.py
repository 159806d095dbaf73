"""``BroadcastStream`` and ``BroadcastConnectedStream``: a stream that all subtasks of another one receive.

Driver side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import OUT, DataStream, check_type
from flott.datastream._keyed_stream import key_of
from flott.datastream.functions._basic import Function
from flott.datastream.functions._broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from flott.datastream.functions._callables import validate_function
from flott.datastream.state._descriptors import MapStateDescriptor
from flott.errors import ProgramError
from flott.graph.specs import BroadcastProcessSpec
from flott.graph.transformations import Operation

T1 = TypeVar("T1")
T2 = TypeVar("T2")


class BroadcastStream(Generic[T2]):
    """The result of ``broadcast`` with descriptors. It can only be connected to another stream by ``connect``."""

    def __init__(self, input_stream: DataStream[T2], broadcast_state_descriptors: Sequence[MapStateDescriptor]):
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream(Generic[T1, T2]):
    """The result of ``connect`` with a broadcast stream."""

    def __init__(
        self,
        non_broadcast_stream: DataStream[T1],
        broadcast_stream: BroadcastStream[T2],
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ):
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    def process(
        self,
        func: BroadcastProcessFunction[T1, T2, OUT] | KeyedBroadcastProcessFunction[Any, T1, T2, OUT],
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit any number of records for each record of either stream, and for each timer if one is keyed."""
        key = key_of(self.non_broadcast_stream)
        kind: type[Function] = BroadcastProcessFunction if key is None else KeyedBroadcastProcessFunction
        validate_function(func, kind, "process")
        name = "Co-Process-Broadcast" if key is None else "Keyed-Co-Process-Broadcast"
        spec = BroadcastProcessSpec(func, tuple(self.broadcast_state_descriptors))
        operation = Operation(spec, () if key is None else (key, None), check_type(output_type, name))
        environment = self.non_broadcast_stream.get_execution_environment()
        inputs = (self.non_broadcast_stream._id, self.broadcast_stream.input_stream._id)
        made = environment._program.add(name, operation, inputs)
        return DataStream(environment, made.id, output_type)


def check_descriptors(descriptors: Sequence[object]) -> list[MapStateDescriptor]:
    """Refuse arguments that are not descriptors of broadcast states with distinct names."""
    checked: list[MapStateDescriptor] = []
    for descriptor in descriptors:
        if not isinstance(descriptor, MapStateDescriptor):
            raise ProgramError(
                'broadcast() takes descriptors of broadcast states, such as MapStateDescriptor("rules"), found'
                f" {descriptor!r}."
            )
        if descriptor.ttl_config is not None:
            raise ProgramError(
                f"The broadcast state {descriptor.name!r} asks for a time to live, which only keyed state has. Remove"
                " enable_time_to_live(), and remove entries in process_broadcast_element()."
            )
        checked.append(descriptor)
    twice = [name for name, number in Counter(descriptor.name for descriptor in checked).items() if number > 1]
    if twice:
        raise ProgramError(
            f"broadcast() found {len(checked)} descriptors, of which several are named {twice[0]!r}. Give each its own"
            " name."
        )
    return checked
