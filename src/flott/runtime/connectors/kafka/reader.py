"""Turns slices of partitions into records. Task side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

from flott.common.serialization import DeserializationSchema
from flott.datastream.connectors.base import BadRecord, ColumnRecords, Records, Slice, SourceReader
from flott.datastream.connectors.kafka._deserializers import (
    ConsumerRecord,
    KafkaRecordDeserializationSchema,
    ValueOnlyDeserializationSchema,
)
from flott.datastream.connectors.kafka._offsets import KafkaTopicPartition
from flott.datastream.connectors.kafka._source import KafkaSource
from flott.errors import BadRecordError, EpochFailure, FlottError, ProgramError
from flott.runtime.connectors.decoding import Decoded, decode_batch
from flott.runtime.connectors.kafka.partition_consumer import POOL, Message

_value, _timestamp, _offset = Message.value, Message.timestamp, Message.offset


class KafkaReader(SourceReader[Any]):
    """Reads the slices of a :class:`KafkaSource`."""

    def __init__(self, source: KafkaSource):
        self._source = source
        schema = source.deserializer
        self._value_schema: DeserializationSchema | None = (
            schema.schema if isinstance(schema, ValueOnlyDeserializationSchema) else None
        )
        # Where the records of the slice that is read are: the index of the first record of every batch, its offset, and
        # all offsets of the batch if some are missing between them.
        self._indices: list[int] = []
        self._offsets: list[tuple[int, list[int] | None]] = []

    def read(self, part: Slice) -> Iterator[Any]:
        for batch in self.read_batches(part):
            assert isinstance(batch, Records)
            yield from batch.values

    def read_batches(self, part: Slice) -> Iterator[Records[Any] | ColumnRecords]:
        count = 0
        with closing(self._messages(part)) as found:
            for partition, messages in found:
                records = self._decode(partition, messages, count)
                count += len(records.values)
                yield records

    def _messages(self, part: Slice) -> Generator[tuple[KafkaTopicPartition, list[Any]], None, None]:
        """Yield the messages of a slice, by a consumer that is kept for the next one."""
        self._indices, self._offsets = [], []
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
        batch = bisect_right(self._indices, index) - 1
        if batch < 0:
            return place(partition_of(part), part.start)
        first, offsets = self._offsets[batch]
        within = index - self._indices[batch]
        return place(partition_of(part), first + within if offsets is None else offsets[min(within, len(offsets) - 1)])

    def _decode(self, partition: KafkaTopicPartition, messages: list[Any], count: int) -> Records[Any]:
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
            self._indices.append(count)
            self._offsets.append((first, offsets))
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
