"""The sink of ``flott.datastream.connectors.elasticsearch`` under the names of Flink's OpenSearch connector.

PyFlink has no such module; Flink's Java API has the builder under this name. Both servers understand the same requests.
"""

from __future__ import annotations

from flott.datastream.connectors.elasticsearch import (
    DocumentAction,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    ElasticsearchSink,
    FlushBackoffType,
)

__all__ = ["DocumentAction", "FlushBackoffType", "OpensearchEmitter", "OpensearchSink", "OpensearchSinkBuilder"]

OpensearchEmitter = ElasticsearchEmitter
OpensearchSink = ElasticsearchSink


class OpensearchSinkBuilder(Elasticsearch7SinkBuilder):
    """Builds a sink for OpenSearch."""
