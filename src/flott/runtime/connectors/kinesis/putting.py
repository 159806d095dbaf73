"""Puts records into streams of Kinesis and Firehose. Task side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from flott.datastream.connectors._queues import QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import SinkWriter, WriterContext
from flott.datastream.connectors.kinesis import KinesisFirehoseSink, KinesisStreamsSink
from flott.errors import ConnectorError
from flott.runtime.connectors import aws
from flott.runtime.connectors.queues.publishing import Publisher, PublisherSource, PublishingWriter

Put = Callable[[Sequence[QueueMessage]], list[tuple[QueueMessage, str]]]


class BatchPublisher(Publisher):
    """Puts records in batches, each of which is answered before the next. What was refused is put again."""

    def __init__(self, sink: KinesisStreamsSink | KinesisFirehoseSink, put: Put, doing: str):
        self._sink = sink
        self._put = put
        self._doing = doing

    def publish(self, messages: Sequence[QueueMessage]) -> None:
        for batch in self._batches(messages):
            with aws.explained(self._doing, self._sink.properties):
                if self._sink.fail_on_error and (refused := self._put(batch)):
                    raise ConnectorError(
                        f"{self._doing}: {len(refused)} of {len(batch)} records were refused: {refused[0][1]}."
                    )
                if not self._sink.fail_on_error:
                    aws.send_all(batch, self._put, self._doing)

    def _batches(self, messages: Sequence[QueueMessage]) -> Iterator[Sequence[QueueMessage]]:
        batch: list[QueueMessage] = []
        total = 0
        for message in messages:
            size = len(message.value) + len(message.topic or "")
            if size > self._sink.max_record_size_in_bytes:
                raise ConnectorError(
                    f"{self._doing}: a record has {size} bytes, but {self._sink.max_record_size_in_bytes} are allowed"
                    " (set_max_record_size_in_bytes)."
                )
            if len(batch) >= self._sink.max_batch_size or total + size > self._sink.max_batch_size_in_bytes:
                yield batch
                batch, total = [], 0
            batch.append(message)
            total += size
        if batch:
            yield batch

    def flush(self) -> None:
        """Do nothing: each request is answered before the next."""

    def close(self) -> None:
        """Do nothing: clients are shared."""


class _Keyed(QueueSerializationSchema):
    """Adds partition keys, as topics."""

    def __init__(self, sink: KinesisStreamsSink, subtask: int):
        assert sink.serialization_schema is not None
        self._serialize = sink.serialization_schema.serialize
        generator = sink.partition_key_generator
        match generator.kind:
            case "fixed":
                self._key: Callable[[Any], str] = lambda element: str(subtask)
            case "random":
                self._key = lambda element: uuid4().hex
            case _:
                assert generator.function is not None
                self._key = generator.function

    def serialize_message(self, element: Any) -> QueueMessage:
        return QueueMessage(self._serialize(element), topic=self._key(element))


def create_writer(sink: KinesisStreamsSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of a stream."""
    key = ("kinesis", sink.name, sink.properties, sink.max_batch_size, sink.fail_on_error)
    return PublishingWriter(context, _Keyed(sink, context.subtask), PublisherSource(key, lambda: _streams(sink)))


def create_firehose_writer(sink: KinesisFirehoseSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of a delivery stream."""
    assert sink.serialization_schema is not None
    key = ("firehose", sink.name, sink.properties, sink.max_batch_size, sink.fail_on_error)
    return PublishingWriter(context, sink.serialization_schema, PublisherSource(key, lambda: _firehose(sink)))


def _streams(sink: KinesisStreamsSink) -> Publisher:
    client = aws.client("kinesis", sink.properties, "kinesis")

    def put(messages: Sequence[QueueMessage]) -> list[tuple[QueueMessage, str]]:
        entries = [{"Data": message.value, "PartitionKey": message.topic} for message in messages]
        answer = client.put_records(StreamName=sink.name, Records=entries)
        return _refused(messages, answer["Records"]) if answer.get("FailedRecordCount") else []

    return BatchPublisher(sink, put, f"Kinesis stream {sink.name}")


def _firehose(sink: KinesisFirehoseSink) -> Publisher:
    client = aws.client("firehose", sink.properties, "firehose")

    def put(messages: Sequence[QueueMessage]) -> list[tuple[QueueMessage, str]]:
        entries = [{"Data": message.value} for message in messages]
        answer = client.put_record_batch(DeliveryStreamName=sink.name, Records=entries)
        return _refused(messages, answer["RequestResponses"]) if answer.get("FailedPutCount") else []

    return BatchPublisher(sink, put, f"Firehose delivery stream {sink.name}")


def _refused(messages: Sequence[QueueMessage], answers: Sequence[Any]) -> list[tuple[QueueMessage, str]]:
    return [
        (message, f"{answer['ErrorCode']}: {answer.get('ErrorMessage', '')}")
        for message, answer in zip(messages, answers, strict=True)
        if answer.get("ErrorCode")
    ]


def check_stream(sink: KinesisStreamsSink) -> None:
    """Raise ProgramError if the stream does not exist or may not be used."""
    with aws.explained(f"Kinesis stream {sink.name}", sink.properties):
        aws.client("kinesis", sink.properties, "kinesis").describe_stream_summary(StreamName=sink.name)


def check_delivery_stream(sink: KinesisFirehoseSink) -> None:
    """Raise ProgramError if the delivery stream does not exist or may not be used."""
    with aws.explained(f"Firehose delivery stream {sink.name}", sink.properties):
        aws.client("firehose", sink.properties, "firehose").describe_delivery_stream(DeliveryStreamName=sink.name)
