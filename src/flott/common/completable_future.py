"""A future with PyFlink's methods, over ``concurrent.futures.Future``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """Waits for a result that is set once, by another thread.

    >>> CompletableFuture.completed(3).result()
    3
    """

    def __init__(self, future: Future[T] | None = None):
        self._future: Future[T] = Future() if future is None else future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """Return a future that already has its result."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_result(value)
        return future

    @staticmethod
    def failed(exception: BaseException) -> CompletableFuture[T]:
        """Return a future that has already failed."""
        future: CompletableFuture[T] = CompletableFuture()
        future.set_exception(exception)
        return future

    def set_result(self, value: T) -> None:
        """Set the result. Raise ``concurrent.futures.InvalidStateError`` if it is already complete."""
        self._future.set_result(value)

    def set_exception(self, exception: BaseException) -> None:
        """Set a failure, as ``set_result`` sets a value."""
        self._future.set_exception(exception)

    def cancel(self) -> bool:
        """Stop waiting, and return whether the future is cancelled. The job continues: ``JobClient.cancel`` ends it."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Return whether there is a result, a failure or a cancellation."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the failure. ``timeout`` is in seconds."""
        return self._future.result(timeout)

    def exception(self) -> BaseException | None:
        """Return the failure if there is one. Do not wait."""
        if not self._future.done() or self._future.cancelled():
            return None
        return self._future.exception()

    def when_done(self, callback: Callable[[CompletableFuture[T]], object]) -> None:
        """Call back when the future completes, or at once if it is complete, in the thread that completes it.

        Not in PyFlink.
        """
        self._future.add_done_callback(lambda _: callback(self))

    def __str__(self) -> str:
        if self.cancelled():
            return "CompletableFuture[cancelled]"
        if not self.done():
            return "CompletableFuture[not completed]"
        failure = self.exception()
        return f"CompletableFuture[failed: {failure!r}]" if failure else "CompletableFuture[completed normally]"
