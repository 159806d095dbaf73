"""From function objects and callables to what runs per record, and the sentences for what does not fit."""

from __future__ import annotations

import functools
import operator
import sys
from types import ModuleType
from typing import Any

import pytest

from flott.datastream.functions import (
    AggregateFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
)
from flott.datastream.functions._callables import (
    as_filter,
    as_flat_map,
    as_key_selector,
    as_map,
    as_partitioner,
    as_reduce,
    validate_function,
)
from flott.errors import ProgramError


class Double(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return value * 2


class Twice(FlatMapFunction[int, int]):
    def flat_map(self, value: int) -> list[int]:
        return [value, value]


class Even(FilterFunction[int]):
    def filter(self, value: int) -> bool:
        return value % 2 == 0


class Add(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Last(KeySelector[str, str]):
    def get_key(self, value: str) -> str:
        return value[-1]


class Modulo(Partitioner[int]):
    def partition(self, key: int, num_partitions: int) -> int:
        return key % num_partitions


class Echo(ProcessFunction[Any, Any]):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value


class KeyedEcho(KeyedProcessFunction[Any, Any, Any]):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context[Any]) -> Any:
        yield value


class Maximum(AggregateFunction[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return max(value, accumulator)

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return max(acc_a, acc_b)


class Both(CoMapFunction[Any, Any, Any], CoFlatMapFunction[Any, Any, Any]):
    def map1(self, value: Any) -> Any:
        return value

    map2 = map1

    def flat_map1(self, value: Any) -> Any:
        return [value]

    flat_map2 = flat_map1


class CoEcho(CoProcessFunction[Any, Any, Any]):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
        yield value

    process_element2 = process_element1


class KeyedCoEcho(KeyedCoProcessFunction[Any, Any, Any, Any]):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context[Any]) -> Any:
        yield value

    process_element2 = process_element1


class Scale:
    """A callable object."""

    def __call__(self, value: int) -> int:
        return value * 10


def test_a_function_object_gives_its_method() -> None:
    assert as_map(Double())(4) == 8
    assert as_flat_map(Twice())(4) == [4, 4]
    assert as_filter(Even())(4) is True
    assert as_reduce(Add())(4, 5) == 9
    assert as_key_selector(Last())("key") == "y"
    assert as_partitioner(Modulo())(7, 4) == 3


@pytest.mark.parametrize("resolve", [as_map, as_flat_map, as_filter, as_reduce, as_key_selector, as_partitioner])
def test_a_callable_is_itself(resolve: Any) -> None:
    assert resolve(operator.add) is operator.add


def test_the_method_is_bound_once_with_its_state() -> None:
    class Counting(MapFunction[Any, int]):
        seen = 0

        def map(self, value: Any) -> int:
            self.seen += 1
            return self.seen

    function = Counting()
    bound = as_map(function)
    assert [bound("a"), bound("b")] == [1, 2]
    assert function.seen == 2


@pytest.mark.parametrize(
    ("func", "kind"),
    [
        (Double(), MapFunction),
        (Twice(), FlatMapFunction),
        (Even(), FilterFunction),
        (Add(), ReduceFunction),
        (Last(), KeySelector),
        (NullByteKeySelector(), KeySelector),
        (Modulo(), Partitioner),
        (Maximum(), AggregateFunction),
        (Echo(), ProcessFunction),
        (KeyedEcho(), KeyedProcessFunction),
        (Both(), CoMapFunction),
        (Both(), CoFlatMapFunction),
        (CoEcho(), CoProcessFunction),
        (KeyedCoEcho(), KeyedCoProcessFunction),
        (lambda value: value, MapFunction),
        (lambda value, factor=2: value * factor, MapFunction),
        (lambda *values: values, ReduceFunction),
        (functools.partial(operator.mul, 2), MapFunction),
        (Scale(), MapFunction),
        (Double().map, MapFunction),
        (int, MapFunction),
        (str.upper, MapFunction),
        (len, MapFunction),
        (max, ReduceFunction),
        (operator.itemgetter(0), KeySelector),
    ],
)
def test_what_can_be_called_is_accepted(func: Any, kind: type[Function]) -> None:
    validate_function(func, kind, "method")


def test_a_function_of_another_kind_is_told_where_it_belongs() -> None:
    with pytest.raises(ProgramError) as error:
        validate_function(Even(), MapFunction, "map")
    assert str(error.value) == (
        "map() needs a MapFunction or a callable of (value), found the FilterFunction Even: "
        "use it with filter(), or extend MapFunction."
    )


def test_a_keyed_process_function_on_a_stream_without_keys_is_told_about_key_by() -> None:
    with pytest.raises(ProgramError, match=r"the KeyedProcessFunction KeyedEcho: use it with .* after key_by\(\)"):
        validate_function(KeyedEcho(), ProcessFunction, "process")


def test_a_class_is_told_to_be_instantiated() -> None:
    with pytest.raises(ProgramError, match=r"the class Double itself: pass an instance of it, such as Double\(\)"):
        validate_function(Double, MapFunction, "map")


def test_a_value_that_cannot_be_called_is_told_so() -> None:
    with pytest.raises(ProgramError, match="found 'parse' of type str, which cannot be called"):
        validate_function("parse", MapFunction, "map")


def test_an_object_with_the_right_method_but_no_base_class_is_told_to_extend_it() -> None:
    class Loose:
        def map(self, value: int) -> int:
            return value

    with pytest.raises(ProgramError, match="does not extend MapFunction: make it a subclass"):
        validate_function(Loose(), MapFunction, "map")


def test_a_plain_callable_is_not_a_process_function() -> None:
    with pytest.raises(ProgramError, match=r"needs a ProcessFunction, found .*lambda.*test_callables.py:\d+"):
        validate_function(lambda value: value, ProcessFunction, "process")


def test_a_function_left_over_from_pyflink_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    pyflink = ModuleType("pyflink.datastream.functions")
    monkeypatch.setitem(sys.modules, pyflink.__name__, pyflink)
    foreign = type("MapFunction", (), {"__module__": pyflink.__name__, "map": lambda self, value: value})
    with pytest.raises(ProgramError, match="extends a class of pyflink: import it from flott instead"):
        validate_function(type("Mine", (foreign,), {})(), MapFunction, "map")


@pytest.mark.parametrize(
    ("func", "kind", "words"),
    [
        (lambda: 1, MapFunction, r"with 1 argument \(value\), found .*<lambda> \(.*:\d+\) with the parameters \(\)"),
        (lambda a, b: a, FilterFunction, r"with 1 argument \(value\), found .*parameters \(a, b\)"),
        (lambda a: a, ReduceFunction, r"with 2 arguments \(value1, value2\)"),
        (lambda *, value: value, MapFunction, r"parameters \(\*, value\)"),
        (lambda key: key, Partitioner, r"with 2 arguments \(key, num_partitions\)"),
    ],
)
def test_a_callable_that_takes_other_arguments_is_refused_with_its_signature(
    func: Any, kind: type[Function], words: str
) -> None:
    with pytest.raises(ProgramError, match=words):
        validate_function(func, kind, "method")


def test_a_method_of_a_function_object_that_takes_other_arguments_is_refused() -> None:
    class Wrong(KeyedEcho):
        def on_timer(self, timestamp: int) -> None:  # type: ignore[override]
            pass

    with pytest.raises(ProgramError, match=r"found Wrong.on_timer with the parameters \(timestamp"):
        validate_function(Wrong(), KeyedProcessFunction, "process")


def test_a_coroutine_function_is_refused() -> None:
    async def fetch(value: int) -> int:
        return value

    with pytest.raises(ProgramError, match=r"found the coroutine function .*fetch.*def instead of async def"):
        validate_function(fetch, MapFunction, "map")
