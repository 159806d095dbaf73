"""The Redis sink keeps the promises of every sink, with its two guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from flott.datastream.connectors.base import DeliveryGuarantee, Sink
from flott.datastream.connectors.redis import RedisCommand, RedisSink
from flott.testing.connectors import SinkConformance
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.connectors

_lists = count()


class TestRedisSink(SinkConformance):
    secrets = ("hidden-password",)
    delivery_guarantee = DeliveryGuarantee.EXACTLY_ONCE

    @pytest.fixture(autouse=True)
    def _server(self, redis: RedisServer) -> None:
        self.redis = redis

    def sink(self) -> Sink[Any]:
        self.list = name = f"list-{next(_lists)}"
        url = self.redis.url.replace("redis://", "redis://default:hidden-password@")
        self.redis.client.execute_command("ACL", "SETUSER", "default", "on", ">hidden-password", "nopass")
        return RedisSink(
            url,
            lambda value: RedisCommand.rpush(name, value),
            delivery_guarantee=self.delivery_guarantee,
            commands_per_request=5,
        )

    def visible(self) -> Sequence[Any]:
        return [value.decode() for value in self.redis.client.lrange(self.list, 0, -1)]


class TestRedisSinkAtLeastOnce(TestRedisSink):
    delivery_guarantee = DeliveryGuarantee.AT_LEAST_ONCE
