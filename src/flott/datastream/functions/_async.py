"""Functions that wait: an ``async def`` per record, many of them waiting at the same time.

:class:`AsyncRetryStrategy` and :class:`AsyncRetryPredicate` say which calls are tried again, and when; the strategies
themselves are in :mod:`flott.datastream.async_retry_strategies`.
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
    """Asks somebody else about each record, without holding up the others while it waits.

    >>> class Capital(AsyncFunction[str, str]):
    ...     async def async_invoke(self, value: str) -> list[str]:
    ...         return [{"Norway": "Oslo", "Kenya": "Nairobi"}[value]]
    >>> import asyncio
    >>> asyncio.run(Capital().async_invoke("Kenya"))
    ['Nairobi']

    ``open``, ``close``, ``timeout`` and all calls of a subtask run in one event loop, in one thread of its own. So a
    client that needs a running loop is made in ``open``, and calls share what the function holds without locks. Tasks
    that ``close`` starts, such as the closing of a client's connections, are waited for. What blocks the thread
    (``time.sleep``, a synchronous client) holds up all calls: give it to :func:`asyncio.to_thread`.

    All calls of an epoch are over before its checkpoint is taken. An epoch that fails is repeated with its calls: the
    service is asked at least once about each record, and each record has its results exactly once. There is no keyed
    state here, as in Flink: records of many keys are at work at the same time.
    """

    @abstractmethod
    async def async_invoke(self, value: IN) -> Iterable[OUT]:
        """The results for ``value``: a list, with any number of them. They keep the timestamp of ``value``.

        An exception that the retry strategy does not want to see again fails the job, and so does a result that is no
        collection: None, a single object, and a text or a dictionary, which is hardly meant as the list of its parts.
        """

    def timeout(self, value: IN) -> Iterable[OUT]:
        """The results for ``value`` when ``async_invoke``, with all its retries, took too long; it was cancelled then.

        By default it raises :class:`TimeoutError`, which fails the job. Not a coroutine: it cannot wait once more.
        """
        raise TimeoutError(f"async_invoke() gave no result for {value!r} in time.")


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """What is worth another attempt."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """Whether to try again after these results; None: never."""

    @abstractmethod
    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        """Whether to try again after this exception; None: never."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """When a call is tried again. One object serves all records of a subtask, so it remembers nothing of any of them.

    Attempts are counted from 1, the first call.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be one more after so many attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after so many attempts, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """What is worth another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """One attempt, whatever comes of it."""
        from flott.datastream.async_retry_strategies import NO_RETRY_STRATEGY  # it extends this class

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ) -> FixedDelayRetryStrategy[OUT]:
        """Up to ``max_attempts`` attempts after the first, always the same time apart."""
        from flott.datastream.async_retry_strategies import FixedDelayRetryStrategy  # it extends this class

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
        """Up to ``max_attempts`` attempts after the first, each delay a multiple of the one before, in milliseconds."""
        from flott.datastream import async_retry_strategies  # its classes extend this one

        return async_retry_strategies.ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )
