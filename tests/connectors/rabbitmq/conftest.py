"""A real broker for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flott.datastream.connectors.rabbitmq import RMQConnectionConfig
from tests.servers.process import NoServer
from tests.servers.rabbitmq import serve
from tests.servers.sharing import shared


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RMQConnectionConfig]:
    """How to reach the broker that tests share: they use queues of their own and do not stop it."""
    pytest.importorskip("pika", reason="no client: pip install 'flott[rabbitmq]'")
    try:
        with shared("rabbitmq", serve) as facts:
            yield RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(facts["port"]).build()
    except NoServer as reason:
        pytest.skip(str(reason))
