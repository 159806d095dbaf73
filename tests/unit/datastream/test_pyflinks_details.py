"""Details of PyFlink's behaviour that ported programs rely on."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flott.common import Time, Types
from flott.common._frozen import frozen
from flott.common.configuration import Configuration
from flott.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction
from flott.datastream.state import ValueStateDescriptor
from flott.errors import JobFailedError
from flott.runtime.managed_state.encoding import encode_key
from flott.testing.harness import collect, in_process


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_execute_and_collect_keeps_the_order_of_a_collection(parallelism: int):
    stream = in_process(parallelism, flott__epoch__max_records="7").from_collection(list(range(40)))
    assert list(stream.execute_and_collect()) == list(range(40))


class _Returns(AsyncFunction):
    def __init__(self, result: Any):
        self.result = result

    async def async_invoke(self, value: Any) -> Any:
        return self.result


@pytest.mark.parametrize("result", [None, 7, "seven"])
def test_an_async_function_that_returns_no_list_fails_the_job(result: Any):
    stream = in_process(1, restart_strategy__type="none").from_collection([1])
    answers = AsyncDataStream.unordered_wait(stream, _Returns(result), Time.seconds(60), 10)
    with pytest.raises(JobFailedError, match="data of list type"):
        collect(answers)


def test_wrong_arguments_are_value_errors_too():
    with pytest.raises(ValueError, match="parallelism"):
        in_process(1).set_parallelism(0)
    with pytest.raises(ValueError, match="takes a Source"):
        in_process(1).from_source("kafka", None, "x")  # type: ignore[arg-type]


def test_a_configuration_hands_out_values_of_the_type_with_which_they_were_set():
    configuration = Configuration().set_integer("i", 1).set_boolean("b", True).set_float("f", 2)
    configuration.set_string("s", "1").set_bytearray("y", bytearray(b"ab"))
    target: dict[str, Any] = {}
    Configuration().add_all(configuration, "x.").add_all_to_dict(target)
    assert target == {"x.i": 1, "x.b": True, "x.f": 2.0, "x.s": "1", "x.y": bytearray(b"ab")}
    assert [type(target[key]) for key in ("x.i", "x.b", "x.f", "x.s")] == [int, bool, float, str]
    assert configuration.to_dict() == {"i": "1", "b": "true", "f": "2.0", "s": "1", "y": "YWI="}


def test_setting_a_text_forgets_the_former_type():
    configuration = Configuration().set_integer("i", 1).set_string("i", "two")
    target: dict[str, Any] = {}
    configuration.add_all_to_dict(target)
    assert target == {"i": "two"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b", ["a", "b"]),
        ("[a, b]", ["a", "b"]),
        ("['a', \"b, c\"]", ["a", "b, c"]),
        ("- a\n- b", ["a", "b"]),
        ("[]", []),
    ],
)
def test_lists_are_read_in_both_notations(text: str, expected: list[str]):
    assert Configuration.parse_list_value(text) == expected


def test_configure_honours_the_buffer_timeout():
    env = in_process(1)
    assert env.get_buffer_timeout() == 100
    env.configure(Configuration().set_string("execution.buffer-timeout", "10 ms"))
    assert env.get_buffer_timeout() == 10
    env.set_buffer_timeout(20)
    assert env.get_buffer_timeout() == 20
    env.configure(Configuration().set_string("execution.buffer-timeout.enabled", "false"))
    assert env.get_buffer_timeout() == -1


class _CountPerKey(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield str(ctx.get_current_key()), self.count.value()


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    "keys",
    [
        [["a", 1], ["b"], ["a", 1]],
        [{"x": 1, "y": [2]}, {"y": [3]}, {"x": 1, "y": [2]}],
        [{1, 2}, {3}, {2, 1}],
        [("a", [1]), ("b", []), ("a", [1])],
    ],
)
def test_keys_may_be_lists_and_dicts(keys: list[Any], backend: str):
    env = in_process(2, state__backend__type=backend)
    counted = env.from_collection(keys * 20).key_by(lambda key: key).process(_CountPerKey())
    assert sorted(collect(counted))[-1][1] <= 40
    assert sorted(count for _, count in collect(counted)) == sorted([*range(1, 41), *range(1, 21)])


def test_a_reduce_and_a_window_take_keys_that_are_lists():
    stream = in_process(2).from_collection([(["a"], 1), (["b"], 2), (["a"], 3)])
    keyed = stream.key_by(lambda pair: pair[0])
    assert (["a"], 4) in collect(keyed.reduce(lambda a, b: (a[0], a[1] + b[1])))
    assert sorted(collect(keyed.count_window(2).reduce(lambda a, b: (a[0], a[1] + b[1])))) == [(["a"], 4)]


def test_a_frozen_key_has_the_same_bytes_in_every_process_and_does_not_change():
    assert encode_key(frozen([1, "a"])) != encode_key((1, "a"))
    assert encode_key(frozen({"a": 1, "b": 2})) == encode_key(frozen({"b": 2, "a": 1}))
    assert pickle.loads(pickle.dumps(frozen({"a": [1]}))) == {"a": [1]}
    with pytest.raises(TypeError, match="does not change"):
        frozen([1]).append(2)
    with pytest.raises(TypeError, match="does not change"):
        frozen({})["a"] = 1
