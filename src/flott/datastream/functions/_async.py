"""Asynchronous functions: one ``async def`` call per record, many of them concurrent.

:class:`AsyncRetryStrategy` and :class:`AsyncRetryPredicate` determine which calls are retried, and when. The strategies
are in :mod:`flott.datastream.async_retry_strategies`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flott.datastream.functions._basic import Function

if TYPE_CHECKING:
    from flott.datastream.async_retry_strategies import (
        ExponentialBackoffDelayRetryStrategy,
        FixedDelayRetryStrategy,
    )

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """Calls a service for each record without blocking the others.

    >>> class Capital(AsyncFunction[str, str]):
    ...     async def async_invoke(self, value: str) -> list[str]:
    ...         return [{"Norway": "Oslo", "Kenya": "Nairobi"}[value]]
    >>> import asyncio
    >>> asyncio.run(Capital().async_invoke("Kenya"))
    ['Nairobi']

    ``open``, ``close``, ``timeout`` and all calls of a subtask run in one event loop, in a separate thread. A client
    that
    needs a running loop can therefore be created in ``open``, and calls share the function's attributes without locks.
    Tasks that ``close`` starts, such as closing a client's connections, are awaited. Code that blocks the thread
    (``time.sleep``, a synchronous client) blocks all calls: use :func:`asyncio.to_thread`.

    All calls of an epoch end before its checkpoint is taken. A failed epoch is repeated with its calls: the service is
    called at least once for each record, and each record has its results exactly once. There is no keyed state here, as
    in
    Flink, because records of many keys are processed concurrently.
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> Iterable[OUT]:
        """Return the results for ``value``: a list of any length. They have the timestamp of ``value``.

        The job fails if an exception is raised that the retry strategy does not retry. It also fails if the result is
        not a
        collection: None, a single object, a text or a dictionary.
        """

    def timeout(self, value: IN) -> Iterable[OUT]:
        """Return the results for ``value`` after ``async_invoke`` with all its retries has timed out and was cancelled.

        By default it raises :class:`TimeoutError`, which fails the job. It is not a coroutine and cannot wait.
        """
        raise TimeoutError(f"async_invoke() gave no result for {value!r} in time.")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """The conditions under which a call is retried."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Return the condition on results; None: never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Return the condition on exceptions; None: never."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Determines when a call is retried. One object serves all records of a subtask, so it has no state of a record.

    Attempts are counted from 1, the first call.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether another attempt is allowed after so many attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay after so many attempts, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the conditions under which a call is retried."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Return a strategy with a single attempt."""
        from flott.datastream.async_retry_strategies import NO_RETRY_STRATEGY  # that module imports this class

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> FixedDelayRetryStrategy[OUT]:
        """Return a strategy with up to ``max_attempts`` attempts after the first, with a fixed delay."""
        from flott.datastream.async_retry_strategies import FixedDelayRetryStrategy  # that module imports this class

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> ExponentialBackoffDelayRetryStrategy[OUT]:
        """Return a strategy with up to ``max_attempts`` attempts after the first and growing delays in milliseconds."""
        from flott.datastream import async_retry_strategies  # that module imports this class

        return async_retry_strategies.ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )
