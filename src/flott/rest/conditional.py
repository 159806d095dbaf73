"""Answers that many open pages ask for again and again: built at most once a second, and sent only if they changed.

    page ── GET, If-None-Match: "a1" ──► still younger than a second? ── no ──► build, encode, hash
         ◄── 304, or 200 and ETag ────── the same hash?               ◄────────┘

So the work does not grow with the number of pages: a page that sees nothing new costs a comparison of two texts.
``X-Flott-Now`` is the JobManager's clock. Answers contain no ages, which would change all the time; a page computes
them.

Answers in Flink's form are shared only among pages of the web UI, which say who asks: a script that has given an order
and asks what became of it gets an answer of this moment.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from flott.runtime.clock import Clock

#: An answer is built again when it is older than this.
FRESH_SECONDS = 1.0
#: How many answers are kept; those that were not asked for longest make room.
MAX_KEPT = 256
NOW_HEADER = "X-Flott-Now"
#: The web UI sends this with every request.
PAGE_HEADER = ("x-requested-with", "flott-web")


def is_page(headers: Headers) -> bool:
    """Return whether a page of the web UI asks."""
    name, value = PAGE_HEADER
    return headers.get(name) == value


@dataclass(frozen=True)
class _BuiltReply:
    built: float  #: seconds of the monotonic clock
    body: bytes
    tag: str


class LiveReplies:
    """The latest answers, by what was asked. Used by the event loop only."""

    def __init__(self, clock: Clock, encode: Callable[[Any], bytes]):
        self._clock = clock
        self._encode = encode
        self._kept: OrderedDict[Hashable, _BuiltReply] = OrderedDict()
        self._building: dict[Hashable, asyncio.Task[Any]] = {}
        self.built = 0  #: how many answers were built, for tests

    def reply(
        self, key: Hashable, headers: Headers, build: Callable[[], Any], *, fresh_seconds: float = FRESH_SECONDS
    ) -> Response:
        """Return the answer to a question, or 304 if the client has it. ``build`` makes it if it is not fresh."""
        kept = self._fresh(key, build, fresh_seconds)
        shown = {"ETag": kept.tag, "Cache-Control": "no-cache", NOW_HEADER: str(self._clock.now_ms())}
        if kept.tag in [tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=shown)
        return Response(kept.body, headers={**shown, "Content-Type": "application/json; charset=UTF-8"})

    async def reply_later(
        self, key: Hashable, headers: Headers, build: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Response:
        """Return the same for an answer that has to be waited for. All that ask meanwhile wait for one."""
        kept = self._kept.get(key)
        if kept is not None and self._clock.monotonic() - kept.built < FRESH_SECONDS:
            return self.reply(key, headers, _unneeded)
        building = self._building.get(key)
        if building is None:
            building = self._building[key] = asyncio.ensure_future(build())
            building.add_done_callback(lambda ended: self._ended(key, ended))
        answer = await asyncio.shield(building)
        return self.reply(key, headers, lambda: answer)

    def _ended(self, key: Hashable, building: asyncio.Task[Any]) -> None:
        del self._building[key]
        if not building.cancelled():
            building.exception()  # retrieved, so that asyncio does not log it if none waits any more

    def _fresh(self, key: Hashable, build: Callable[[], Any], fresh_seconds: float) -> _BuiltReply:
        now = self._clock.monotonic()
        kept = self._kept.get(key)
        if kept is None or now - kept.built >= fresh_seconds:
            body = self._encode(build())
            kept = _BuiltReply(now, body, f'"{blake2b(body, digest_size=12).hexdigest()}"')
            self.built += 1
            self._kept[key] = kept
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept


def _unneeded() -> Any:
    raise AssertionError("an answer that is kept is not built")
