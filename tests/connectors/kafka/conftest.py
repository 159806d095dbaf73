"""A real broker for the tests of this folder, one for all test processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.servers.kafka import KafkaServer, shared_kafka
from tests.servers.process import NoServer


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaServer]:
    """The broker that tests share: they use topics of their own and do not stop it."""
    pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")
    try:
        with shared_kafka() as running:
            yield running
    except NoServer as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def cold_consumers() -> Iterator[None]:
    """Consumers that are kept fetch ahead; a test must not find what another has fetched."""
    yield
    if "confluent_kafka" in sys.modules:
        from flott.runtime.connectors.kafka.partition_consumer import POOL

        POOL.close()
