"""A consumer that moves back reads everything again, whatever its client says about its former place."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.kafka import KafkaSource, KafkaTopicPartition
from flott.runtime.connectors.kafka import partition_consumer
from flott.runtime.connectors.kafka.clients import KafkaError
from flott.runtime.connectors.kafka.partition_consumer import PartitionConsumer

PARTITION = KafkaTopicPartition("orders", 0)


class FakeMessage:
    """What a client hands out: a record, or the report that the end is reached."""

    def __init__(self, offset: int, is_end: bool = False):
        self._offset, self._is_end = offset, is_end

    def offset(self) -> int:
        return self._offset

    def error(self) -> Any:
        return KafkaError(KafkaError._PARTITION_EOF) if self._is_end else None


class FakeClient:
    """A client that answers late, and whose position stays where it was until it has handed out a message.

    That is what librdkafka does when the machine is busy.
    """

    def __init__(self, records: set[int], end: int, silences: int):
        self.records, self.end, self.silences = records, end, silences
        self.position_now = -1001
        self.waiting: list[FakeMessage] = []
        self.silent = 0

    def assign(self, partitions: list[Any]) -> None:
        start = partitions[0].offset
        self.waiting = [FakeMessage(offset) for offset in sorted(self.records) if offset >= start]
        self.waiting.append(FakeMessage(self.end, is_end=True))
        self.silent = self.silences

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        if self.silent:
            return []
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        for message in found:
            if message.error() is None:
                self.position_now = message.offset() + 1
        return found

    def poll(self, timeout: float) -> FakeMessage | None:
        self.silent = max(0, self.silent - 1)
        return next(iter(self.consume(1, 0)), None)

    def position(self, partitions: list[Any]) -> list[Any]:
        return [partition_consumer.TopicPartition("orders", 0, self.position_now)]


@pytest.fixture(autouse=True)
def _plain_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_consumer, "Message", FakeMessage)


def consumer_of(client: FakeClient, monkeypatch: pytest.MonkeyPatch) -> PartitionConsumer:
    monkeypatch.setattr(partition_consumer, "make_client", lambda *arguments: client)
    builder = KafkaSource.builder().set_bootstrap_servers("b:9092").set_topics("orders")
    return PartitionConsumer(builder.set_value_only_deserializer(SimpleStringSchema()).build())


def offsets(consumer: PartitionConsumer, start: int, stop: int) -> list[int]:
    return [message.offset() for batch in consumer.read(PARTITION, start, stop) for message in batch]


@pytest.mark.parametrize("silences", [0, 1, 3])
def test_a_slice_that_is_read_again_has_the_same_records(silences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = consumer_of(FakeClient(set(range(20)), 20, silences), monkeypatch)
    for start, stop in [(0, 10), (0, 10), (10, 20), (3, 7), (5, 20), (19, 20), (0, 20)]:
        assert offsets(consumer, start, stop) == list(range(start, stop))


@pytest.mark.parametrize("silences", [0, 2])
def test_offsets_without_records_are_passed_over(silences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    records = {0, 1, 4, 5}  # the others were aborted, or are markers
    consumer = consumer_of(FakeClient(records, 10, silences), monkeypatch)
    for start, stop in [(0, 6), (6, 8), (8, 10), (2, 4), (6, 10), (0, 10), (4, 10)]:
        assert offsets(consumer, start, stop) == sorted(records & set(range(start, stop)))
