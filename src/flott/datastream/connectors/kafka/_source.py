"""The Kafka source and its builder: specifications. The runtime half is in ``flott.runtime.connectors.kafka``.

The runtime calls ``create_enumerator`` and ``create_reader``; their imports stand inside, so that the API loads neither
the runtime nor the client library.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flott.common._secrets import Properties
from flott.common.serialization import DeserializationSchema
from flott.datastream.connectors.base import Boundedness, Guarantee, OnError, Source, SourceReader, SplitEnumerator
from flott.datastream.connectors.kafka._deserializers import (
    KafkaRecordDeserializationSchema,
    ValueOnlyDeserializationSchema,
)
from flott.datastream.connectors.kafka._offsets import KafkaOffsetsInitializer, KafkaTopicPartition, OffsetKind
from flott.errors import ProgramError

#: How often new partitions and topics are looked for, unless ``partition.discovery.interval.ms`` says otherwise.
DISCOVERY_INTERVAL_MS = 30_000
#: How long the source waits for a broker that does not answer, unless ``default.api.timeout.ms`` says otherwise.
API_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class KafkaSubscription:
    """What a source reads: topics by name, topics by pattern, or single partitions. Exactly one of them is given."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"topics like {self.pattern}"
        if self.partitions:
            return f"partitions {', '.join(map(str, self.partitions))}"
        return f"{'topic' if len(self.topics) == 1 else 'topics'} {', '.join(self.topics)}"


@dataclass(frozen=True)
class KafkaSource(Source[Any]):
    """Reads topics of Kafka, every record exactly once. Positions are part of the checkpoint.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> source = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("orders")
    ...     .set_group_id("accounting")
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )
    >>> source
    KafkaSource(topic orders, from earliest(), at localhost:9092)
    """

    properties: Properties
    subscription: KafkaSubscription
    deserializer: KafkaRecordDeserializationSchema
    starting_offsets: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping_offsets: KafkaOffsetsInitializer | None = None  #: ``None``: it never ends
    is_bounded: bool = False  #: whether a batch job may read it; it needs stopping offsets
    on_error: OnError = field(default_factory=OnError.fail)

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Start building a source."""
        return KafkaSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE

    @property
    def group_id(self) -> str | None:
        """Return the group whose offsets are committed, if there is one."""
        return self.properties.get("group.id")

    @property
    def commits_offsets(self) -> bool:
        """Return whether the group is told after every checkpoint how far the job has come."""
        wanted = self.properties.get("commit.offsets.on.checkpoint", "true")
        return self.group_id is not None and wanted.lower() == "true"

    @property
    def discovery_interval_ms(self) -> int | None:
        """Return how often to look for new partitions; ``None``: only at the start."""
        if self.stopping_offsets is not None:
            return None  # it ends when the partitions that were there at the start have ended
        interval = int(self.properties.get("partition.discovery.interval.ms", DISCOVERY_INTERVAL_MS))
        return interval if interval > 0 else None

    @property
    def api_timeout_ms(self) -> int:
        """Return how long to wait for a broker that does not answer."""
        return int(self.properties.get("default.api.timeout.ms", API_TIMEOUT_MS))

    @property
    def reads_committed(self) -> bool:
        """Return whether records of open and aborted transactions are left out."""
        return self.properties.get("isolation.level", "read_uncommitted") == "read_committed"

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.kafka.enumerator import KafkaEnumerator

        return KafkaEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.kafka.reader import KafkaReader

        return KafkaReader(self)

    def __repr__(self) -> str:
        begin = repr(self.starting_offsets).removeprefix("KafkaOffsetsInitializer.")
        servers = self.properties.get("bootstrap.servers", "?")
        if self.stopping_offsets is None:
            return f"KafkaSource({self.subscription}, from {begin}, at {servers})"
        end = repr(self.stopping_offsets).removeprefix("KafkaOffsetsInitializer.")
        return f"KafkaSource({self.subscription}, from {begin} to {end}, at {servers})"


class KafkaSourceBuilder:
    """Collects the settings of a :class:`KafkaSource`. Servers, topics and a deserializer are required."""

    def __init__(self) -> None:
        self._properties = Properties()
        self._subscription: KafkaSubscription | None = None
        self._deserializer: KafkaRecordDeserializationSchema | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._bounded = False
        self._on_error = OnError.fail()

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the brokers to ask first, ``host:port`` with commas between them."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the group whose offsets are committed after every checkpoint, for others to see."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read all partitions of these topics. They must exist when the job starts."""
        if not topics or not all(topics):
            raise ProgramError(f"set_topics() takes the names of topics, found {topics!r}.")
        return self._subscribe(KafkaSubscription(topics=tuple(dict.fromkeys(topics))))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches this regular expression, also topics that are created later."""
        try:
            re.compile(topic_pattern)
        except re.error as error:
            raise ProgramError(f"The topic pattern {topic_pattern!r} is no regular expression: {error}.") from error
        return self._subscribe(KafkaSubscription(pattern=topic_pattern))

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions only."""
        found = tuple(sorted(set(partitions)))
        if not found:
            raise ProgramError("set_partitions() takes at least one KafkaTopicPartition, found none.")
        return self._subscribe(KafkaSubscription(partitions=found))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where a job without a checkpoint begins. The default is the oldest record."""
        self._starting = starting_offsets_initializer
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets, but run as a streaming source until then."""
        return self._stop_at(stopping_offsets_initializer, bounded=False)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets. A program in BATCH mode needs this."""
        return self._stop_at(stopping_offsets_initializer, bounded=True)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Convert the value of each record, and ignore the rest. Tombstones are left out."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise ProgramError(
                f"set_value_only_deserializer() takes a DeserializationSchema, found {deserialization_schema!r}."
            )
        return self.set_deserializer(ValueOnlyDeserializationSchema(deserialization_schema))

    def set_deserializer(
        self, kafka_record_deserialization_schema: KafkaRecordDeserializationSchema
    ) -> KafkaSourceBuilder:
        """Convert whole records: with key, headers, partition, offset and timestamp."""
        if not isinstance(kafka_record_deserialization_schema, KafkaRecordDeserializationSchema):
            raise ProgramError(
                "set_deserializer() takes a KafkaRecordDeserializationSchema, found"
                f" {kafka_record_deserialization_schema!r}. For a DeserializationSchema call"
                " set_value_only_deserializer()."
            )
        self._deserializer = kafka_record_deserialization_schema
        return self

    def set_on_error(self, on_error: OnError) -> KafkaSourceBuilder:
        """Set what happens to a record that cannot be deserialized. By default the job fails. Flott only."""
        self._on_error = on_error
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set how the names begin by which brokers know the clients of this source."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of the consumer: one of Kafka's Java client, of librdkafka or of Flink's Kafka source."""
        return self.set_properties({key: value})

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several properties of the consumer."""
        self._properties |= {key: _text(key, value) for key, value in props.items()}
        return self

    def build(self) -> KafkaSource:
        """Return the source. Refuses one that lacks something."""
        if not self._properties.get("bootstrap.servers"):
            raise ProgramError("A Kafka source needs brokers: call set_bootstrap_servers('host:9092').")
        if self._subscription is None:
            raise ProgramError("A Kafka source needs topics: call set_topics, set_topic_pattern or set_partitions.")
        if self._deserializer is None:
            raise ProgramError(
                "A Kafka source needs a deserializer: call set_value_only_deserializer(SimpleStringSchema())"
                " or set_deserializer."
            )
        for offsets in (self._starting, self._stopping):
            if offsets is not None and offsets.kind is OffsetKind.COMMITTED and not self._properties.get("group.id"):
                raise ProgramError("Committed offsets belong to a group: call set_group_id, or choose other offsets.")
        _check_numbers(self._properties)
        return KafkaSource(
            self._properties,
            self._subscription,
            self._deserializer,
            self._starting,
            self._stopping,
            self._bounded,
            self._on_error,
        )

    def _subscribe(self, subscription: KafkaSubscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise ProgramError(
                f"The source reads {self._subscription} already, found {subscription}: call only one of set_topics,"
                " set_topic_pattern and set_partitions, once."
            )
        self._subscription = subscription
        return self

    def _stop_at(self, offsets: KafkaOffsetsInitializer, bounded: bool) -> KafkaSourceBuilder:
        if offsets.kind is OffsetKind.EARLIEST:
            raise ProgramError("A source that stops at the earliest offset reads nothing: use latest() or another.")
        self._stopping, self._bounded = offsets, bounded
        return self


def _text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise ProgramError(f"The value of property {key!r} is a text or a number, found a {type(value).__name__}.")
    return str(value)


def _check_numbers(properties: Mapping[str, str]) -> None:
    for key in ("partition.discovery.interval.ms", "default.api.timeout.ms"):
        try:
            int(properties.get(key, 0))
        except ValueError:
            raise ProgramError(f"{key} is a number of milliseconds, found {properties[key]!r}.") from None
    level = properties.get("isolation.level", "read_uncommitted")
    if level not in ("read_uncommitted", "read_committed"):
        raise ProgramError(f"isolation.level is read_uncommitted or read_committed, found {level!r}.")
