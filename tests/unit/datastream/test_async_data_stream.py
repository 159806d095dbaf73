"""What AsyncDataStream accepts, what it makes of it, and what it refuses while the program is built."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flott.common import Duration, Time, Types
from flott.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    DataStream,
    MapFunction,
    StreamExecutionEnvironment,
    async_retry_predicates,
    async_retry_strategies,
)
from flott.errors import ProgramError
from flott.graph.partitioning import Hash
from flott.graph.specs import AsyncSpec
from flott.graph.stream_graph import StreamNode

SECOND = Time.seconds(1)


class Lookup(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


async def look_up(value: Any) -> list[Any]:
    return [value]


class Caller:
    async def __call__(self, value: Any) -> list[Any]:
        return [value]


def node_of(stream: DataStream[Any]) -> StreamNode:
    stream.print()
    graph = stream.get_execution_environment().get_stream_graph()
    (node,) = (node for node in graph.nodes if isinstance(node.spec, AsyncSpec))
    return node


def spec_of(stream: DataStream[Any]) -> AsyncSpec:
    spec = node_of(stream).spec
    assert isinstance(spec, AsyncSpec)
    return spec


# ---- what it makes ---------------------------------------------------------------------------------------------------


def test_each_method_makes_an_operator_that_does_what_it_says(env: StreamExecutionEnvironment) -> None:
    retry: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(3, 10, None, lambda error: True)
    none = async_retry_strategies.NO_RETRY_STRATEGY
    made: list[tuple[Callable[[DataStream[Any]], DataStream[Any]], AsyncSpec]] = [
        (lambda ds: AsyncDataStream.ordered_wait(ds, look_up, SECOND), AsyncSpec(look_up, 1000, 100, none, True)),
        (lambda ds: AsyncDataStream.unordered_wait(ds, look_up, SECOND), AsyncSpec(look_up, 1000, 100, none, False)),
        (
            lambda ds: AsyncDataStream.ordered_wait_with_retry(ds, look_up, SECOND, retry, 5),
            AsyncSpec(look_up, 1000, 5, retry, True),
        ),
        (
            lambda ds: AsyncDataStream.unordered_wait_with_retry(ds, look_up, SECOND, retry, capacity=7),
            AsyncSpec(look_up, 1000, 7, retry, False),
        ),
    ]
    for make, expected in made:
        assert spec_of(make(env.from_collection([1]))) == expected
        env.get_stream_graph(clear_transformations=True)


def test_the_operator_has_flinks_name_and_the_declared_type(env: StreamExecutionEnvironment) -> None:
    stream = AsyncDataStream.ordered_wait(env.from_collection([1]), look_up, SECOND, output_type=Types.INT())
    assert (stream.get_name(), stream.get_type()) == ("async wait operator", Types.INT())
    assert node_of(stream).output_type == Types.INT()
    assert "test_async_data_stream.py" in (node_of(stream).source_line or "")


def test_a_keyed_stream_keeps_its_distribution_by_key(env: StreamExecutionEnvironment) -> None:
    keyed = env.from_collection([1, 2, 3]).key_by(lambda n: n % 2)
    AsyncDataStream.ordered_wait(keyed, look_up, SECOND).print()
    assert [type(edge.partitioning) for edge in env.get_job_graph().edges] == [Hash]


@pytest.mark.parametrize(
    ("timeout", "milliseconds"),
    [
        (Time.seconds(2), 2000),
        (Time.milliseconds(0), 0),
        (Duration.of_minutes(1), 60_000),
        (Duration.of_nanos(1), 1),  # none would be the opposite
    ],
)
def test_a_timeout_is_a_time_or_a_duration(
    timeout: Time | Duration, milliseconds: int, env: StreamExecutionEnvironment
) -> None:
    assert spec_of(AsyncDataStream.ordered_wait(env.from_collection([1]), look_up, timeout)).timeout_ms == milliseconds


@pytest.mark.parametrize("function", [Lookup(), look_up, Caller(), functools.partial(look_up), Lookup().async_invoke])
def test_whatever_is_awaited_when_it_is_called_is_accepted(function: Any, env: StreamExecutionEnvironment) -> None:
    assert spec_of(AsyncDataStream.ordered_wait(env.from_collection([1]), function, SECOND)).function is function


# ---- what it refuses -------------------------------------------------------------------------------------------------


def blocking(value: Any) -> list[Any]:
    return [value]


async def of_two(value: Any, other: Any) -> list[Any]:
    return [value, other]


async def generator(value: Any) -> Any:
    yield value


class Blocking(AsyncFunction[Any, Any]):
    def async_invoke(self, value: Any) -> list[Any]:  # type: ignore[override]
        return [value]


class LateTimeout(Lookup):
    async def timeout(self, value: Any) -> Iterable[Any]:  # type: ignore[override]
        return [value]


class LateOpen(Lookup):
    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        pass


class Mapped(MapFunction[Any, Any]):
    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (blocking, r"awaits what .*, found blocking \(.*\), which is not a coroutine function: write it with async"),
        (Blocking(), r"found Blocking.async_invoke, which is not a coroutine function: write it with async def"),
        (generator, r"found generator \(.*\), which is not a coroutine function"),
        (of_two, r"calls the function with 1 argument \(value\), found of_two"),
        (LateTimeout(), r"found the coroutine function LateTimeout.timeout: write it with def"),
        (LateOpen(), r"found the coroutine function LateOpen.open: write it with def"),
        (Lookup, r"found the class Lookup itself: pass an instance of it"),
        (Mapped(), r"needs an AsyncFunction or a coroutine function of \(value\), found the MapFunction Mapped"),
        (3, r"found 3 of type int, which cannot be called"),
    ],
)
def test_what_cannot_be_awaited_is_refused(function: Any, words: str, env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match=r"unordered_wait\(\) " + r".*" + words):
        AsyncDataStream.unordered_wait(env.from_collection([1]), function, SECOND)


def test_an_asynchronous_function_is_told_where_it_belongs(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(ProgramError, match=r"the AsyncFunction Lookup: use it with ordered_wait\(\)"):
        env.from_collection([1]).map(Lookup())  # type: ignore[arg-type]


class NoPredicate(AsyncRetryStrategy[Any]):
    def can_retry(self, current_attempts: int) -> bool:
        return True

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return 1

    def get_retry_predicate(self) -> AsyncRetryPredicate[Any]:
        return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"timeout": 5}, r"is a Time or a Duration such as Time.seconds\(10\), found 5"),
        ({"timeout": Time.milliseconds(-1)}, "is at least 0, which means none"),
        ({"capacity": 0}, "a whole number of at least 1, found 0"),
        ({"capacity": True}, "a whole number of at least 1, found True"),
        ({"capacity": 1.5}, "a whole number of at least 1, found 1.5"),
        ({"async_retry_strategy": None}, "takes an AsyncRetryStrategy, .* found None"),
        ({"async_retry_strategy": NoPredicate()}, "of NoPredicate returns an AsyncRetryPredicate, found None"),
        ({"timeout": Time.seconds(0)}, "needs a timeout for all attempts at a record, found none"),
        ({"data_stream": [1]}, r"takes a stream, found \[1\] of type list"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: dict[str, Any], words: str, env: StreamExecutionEnvironment
) -> None:
    sensible: dict[str, Any] = {
        "data_stream": env.from_collection([1]),
        "async_function": look_up,
        "timeout": SECOND,
        "async_retry_strategy": AsyncRetryStrategy.fixed_delay(1, 1, None, lambda error: True),
    }
    with pytest.raises(ProgramError, match=words):
        AsyncDataStream.ordered_wait_with_retry(**{**sensible, **arguments})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AsyncRetryStrategy.fixed_delay(0, 1, None, None), "max_attempts of .* greater than zero, found 0"),
        (lambda: AsyncRetryStrategy.fixed_delay(1, -1, None, None), "backoff_time_millis .* greater than zero"),
        (lambda: AsyncRetryStrategy.fixed_delay(1, 1, True, None), "result_predicate .* or None, found True"),  # type: ignore[arg-type]
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 0, 2, None, None), "max_retry_delay .* found 0"),
        (lambda: AsyncRetryStrategy.exponential_backoff(1, 1, 1, 0, None, None), "multiplier .* found 0"),
    ],
)
def test_a_strategy_that_makes_no_sense_is_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        make()


# ---- strategies and predicates ---------------------------------------------------------------------------------------


def test_a_strategy_allows_so_many_attempts_after_the_first() -> None:
    fixed: AsyncRetryStrategy[Any] = AsyncRetryStrategy.fixed_delay(2, 30, None, None)
    assert [fixed.can_retry(attempts) for attempts in (1, 2, 3)] == [True, True, False]
    assert [fixed.get_backoff_time_millis(attempts) for attempts in (1, 2, 3)] == [30, 30, 30]
    assert not AsyncRetryStrategy.no_restart().can_retry(1)


@given(
    initial=st.integers(1, 10_000),
    maximum=st.integers(1, 100_000),
    multiplier=st.floats(0.1, 10),
    attempts=st.integers(2, 5_000),
)
def test_the_backoff_depends_on_the_attempt_alone_and_keeps_its_limit(
    initial: int, maximum: int, multiplier: float, attempts: int
) -> None:
    strategy: AsyncRetryStrategy[Any] = AsyncRetryStrategy.exponential_backoff(
        5, initial, maximum, multiplier, None, None
    )
    assert strategy.get_backoff_time_millis(1) == initial
    delays = [strategy.get_backoff_time_millis(n) for n in (attempts, attempts + 1, attempts)]
    assert delays[0] == delays[2]  # whatever other records asked for in between
    assert all(0 <= delay <= maximum for delay in delays)
    if multiplier >= 1:
        assert delays[0] <= delays[1]


def test_the_predicates_know_empty_results_and_exceptions() -> None:
    assert [async_retry_predicates.empty_result_predicate(result) for result in ([], None, [0])] == [True, True, False]
    assert [async_retry_predicates.has_exception_predicate(error) for error in (OSError(), None)] == [True, False]
    is_os_error = functools.partial(async_retry_predicates.exception_type_predicate, expected_error_type=OSError)
    assert [is_os_error(error) for error in (ConnectionError(), ValueError(), None)] == [True, False, False]
