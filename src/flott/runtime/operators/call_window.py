"""Calls of a coroutine function, of which some are at work at once: started, timed out, finished in order. Task side.

The task's thread and the loop's thread meet once per batch, not once per record. Everything of a window that is not
about this meeting happens in the loop's thread, so nothing in it needs a lock.
"""

from __future__ import annotations

import asyncio
import reprlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from flott.common.types import Row
from flott.errors import WorkerLostError
from flott.graph.specs import AsyncSpec
from flott.runtime.operators.batch import RowBatch
from flott.runtime.operators.event_loop import cancel_tasks
from flott.runtime.operators.operator import OperatorContext

#: From a record to what its results will be.
Invoke = Callable[[Any], Awaitable[Iterable[Any]]]

_NEVER = 1 << 62

#: Iterable, but hardly meant as a collection of results.
_RECORDS = (str, bytes, bytearray, Mapping, Row)


class SentBatch:
    """A batch whose records were handed to the window."""

    __slots__ = ("number", "origin", "timestamps", "values")

    def __init__(self, number: int, batch: RowBatch, origin: tuple[str, str] | None):
        self.number = number  #: of the first record, counted from the beginning
        self.values = batch.values
        self.timestamps = batch.timestamps
        self.origin = origin


class Call:
    """A record on its way: waiting for its turn, at work, or with its results."""

    __slots__ = ("batch", "deadline", "index", "results", "task")

    task: asyncio.Task[None]
    deadline: float

    def __init__(self, batch: SentBatch, index: int):
        self.batch = batch
        self.index = index  #: in the batch
        self.results: list[Any] | None = None  #: once they are there, nothing that happens to the call counts any more

    @property
    def value(self) -> Any:
        return self.batch.values[self.index]

    @property
    def timestamp(self) -> int | None:
        return None if self.batch.timestamps is None else self.batch.timestamps[self.index]


class CallWindow:
    """The calls of one subtask, of which up to ``capacity`` are at work at once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        spec: AsyncSpec,
        invoke: Invoke,
        on_timeout: Callable[[Any], Iterable[Any]],
        context: OperatorContext | None = None,
    ):
        self.context = context  #: where the calls belong to: for a debugger that finds one on the call stack
        self._loop = loop
        self._invoke = invoke
        self._on_timeout = on_timeout
        self._capacity = spec.capacity
        self._timeout_s = spec.timeout_ms / 1000
        self._waiting: deque[Call] = deque()
        self._open = 0  #: calls that were started and not released
        self._running: dict[Call, None] = {}  #: in the order of their deadlines, since all have the same time
        self._in_order: deque[Call] | None = deque() if spec.ordered else None
        self._alarm: asyncio.TimerHandle | None = None
        # What the task's thread looks at:
        self.finished: deque[Call] = deque()  #: in the order of emission; taken out by the task
        self.released = 0  #: how many have ever been put there
        self.failed: tuple[Call, BaseException] | None = None  #: the first call that went wrong: all others are void
        self._goal = _NEVER
        self._interrupted = False
        self._news = threading.Event()

    # --- in the task's thread ----------------------------------------------------------------------------------------

    def hand_over(self, calls: list[Call]) -> None:
        """Let calls begin as soon as there is room."""
        self._loop.call_soon_threadsafe(self._take, calls)

    def wait_for(self, released: int) -> None:
        """Wait until so many calls were released, counted from the beginning; or one failed."""
        self._goal = released
        while self.released < released and self.failed is None and not self._interrupted:
            self._news.wait()
            self._news.clear()
        self._goal = _NEVER
        if self._interrupted:
            raise WorkerLostError("The epoch was cancelled.")

    def interrupt(self) -> None:
        """End all waiting, now and later. Called from any thread."""
        self._interrupted = True
        self._news.set()

    # --- in the loop's thread ----------------------------------------------------------------------------------------

    async def give_up(self) -> None:
        """Cancel all calls, and let them clean up."""
        await cancel_tasks(self._abandon())

    def _take(self, calls: list[Call]) -> None:
        if self.failed is None:
            self._waiting.extend(calls)
            self._fill()

    def _fill(self) -> None:
        waiting, in_order, timeout = self._waiting, self._in_order, self._timeout_s
        while waiting and self._open < self._capacity:
            call = waiting.popleft()
            self._open += 1
            if in_order is not None:
                in_order.append(call)
            if timeout:
                call.deadline = self._loop.time() + timeout
                if self._alarm is None:
                    self._alarm = self._loop.call_at(call.deadline, self._expire)
            self._running[call] = None
            call.task = self._loop.create_task(self._work_on(call))

    async def _work_on(self, call: Call) -> None:
        try:
            results = await self._invoke(call.value)
            if results.__class__ is not list:
                results = listed(results)
        except BaseException as error:  # also CancelledError: what the function waits for may have been cancelled
            self._fail(call, error)
        else:
            self._settle(call, results)

    def _settle(self, call: Call, results: list[Any]) -> None:
        if call.results is not None:
            return  # it came too late
        call.results = results
        del self._running[call]
        in_order = self._in_order
        if in_order is None:
            self._release(call)
        else:
            while in_order and in_order[0].results is not None:
                self._release(in_order.popleft())
        if self.released >= self._goal:
            self._news.set()
        if self._waiting:
            self._fill()

    def _release(self, call: Call) -> None:
        self.finished.append(call)
        self.released += 1
        self._open -= 1

    def _expire(self) -> None:
        """End the calls that have reached their deadline."""
        self._alarm = None
        now = self._loop.time()
        overdue = []
        for call in self._running:
            if call.deadline > now:
                self._alarm = self._loop.call_at(call.deadline, self._expire)
                break
            overdue.append(call)
        for call in overdue:
            call.task.cancel()
            try:
                results = listed(self._on_timeout(call.value))
            except BaseException as error:
                self._fail(call, error)
                return
            self._settle(call, results)

    def _fail(self, call: Call, error: BaseException) -> None:
        if call.results is not None:
            return
        if self.failed is None:
            self.failed = call, error
        call.results = []  # what its task still says, when it is cancelled, comes too late
        self._running.pop(call)
        for task in self._abandon():
            task.cancel()
        self._news.set()

    def _abandon(self) -> set[asyncio.Task[Any]]:
        """Forget all calls, and return the tasks that are left to cancel."""
        tasks: set[asyncio.Task[Any]] = set()
        for call in self._running:
            call.results = []
            tasks.add(call.task)
        self._running.clear()
        self._waiting.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        return tasks


def listed(results: Iterable[Any]) -> list[Any]:
    """Return the results of an asynchronous function as a list; refuse what looks like one result and not like a list.

    >>> listed((1, 2))
    [1, 2]
    >>> listed("ab")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    TypeError: An asynchronous function returned 'ab' of type str, expected a list of results: return [it] for one ...
    """
    is_record = isinstance(results, _RECORDS) or (isinstance(results, tuple) and results.__class__ is not tuple)
    if is_record or not isinstance(results, Iterable):
        found = f"{reprlib.repr(results)} of type {type(results).__name__}"
        raise TypeError(
            f"An asynchronous function returned {found}, expected a list of results: return [it] for one result, [] for"
            " none. As in PyFlink, the result of an AsyncFunction must be data of list type: check its methods"
            " 'async_invoke' and 'timeout'."
        )
    return list(results)
