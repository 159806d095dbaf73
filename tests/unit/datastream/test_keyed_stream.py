"""What each method of a keyed stream adds to the program."""

from __future__ import annotations

from typing import Any

import pytest

from flott.common import Types
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream import DataStream, KeyedProcessFunction, KeyedStream, ProcessFunction, StreamExecutionEnvironment
from flott.datastream.functions._aggregations import rolling_max_by, rolling_min, rolling_sum
from flott.errors import ProgramError
from flott.graph.partitioning import Hash
from flott.graph.specs import KeySpec, ReduceSpec
from flott.graph.stream_graph import StreamNode


class KeyedPass(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context[Any]) -> Any:
        yield value


class Pass(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value


def first_of(value: Any) -> Any:
    return value[0]


PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
KEY = KeySpec(first_of, Types.STRING())


@pytest.fixture
def keyed(env: StreamExecutionEnvironment) -> KeyedStream[tuple[str, int], str]:
    return env.from_collection([("a", 1)], PAIR).key_by(first_of, Types.STRING())


def operator_of(env: StreamExecutionEnvironment, stream: DataStream[Any]) -> StreamNode:
    stream.print()
    return env.get_stream_graph().node(stream._id)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "argument", "name"),
    [
        ("map", str, "Map"),
        ("flat_map", list, "Flat Map"),
        ("filter", bool, "Filter"),
        ("process", KeyedPass(), "KeyedProcess"),
        ("reduce", max, "Keyed Reduce"),
        ("sum", 1, "Keyed Aggregation"),
        ("min", 1, "Keyed Aggregation"),
        ("max", 1, "Keyed Aggregation"),
        ("min_by", 1, "Keyed Aggregation"),
        ("max_by", 1, "Keyed Aggregation"),
    ],
)
def test_operators_after_key_by_know_the_key_and_read_by_it(
    env: StreamExecutionEnvironment, keyed: KeyedStream[Any, Any], method: str, argument: Any, name: str
) -> None:
    made = getattr(keyed, method)(argument)
    node = operator_of(env, made)
    assert not isinstance(made, KeyedStream)
    assert (node.name, node.keys) == (name, (KEY,))
    (edge,) = env.get_stream_graph().edges_into(node.id)
    assert edge.partitioning == Hash(KEY)


def test_aggregations_are_reduce_functions_of_the_stream_s_type(
    env: StreamExecutionEnvironment, keyed: KeyedStream[Any, Any]
) -> None:
    for stream, spec in (
        (keyed.reduce(max), ReduceSpec(max, PAIR)),
        (keyed.sum(1), ReduceSpec(rolling_sum(1), PAIR)),
        (keyed.min("f1"), ReduceSpec(rolling_min("f1"), PAIR)),
        (keyed.max_by(), ReduceSpec(rolling_max_by(0), PAIR)),
    ):
        node = operator_of(env, stream)
        assert (node.spec, node.output_type, stream.get_type()) == (spec, PAIR, PAIR)


def test_a_keyed_filter_keeps_the_type(keyed: KeyedStream[Any, Any]) -> None:
    assert keyed.filter(bool).get_type() == PAIR


def test_what_needs_no_key_still_reads_by_it(env: StreamExecutionEnvironment, keyed: KeyedStream[Any, Any]) -> None:
    keyed.print()
    keyed.project(0).print()
    keyed.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).print()
    graph = env.get_stream_graph()
    readers = graph.edges_out_of(graph.nodes[0].id)
    assert [edge.partitioning for edge in readers] == [Hash(KEY)] * 3
    assert not any(node.is_keyed for node in graph.nodes)


def test_key_by_again_replaces_the_key(env: StreamExecutionEnvironment, keyed: KeyedStream[Any, Any]) -> None:
    node = operator_of(env, keyed.key_by(str).map(str))
    assert node.keys == (KeySpec(str),)
    (edge,) = env.get_stream_graph().edges_into(node.id)
    assert edge.partitioning == Hash(KeySpec(str))


def test_a_union_of_keyed_streams_is_not_keyed(env: StreamExecutionEnvironment, keyed: KeyedStream[Any, Any]) -> None:
    united = keyed.union(keyed)
    assert type(united) is DataStream
    assert not operator_of(env, united.map(str)).is_keyed


@pytest.mark.parametrize(
    "call",
    [("shuffle",), ("rebalance",), ("rescale",), ("forward",), ("broadcast",), ("global_",)],
    ids=lambda call: call[0],
)
def test_a_keyed_stream_cannot_be_redistributed(keyed: KeyedStream[Any, Any], call: tuple[str]) -> None:
    with pytest.raises(ProgramError, match=rf"{call[0]}\(\) after key_by\(\) would override the partitioning by key"):
        getattr(keyed, call[0])()


def test_a_keyed_stream_cannot_be_partitioned_by_hand(keyed: KeyedStream[Any, Any]) -> None:
    with pytest.raises(ProgramError, match="would override the partitioning by key"):
        keyed.partition_custom(lambda key, count: 0, str)


def test_a_keyed_stream_needs_keyed_functions(keyed: KeyedStream[Any, Any]) -> None:
    with pytest.raises(ProgramError, match="needs a KeyedProcessFunction"):
        keyed.process(Pass())  # type: ignore[arg-type]


def test_a_field_that_cannot_be_a_position_is_refused(keyed: KeyedStream[Any, Any]) -> None:
    with pytest.raises(ProgramError, match="position of a field"):
        keyed.sum(1.5)  # type: ignore[arg-type]
