"""name, uid, parallelism and so on: of operators, of sinks, and refused for what is no operator."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from flott.datastream import DataStream, OutputTag, ProcessFunction, SlotSharingGroup, StreamExecutionEnvironment
from flott.errors import ProgramError
from flott.graph.stream_graph import StreamNode
from flott.graph.transformations import Chaining


def node_of(env: StreamExecutionEnvironment, stream: DataStream[Any]) -> StreamNode:
    stream.print()
    return env.get_stream_graph().node(stream._id)  # type: ignore[arg-type]


def test_settings_return_the_stream_and_reach_the_node(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).map(str)
    same = (
        stream.name("words")
        .uid("words-uid")
        .set_uid_hash("AB" * 16)
        .set_parallelism(3)
        .set_max_parallelism(9)
        .set_description("all words")
        .slot_sharing_group("heavy")
        .start_new_chain()
    )
    assert same is stream
    node = node_of(env, stream)
    assert (node.name, node.uid, node.uid_hash, node.description) == ("words", "words-uid", "ab" * 16, "all words")
    assert (node.parallelism, node.max_parallelism, node.slot_sharing_group) == (3, 9, "heavy")
    assert node.chaining is Chaining.HEAD


def test_a_setting_is_seen_by_streams_derived_before_it(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).map(str)
    stream.filter(bool).print()
    stream.name("late name")
    assert env.get_stream_graph().nodes[1].name == "late name"


def test_sinks_have_settings_of_their_own(env: StreamExecutionEnvironment) -> None:
    sink = env.from_collection([1]).print().name("out").uid("u").set_parallelism(1).disable_chaining()
    node = env.get_stream_graph().node(sink._id)  # type: ignore[arg-type]
    assert (node.name, node.uid, node.parallelism, node.chaining) == ("Sink: out", "u", 1, Chaining.NEVER)


def test_the_name_of_a_source_is_shown_with_its_word_and_read_without_it(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).name("numbers")
    assert stream.get_name() == "numbers"
    assert node_of(env, stream).name == "Source: numbers"
    assert stream.map(str).name("m").get_name() == "m"


def test_disabled_chaining_stands_alone(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1).from_collection([1]).map(str).disable_chaining().print()
    assert [v.name for v in env.get_job_graph().vertices] == ["Source: Collection Source", "Map", "Sink: Print"]


def test_a_parallelism_can_be_taken_back(env: StreamExecutionEnvironment) -> None:
    assert node_of(env, env.from_collection([1]).map(str).set_parallelism(5).set_parallelism(-1)).parallelism == 2


def test_force_non_parallel_is_one_subtask_for_ever(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).map(str).force_non_parallel()
    with pytest.raises(ProgramError, match="cannot have parallelism 2 and a maximum of 1"):
        stream.set_parallelism(2)
    node = node_of(env, stream)
    assert (node.parallelism, node.max_parallelism) == (1, 1)


@pytest.mark.parametrize("bad", [0, -2, 1.5, "2", True, None])
def test_a_parallelism_is_a_positive_whole_number(env: StreamExecutionEnvironment, bad: Any) -> None:
    with pytest.raises(ProgramError, match=r"set_parallelism\(\) of 'Map' takes a whole number of at least 1, found"):
        env.from_collection([1]).map(str).set_parallelism(bad)


@pytest.mark.parametrize("bad", [0, -1, 32769, "2"])
def test_a_max_parallelism_is_a_number_of_key_groups(env: StreamExecutionEnvironment, bad: Any) -> None:
    with pytest.raises(ProgramError, match="from 1 to 32768"):
        env.from_collection([1]).map(str).set_max_parallelism(bad)


def test_parallelism_and_maximum_are_compared_in_either_order(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1]).map(str)
    with pytest.raises(ProgramError, match="cannot have parallelism 5 and a maximum of 4"):
        stream.set_max_parallelism(4).set_parallelism(5)
    with pytest.raises(ProgramError, match="cannot have parallelism 4 and a maximum of 3"):
        stream.set_parallelism(4).set_max_parallelism(3)


def test_parallelism_above_the_environment_s_maximum_is_refused_when_the_graph_is_made(
    env: StreamExecutionEnvironment,
) -> None:
    env.from_collection([1]).map(str).set_parallelism(200).print()
    with pytest.raises(ProgramError, match="parallelism 200, above its maximum of 128"):
        env.get_stream_graph()
    env.set_max_parallelism(256)
    assert env.get_stream_graph().nodes[1].parallelism == 200


@pytest.mark.parametrize("setting", ["name", "uid", "set_description", "slot_sharing_group"])
@pytest.mark.parametrize("bad", ["", None, 3])
def test_texts_are_not_empty(env: StreamExecutionEnvironment, setting: str, bad: Any) -> None:
    with pytest.raises(ProgramError, match=rf"{setting}\(\) of 'Map' takes a text that is not empty"):
        getattr(env.from_collection([1]).map(str), setting)(bad)


def test_a_uid_hash_is_checked_at_once(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match="32 hexadecimal digits"):
        env.from_collection([1]).map(str).set_uid_hash("abc")


def test_a_uid_used_twice_is_refused(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).uid("u").filter(bool).uid("u").print()
    with pytest.raises(ProgramError, match=r"'u' is used by 'Map' .* and 'Filter'"):
        env.get_stream_graph()


class Pass(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value


_VIRTUAL: dict[str, Callable[[DataStream[Any]], DataStream[Any]]] = {
    "key_by": lambda stream: stream.key_by(str),
    "union": lambda stream: stream.union(stream),
    "rebalance": lambda stream: stream.rebalance(),
    "broadcast": lambda stream: stream.broadcast(),
    "get_side_output": lambda stream: stream.process(Pass()).get_side_output(OutputTag("t")),
}


@pytest.mark.parametrize("step", _VIRTUAL)
@pytest.mark.parametrize(
    "setting",
    [
        ("name", "n"),
        ("uid", "u"),
        ("set_uid_hash", "0" * 32),
        ("set_parallelism", 1),
        ("set_max_parallelism", 1),
        ("set_description", "d"),
        ("slot_sharing_group", "g"),
        ("set_buffer_timeout", 1),
        ("force_non_parallel",),
        ("start_new_chain",),
        ("disable_chaining",),
        ("get_name",),
    ],
    ids=lambda setting: setting[0],
)
def test_what_is_no_operator_has_no_settings(
    env: StreamExecutionEnvironment, step: str, setting: tuple[Any, ...]
) -> None:
    stream = _VIRTUAL[step](env.from_collection([1]))
    method, *arguments = setting
    with pytest.raises(
        ProgramError, match=rf"{method}\(\) was called on the result of {step}\(\) .* operator before {step}\(\)"
    ):
        getattr(stream, method)(*arguments)


def test_a_slot_sharing_group_with_resources_is_registered_once(env: StreamExecutionEnvironment) -> None:
    group = SlotSharingGroup.builder("heavy").set_cpu_cores(1.0).set_task_heap_memory_mb(10).build()
    assert node_of(env, env.from_collection([1]).slot_sharing_group(group)).slot_sharing_group == "heavy"
    with pytest.raises(ProgramError, match="'heavy' was registered before with other resources"):
        env.register_slot_sharing_group(SlotSharingGroup.builder("heavy").build())


def test_a_buffer_timeout_is_accepted_with_one_line(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "flott.porting"):
        env.from_collection([1]).set_buffer_timeout(10)
    assert [record.name for record in caplog.records] == ["flott.porting"]
    assert "set_buffer_timeout(10) of a stream has no effect in Flott: pipelined jobs have one" in caplog.text
