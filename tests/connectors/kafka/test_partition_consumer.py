"""Consumers: one that moves back reads everything again, whatever its client says about its former place; and how many
of them a process keeps."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import Pause, Slice
from flott.datastream.connectors.kafka import KafkaSource, KafkaTopicPartition
from flott.runtime.connectors.kafka import partition_consumer, reader
from flott.runtime.connectors.kafka.partition_consumer import KEPT_CONSUMERS, ConsumerPool, PartitionConsumer
from flott.runtime.connectors.kafka.reader import KafkaReader

PARTITION = KafkaTopicPartition("orders", 0)
#: Where the partition ends.
END = 20


class FakeMessage:
    """A record that a client hands out."""

    def __init__(self, offset: int):
        self._offset = offset

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None


class FakeClient:
    """A client that answers late, and still speaks of its former place after it was assigned to another.

    That is what librdkafka can do if the machine is busy: the position is the old one, or a message that was fetched
    ahead arrives. A new client has no former place.
    """

    def __init__(self, records: set[int], silences: int, leftovers: bool):
        self.records, self.silences, self.leftovers = sorted(records), silences, leftovers
        self.place = -1001
        self.waiting: list[FakeMessage] = []
        self.silent = 0

    def assign(self, partitions: list[Any]) -> None:
        old = self.waiting[:1] if self.leftovers else []
        self.waiting = [*old, *(FakeMessage(offset) for offset in self.records if offset >= partitions[0].offset)]
        self.silent = self.silences

    def consume(self, count: int, timeout: float) -> list[FakeMessage]:
        if self.silent:
            return []
        found, self.waiting = self.waiting[:count], self.waiting[count:]
        if found:
            self.place = found[-1].offset() + 1
        elif not self.waiting:
            self.place = END  # what remains holds no records: the position moves without a message
        return found

    def poll(self, timeout: float) -> FakeMessage | None:
        self.silent = max(0, self.silent - 1)
        return next(iter(self.consume(1, 0)), None)

    def position(self, partitions: list[Any]) -> list[Any]:
        return [partition_consumer.TopicPartition("orders", 0, self.place)]

    def close(self) -> None:
        """There is nothing to close."""


@pytest.fixture(autouse=True)
def _plain_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_consumer, "Message", FakeMessage)


@pytest.fixture(params=[(0, False), (1, False), (3, False), (0, True), (2, True)])
def consumer_of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a consumer of a partition that has records at these offsets."""

    def make(records: set[int]) -> PartitionConsumer:
        monkeypatch.setattr(partition_consumer, "make_client", lambda *_: FakeClient(records, *request.param))
        builder = KafkaSource.builder().set_bootstrap_servers("b:9092").set_topics("orders")
        return PartitionConsumer(builder.set_value_only_deserializer(SimpleStringSchema()).build())

    return make


def offsets(consumer: PartitionConsumer, start: int, stop: int) -> list[int]:
    return [message.offset() for batch in consumer.read(PARTITION, start, stop) for message in batch]


def test_a_slice_that_is_read_again_has_the_same_records(consumer_of: Any) -> None:
    consumer = consumer_of(set(range(END)))
    for start, stop in [(0, 10), (0, 10), (10, 20), (3, 7), (5, 20), (19, 20), (0, 20), (2, 3), (2, 9)]:
        assert offsets(consumer, start, stop) == list(range(start, stop))


def test_offsets_without_records_are_passed_over(consumer_of: Any) -> None:
    records = {0, 1, 4, 5, 12}  # the others were aborted, or are markers
    consumer = consumer_of(records)
    for start, stop in [(0, 6), (6, 8), (8, 10), (2, 4), (6, 10), (0, 10), (4, 10), (13, 20), (6, 20), (14, 15)]:
        assert offsets(consumer, start, stop) == sorted(records & set(range(start, stop)))


def followed(consumer: PartitionConsumer, start: int, looks: int = 12) -> list[int]:
    """Return the offsets that come when a partition is looked at so often."""
    news = consumer.follow(PARTITION, start, 5)
    return [message.offset() for _ in range(looks) for message in next(news)]


def test_what_is_followed_begins_where_it_was_asked_for(consumer_of: Any) -> None:
    consumer = consumer_of(set(range(END)))
    for start in (0, 10, 3, 3, 19, 0):
        assert followed(consumer, start) == list(range(start, END))
        assert consumer.standing == (PARTITION, END)


def test_slices_and_open_slices_of_a_partition_follow_each_other(consumer_of: Any) -> None:
    consumer = consumer_of(set(range(END)))
    assert offsets(consumer, 0, 7) == list(range(7))
    assert followed(consumer, 7) == list(range(7, END))
    assert offsets(consumer, 2, 9) == list(range(2, 9))
    assert followed(consumer, 9, looks=1)[:1] in ([], [9])


def test_offsets_without_records_are_passed_over_when_following_ends(consumer_of: Any) -> None:
    consumer = consumer_of({0, 1, 4, 5, 12})
    assert followed(consumer, 0) == [0, 1, 4, 5, 12]
    consumer.pass_over_markers()
    assert consumer.standing == (PARTITION, END)


# --- the consumers of a process --------------------------------------------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeClient]:
    """Return the clients that were made."""
    clients: list[FakeClient] = []

    def make(*_: Any) -> FakeClient:
        clients.append(FakeClient(set(), 0, False))
        return clients[-1]

    monkeypatch.setattr(partition_consumer, "make_client", make)
    monkeypatch.setattr(reader, "POOL", ConsumerPool())
    return clients


def following(topic: str, partitions: int) -> tuple[KafkaReader, list[Slice]]:
    builder = KafkaSource.builder().set_bootstrap_servers("b:9092").set_topics(topic)
    source = builder.set_value_only_deserializer(SimpleStringSchema()).build()
    return KafkaReader(source), [Slice(f"{topic}-{number}", 0, None, is_open=True) for number in range(partitions)]


def follow_once(found: tuple[KafkaReader, list[Slice]]) -> None:
    """Follow the partitions until there is a pause, as between two checkpoints."""
    kafka, parts = found
    news = kafka.follow(parts)
    while not isinstance(next(news), Pause):
        pass
    news.close()


def test_two_sources_of_a_process_keep_the_consumers_of_all_partitions_that_they_follow(
    made: list[FakeClient],
) -> None:
    sources = [following("orders", KEPT_CONSUMERS), following("payments", KEPT_CONSUMERS)]
    for _ in range(5):
        for source in sources:
            follow_once(source)
    assert len(made) == 2 * KEPT_CONSUMERS, "none was replaced"


def test_without_readers_that_follow_a_process_keeps_only_some_consumers(made: list[FakeClient]) -> None:
    sources = [following("orders", KEPT_CONSUMERS), following("payments", KEPT_CONSUMERS)]
    for source in sources:
        follow_once(source)
    assert len(reader.POOL._idle) == 2 * KEPT_CONSUMERS
    sources[0][0].close()
    assert len(reader.POOL._idle) == KEPT_CONSUMERS
    sources[1][0].close()
    assert len(reader.POOL._idle) == KEPT_CONSUMERS
