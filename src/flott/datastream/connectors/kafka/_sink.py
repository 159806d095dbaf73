"""The Kafka sink, its builder and what is built on it: specifications. Tasks and driver use
``flott.runtime.connectors.kafka``; the imports stand inside, so that the API does not load the runtime or a client."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from flott.common._secrets import Properties
from flott.common.serialization import SerializationSchema
from flott.datastream.connectors.base import (
    BadRecord,
    Committer,
    DeliveryGuarantee,
    Guarantee,
    Sink,
    SinkWriter,
    WriterContext,
)
from flott.datastream.connectors.kafka._serializers import (
    KafkaPartitioner,
    KafkaRecordSerializationSchema,
)
from flott.errors import ProgramError

#: After this time the broker aborts a transaction that was not committed. It is the largest value that a broker allows
#: unless its transaction.max.timeout.ms is set.
TRANSACTION_TIMEOUT_MS = 900_000

_GUARANTEES = {
    DeliveryGuarantee.EXACTLY_ONCE: Guarantee.EXACTLY_ONCE,
    DeliveryGuarantee.AT_LEAST_ONCE: Guarantee.AT_LEAST_ONCE,
    DeliveryGuarantee.NONE: Guarantee.NONE,
}


@dataclass(frozen=True)
class KafkaSink(Sink[Any]):
    """Writes records to Kafka. Built with :meth:`builder`.

    With ``EXACTLY_ONCE`` each epoch of each subtask is a Kafka transaction, which is committed after the checkpoint of
    the epoch is complete. Consumers with ``isolation.level=read_committed`` see every record once.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> sink = (
    ...     KafkaSink.builder()
    ...     .set_bootstrap_servers("broker:9092")
    ...     .set_record_serializer(
    ...         KafkaRecordSerializationSchema.builder()
    ...         .set_topic("counts")
    ...         .set_value_serialization_schema(SimpleStringSchema())
    ...         .build()
    ...     )
    ...     .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    ...     .set_transactional_id_prefix("word-count")
    ...     .build()
    ... )
    >>> sink.guarantee
    <Guarantee.EXACTLY_ONCE: 'exactly-once'>
    """

    properties: Properties  #: of the producer, with bootstrap.servers
    serializer: KafkaRecordSerializationSchema
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.NONE
    transactional_id_prefix: str = ""
    #: Whether open transactions of other jobs with this prefix are aborted at the start: they are of former runs.
    owns_prefix: bool = True
    #: Whether a transaction that timed out is logged instead of failing the job.
    tolerates_timed_out: bool = False

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Start building a sink."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> None:
        """Return None, for ported programs: a topic selector needs no transformation of the stream."""

    @property
    def guarantee(self) -> Guarantee:
        return _GUARANTEES[self.delivery_guarantee]

    @property
    def transaction_timeout_ms(self) -> int:
        """Return after which time the broker aborts a transaction."""
        return int(self.properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS))

    def validate(self) -> None:
        from flott.runtime.connectors.kafka.sink_validation import validate

        validate(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.kafka.writer import create_writer

        return create_writer(self, context)

    def create_committer(self) -> Committer | None:
        if self.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return None
        from flott.runtime.connectors.kafka.committer import KafkaCommitter

        return KafkaCommitter(self)


class KafkaSinkBuilder:
    """Collects the settings of a Kafka sink. Bootstrap servers and a record serializer are required."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._serializer: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = ""

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers to begin with, as ``host:port,host:port``."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set what the sink promises. The default is ``NONE``, as in Flink."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise ProgramError(f"A delivery guarantee is a DeliveryGuarantee, found {delivery_guarantee!r}.")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set what the transactional ids begin with. Required for ``EXACTLY_ONCE``.

        Keep it the same when a job is started again, and use it for one job only: a job that starts aborts the open
        transactions of its prefix.
        """
        self._prefix = _prefix(transactional_id_prefix)
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set what a record becomes in Kafka."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise ProgramError(
                "set_record_serializer() takes a KafkaRecordSerializationSchema, built by"
                f" KafkaRecordSerializationSchema.builder(), found {record_serializer!r}."
            )
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the producer, such as ``compression.type`` or ``sasl.mechanism``."""
        if not isinstance(key, str):
            raise ProgramError(f"A property of Kafka has a name, found {key!r}.")
        self._properties[key] = str(value)
        return self

    def build(self) -> KafkaSink:
        """Return the sink."""
        if not self._properties.get("bootstrap.servers"):
            raise ProgramError("The Kafka sink has no brokers: call set_bootstrap_servers('host:9092').")
        if self._serializer is None:
            raise ProgramError("The Kafka sink has no record serializer: call set_record_serializer().")
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE and not self._prefix:
            raise ProgramError(
                "A Kafka sink with EXACTLY_ONCE needs a prefix of its transactional ids that no other job has: call"
                " set_transactional_id_prefix()."
            )
        timeout = self._properties.get("transaction.timeout.ms", "1")
        if not timeout.isdigit() or int(timeout) < 1:
            raise ProgramError(f"transaction.timeout.ms is a number of milliseconds, found {timeout!r}.")
        return KafkaSink(Properties(self._properties), self._serializer, self._guarantee, self._prefix)


# ---- dead letters ----------------------------------------------------------------------------------------------------


class _BadValue(SerializationSchema):
    def serialize(self, element: Any) -> Any:
        return element.value


class _BadKey(SerializationSchema):
    def serialize(self, element: Any) -> Any:
        return element.key


def _bad_headers(record: BadRecord) -> list[tuple[str, bytes | None]]:
    return [*record.headers, ("flott.error", record.error.encode()), ("flott.place", record.place.encode())]


def _bad_timestamp(record: BadRecord) -> int | None:
    return record.timestamp


@dataclass(frozen=True)
class KafkaDeadLetterSink(Sink[BadRecord]):
    """Writes records that a source could not decode to a topic, each once.

    Key, value, headers and timestamp are the original ones. The headers ``flott.error`` and ``flott.place`` say why the
    record could not be decoded, and where it was.

    >>> KafkaDeadLetterSink("broker:9092", "orders-dead-letters").guarantee
    <Guarantee.EXACTLY_ONCE: 'exactly-once'>
    """

    bootstrap_servers: str
    topic: str
    properties: Mapping[str, str] = field(default_factory=Properties)
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    #: None: one is made of the topic's name, and open transactions of other jobs are left alone.
    transactional_id_prefix: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", Properties(self.properties))
        self._sink()  # refuses wrong arguments

    def _sink(self) -> KafkaSink:
        serializer = KafkaRecordSerializationSchema.builder().set_topic(self.topic)
        serializer.set_key_serialization_schema(_BadKey()).set_value_serialization_schema(_BadValue())
        serializer.set_header_provider(_bad_headers).set_timestamp_provider(_bad_timestamp)
        builder = KafkaSink.builder().set_record_serializer(serializer.build())
        for key, value in self.properties.items():
            builder.set_property(key, value)
        builder.set_bootstrap_servers(self.bootstrap_servers).set_delivery_guarantee(self.delivery_guarantee)
        builder.set_transactional_id_prefix(self.transactional_id_prefix or f"flott-dead-letters-{self.topic}")
        return replace(builder.build(), owns_prefix=self.transactional_id_prefix is not None)

    @property
    def guarantee(self) -> Guarantee:
        return self._sink().guarantee

    def validate(self) -> None:
        self._sink().validate()

    def create_writer(self, context: WriterContext) -> SinkWriter[BadRecord]:
        return self._sink().create_writer(context)

    def create_committer(self) -> Committer | None:
        return self._sink().create_committer()


# ---- PyFlink's older names -------------------------------------------------------------------------------------------


class Semantic(Enum):
    """What a :class:`FlinkKafkaProducer` promises."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class _SubtaskPartitioner(KafkaPartitioner):
    """Writes all records of a subtask to one partition, as FlinkKafkaProducer does."""

    subtask = 0

    def open(self, subtask: int, parallelism: int) -> None:
        self.subtask = subtask

    def partition(self, record: Any, key: Any, value: Any, topic: str, partitions: Any) -> int:
        chosen: int = partitions[self.subtask % len(partitions)]
        return chosen


class FlinkKafkaProducerBase(Sink[Any]):
    """What the producers of PyFlink's older API have in common."""

    def __init__(self, sink: KafkaSink):
        self._sink = sink
        self._semantic = sink.delivery_guarantee

    def set_log_failures_only(self, log_failures_only: bool) -> FlinkKafkaProducerBase:
        """Log records that could not be written instead of failing the job: the sink then promises nothing."""
        guarantee = DeliveryGuarantee.NONE if log_failures_only else self._semantic
        self._sink = replace(self._sink, delivery_guarantee=guarantee)
        return self

    def set_flush_on_checkpoint(self, flush_on_checkpoint: bool) -> FlinkKafkaProducerBase:
        """Set whether a checkpoint waits until its records are acknowledged. Without it the sink promises nothing."""
        guarantee = self._semantic if flush_on_checkpoint else DeliveryGuarantee.NONE
        self._sink = replace(self._sink, delivery_guarantee=guarantee)
        return self

    def set_write_timestamp_to_kafka(self, write_timestamp_to_kafka: bool) -> FlinkKafkaProducerBase:
        """Set whether the timestamp of a record in the stream becomes its Kafka timestamp. By default it does not."""
        provider = None if write_timestamp_to_kafka else _no_timestamp
        serializer = replace(self._sink.serializer, timestamp_provider=provider)
        self._sink = replace(self._sink, serializer=serializer)
        return self

    @property
    def guarantee(self) -> Guarantee:
        return self._sink.guarantee

    def validate(self) -> None:
        self._sink.validate()

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        return self._sink.create_writer(context)

    def create_committer(self) -> Committer | None:
        return self._sink.create_committer()


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """PyFlink's older Kafka sink. New programs use :class:`KafkaSink`.

    The transactional ids of ``EXACTLY_ONCE`` begin with the property ``transactional.id``, or with the topic's name.
    """

    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ):
        warnings.warn(
            "FlinkKafkaProducer is PyFlink's older name: use KafkaSink.", DeprecationWarning, stacklevel=2
        )
        serializer = KafkaRecordSerializationSchema.builder().set_topic(topic).set_partitioner(_SubtaskPartitioner())
        serializer.set_value_serialization_schema(serialization_schema).set_timestamp_provider(_no_timestamp)
        properties = dict(producer_config)
        prefix = properties.pop("transactional.id", None)
        builder = KafkaSink.builder().set_record_serializer(serializer.build())
        builder.set_transactional_id_prefix(prefix or f"flink-kafka-producer-{topic}")
        builder.set_delivery_guarantee(DeliveryGuarantee[Semantic(semantic).name])
        for key, value in properties.items():
            builder.set_property(key, value)
        # Without a name of its own, another job that writes to the topic has the same: its transactions are left alone.
        super().__init__(replace(builder.build(), owns_prefix=prefix is not None))

    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Log a transaction that timed out, and whose records are lost, instead of failing the job."""
        self._sink = replace(self._sink, tolerates_timed_out=True)
        return self


def _no_timestamp(record: Any) -> int | None:
    return None


def _prefix(given: Any) -> str:
    if not isinstance(given, str) or not given or len(given.encode()) > 6400:
        raise ProgramError(
            f"A prefix of transactional ids is a text of 1 to 6400 bytes, found {given!r}."
        )
    return given


