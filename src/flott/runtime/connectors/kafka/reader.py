"""Turns slices of partitions into records. Task side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any, ClassVar

from flott.common.serialization import DeserializationSchema
from flott.datastream.connectors.base import (
    BadRecord,
    ColumnRecords,
    Followed,
    Json,
    Pause,
    Records,
    Slice,
    SourceReader,
)
from flott.datastream.connectors.kafka._deserializers import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    ValueOnlyDeserializationSchema,
)
from flott.datastream.connectors.kafka._offsets import KafkaTopicPartition
from flott.datastream.connectors.kafka._source import KafkaSource
from flott.errors import BadRecordError, EpochFailure, FlottError, ProgramError
from flott.runtime.connectors.decoding import Decoded, decode_batch
from flott.runtime.connectors.kafka.partition_consumer import BATCH_MESSAGES, POOL, Message, PartitionConsumer

_value, _timestamp, _offset = Message.value, Message.timestamp, Message.offset


class KafkaReader(SourceReader[Any]):
    """Reads the slices of a :class:`KafkaSource`."""

    followed_messages: ClassVar[int] = BATCH_MESSAGES  #: of a partition that become one batch, at most

    def __init__(self, source: KafkaSource):
        self._source = source
        schema = source.deserializer
        self._value_schema: DeserializationSchema | None = (
            schema.schema if isinstance(schema, ValueOnlyDeserializationSchema) else None
        )
        self._places: dict[str, RecordOffsets] = {}  #: of the slices that are read, by split
        self._reached: dict[str, int] = {}  #: how far open slices were read, by split

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            assert isinstance(batch, Records)
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any] | ColumnRecords]:
        self._places = {part.split: RecordOffsets()}
        with closing(self._messages(part)) as found:
            for partition, messages in found:
                yield self._decode(partition, messages, self._places[part.split])

    def follow(self, parts: Sequence[Slice]) -> Followed[Any]:
        self._places = {part.split: RecordOffsets() for part in parts}
        self._reached = {part.split: part.start for part in parts}
        POOL.follow(self, len(parts))
        taken: list[PartitionConsumer] = []
        try:
            followed = []
            for part in parts:
                partition = partition_of(part)
                taken.append(POOL.take(self._source, partition))
                followed.append((part, partition, taken[-1].follow(partition, part.start, self.followed_messages)))
            while True:
                is_quiet = True
                for part, partition, news in followed:
                    if messages := next(news):
                        is_quiet = False
                        records = self._decode(partition, messages, self._places[part.split])
                        self._reached[part.split] = messages[-1].offset() + 1
                        yield part, records
                if is_quiet:
                    yield Pause()
        except GeneratorExit:
            for (part, _, _), consumer in zip(followed, taken, strict=True):
                consumer.pass_over_markers()
                self._reached[part.split] = max(self._reached[part.split], consumer.standing[1])
                POOL.give_back(self._source, consumer)
            raise
        except BaseException:
            for consumer in taken:
                consumer.close()
            raise

    def reached(self, part: Slice) -> Json:
        return self._reached[part.split] if part.is_open else part.stop

    def close(self) -> None:
        POOL.follow(self, 0)

    def _messages(self, part: Slice) -> Generator[tuple[KafkaTopicPartition, list[Any]], None, None]:
        """Yield the messages of a slice, by a consumer that is kept for the next one."""
        partition = partition_of(part)
        if part.start >= part.stop:
            return
        consumer = POOL.take(self._source, partition)
        try:
            for messages in consumer.read(partition, part.start, part.stop):
                yield partition, messages
        except GeneratorExit:  # the rest is not wanted, and the consumer knows where it stands
            POOL.give_back(self._source, consumer)
            raise
        except BaseException:
            consumer.close()
            raise
        POOL.give_back(self._source, consumer)

    def locate(self, part: Slice, index: int) -> str:
        places = self._places.get(part.split)
        offset = None if places is None else places.offset_of(index)
        return place(partition_of(part), part.start if offset is None else offset)

    def _decode(
        self, partition: KafkaTopicPartition, messages: list[Any], places: RecordOffsets
    ) -> Records[Any] | ColumnRecords:
        """Return the records of some messages, and note where they are."""
        if self._value_schema is not None:
            decoded = decode_batch(self._value_schema, list(map(_value, messages)))
        else:
            decoded = _decode_records(self._source.deserializer, messages)
        records, origins, bad = decoded
        rejected = self._reject(partition, messages, bad) if bad else None
        stamps = [stamp for _, stamp in map(_timestamp, messages)]
        timestamps = stamps if min(stamps) >= 0 else None  # before Kafka 0.10 records had none
        first = messages[0].offset()
        offsets: list[int] | None = None
        if origins is not None:
            timestamps = None if timestamps is None else [timestamps[origin] for origin in origins]
            offsets = [messages[origin].offset() for origin in origins]
        elif messages[-1].offset() - first + 1 != len(messages):
            offsets = list(map(_offset, messages))
        if records:
            places.add(len(records), first, offsets)
        return Records(records, timestamps, rejected)

    def _reject(
        self, partition: KafkaTopicPartition, messages: list[Any], bad: list[tuple[int, Exception]]
    ) -> list[BadRecord]:
        """Return the records that cannot be decoded, or raise for the first."""
        rejected = []
        for index, error in bad:
            message = messages[index]
            where = place(partition, message.offset())
            reason = str(error) if isinstance(error, FlottError) else f"{type(error).__name__}: {error}"
            if not self._source.on_error.keeps_going:
                raise BadRecordError(where, reason, message.value()) from error
            rejected.append(
                BadRecord(
                    where,
                    reason,
                    message.value(),
                    message.key(),
                    tuple(message.headers() or ()),
                    message.timestamp()[1],
                )
            )
        return rejected


class RecordOffsets:
    """Where the records of a slice are: of every batch the index of the first record, its offset, and all offsets if
    some are missing between them."""

    def __init__(self) -> None:
        self._count = 0
        self._indices: list[int] = []
        self._offsets: list[tuple[int, list[int] | None]] = []

    def add(self, records: int, first: int, offsets: list[int] | None) -> None:
        """Note a batch."""
        self._indices.append(self._count)
        self._offsets.append((first, offsets))
        self._count += records

    def offset_of(self, index: int) -> int | None:
        """Return the offset of a record; None if it is before all batches."""
        batch = bisect_right(self._indices, index) - 1
        if batch < 0:
            return None
        first, offsets = self._offsets[batch]
        within = index - self._indices[batch]
        return first + within if offsets is None else offsets[min(within, len(offsets) - 1)]


def partition_of(part: Slice) -> KafkaTopicPartition:
    """Return the partition that a slice belongs to: its split is named after it."""
    topic, _, number = part.split.rpartition("-")
    return KafkaTopicPartition(topic, int(number))


def place(partition: KafkaTopicPartition, offset: int) -> str:
    """Return where a record is, in words."""
    return f"topic {partition.topic}, partition {partition.partition}, offset {offset}"


def _record_of(message: Any) -> ConsumerRecord:
    return ConsumerRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def _decode_records(schema: KafkaRecordDeserializationSchema, messages: list[Any]) -> Decoded:
    """Convert whole records, one by one as soon as one of them is bad."""
    whole = [_record_of(message) for message in messages]
    try:
        found: list[Any] = [schema.deserialize(record) for record in whole]
        bad: list[tuple[int, Exception]] = []
        pairs = list(enumerate(found))
    except (EpochFailure, ProgramError):
        raise
    except Exception:
        pairs, bad = _decode_each(schema, whole)
    kept = [(index, record) for index, record in pairs if record is not None]
    origins = None if len(kept) == len(whole) else [index for index, _ in kept]
    return Decoded([record for _, record in kept], origins, bad)


def _decode_each(
    schema: KafkaRecordDeserializationSchema, whole: list[ConsumerRecord]
) -> tuple[list[tuple[int, Any]], list[tuple[int, Exception]]]:
    found: list[tuple[int, Any]] = []
    bad: list[tuple[int, Exception]] = []
    for index, record in enumerate(whole):
        try:
            found.append((index, schema.deserialize(record)))
        except (EpochFailure, ProgramError):
            raise
        except Exception as error:
            bad.append((index, error))
    return found, bad
