"""Waiting for an order's future on the event loop, without holding it up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from flott.rest.refusal import Refusal

T = TypeVar("T")


async def carried_out(order: Callable[[], Future[T]], timeout_s: float = 60.0) -> T:
    """What an order results in. It goes on if nobody waits for it any more."""
    try:
        return await outcome_of(await asyncio.to_thread(order), timeout_s)
    except TimeoutError:
        raise Refusal(504, f"The job has not answered within {timeout_s:g} s; the order stands.") from None


async def outcome_of(future: Future[T], timeout_s: float) -> T:
    """What a future comes to; raises ``TimeoutError`` if that takes too long, and leaves it to itself."""
    waited = asyncio.wrap_future(future)
    try:
        return await asyncio.wait_for(asyncio.shield(waited), timeout_s)
    except TimeoutError:
        waited.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # seen, so not logged as lost
        raise
    except asyncio.CancelledError:
        if future.cancelled():  # not who waits was cancelled, but what was waited for: nobody is left to do it
            raise Refusal(503, "The JobManager is ending: the order was not carried out.") from None
        raise
