"""A result that is not there yet, with PyFlink's methods, over ``concurrent.futures.Future``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """Waits for a result that somebody else sets, once.

    >>> CompletableFuture.completed(3).result()
    3
    """

    def __init__(self, future: Future[T] | None = None):
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """One that has its result already."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_result(value)
        return future

    @staticmethod
    def failed(exception: BaseException) -> CompletableFuture[T]:
        """One that has failed already."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_exception(exception)
        return future

    def set_result(self, value: T) -> None:
        """Completes it; raises ``concurrent.futures.InvalidStateError`` if somebody was faster."""
        self._future.set_result(value)

    def set_exception(self, exception: BaseException) -> None:
        """Completes it with a failure, as ``set_result`` does with a value."""
        self._future.set_exception(exception)

    def cancel(self) -> bool:
        """Gives up waiting; whether it is cancelled now. The job itself goes on: ``JobClient.cancel`` ends it."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether there is a result, a failure or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Waits and returns the result, or raises the failure; ``timeout`` is in seconds."""
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """The failure if there is one by now. Does not wait."""
        if not self._future.done() or self._future.cancelled():
            return None
        return self._future.exception()

    def when_done(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Calls back when it is done, at once if it is: from whichever thread completes it. Not in PyFlink."""
        self._future.add_done_callback(lambda _: callback(self))

    def __str__(self) -> str:
        if self.cancelled():
            return "CompletableFuture[cancelled]"
        if not self.done():
            return "CompletableFuture[not completed]"
        failure = self.exception()
        return f"CompletableFuture[failed: {failure!r}]" if failure else "CompletableFuture[completed normally]"
