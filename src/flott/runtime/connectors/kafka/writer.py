"""Writes records to Kafka. Task side.

With EXACTLY_ONCE a writer fills one transaction, which it hands over: ``prepare_commit`` waits until the broker has all
records, and after that the producer is not used any more. With other guarantees the producer outlives the epoch.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import DeliveryGuarantee, Json, SinkWriter, WriterContext
from flott.datastream.connectors.kafka._serializers import KafkaPartitioner, KafkaRecordSerializationSchema
from flott.datastream.connectors.kafka._sink import KafkaSink
from flott.errors import ConnectorError
from flott.runtime.connectors.client_pool import ClientPool
from flott.runtime.connectors.kafka.producer_settings import delivery_seconds, producer_settings
from flott.runtime.connectors.kafka.transactions import (
    ReadyProducers,
    TransactionalProducer,
    client_log,
    id_stem,
    ready_producers,
)

#: Partition of a record that the client's partitioner chooses.
ANY_PARTITION = -1
#: How long a full queue is waited for at once.
ROOM_SECONDS = 0.05
#: How long a topic's partitions are asked for.
METADATA_SECONDS = 10.0
#: What a flush may take longer than the delivery of a record.
GRACE_SECONDS = 10.0

_PRODUCERS: ClientPool[Any] = ClientPool("kafka producer")


def create_writer(sink: KafkaSink, context: WriterContext) -> SinkWriter[Any]:
    """Return the writer of the sink's guarantee."""
    settings = producer_settings(sink)
    if sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        stem = id_stem(sink.transactional_id_prefix, context.job_id, context.operator_id)
        return TransactionalWriter(sink, context, ready_producers(settings, stem))
    return DirectWriter(sink, context, settings)


# ---- what a record becomes -------------------------------------------------------------------------------------------

#: topic, value, key, partition, timestamp (0: now), headers
ProducerRow = tuple[str, Any, Any, int, int, Any]


class RecordRows:
    """Converts batches of records to the arguments of ``produce``, column by column."""

    def __init__(self, schema: KafkaRecordSerializationSchema, context: WriterContext):
        assert schema.value_schema is not None
        self._schema = schema
        self._value = _serializer(schema.value_schema)
        self._key = None if schema.key_schema is None else _serializer(schema.key_schema)
        self._partition: Callable[..., int] | None = None
        if isinstance(schema.partitioner, KafkaPartitioner):
            schema.partitioner.open(context.subtask, context.parallelism)
            self._partition = schema.partitioner.partition
        elif schema.partitioner is not None:
            self._partition = schema.partitioner
        self.topics: Counter[str] = Counter()  #: topic -> records

    def rows(
        self, values: Sequence[Any], timestamps: Sequence[int] | None, partitions: Callable[[str], list[int]]
    ) -> Iterable[ProducerRow]:
        """Return the rows of a batch. ``partitions`` tells those of a topic, for a partitioner."""
        schema = self._schema
        payloads = self._value(values)
        keys: Iterable[Any] = repeat(None) if self._key is None else self._key(values)
        topics: Iterable[str]
        if schema.topic is not None:
            topics = repeat(schema.topic)
            self.topics[schema.topic] += len(payloads)
        else:
            assert schema.topic_selector is not None
            topics = list(map(schema.topic_selector, values))
            self.topics.update(topics)
        chosen: Iterable[int] = repeat(ANY_PARTITION)
        if self._partition is not None:
            keys = list(keys) if self._key is not None else [None] * len(payloads)
            names = topics if isinstance(topics, list) else [schema.topic or ""] * len(payloads)
            choose = self._partition
            chosen = [
                choose(value, key, payload, topic, partitions(topic))
                for value, key, payload, topic in zip(values, keys, payloads, names, strict=True)
            ]
        if schema.timestamp_provider is not None:
            timestamps = [at or 0 for at in map(schema.timestamp_provider, values)]
        # Kafka has no negative timestamps; the client takes 0 for the present time, as Flink takes a missing one.
        times: Iterable[int] = repeat(0)
        if timestamps is not None:
            times = timestamps if min(timestamps) >= 0 else [max(at, 0) for at in timestamps]
        headers: Iterable[Any] = repeat(None)
        if schema.header_provider is not None:
            headers = [_headers(found) for found in map(schema.header_provider, values)]
        return zip(topics, payloads, keys, chosen, times, headers, strict=False)


def _serializer(schema: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that serializes a batch."""
    serialize = schema.serialize

    def texts(values: Sequence[Any]) -> list[Any]:
        try:
            return [value.encode() for value in values]
        except AttributeError:
            return [serialize(value) for value in values]  # raises, and says why

    if type(schema) is SimpleStringSchema and schema.charset.upper() in ("UTF-8", "UTF8"):
        return texts
    return lambda values: [serialize(value) for value in values]


def _headers(found: Any) -> Any:
    return list(found.items()) if hasattr(found, "items") else None if found is None else list(found)


# ---- writers ---------------------------------------------------------------------------------------------------------


class KafkaWriter(SinkWriter[Any]):
    """What both writers do: produce, and find out whether it succeeded."""

    def __init__(self, sink: KafkaSink, context: WriterContext):
        self._sink = sink
        self._context = context
        self._rows = RecordRows(sink.serializer, context)
        self._delivery_seconds = delivery_seconds(sink)
        self._partitions: dict[str, list[int]] = {}
        self.records = 0

    def _produce(
        self,
        client: Any,
        outcomes: dict[Any, Any],
        on_delivery: Callable[..., Any] | None,
        values: Sequence[Any],
        timestamps: Sequence[int] | None,
    ) -> None:
        produce = client.produce
        kafka = require("confluent_kafka", "kafka")
        rows = self._rows.rows(values, timestamps, lambda topic: self._partitions_of(client, topic))
        try:
            for topic, value, key, partition, timestamp, headers in rows:
                try:
                    produce(topic, value, key, partition, on_delivery, None, timestamp, headers)
                except BufferError:
                    arguments = (topic, value, key, partition, on_delivery, None, timestamp, headers)
                    self._await_room(client, outcomes, arguments)
        except kafka.KafkaException as error:
            reason = error.args[0]
            raise self._failure(f"topic {topic}", reason.str()) from error
        self.records += len(values)
        client.poll(0)
        self._check(outcomes)

    def _await_room(self, client: Any, outcomes: dict[Any, Any], arguments: tuple[Any, ...]) -> None:
        """Wait until the client's queue has room. Records that cannot be delivered leave it after a time, too."""
        deadline = time.monotonic() + self._delivery_seconds + GRACE_SECONDS
        while True:
            client.poll(ROOM_SECONDS)
            self._check(outcomes)
            try:
                client.produce(*arguments)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    reason = "the client's queue is full and does not drain"
                    raise self._failure(f"topic {arguments[0]}", reason) from None

    def _flush(self, client: Any, outcomes: dict[Any, Any]) -> None:
        """Wait until every record has been delivered or has failed."""
        left = client.flush(self._delivery_seconds + GRACE_SECONDS)
        self._check(outcomes)
        if left:
            raise self._failure("the sink", f"{left} records were not acknowledged by the broker")

    def _check(self, outcomes: dict[Any, Any]) -> None:
        if len(outcomes) > (None in outcomes):
            error, message = next((error, found) for error, found in outcomes.items() if error is not None)
            raise self._failure(f"topic {message.topic()}, partition {message.partition()}", error.str())

    def _partitions_of(self, client: Any, topic: str) -> list[int]:
        if topic not in self._partitions:
            kafka = require("confluent_kafka", "kafka")
            try:
                found = client.list_topics(topic, timeout=METADATA_SECONDS).topics[topic]
            except kafka.KafkaException as error:
                raise self._failure(f"topic {topic}", error.args[0].str()) from error
            if found.error is not None or not found.partitions:
                raise self._failure(f"topic {topic}", "it has no partitions, or does not exist")
            self._partitions[topic] = sorted(found.partitions)
        return self._partitions[topic]

    def _failure(self, place: str, reason: str) -> ConnectorError:
        reason = without_secrets(reason, *self._sink.properties.secrets()).rstrip(".")
        return ConnectorError(f"Kafka did not take a record of epoch {self._context.epoch} ({place}): {reason}.")


class TransactionalWriter(KafkaWriter):
    """Fills one transaction of one subtask in one epoch."""

    def __init__(self, sink: KafkaSink, context: WriterContext, producers: ReadyProducers):
        super().__init__(sink, context)
        self._producers = producers
        self._producer: TransactionalProducer | None = None

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if not values:
            return
        if self._producer is None:
            self._producer = self._producers.take(self._context.epoch)
            kafka = require("confluent_kafka", "kafka")
            try:
                self._producer.client.begin_transaction()
            except kafka.KafkaException as error:
                raise self._failure("the begin of a transaction", error.args[0].str()) from error
        outcomes = self._producer.outcomes
        self._produce(self._producer.client, outcomes, outcomes.setdefault, values, timestamps)

    def prepare_commit(self) -> list[Json]:
        if self._producer is None:
            return []  # no record, no transaction
        producer = self._producer
        self._flush(producer.client, producer.outcomes)
        committable = self._committable(producer)
        self._producer = None  # from here on nothing may write with it
        self._producers.prepared(producer, self._context.epoch)
        return [committable]

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            self._producers.failed(producer)

    def _committable(self, producer: TransactionalProducer) -> Json:
        witness = producer.outcomes[None]
        return {
            "version": 1,
            "transactional_id": producer.transaction.transactional_id,
            "producer_id": producer.transaction.producer_id,
            "producer_epoch": producer.transaction.producer_epoch,
            "epoch": self._context.epoch,
            "subtask": self._context.subtask,
            "attempt": self._context.attempt_id,
            "records": self.records,
            "topics": dict(self._rows.topics),
            # One record of the transaction: what became of it became of all.
            "witness": [witness.topic(), witness.partition(), witness.offset()],
            "timeout_ms": self._sink.transaction_timeout_ms,
        }


class DirectWriter(KafkaWriter):
    """Writes without a transaction: records are visible at once, and again if the epoch is repeated."""

    def __init__(self, sink: KafkaSink, context: WriterContext, settings: dict[str, Any]):
        super().__init__(sink, context)
        self._waits = sink.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        settings = {**settings, "delivery.report.only.error": True}
        self._key = tuple(sorted((name, str(value)) for name, value in settings.items()))
        self._outcomes: dict[Any, Any] = {}
        self._client = _PRODUCERS.take(self._key, lambda: _producer(settings))
        self._complete = False

    def write(self, values: Sequence[Any], timestamps: Sequence[int] | None) -> None:
        if values:
            on_delivery = self._outcomes.setdefault if self._waits else None
            self._produce(self._client, self._outcomes, on_delivery, values, timestamps)

    def prepare_commit(self) -> list[Json]:
        if self._waits:
            self._flush(self._client, self._outcomes)
        else:
            self._client.poll(0)
        self._complete = True
        return []

    def close(self) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        if self._complete:
            _PRODUCERS.give_back(self._key, client, _end)
        else:
            client.purge()  # the epoch is repeated; what has not been sent need not be


def _producer(settings: dict[str, Any]) -> Any:
    return require("confluent_kafka", "kafka").Producer(settings, logger=client_log)


def _end(client: Any) -> None:
    client.flush(GRACE_SECONDS)
