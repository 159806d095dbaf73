"""An event loop in a thread of its own: where the asynchronous function of a subtask lives. Task side."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")

#: How long tasks that were cancelled, or started at the very end, may take to finish.
GRACE_S = 3.0


class EventLoopThread:
    """Runs an event loop from its creation until ``end``; at the latest until this object is garbage."""

    def __init__(self, name: str):
        self.loop = asyncio.new_event_loop()
        ended = threading.Event()
        self._thread = threading.Thread(target=_turn, args=(self.loop, ended), name=name, daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _end, self.loop, ended)

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine in the loop, and wait for what it returns or raises."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout_s)

    def end(self, wait: bool = True) -> None:
        """Cancel what still runs, and wait for the thread to end."""
        self._end()
        if wait:
            self._thread.join(2 * GRACE_S)  # with a limit: a task may block it


async def finish_with_tasks(function: Callable[[], None]) -> None:
    """Call a function, and wait for the tasks that it starts."""
    before = asyncio.all_tasks()
    try:
        function()
    finally:
        if started := asyncio.all_tasks() - before:
            await asyncio.wait(started, timeout=GRACE_S)


async def cancel_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    """Cancel tasks and let them clean up."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=GRACE_S)


# The thread itself refers to the loop only: so the object above is collected when its operator is dropped unclosed.


def _turn(loop: asyncio.AbstractEventLoop, ended: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    try:
        while not ended.is_set():
            with suppress(SystemExit, KeyboardInterrupt):  # raised by a task: it ends the task, not all others
                loop.run_forever()
        loop.run_until_complete(_wind_up(loop))
    finally:
        loop.close()


async def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    await cancel_tasks(asyncio.all_tasks() - {asyncio.current_task()})
    await loop.shutdown_asyncgens()


def _end(loop: asyncio.AbstractEventLoop, ended: threading.Event) -> None:
    ended.set()
    with suppress(RuntimeError):  # it is closed already
        loop.call_soon_threadsafe(loop.stop)
