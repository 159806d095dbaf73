"""Avro messages of a real schema registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flott.datastream.formats.schema_registry import SchemaRegistry
from tests.connectors.formats.registry_promises import FIRST, RegistryPromises, reader_of, writer_of
from tests.servers.process import NoServer
from tests.servers.schema_registry import schema_registry
from tests.servers.sharing import shared

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    try:
        with shared("schema-registry", schema_registry) as facts:
            yield facts["url"]
    except NoServer as reason:
        pytest.skip(str(reason))


class TestApicurio(RegistryPromises):
    @pytest.fixture
    def registry(self, url: str) -> SchemaRegistry:
        return SchemaRegistry(url)


def test_confluents_own_serializer_writes_the_same_bytes(url: str):
    pytest.importorskip("authlib")
    registry = pytest.importorskip("confluent_kafka.schema_registry")
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    client = registry.SchemaRegistryClient({"url": url})
    context = serialization.SerializationContext("compared", serialization.MessageField.VALUE)
    theirs = avro.AvroSerializer(client, str(FIRST))({"id": 7}, context)
    assert writer_of("compared-value", FIRST, url).serialize({"id": 7}) == theirs
    assert reader_of.for_generic(FIRST, url).deserialize(theirs) == {"id": 7}
