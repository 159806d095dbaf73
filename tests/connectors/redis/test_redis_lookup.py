"""Looking up in Redis: strings, hashes, the cache, time-outs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from flott.common.time import Time
from flott.datastream.async_data_stream import AsyncDataStream
from flott.datastream.connectors.redis import RedisLookupFunction
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.redis.lookup import ExpiringCache, RedisLookup
from flott.testing.harness import in_process
from tests.servers.redis import RedisServer


class _Hand:
    """A clock whose time the test sets."""

    now = 0.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def wait(self, stop: threading.Event, delay_ms: int) -> bool:
        self.now += delay_ms / 1000
        return False


def test_the_cache_forgets_what_is_old_and_what_was_not_used_for_longest():
    clock = _Hand()
    cache = ExpiringCache(2, 1000, clock)
    cache.put("a", None)
    cache.put("b", 2)
    assert cache.get("a") == (None,)
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ((None,), None, (3,))
    clock.now = 1.0
    assert (cache.get("a"), cache.get("c")) == (None, None)


def test_an_address_that_is_no_redis_url_is_refused_without_showing_its_password():
    with pytest.raises(ProgramError, match="begins with redis://") as refused:
        RedisLookupFunction("http://user:hidden@host", key=str)
    assert "hidden" not in str(refused.value)


@pytest.mark.connectors
def test_a_job_joins_records_with_strings_and_hashes(redis: RedisServer):
    redis.client.set("price:tea", "3")
    redis.client.hset("user:7", mapping={"name": "Ada"})
    env = in_process(1)
    prices = RedisLookupFunction(redis.url, key=lambda name: f"price:{name}", join=lambda name, price: (name, price))
    users = RedisLookupFunction(redis.url, key=lambda pair: "user:7", hashes=True, cache_entries=10)
    joined = AsyncDataStream.ordered_wait(env.from_collection(["tea", "jam"]), prices, Time.seconds(60))
    twice = AsyncDataStream.ordered_wait(joined, users, Time.seconds(60))
    with twice.execute_and_collect() as results:
        assert list(results) == [(("tea", "3"), {"name": "Ada"}), (("jam", None), {"name": "Ada"})]


@pytest.mark.connectors
def test_calls_for_one_key_share_a_request_and_the_cache_saves_the_next(redis: RedisServer):
    redis.client.set("k", "v")

    async def ask() -> list[Any]:
        lookup = RedisLookup(redis.url, False, True, 10, 60_000, 5000)
        found = await asyncio.gather(*[lookup.get("k") for _ in range(20)])
        found.append(await lookup.get("k"))
        lookup.close()
        await lookup._closing
        return found

    redis.client.config_resetstat()
    assert asyncio.run(ask()) == [b"v"] * 21
    assert redis.client.info("commandstats")["cmdstat_get"]["calls"] == 1


@pytest.mark.connectors
def test_a_stalled_server_is_an_error_after_the_time_out(redis: RedisServer):
    async def ask() -> None:
        lookup = RedisLookup(redis.url, False, True, 0, 0, 200)
        await lookup.get("k")

    redis.process.pause()
    try:
        with pytest.raises(ConnectorError, match="did not answer a lookup"):
            asyncio.run(ask())
    finally:
        redis.process.resume()
