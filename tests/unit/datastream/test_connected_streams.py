"""Two streams as the inputs of one function."""

from __future__ import annotations

from typing import Any

import pytest

from flott.common import Types
from flott.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    KeyedCoProcessFunction,
    StreamExecutionEnvironment,
)
from flott.errors import ProgramError
from flott.graph.specs import KeySpec
from flott.graph.stream_graph import StreamNode


class Mapping(CoMapFunction[Any, Any, Any]):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return value


class Flattening(CoFlatMapFunction[Any, Any, Any]):
    def flat_map1(self, value: Any) -> Any:
        yield value

    def flat_map2(self, value: Any) -> Any:
        yield value


class Processing(CoProcessFunction[Any, Any, Any]):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        yield value


class KeyedProcessing(KeyedCoProcessFunction[Any, Any, Any, Any]):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context[Any]) -> Any:
        yield value

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context[Any]) -> Any:
        yield value


@pytest.fixture
def pair(env: StreamExecutionEnvironment) -> tuple[DataStream[Any], DataStream[Any]]:
    return env.from_collection([1]).name("one"), env.from_collection([2]).name("two")


@pytest.fixture
def connected(pair: tuple[DataStream[Any], DataStream[Any]]) -> ConnectedStreams[Any, Any]:
    return pair[0].connect(pair[1])


def operator_of(stream: DataStream[Any]) -> StreamNode:
    stream.print()
    return stream.get_execution_environment().get_stream_graph().node(stream._id)  # type: ignore[arg-type]


def inputs_of(stream: DataStream[Any]) -> list[str]:
    graph = stream.get_execution_environment().get_stream_graph()
    edges = graph.edges_into(stream._id)  # type: ignore[arg-type]
    return [f"{graph.node(edge.source).name} {edge.partitioning.label} {edge.input_index}" for edge in edges]


@pytest.mark.parametrize(
    ("method", "function", "name", "keyed_name"),
    [
        ("map", Mapping(), "Co-Map", "Co-Map"),
        ("flat_map", Flattening(), "Co-Flat Map", "Co-Flat Map"),
        ("process", Processing(), "Co-Process", "Co-Keyed-Process"),
    ],
)
def test_operators_take_both_inputs_keyed_or_not(
    connected: ConnectedStreams[Any, Any], method: str, function: Any, name: str, keyed_name: str
) -> None:
    plain = getattr(connected, method)(function, Types.STRING())
    node = operator_of(plain)
    assert (node.name, node.keys, node.output_type) == (name, (), Types.STRING())
    assert inputs_of(plain) == ["Source: one REBALANCE 0", "Source: two REBALANCE 1"]

    keyed = getattr(connected.key_by(str, repr, Types.STRING()), method)(function)
    node = operator_of(keyed)
    assert node.name == keyed_name
    assert node.keys == (KeySpec(str, Types.STRING()), KeySpec(repr, Types.STRING()))
    assert inputs_of(keyed) == ["Source: one HASH 0", "Source: two HASH 1"]


def test_two_keyed_streams_connected_are_keyed(pair: tuple[DataStream[Any], DataStream[Any]]) -> None:
    made = pair[0].key_by(str).connect(pair[1].key_by(repr)).process(KeyedProcessing())
    assert operator_of(made).keys == (KeySpec(str), KeySpec(repr))


def test_one_keyed_stream_is_not_enough(pair: tuple[DataStream[Any], DataStream[Any]]) -> None:
    half = pair[0].key_by(str).connect(pair[1])
    with pytest.raises(ProgramError, match="KeyedCoProcessFunction KeyedProcessing: use it with"):
        half.process(KeyedProcessing())
    made = half.process(Processing())
    assert not operator_of(made).is_keyed
    assert inputs_of(made) == ["Source: one HASH 0", "Source: two REBALANCE 1"]


def test_key_by_replaces_the_keys_of_keyed_streams(pair: tuple[DataStream[Any], DataStream[Any]]) -> None:
    made = pair[0].key_by(str).connect(pair[1].key_by(str)).key_by(0, "f1").process(KeyedProcessing())
    first, second = operator_of(made).keys
    assert first is not None
    assert second is not None
    assert (first.selector((7, 8)), second.selector((7, 8))) == (7, 8)


def test_unions_are_inputs_like_any_other(pair: tuple[DataStream[Any], DataStream[Any]]) -> None:
    one, two = pair
    made = one.union(two).connect(two.union(one, one).key_by(str)).map(Mapping())
    operator_of(made)
    assert inputs_of(made) == [
        "Source: one REBALANCE 0",
        "Source: two REBALANCE 0",
        "Source: two HASH 1",
        "Source: one HASH 1",
        "Source: one HASH 1",
    ]


def test_a_stream_can_be_connected_with_itself(env: StreamExecutionEnvironment) -> None:
    stream = env.set_parallelism(1).from_collection([1])
    made = stream.connect(stream).map(Mapping())
    operator_of(made)
    assert inputs_of(made) == ["Source: Collection Source FORWARD 0", "Source: Collection Source FORWARD 1"]


@pytest.mark.parametrize("method", ["map", "flat_map", "process"])
def test_a_plain_function_cannot_serve_two_inputs(connected: ConnectedStreams[Any, Any], method: str) -> None:
    with pytest.raises(ProgramError, match=rf"{method}\(\) needs a Co"):
        getattr(connected, method)(str)
