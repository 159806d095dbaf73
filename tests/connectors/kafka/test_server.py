"""What the tests of the connector take for granted about their broker."""

from __future__ import annotations

from tests.servers.kafka import KafkaServer, produce_all


def test_records_are_read_back_as_they_were_written(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, ["a", b"b"], partition=1, keys=["k", None], timestamps=[5, 6], headers=[("h", b"x")])
    first, second = broker.read(topic)
    assert (first.partition, first.offset, first.key, first.value, first.timestamp) == (1, 0, b"k", b"a", 5)
    assert (second.offset, second.key, second.value, second.headers) == (1, None, b"b", (("h", b"x"),))


def test_aborted_records_are_hidden_from_committed_readers(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    producer = broker.producer(f"test-{topic}")
    for value, end in (("lost", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        produce_all(producer, topic, [value])
        producer.flush(60)
        end(60)
    assert broker.values(topic) == [b"kept"]
    assert broker.values(topic, committed=False) == [b"lost", b"kept"]
