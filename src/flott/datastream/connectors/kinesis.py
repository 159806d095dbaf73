"""Amazon Kinesis Data Streams and Data Firehose. Specifications only: ``flott.runtime.connectors.kinesis`` connects.

Names are PyFlink's. They need ``flott[kinesis]``, the Firehose sink ``flott[firehose]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from flott.common._secrets import Properties
from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.datastream.connectors._aws import aws_properties
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage
from flott.datastream.connectors.base import (
    Boundedness,
    Guarantee,
    OnError,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.errors import ProgramError

__all__ = [
    "KinesisShardAssigner",
    "KinesisDeserializationSchema",
    "WatermarkTracker",
    "PartitionKeyGenerator",
    "FlinkKinesisConsumer",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "QueueMessage",
]

#: Where a consumer begins that has no checkpoint, in Flink's words.
START, START_TIME = "flink.stream.initpos", "flink.stream.initpos.timestamp"
POSITIONS = ("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP")
S = TypeVar("S", bound="_BatchingSink")


@dataclass(frozen=True)
class KinesisShardAssigner:
    """Which subtask reads which shard. The job decides this for every source alike; this is for ported programs."""

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Leave it to the job."""
        return KinesisShardAssigner()

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """Leave it to the job."""
        return KinesisShardAssigner()


class KinesisDeserializationSchema(QueueDeserializationSchema):
    """Converts a record of Kinesis with its partition key (``message.topic``) and sequence number (``message.id``)."""


@dataclass(frozen=True)
class WatermarkTracker:
    """Aligns shards by event time. In Flott the watermark strategy does that; this is for ported programs."""

    aggregate_name: str = ""

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Return a tracker that does nothing: use ``WatermarkStrategy.with_watermark_alignment``."""
        return WatermarkTracker(aggregate_name)


@dataclass(frozen=True)
class FlinkKinesisConsumer(Source[Any]):
    """Reads streams, exactly once: the sequence numbers of shards are in the checkpoint.

    Each shard is a split. Shards that come from splitting or merging others are read when those have been read.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> FlinkKinesisConsumer("orders", SimpleStringSchema(), {"aws.region": "eu-west-1"}).streams
    ('orders',)
    """

    streams: str | Sequence[str]
    deserializer: DeserializationSchema
    config_props: Mapping[str, str] = field(default_factory=Properties)
    on_error: OnError = OnError.fail()  # noqa: RUF009 (immutable)

    def __post_init__(self) -> None:
        streams = (self.streams,) if isinstance(self.streams, str) else tuple(self.streams)
        object.__setattr__(self, "streams", streams)
        object.__setattr__(self, "config_props", aws_properties(self.config_props))
        if not streams:
            raise ProgramError("A FlinkKinesisConsumer reads at least one stream, found none.")
        if self.config_props.get(START, "LATEST") not in POSITIONS:
            raise ProgramError(f"{START} must be one of {', '.join(POSITIONS)}, found {self.config_props[START]}.")
        if self.config_props.get(START) == "AT_TIMESTAMP" and START_TIME not in self.config_props:
            raise ProgramError(f"{START} is AT_TIMESTAMP: set {START_TIME} to seconds since 1970 or an ISO date.")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> FlinkKinesisConsumer:
        """Do nothing, for ported programs: the job balances what its subtasks read."""
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: object) -> FlinkKinesisConsumer:
        """Refuse the call: the assigner is a Java object in PyFlink."""
        raise ProgramError(
            "set_periodic_watermark_assigner() takes a Java object in PyFlink. Pass a WatermarkStrategy to"
            " env.from_source() instead: it works per shard."
        )

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> FlinkKinesisConsumer:
        """Do nothing, for ported programs: use ``WatermarkStrategy.with_watermark_alignment``."""
        return self

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.kinesis.enumerator import ShardEnumerator

        return ShardEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.queues.reader import QueueReader

        return QueueReader(f"Kinesis stream {', '.join(self.streams)}", self.deserializer, self.on_error)


@dataclass(frozen=True)
class PartitionKeyGenerator:
    """Chooses the partition key of a record, which decides its shard."""

    kind: str
    function: Callable[[Any], str] | None = None

    @staticmethod
    def fixed() -> PartitionKeyGenerator:
        """Take the number of the subtask, so that its records stay in order in one shard."""
        return PartitionKeyGenerator("fixed")

    @staticmethod
    def random() -> PartitionKeyGenerator:
        """Take a key that differs for each record."""
        return PartitionKeyGenerator("random")

    @staticmethod
    def of(function: Callable[[Any], str]) -> PartitionKeyGenerator:
        """Take what a function returns for the record. Flott only."""
        return PartitionKeyGenerator("function", function)


@dataclass(frozen=True)
class _BatchingSink(Sink[Any]):
    """What both sinks have: the settings of batches."""

    name: str = ""
    serialization_schema: SerializationSchema | None = None
    properties: Properties = field(default_factory=Properties)
    fail_on_error: bool = False
    max_batch_size: int = 500
    max_batch_size_in_bytes: int = 4 * 1024 * 1024
    max_record_size_in_bytes: int = 1000 * 1024

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE


@dataclass(frozen=True)
class KinesisStreamsSink(_BatchingSink):
    """Puts records into a stream, in batches. What the stream refuses for the moment is put again: at least once."""

    partition_key_generator: PartitionKeyGenerator = PartitionKeyGenerator("random")

    @staticmethod
    def builder() -> KinesisStreamsSinkBuilder:
        """Start building a sink."""
        return KinesisStreamsSinkBuilder(KinesisStreamsSink())

    def validate(self) -> None:
        from flott.runtime.connectors.kinesis.putting import check_stream

        check_stream(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.kinesis.putting import create_writer

        return create_writer(self, context)


@dataclass(frozen=True)
class KinesisFirehoseSink(_BatchingSink):
    """Puts records into a delivery stream, in batches: at least once."""

    @staticmethod
    def builder() -> KinesisFirehoseSinkBuilder:
        """Start building a sink."""
        return KinesisFirehoseSinkBuilder(KinesisFirehoseSink())

    def validate(self) -> None:
        from flott.runtime.connectors.kinesis.putting import check_delivery_stream

        check_delivery_stream(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.kinesis.putting import create_firehose_writer

        return create_firehose_writer(self, context)


class KinesisStreamsSinkBuilder:
    """Collects the settings of a :class:`KinesisStreamsSink`."""

    def __init__(self, sink: KinesisStreamsSink):
        self._sink = sink

    def set_stream_name(self, stream_name: str) -> KinesisStreamsSinkBuilder:
        """Set the name of the stream."""
        return self._set(name=stream_name)

    def set_partition_key_generator(self, partition_key_generator: PartitionKeyGenerator) -> KinesisStreamsSinkBuilder:
        """Set how the partition key of a record is chosen."""
        return self._set(partition_key_generator=partition_key_generator)

    def set_kinesis_client_properties(self, kinesis_client_properties: Mapping[str, str]) -> KinesisStreamsSinkBuilder:
        """Set region, endpoint and credentials."""
        return self._set(properties=aws_properties(kinesis_client_properties))

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> KinesisStreamsSinkBuilder:
        """Set how a record becomes bytes."""
        return self._set(serialization_schema=serialization_schema)

    def set_fail_on_error(self, fail_on_error: bool) -> KinesisStreamsSinkBuilder:
        """Set whether the epoch fails if a record is refused once; else it is put again, with delays."""
        return self._set(fail_on_error=fail_on_error)

    def set_max_batch_size(self, max_batch_size: int) -> KinesisStreamsSinkBuilder:
        """Set how many records a request has at most."""
        return self._set(max_batch_size=max_batch_size)

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> KinesisStreamsSinkBuilder:
        """Do nothing, for ported programs: a subtask has one request at a time."""
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> KinesisStreamsSinkBuilder:
        """Do nothing, for ported programs: records are not buffered between epochs."""
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> KinesisStreamsSinkBuilder:
        """Set how many bytes a request has at most."""
        return self._set(max_batch_size_in_bytes=max_batch_size_in_bytes)

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> KinesisStreamsSinkBuilder:
        """Do nothing, for ported programs: all records are put before the end of their epoch."""
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> KinesisStreamsSinkBuilder:
        """Set how many bytes a record has at most; a larger one fails the epoch."""
        return self._set(max_record_size_in_bytes=max_record_size_in_bytes)

    def _set(self, **changes: Any) -> KinesisStreamsSinkBuilder:
        self._sink = replace(self._sink, **changes)
        return self

    def build(self) -> KinesisStreamsSink:
        """Return the sink."""
        return _complete(self._sink, "set_stream_name")


class KinesisFirehoseSinkBuilder:
    """Collects the settings of a :class:`KinesisFirehoseSink`."""

    def __init__(self, sink: KinesisFirehoseSink):
        self._sink = sink

    def set_delivery_stream_name(self, delivery_stream_name: str) -> KinesisFirehoseSinkBuilder:
        """Set the name of the delivery stream."""
        return self._set(name=delivery_stream_name)

    def set_firehose_client_properties(
        self, firehose_client_properties: Mapping[str, str]
    ) -> KinesisFirehoseSinkBuilder:
        """Set region, endpoint and credentials."""
        return self._set(properties=aws_properties(firehose_client_properties))

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> KinesisFirehoseSinkBuilder:
        """Set how a record becomes bytes."""
        return self._set(serialization_schema=serialization_schema)

    def set_fail_on_error(self, fail_on_error: bool) -> KinesisFirehoseSinkBuilder:
        """Set whether the epoch fails if a record is refused once; else it is put again, with delays."""
        return self._set(fail_on_error=fail_on_error)

    def set_max_batch_size(self, max_batch_size: int) -> KinesisFirehoseSinkBuilder:
        """Set how many records a request has at most."""
        return self._set(max_batch_size=max_batch_size)

    def set_max_in_flight_requests(self, max_in_flight_requests: int) -> KinesisFirehoseSinkBuilder:
        """Do nothing, for ported programs: a subtask has one request at a time."""
        return self

    def set_max_buffered_requests(self, max_buffered_requests: int) -> KinesisFirehoseSinkBuilder:
        """Do nothing, for ported programs: records are not buffered between epochs."""
        return self

    def set_max_batch_size_in_bytes(self, max_batch_size_in_bytes: int) -> KinesisFirehoseSinkBuilder:
        """Set how many bytes a request has at most."""
        return self._set(max_batch_size_in_bytes=max_batch_size_in_bytes)

    def set_max_time_in_buffer_ms(self, max_time_in_buffer_ms: int) -> KinesisFirehoseSinkBuilder:
        """Do nothing, for ported programs: all records are put before the end of their epoch."""
        return self

    def set_max_record_size_in_bytes(self, max_record_size_in_bytes: int) -> KinesisFirehoseSinkBuilder:
        """Set how many bytes a record has at most; a larger one fails the epoch."""
        return self._set(max_record_size_in_bytes=max_record_size_in_bytes)

    def _set(self, **changes: Any) -> KinesisFirehoseSinkBuilder:
        self._sink = replace(self._sink, **changes)
        return self

    def build(self) -> KinesisFirehoseSink:
        """Return the sink."""
        return _complete(self._sink, "set_delivery_stream_name")


def _complete(sink: S, naming: str) -> S:
    if not sink.name:
        raise ProgramError(f"A {type(sink).__name__} needs a name of a stream: call {naming}().")
    if sink.serialization_schema is None:
        raise ProgramError(f"A {type(sink).__name__} needs a schema: call set_serialization_schema().")
    if not 0 < sink.max_batch_size <= 500:
        raise ProgramError(f"A request has 1 to 500 records, found {sink.max_batch_size}.")
    return sink
