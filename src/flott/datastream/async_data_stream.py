"""``AsyncDataStream``: applies an asynchronous function to a stream, with many concurrent calls. Driver side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from flott.common.time import Duration, Time
from flott.common.typeinfo._infer import TypeHint
from flott.datastream._data_stream import DataStream
from flott.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from flott.datastream.functions._async import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from flott.datastream.functions._callables import validate_function
from flott.errors import ProgramError
from flott.graph.specs import AsyncSpec

__all__ = ["AsyncDataStream"]

IN = TypeVar("IN")
OUT = TypeVar("OUT")

#: Flink's name of the operator.
_NAME = "async wait operator"

#: A function object, or a plain ``async def``.
_Invocable = AsyncFunction[IN, OUT] | Callable[[IN], Awaitable[Iterable[OUT]]]


class AsyncDataStream:
    """Applies an :class:`~flott.datastream.functions.AsyncFunction` to a stream.

    A plain ``async def`` that returns a list of results is also accepted, if nothing has to be opened or closed.

    In each subtask up to ``capacity`` calls run concurrently; at the limit, no further records are read. ``timeout`` is
    for
    a record and all its attempts, 0 for none. A keyed stream is read like any other: the function has no state.

    >>> from flott.datastream import StreamExecutionEnvironment
    >>> async def price(article: str) -> list[tuple[str, int]]:
    ...     return [(article, len(article))]
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> articles = env.from_collection(["tea", "honey"])
    >>> sink = AsyncDataStream.ordered_wait(articles, price, Time.seconds(10), capacity=20).print()
    >>> print(env.get_job_graph().vertices[0].name)
    Source: Collection Source -> async wait operator -> Sink: Print
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[IN],
        async_function: _Invocable[IN, OUT],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit the results of each call when they arrive, before the next watermark.

        Their order may change when an epoch is repeated. This is the only operator for which it may.
        """
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: _Invocable[IN, OUT],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Act as :meth:`unordered_wait`, and retry failed calls according to the strategy."""
        spec = _spec(data_stream, async_function, timeout, async_retry_strategy, capacity, ordered=False)
        return data_stream._apply(_NAME, spec, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[IN],
        async_function: _Invocable[IN, OUT],
        timeout: Time | Duration,
        capacity: int = 100,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Emit the results of the calls in the order of their records.

        Results that wait for those of an earlier record count towards the capacity.
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: _Invocable[IN, OUT],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy[OUT],
        capacity: int = 100,
        output_type: TypeHint | None = None,
    ) -> DataStream[OUT]:
        """Act as :meth:`ordered_wait`, and retry failed calls according to the strategy."""
        spec = _spec(data_stream, async_function, timeout, async_retry_strategy, capacity, ordered=True)
        return data_stream._apply(_NAME, spec, output_type)


def _spec(
    stream: object, function: object, timeout: object, retry: AsyncRetryStrategy[Any], capacity: int, *, ordered: bool
) -> AsyncSpec:
    """Return the checked specification."""
    method = "ordered_wait" if ordered else "unordered_wait"
    _check(stream, function, capacity, method)
    timeout_ms = _milliseconds(timeout, method)
    _check_retry(retry, timeout_ms, method)
    return AsyncSpec(function, timeout_ms, capacity, retry, ordered)


def _check(stream: object, function: object, capacity: object, method: str) -> None:
    if not isinstance(stream, DataStream):
        raise ProgramError(f"{method}() takes a stream, found {stream!r} of type {type(stream).__name__}.")
    validate_function(function, AsyncFunction, method)
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise ProgramError(
            f"The capacity of {method}() is how many calls wait at once, a whole number of at least 1, found"
            f" {capacity!r}."
        )


def _milliseconds(timeout: object, method: str) -> int:
    if isinstance(timeout, Time):
        milliseconds = timeout.to_milliseconds()
    elif isinstance(timeout, Duration):
        milliseconds = -(-timeout.to_nanos() // 1_000_000)  # rounded up: less than one is not none
    else:
        raise ProgramError(
            f"The timeout of {method}() is a Time or a Duration such as Time.seconds(10), found {timeout!r}."
        )
    if milliseconds < 0:
        raise ProgramError(f"The timeout of {method}() is at least 0, which means none, found {timeout!r}.")
    return milliseconds


def _check_retry(retry: object, timeout_ms: int, method: str) -> None:
    if not isinstance(retry, AsyncRetryStrategy):
        raise ProgramError(
            f"{method}() takes an AsyncRetryStrategy, such as AsyncRetryStrategy.fixed_delay(...), found {retry!r}."
        )
    if retry != NO_RETRY_STRATEGY and timeout_ms == 0:
        raise ProgramError(
            f"{method}() needs a timeout for all attempts at a record, found none: a call that never returns would"
            " never be tried again. Set it with Time.seconds(...)."
        )
    if not isinstance(predicate := retry.get_retry_predicate(), AsyncRetryPredicate):
        raise ProgramError(
            f"get_retry_predicate() of {type(retry).__name__} returns an AsyncRetryPredicate, found {predicate!r}."
        )
