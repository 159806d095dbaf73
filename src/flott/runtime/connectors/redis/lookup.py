"""Looks up keys in Redis without blocking, with a cache. Task side, in the event loop of an async operator."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.errors import ConnectorError
from flott.runtime.clock import Clock, SystemClock


class ExpiringCache:
    """Keeps the entries used last, each for some time."""

    def __init__(self, entries: int, lifetime_ms: int, clock: Clock):
        self._entries = entries
        self._lifetime = lifetime_ms / 1000
        self._clock = clock
        self._content: OrderedDict[Any, tuple[float, Any]] = OrderedDict()

    def get(self, key: Any) -> tuple[Any] | None:
        """Return the value in a tuple of one, because None is a value; or None if there is no fresh one."""
        entry = self._content.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock.monotonic():
            del self._content[key]
            return None
        self._content.move_to_end(key)
        return (entry[1],)

    def put(self, key: Any, value: Any) -> None:
        """Keep a value; the one that was not used for the longest time makes room."""
        if self._entries:
            self._content[key] = (self._clock.monotonic() + self._lifetime, value)
            self._content.move_to_end(key)
            if len(self._content) > self._entries:
                self._content.popitem(last=False)


class RedisLookup:
    """Gets strings or hashes. Calls for a key that is being asked for already share one request."""

    def __init__(
        self,
        url: str,
        hashes: bool,
        as_bytes: bool,
        cache_entries: int,
        cache_ms: int,
        timeout_ms: int,
        clock: Clock | None = None,
    ):
        client = require("redis.asyncio", extra="redis")
        seconds = timeout_ms / 1000
        self._errors = require("redis.exceptions", extra="redis")
        self._client = client.Redis.from_url(
            url, socket_timeout=seconds, socket_connect_timeout=seconds, decode_responses=not as_bytes
        )
        self._address = without_secrets(url)
        self._ask = self._client.hgetall if hashes else self._client.get
        self._hashes = hashes
        self._timeout = seconds
        self._cache = ExpiringCache(cache_entries, cache_ms, clock or SystemClock())
        self._asked: dict[Any, asyncio.Task[Any]] = {}

    async def get(self, key: str | bytes) -> Any:
        """Return what is stored under the key, None if nothing is."""
        if (cached := self._cache.get(key)) is not None:
            return cached[0]
        request = self._asked.get(key)
        if request is None:
            request = self._asked[key] = asyncio.ensure_future(self._fetch(key))
            request.add_done_callback(lambda _: self._asked.pop(key, None))
        return await asyncio.shield(request)

    async def _fetch(self, key: str | bytes) -> Any:
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._ask(key)
        except (self._errors.RedisError, TimeoutError, OSError) as error:
            raise ConnectorError(
                f"Redis at {self._address} did not answer a lookup: {type(error).__name__}: {error}"
            ) from error
        if self._hashes and not found:
            found = None  # to Redis, an empty hash and no hash are the same
        self._cache.put(key, found)
        return found

    def close(self) -> None:
        """Close the connections; the operator awaits it."""
        self._closing = asyncio.ensure_future(self._client.aclose())
