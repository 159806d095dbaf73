"""An asynchronous function that looks records up in Redis, for ``AsyncDataStream``. The client is made in the task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flott.common._secrets import without_secrets
from flott.datastream.functions._async import AsyncFunction
from flott.datastream.functions._context import RuntimeContext
from flott.errors import ProgramError

Found = str | bytes | dict[str, str] | dict[bytes, bytes] | None


class RedisLookupFunction(AsyncFunction[Any, Any]):
    """Joins each record with what Redis has under a key: a string, or a hash as a dict; None if there is nothing.

    >>> from flott.common.time import Time
    >>> from flott.datastream import StreamExecutionEnvironment
    >>> from flott.datastream.async_data_stream import AsyncDataStream
    >>> lookup = RedisLookupFunction("redis://localhost:6379", key=lambda order: f"user:{order['user']}", hashes=True)
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> orders = env.from_collection([{"user": 7}])
    >>> joined = AsyncDataStream.ordered_wait(orders, lookup, Time.seconds(5), capacity=100)

    Without ``join``, the result is the pair of the record and what was found. Answers may be cached for ``cache_ms``
    milliseconds, also the answer that there is nothing; a cached answer may be out of date by that time. The cache
    is not part of checkpoints.
    """

    def __init__(
        self,
        url: str,
        key: Callable[[Any], str | bytes],
        *,
        hashes: bool = False,
        join: Callable[[Any, Any], Any] | None = None,
        as_bytes: bool = False,
        cache_entries: int = 0,
        cache_ms: int = 60_000,
        timeout_ms: int = 5_000,
    ):
        if not url.startswith(("redis://", "rediss://", "unix://")):
            raise ProgramError(
                f"The URL of Redis begins with redis://, rediss:// or unix://, found {without_secrets(url)!r}."
            )
        if cache_entries < 0 or cache_ms < 0 or timeout_ms < 1:
            raise ProgramError(
                f"Found cache_entries={cache_entries}, cache_ms={cache_ms}, timeout_ms={timeout_ms}: the first two are"
                " at least 0, a time-out at least 1."
            )
        self._url, self._key, self._join = url, key, join
        self._hashes, self._as_bytes = hashes, as_bytes
        self._cache_entries, self._cache_ms, self._timeout_ms = cache_entries, cache_ms, timeout_ms
        self._lookup: Any = None

    def __repr__(self) -> str:
        return f"RedisLookupFunction({without_secrets(self._url)!r})"

    def open(self, runtime_context: RuntimeContext) -> None:
        from flott.runtime.connectors.redis.lookup import RedisLookup

        self._lookup = RedisLookup(
            self._url, self._hashes, self._as_bytes, self._cache_entries, self._cache_ms, self._timeout_ms
        )

    def close(self) -> None:
        if self._lookup is not None:
            self._lookup.close()
            self._lookup = None

    async def async_invoke(self, value: Any) -> Iterable[Any]:
        found = await self._lookup.get(self._key(value))
        return [(value, found) if self._join is None else self._join(value, found)]
