"""Work beside the epochs: in a thread of its own, or in the caller's where a run must be repeatable. Driver side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Protocol, TypeVar

T = TypeVar("T")


class SideWork(Protocol):
    """Starts work without waiting for it."""

    def start(self, work: Callable[[], T], name: str) -> Future[T]:
        """Begin some work. What it raises is in the future."""

    def wait(self, future: Future[T]) -> None:
        """Wait until work that was started has ended, whether it succeeded or failed."""


class Threaded:
    """Each work in a thread of its own, which does not keep the process from ending."""

    def start(self, work: Callable[[], T], name: str) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, name=name, daemon=True).start()
        return future

    def wait(self, future: Future[T]) -> None:
        wait([future])


class Inline:
    """At once, in the caller's thread."""

    def start(self, work: Callable[[], T], name: str) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
        return future

    def wait(self, future: Future[T]) -> None:
        """Return at once: the work has ended."""
