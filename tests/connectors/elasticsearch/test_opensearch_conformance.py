"""The sink of documents keeps the promises of every sink, with ids of the records and with ids of its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from flott.datastream.connectors.base import Sink
from flott.datastream.connectors.elasticsearch import ElasticsearchEmitter, ElasticsearchSink
from flott.testing.connectors import SinkConformance
from tests.servers.opensearch import OpenSearchServer

pytestmark = pytest.mark.connectors

_indices = count()


class TestDocumentsByKey(SinkConformance):
    secrets = ("hidden-password",)
    seeds = 2
    key_field: str | None = "id"

    @pytest.fixture(autouse=True)
    def _server(self, opensearch: OpenSearchServer) -> None:
        self.opensearch = opensearch

    def sink(self) -> Sink[Any]:
        self.index = f"conformance-{next(_indices)}"
        mapping = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": {"id": {"type": "integer"}}}}
        self.opensearch.request("PUT", f"/{self.index}", mapping)
        emitter = ElasticsearchEmitter.static_index(self.index, self.key_field)
        return ElasticsearchSink(
            (f"http://{self.opensearch.address}",), emitter, username="ada", password="hidden-password"
        )

    def visible(self) -> Sequence[Any]:
        return list(self.opensearch.documents(self.index).values())

    def record(self, number: int) -> Any:
        return {"id": number, "name": f"record {number}"}


class TestDocumentsWithoutKey(TestDocumentsByKey):
    key_field = None
    seeds = 1
