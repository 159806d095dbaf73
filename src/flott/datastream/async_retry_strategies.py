"""Retry strategies of asynchronous functions: frozen values that all records share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flott.datastream.functions._async import AsyncRetryPredicate, AsyncRetryStrategy
from flott.errors import ProgramError

__all__ = ["RetryPredicate", "NoRetryStrategy", "FixedDelayRetryStrategy", "ExponentialBackoffDelayRetryStrategy"]

OUT = TypeVar("OUT")


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """The two conditions. None is a condition that is never true."""

    def __init__(
        self,
        result_predicate: Callable[[list[OUT]], bool] | None,
        exception_predicate: Callable[[Exception], bool] | None,
    ):
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        return self._result_predicate

    def exception_predicate(self) -> Callable[[Exception], bool] | None:
        return self._exception_predicate


@dataclass(frozen=True)
class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Makes a single attempt."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


@dataclass(frozen=True)
class FixedDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Makes up to ``max_attempts`` attempts after the first, with a fixed delay.

    >>> twice = FixedDelayRetryStrategy(2, 100, None, lambda error: isinstance(error, OSError))
    >>> [twice.can_retry(attempts) for attempts in (1, 2, 3)]
    [True, True, False]
    """

    max_attempts: int
    backoff_time_millis: int
    result_predicate: Callable[[list[OUT]], bool] | None
    exception_predicate: Callable[[Exception], bool] | None

    def __post_init__(self) -> None:
        _check_positive(self, "max_attempts", "backoff_time_millis")
        _check_predicates(self)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self.backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(self.result_predicate, self.exception_predicate)


@dataclass(frozen=True)
class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """Makes up to ``max_attempts`` attempts after the first. Each delay is a multiple of the one before.

    >>> patient = ExponentialBackoffDelayRetryStrategy(5, 100, 1000, 2.0, None, lambda error: True)
    >>> [patient.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 4, 5)]
    [100, 200, 400, 800, 1000]
    """

    max_attempts: int
    initial_delay: int
    max_retry_delay: int
    multiplier: float
    result_predicate: Callable[[list[OUT]], bool] | None
    exception_predicate: Callable[[Exception], bool] | None

    def __post_init__(self) -> None:
        _check_positive(self, "max_attempts", "initial_delay", "max_retry_delay", "multiplier")
        _check_predicates(self)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self.max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            return self.initial_delay
        try:
            delay = self.initial_delay * self.multiplier ** (current_attempts - 1)
        except OverflowError:
            return self.max_retry_delay
        return int(min(delay, self.max_retry_delay))

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(self.result_predicate, self.exception_predicate)


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()


def _check_positive(strategy: object, *names: str) -> None:
    for name in names:
        value = getattr(strategy, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ProgramError(f"{name} of {type(strategy).__name__} is greater than zero, found {value!r}.")


def _check_predicates(strategy: object) -> None:
    for name in ("result_predicate", "exception_predicate"):
        value = getattr(strategy, name)
        if value is not None and not callable(value):
            raise ProgramError(
                f"{name} of {type(strategy).__name__} is a callable that returns whether to try again, or None, found"
                f" {value!r}."
            )
