from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.process import NoServer
from tests.servers.redis import RedisServer, redis_server


@pytest.fixture(scope="module")
def one_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for the tests of a module."""
    try:
        with redis_server(tmp_path_factory.mktemp("redis")) as server:
            yield server
    except NoServer as error:
        pytest.skip(str(error))


@pytest.fixture
def redis(one_redis: RedisServer) -> RedisServer:
    """The server, empty and with its usual settings."""
    one_redis.client.flushall()
    one_redis.client.config_set("maxmemory", "0")
    return one_redis
