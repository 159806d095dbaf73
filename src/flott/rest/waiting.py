"""Wait for the future of an order without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from flott.rest.refusal import Refusal

T = TypeVar("T")


async def carried_out(order: Callable[[], Future[T]], timeout_s: float = 60.0) -> T:
    """Return the result of an order. The order continues if the wait ends early."""
    try:
        return await outcome_of(await asyncio.to_thread(order), timeout_s)
    except TimeoutError:
        raise Refusal(504, f"The job has not answered within {timeout_s:g} s; the order stands.") from None


async def outcome_of(future: Future[T], timeout_s: float) -> T:
    """Return the result of a future. Raise ``TimeoutError`` after the timeout; the future continues."""
    waited = asyncio.wrap_future(future)
    try:
        return await asyncio.wait_for(asyncio.shield(waited), timeout_s)
    except TimeoutError:
        # retrieves the exception, so that asyncio does not log it
        waited.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        raise
    except asyncio.CancelledError:
        if future.cancelled():  # the order was cancelled, not the request that waits for it
            raise Refusal(503, "The JobManager is ending: the order was not carried out.") from None
        raise
