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
    future = asyncio.wrap_future(await asyncio.to_thread(order))
    try:
        return await asyncio.wait_for(asyncio.shield(future), timeout_s)
    except TimeoutError:
        future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # seen, so not logged as lost
        raise Refusal(504, f"The job has not answered within {timeout_s:g} s; the order stands.") from None
