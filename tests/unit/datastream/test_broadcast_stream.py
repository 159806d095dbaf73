"""A stream connected with a broadcast stream, as a program."""

from __future__ import annotations

from typing import Any

import pytest

from flott.common import Types
from flott.common.time import Time
from flott.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    DataStream,
    KeyedBroadcastProcessFunction,
    StreamExecutionEnvironment,
)
from flott.datastream.state import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flott.errors import ProgramError
from flott.graph.specs import BroadcastProcessSpec, KeySpec
from flott.graph.stream_graph import StreamNode

RULES, LIMITS = MapStateDescriptor("rules"), MapStateDescriptor("limits", Types.STRING(), Types.INT())


class Plain(BroadcastProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        yield value


class Keyed(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[Any]) -> Any:
        yield value

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        yield value


@pytest.fixture
def data(env: StreamExecutionEnvironment) -> DataStream[Any]:
    return env.from_collection([1]).name("data")


@pytest.fixture
def rules(env: StreamExecutionEnvironment) -> BroadcastStream[Any]:
    return env.from_collection([2]).name("rules").broadcast(RULES, LIMITS)


def operator_of(stream: DataStream[Any]) -> StreamNode:
    stream.print()
    return stream.get_execution_environment().get_stream_graph().node(stream._id)  # type: ignore[arg-type]


def inputs_of(stream: DataStream[Any]) -> list[str]:
    graph = stream.get_execution_environment().get_stream_graph()
    edges = graph.edges_into(stream._id)  # type: ignore[arg-type]
    return [f"{graph.node(edge.source).name} {edge.partitioning.label} {edge.input_index}" for edge in edges]


def test_the_broadcast_stream_is_the_second_input(data: DataStream[Any], rules: BroadcastStream[Any]) -> None:
    function = Plain()
    connected = data.connect(rules)
    assert isinstance(connected, BroadcastConnectedStream)
    made = connected.process(function, Types.INT())
    node = operator_of(made)
    assert node.spec == BroadcastProcessSpec(function, (RULES, LIMITS))
    assert (node.name, node.keys, node.output_type) == ("Co-Process-Broadcast", (), Types.INT())
    assert inputs_of(made) == ["Source: data REBALANCE 0", "Source: rules BROADCAST 1"]


def test_a_keyed_stream_keeps_its_key_and_the_broadcast_stream_has_none(
    data: DataStream[Any], rules: BroadcastStream[Any]
) -> None:
    made = data.key_by(str).connect(rules).process(Keyed())
    node = operator_of(made)
    assert (node.name, node.keys) == ("Keyed-Co-Process-Broadcast", (KeySpec(str), None))
    assert node.is_keyed
    assert inputs_of(made) == ["Source: data HASH 0", "Source: rules BROADCAST 1"]


def test_one_broadcast_stream_serves_several_streams(data: DataStream[Any], rules: BroadcastStream[Any]) -> None:
    one, two = data.connect(rules).process(Plain()), data.key_by(str).connect(rules).process(Keyed())
    operator_of(one)
    operator_of(two)
    assert [inputs_of(stream)[1] for stream in (one, two)] == ["Source: rules BROADCAST 1"] * 2


def test_the_function_must_fit_the_stream(data: DataStream[Any], rules: BroadcastStream[Any]) -> None:
    with pytest.raises(ProgramError, match=r"KeyedBroadcastProcessFunction Keyed: use it with process.. of a keyed"):
        data.connect(rules).process(Keyed())
    with pytest.raises(ProgramError, match=r"BroadcastProcessFunction Plain: use it with process.. of a stream"):
        data.key_by(str).connect(rules).process(Plain())  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match=r"needs a BroadcastProcessFunction, found .*a plain callable is not enough"):
        data.connect(rules).process(str)  # type: ignore[arg-type]


def expiring() -> MapStateDescriptor:
    descriptor = MapStateDescriptor("rules")
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    return descriptor


@pytest.mark.parametrize(
    ("descriptors", "message"),
    [
        ((ValueStateDescriptor("rules"),), r"takes descriptors of broadcast states, .* found ValueStateDescriptor"),
        ((RULES, "limits"), r"takes descriptors of broadcast states, .* found 'limits'"),
        ((None, RULES), r"takes descriptors of broadcast states, .* found None"),
        ((RULES, LIMITS, MapStateDescriptor("rules")), r"found 3 descriptors, of which several are named 'rules'"),
        ((expiring(),), r"'rules' asks for a time to live, which only keyed state has"),
    ],
)
def test_what_does_not_describe_broadcast_states_is_refused(
    data: DataStream[Any], descriptors: Any, message: str
) -> None:
    with pytest.raises(ProgramError, match=message):
        data.broadcast(*descriptors)


def test_streams_of_two_environments_cannot_be_connected(rules: BroadcastStream[Any]) -> None:
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(ProgramError, match=r"connect\(\) joins streams of one environment"):
        other.connect(rules)


def test_a_keyed_stream_cannot_be_broadcast(data: DataStream[Any]) -> None:
    with pytest.raises(ProgramError, match=r"broadcast\(\) after key_by\(\)"):
        data.key_by(str).broadcast(RULES)
