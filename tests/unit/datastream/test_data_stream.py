"""What each method of a stream adds to the program."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from flott.common import Types
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
    StreamExecutionEnvironment,
)
from flott.datastream.connectors.discard import DiscardSink
from flott.datastream.connectors.print import PrintSink
from flott.errors import ProgramError
from flott.graph.partitioning import Custom, Hash
from flott.graph.specs import FilterSpec, MapSpec, SinkSpec, TimestampsSpec
from flott.graph.stream_graph import StreamNode


class Pass(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value


class KeyedPass(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context[Any]) -> Any:
        yield value


def vertices(env: StreamExecutionEnvironment) -> list[str]:
    return [vertex.name for vertex in env.get_job_graph().vertices]


def last_operator(env: StreamExecutionEnvironment) -> StreamNode:
    """The node before the (one) sink."""
    return env.get_stream_graph().nodes[-2]


# ---- transformations -------------------------------------------------------------------------------------------------


def test_operators_have_flink_s_names_and_are_chained(env: StreamExecutionEnvironment) -> None:
    stream = env.set_parallelism(1).from_collection([1])
    stream = stream.map(str).flat_map(list).filter(bool).process(Pass())
    stream.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).print()
    assert vertices(env) == [
        "Source: Collection Source -> Map -> Flat Map -> Filter -> Process -> Timestamps/Watermarks -> Sink: Print"
    ]


def test_functions_reach_their_specs(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    env.from_collection([1]).map(str).filter(bool).assign_timestamps_and_watermarks(strategy).print("out")
    specs = [node.spec for node in env.get_stream_graph().nodes[1:]]
    assert specs == [MapSpec(str), FilterSpec(bool), TimestampsSpec(strategy), SinkSpec(PrintSink("out"))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda stream: stream.map(7), r"map\(\) needs a MapFunction"),
        (lambda stream: stream.flat_map(None), r"flat_map\(\) needs a FlatMapFunction"),
        (lambda stream: stream.filter(lambda: True), r"filter\(\) calls the function with 1 argument"),
        (lambda stream: stream.process(lambda value, ctx: None), "a plain callable is not enough"),
        (lambda stream: stream.process(KeyedPass()), r"after key_by\(\)"),
        (lambda stream: stream.key_by(None), r"key_by\(\) needs a KeySelector"),
        (lambda stream: stream.key_by(True), r"key_by\(\) needs a KeySelector"),
        (lambda stream: stream.partition_custom(lambda key: 0, str), r"partition_custom\(\) calls the function with 2"),
        (lambda stream: stream.map(str, output_type="str"), r"Map: A type is one of flott.common.Types"),
        (lambda stream: stream.key_by(str, key_type=Types.LONG), r"key_by: A type is one of flott.common.Types"),
        (lambda stream: stream.assign_timestamps_and_watermarks(None), "takes a WatermarkStrategy"),
        (lambda stream: stream.get_side_output("late"), "takes an OutputTag"),
        (lambda stream: stream.union([stream]), r"union\(\) takes streams, found \["),
        (lambda stream: stream.connect(None), r"connect\(\) takes streams, found None"),
        (lambda stream: stream.sink_to(print), r"sink_to\(\) takes a Sink"),
        (lambda stream: stream.add_sink(SinkFunction()), "wrap Java objects"),
        (lambda stream: stream.project(), r"project\(\) takes the positions"),
        (lambda stream: stream.project(-1), r"project\(\) takes the positions"),
        (lambda stream: stream.broadcast("rules"), r"broadcast\(\) takes descriptors .* found 'rules'"),
        (lambda stream: stream.execute_and_collect(limit=0), "at least 1, found 0"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(
    env: StreamExecutionEnvironment, call: Callable[[DataStream[Any]], object], message: str
) -> None:
    stream = env.from_collection([1])
    with pytest.raises(ProgramError, match=message):
        call(stream)


def test_streams_of_two_environments_cannot_be_joined(env: StreamExecutionEnvironment) -> None:
    other = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(ProgramError, match="streams of one environment"):
        env.from_collection([1]).union(other)
    with pytest.raises(ProgramError, match="streams of one environment"):
        env.from_collection([1]).connect(other)


# ---- types -----------------------------------------------------------------------------------------------------------


def test_declared_types_reach_the_operators_and_are_kept_by_what_cannot_change_them(
    env: StreamExecutionEnvironment,
) -> None:
    numbers = env.from_collection([1], Types.LONG())
    kept = numbers.filter(bool).rebalance().union(numbers)
    assert kept.get_type() == Types.LONG()
    assert kept.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks()).get_type() == Types.LONG()
    assert kept.key_by(str).get_type() == Types.LONG()
    kept.map(str, Types.STRING()).print()
    assert [node.output_type for node in env.get_stream_graph().nodes] == [Types.LONG(), None, Types.STRING(), None]


def test_an_undeclared_type_is_any_picklable_object(env: StreamExecutionEnvironment) -> None:
    assert env.from_collection([1], Types.LONG()).map(lambda n: n).get_type() == Types.PICKLED_BYTE_ARRAY()


def test_a_side_output_has_the_type_of_its_tag(env: StreamExecutionEnvironment) -> None:
    tag = OutputTag("late", Types.STRING())
    assert env.from_collection([1], Types.LONG()).process(Pass()).get_side_output(tag).get_type() == Types.STRING()


def test_a_projection_picks_fields_and_their_types(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
    picked = pairs.project(1, 0)
    picked.print()
    assert picked.get_type() == Types.TUPLE([Types.STRING(), Types.INT()])
    spec = last_operator(env).spec
    assert isinstance(spec, MapSpec)
    assert pickle.loads(pickle.dumps(spec.function))((1, "a")) == ("a", 1)


def test_a_projection_needs_tuples_with_such_fields(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match="works on tuples"):
        env.from_collection([1], Types.INT()).project(0)
    with pytest.raises(ProgramError, match=r"no field 2"):
        env.from_collection([(1,)], Types.TUPLE([Types.INT()])).project(2)


# ---- distribution ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["shuffle", "rebalance", "rescale", "broadcast", "global_"])
def test_a_redistribution_is_the_partitioning_of_the_next_edge(env: StreamExecutionEnvironment, method: str) -> None:
    getattr(env.from_collection([1]), method)().print()
    (edge,) = env.get_stream_graph().edges
    assert edge.partitioning.label == method.rstrip("_").upper()


def test_forward_needs_equal_parallelism(env: StreamExecutionEnvironment) -> None:
    sink = env.from_collection([1]).forward().print()
    with pytest.raises(ProgramError, match="needs equal parallelism"):
        env.get_stream_graph()
    sink.set_parallelism(1)
    assert vertices(env) == ["Source: Collection Source -> Sink: Print"]


def test_a_custom_partitioner_keeps_its_functions(env: StreamExecutionEnvironment) -> None:
    def spread(key: int, count: int) -> int:
        return key % count

    env.from_collection([1]).partition_custom(spread, abs).print()
    assert env.get_stream_graph().edges[0].partitioning == Custom(spread, abs)


def test_a_source_of_one_subtask_rebalances_to_a_wider_operator(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).print()
    assert [edge.partitioning.label for edge in env.get_stream_graph().edges] == ["REBALANCE", "FORWARD"]
    assert vertices(env) == ["Source: Collection Source", "Map -> Sink: Print"]


# ---- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "record"),
    [
        (1, ("a", "k")),
        (-1, ["a", "k"]),
        ("city", {"city": "k"}),
        ("f1", ("a", "k")),
    ],
)
def test_a_key_can_be_a_position_or_a_name(env: StreamExecutionEnvironment, field: Any, record: Any) -> None:
    env.from_collection([record]).key_by(field).map(str).print()
    how = env.get_stream_graph().edges[0].partitioning
    assert isinstance(how, Hash)
    assert pickle.loads(pickle.dumps(how.key.selector))(record) == "k"


# ---- joining, side outputs -------------------------------------------------------------------------------------------


def test_a_union_reads_all_its_streams(env: StreamExecutionEnvironment) -> None:
    one, two, three = (env.from_collection([n]).name(str(n)) for n in (1, 2, 3))
    one.union(two, three).map(str).print()
    assert [str(edge) for edge in env.get_stream_graph().edges[:3]] == [
        "1 --REBALANCE--> 5.0",
        "2 --REBALANCE--> 5.0",
        "3 --REBALANCE--> 5.0",
    ]


def test_side_outputs_leave_the_operator_under_their_tag(env: StreamExecutionEnvironment) -> None:
    main = env.from_collection([1]).process(Pass())
    main.get_side_output(OutputTag("late")).print()
    main.print()
    assert [edge.side_tag for edge in env.get_stream_graph().edges] == [None, "late", None]
    assert vertices(env)[1] == "Process -> (Sink: Print, Sink: Print)"


def test_only_an_operator_has_side_outputs(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match=r"get_side_output\(\) was called on the result of rebalance\(\)"):
        env.from_collection([1]).rebalance().get_side_output(OutputTag("late"))


# ---- sinks -----------------------------------------------------------------------------------------------------------


def test_sinks_are_named_after_their_class(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1])
    stream.print()
    stream.sink_to(DiscardSink())
    stream.add_sink(DiscardSink()).name("Out")
    stream.sink_to(DiscardSink()).name("Sink: Given")
    names = [node.name for node in env.get_stream_graph().nodes[1:]]
    assert names == ["Sink: Print", "Sink: Discard", "Sink: Out", "Sink: Given"]


def test_the_user_s_line_is_kept_with_each_step(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).print()
    assert all("test_data_stream.py:" in node.source_line for node in env.get_stream_graph().nodes)
