"""Sends to Pulsar and waits for its acknowledgements. Task side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

from flott.datastream.connectors._queues import QueueMessage
from flott.datastream.connectors.base import SinkWriter, WriterContext
from flott.datastream.connectors.pulsar import PulsarSink
from flott.errors import ConnectorError
from flott.runtime.connectors.pulsar.connection import client, explained, library
from flott.runtime.connectors.queues.publishing import Publisher, PublisherSource, PublishingWriter

#: The broker is given up if it acknowledges nothing for so long.
SEND_SECONDS = 30


class PulsarPublisher(Publisher):
    """A producer of one topic. It batches by itself."""

    def __init__(self, sink: PulsarSink):
        self._sink = sink
        self._lock = threading.Lock()
        self._refused: str | None = None
        pulsar = library()
        modes = pulsar.PartitionsRoutingMode
        self._delay: dict[str, Any] = {"deliver_after": timedelta(milliseconds=sink.delay_ms)} if sink.delay_ms else {}
        with explained(sink.service_url, sink.properties, f"producing to {sink.topics[0]}"):
            self._producer = client(sink.service_url, sink.properties).create_producer(
                sink.topics[0],
                producer_name=None if sink.producer_name is None else f"{sink.producer_name}-{uuid4().hex[:12]}",
                block_if_queue_full=True,
                batching_enabled=True,
                batching_max_publish_delay_ms=5,
                send_timeout_millis=SEND_SECONDS * 1000,
                message_routing_mode=modes.RoundRobinDistribution,
            )

    def _on_sent(self, result: Any, message_id: Any) -> None:
        if result != library().Result.Ok:
            with self._lock:
                self._refused = self._refused or str(result)

    def publish(self, messages: Sequence[QueueMessage]) -> None:
        sink = self._sink
        with explained(sink.service_url, sink.properties, f"sending to {sink.topics[0]}"):
            for message in messages:
                headers = dict(message.headers) if message.headers else None
                self._producer.send_async(
                    message.value, self._on_sent, properties=headers, partition_key=message.topic, **self._delay
                )

    def flush(self) -> None:
        with explained(self._sink.service_url, self._sink.properties, f"sending to {self._sink.topics[0]}"):
            self._producer.flush()
        if self._refused is not None:
            raise ConnectorError(f"Pulsar refused messages for {self._sink.topics[0]}: {self._refused}.")

    def close(self) -> None:
        self._producer.close()


def check_sink(sink: PulsarSink) -> None:
    """Make a producer once, so that a wrong token is found before anything runs."""
    PulsarPublisher(sink).close()


def create_writer(sink: PulsarSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of a sink."""
    assert sink.serialization_schema is not None
    key = ("pulsar", sink.service_url, sink.topics, sink.producer_name, sink.delay_ms, sink.properties)
    return PublishingWriter(context, sink.serialization_schema, PublisherSource(key, lambda: PulsarPublisher(sink)))
