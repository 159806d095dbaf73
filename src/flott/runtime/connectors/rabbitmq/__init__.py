"""RabbitMQ through pika: what the specifications in ``flott.datastream.connectors.rabbitmq`` create."""

from __future__ import annotations

from flott.datastream.connectors.base import Committer, SinkWriter, SplitEnumerator, WriterContext
from flott.datastream.connectors.rabbitmq import RMQSink, RMQSource
from flott.runtime.connectors.queues.enumerator import QueueEnumerator
from flott.runtime.connectors.queues.publishing import PublisherSource, PublishingWriter, StagedCommitter, StagedWriter
from flott.runtime.connectors.rabbitmq.confirming import RabbitPublisher
from flott.runtime.connectors.rabbitmq.connection import ensure_queue
from flott.runtime.connectors.rabbitmq.consuming import RabbitClient


def create_enumerator(source: RMQSource) -> SplitEnumerator:
    """Return the enumerator of a source."""
    config = source.connection_config
    return QueueEnumerator(
        f"RabbitMQ queue {source.queue_name}",
        lambda: RabbitClient(config, source.queue_name, source.use_correlation_id),
        prefetch=config.prefetch_count,
    )


def check_sink(sink: RMQSink) -> None:
    """Connect once and declare the queue, so that a wrong password is found before anything runs."""
    ensure_queue(sink.connection_config, sink.queue_name, sink.exchange)


def create_writer(sink: RMQSink, context: WriterContext) -> SinkWriter[object]:
    """Return the writer of a sink."""
    if sink.after_checkpoint:
        return StagedWriter(_label(sink), context, sink.serialization_schema)
    return PublishingWriter(context, sink.serialization_schema, _publishers(sink))


def create_committer(sink: RMQSink) -> Committer | None:
    """Return the committer of a sink that publishes after the checkpoint."""
    return StagedCommitter(_label(sink), _publishers(sink)) if sink.after_checkpoint else None


def _publishers(sink: RMQSink) -> PublisherSource:
    config, exchange, key = sink.connection_config, sink.exchange, sink.queue_name
    return PublisherSource(("rabbitmq", config, exchange, key), lambda: RabbitPublisher(config, exchange, key))


def _label(sink: RMQSink) -> str:
    return f"RabbitMQ queue {sink.queue_name}"
