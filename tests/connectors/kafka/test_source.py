"""The Kafka source against a real broker: every record once, at every start and stop, whatever fails."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import SliceRequest, SplitEnumerator
from flott.datastream.connectors.kafka import (
    ConsumerRecord,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.kafka.partition_consumer import POOL
from flott.testing.connectors.source_run import enumerator_of, run_source, through_json
from tests.servers.kafka import KafkaServer, produce_all


def building(broker: KafkaServer, *topics: str) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers(broker.address)
    # Tests read the same slices again and again; each time a consumer moves back, it waits for the fetch under way.
    builder.set_value_only_deserializer(SimpleStringSchema()).set_property("fetch.max.wait.ms", "5")
    return builder.set_topics(*topics) if topics else builder


def bounded(broker: KafkaServer, *topics: str) -> KafkaSourceBuilder:
    return building(broker, *topics).set_bounded(KafkaOffsetsInitializer.latest())


def everything(source: KafkaSource) -> dict[str, list[Any]]:
    """Read a bounded source in one epoch, by partition."""
    plan = enumerator_of(source, None).plan(SliceRequest(1, 1, 0, everything=True))
    assert plan.finished
    reader = source.create_reader()
    return {part.split: list(reader.read(part)) for part in plan.slices}


def take(enumerator: SplitEnumerator, source: KafkaSource, budget: int = 1000, now_ms: int = 0) -> list[Any]:
    """Run one epoch and return its records."""
    plan = enumerator.plan(SliceRequest(budget, 2, now_ms))
    reader, records, reached = source.create_reader(), [], {}
    for part in plan.slices:
        records += reader.read(part)
        reached[part.split] = through_json(reader.reached(part))
    enumerator.advance(plan, reached)
    return records


def take_until(enumerator: SplitEnumerator, source: KafkaSource, count: int) -> list[Any]:
    """Run epochs until there are so many records."""
    records: list[Any] = []
    deadline = time.monotonic() + 60
    while len(records) < count and time.monotonic() < deadline:
        records += take(enumerator, source)
    return records


def plan_again_and_again(enumerator: SplitEnumerator) -> None:
    """Plan as a job does that has nothing to read."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        enumerator.plan(SliceRequest(10, 1, 0))


class Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record: ConsumerRecord) -> Any:
        return tuple(record)


def test_every_record_comes_once_and_each_partition_in_order_whatever_fails(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=3)
    for partition, count in enumerate((200, 0, 77)):
        broker.produce(topic, [f"{partition}:{n}" for n in range(count)], partition=partition)
    for seed in range(3):
        run = run_source(bounded(broker, topic).build(), Random(seed))
        assert run.by_split == {
            f"{topic}-0": [f"0:{n}" for n in range(200)],
            f"{topic}-2": [f"2:{n}" for n in range(77)],
        }


def test_a_whole_record_has_key_headers_and_place(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, ["a", None], partition=1, keys=["k", "t"], timestamps=[5, 6], headers=[("h", b"x")])
    source = bounded(broker, topic).set_deserializer(Whole()).build()
    assert everything(source) == {
        f"{topic}-1": [
            (topic, 1, 0, 5, b"k", b"a", (("h", b"x"),)),
            (topic, 1, 1, 6, b"t", None, (("h", b"x"),)),
        ]
    }


def test_a_tombstone_has_no_value_to_read(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a", None, "b"], keys=["1", "1", "2"])
    assert everything(bounded(broker, topic).build()) == {f"{topic}-0": ["a", "b"]}


def test_timestamps_of_records_are_those_of_kafka(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a", None, "b"], timestamps=[10, 20, 30])
    source = bounded(broker, topic).build()
    (part,) = enumerator_of(source, None).plan(SliceRequest(10, 1, 0)).slices
    batches = list(source.create_reader().read_batches(part))
    assert [stamp for batch in batches for stamp in batch.timestamps or ()] == [10, 30]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), [0, 1, 2, 3, 4]),
        (KafkaOffsetsInitializer.timestamp(1003), [3, 4]),
        (KafkaOffsetsInitializer.timestamp(9999), []),
        (KafkaOffsetsInitializer.latest(), []),
        (KafkaOffsetsInitializer.committed_offsets(), [2, 3, 4]),
    ],
)
def test_a_source_starts_where_it_is_told_to(
    broker: KafkaServer, offsets: KafkaOffsetsInitializer, expected: list[int]
) -> None:
    topic = broker.create_topic()
    broker.produce(topic, [str(n) for n in range(5)], timestamps=[1000 + n for n in range(5)])
    group = f"group-{topic}"
    reader = building(broker, topic).set_group_id(group).build()
    enumerator = enumerator_of(reader, None)
    take(enumerator, reader, budget=2)
    enumerator.acknowledge()
    enumerator.close()
    source = bounded(broker, topic).set_group_id(group).set_starting_offsets(offsets).build()
    assert [int(value) for values in everything(source).values() for value in values] == expected


def test_offsets_are_given_for_single_partitions_and_the_strategy_decides_for_others(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=3)
    for partition in range(3):
        broker.produce(topic, ["0", "1", "2"], partition=partition)
    given = {KafkaTopicPartition(topic, 0): 1, KafkaTopicPartition(topic, 1): 99}
    earliest = bounded(broker, topic).set_starting_offsets(KafkaOffsetsInitializer.offsets(given)).build()
    assert [len(values) for values in everything(earliest).values()] == [2, 3, 3]
    none = KafkaOffsetsInitializer.offsets(given, KafkaOffsetResetStrategy.NONE)
    with pytest.raises(ProgramError, match=r"partition 1: the program gives offset 99.* from 0 to 3.*ResetStrategy"):
        enumerator_of(bounded(broker, topic).set_starting_offsets(none).build(), None)


def test_a_group_that_has_committed_nothing_is_an_error_unless_a_strategy_is_given(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a"])
    source = bounded(broker, topic).set_group_id(f"new-{topic}")
    with pytest.raises(ProgramError, match="has committed no offset"):
        enumerator_of(source.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(), None)
    earliest = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    assert everything(source.set_starting_offsets(earliest).build()) == {f"{topic}-0": ["a"]}


def test_a_source_stops_at_given_offsets_also_if_they_are_not_there_yet(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["0", "1", "2"])
    stop = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 2})
    assert everything(building(broker, topic).set_bounded(stop).build()) == {f"{topic}-0": ["0", "1"]}


def test_only_the_chosen_partitions_are_read(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=3)
    for partition in range(3):
        broker.produce(topic, [str(partition)], partition=partition)
    source = bounded(broker).set_partitions({KafkaTopicPartition(topic, 2), KafkaTopicPartition(topic, 0)}).build()
    assert everything(source) == {f"{topic}-0": ["0"], f"{topic}-2": ["2"]}
    missing = bounded(broker).set_partitions({KafkaTopicPartition(topic, 7)}).build()
    with pytest.raises(ProgramError, match=f"{topic}-7 do not exist"):
        enumerator_of(missing, None)


def test_new_topics_and_partitions_are_found_while_the_job_runs(broker: KafkaServer) -> None:
    name = broker.create_topic()
    broker.produce(name, ["a"])
    source = (
        building(broker)
        .set_topic_pattern(f"{name}.*")
        .set_starting_offsets(KafkaOffsetsInitializer.latest())
        .set_property("partition.discovery.interval.ms", "100")
        .build()
    )
    enumerator = enumerator_of(source, None)
    assert take(enumerator, source, now_ms=0) == []
    broker.produce(name, ["b"])
    broker.add_partitions(name, 2)
    broker.produce(name, ["c"], partition=1)
    other = broker.create_topic(f"{name}-other")
    broker.produce(other, ["d"])
    assert take(enumerator, source, now_ms=99) == ["b"]
    assert sorted(take(enumerator, source, now_ms=100)) == ["c", "d"], "what is new is read from its beginning"
    assert take(enumerator, source, now_ms=300) == []
    restored = enumerator_of(source, through_json(enumerator.snapshot()))
    assert take(restored, source) == []
    broker.produce(other, ["e"])
    assert take(restored, source) == ["e"]


def test_a_partition_that_appeared_while_the_job_was_down_is_read_from_its_beginning(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a"])
    source = building(broker, topic).set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    enumerator = enumerator_of(source, None)
    broker.produce(topic, ["b"])
    assert take(enumerator, source) == ["b"]
    broker.add_partitions(topic, 2)
    broker.produce(topic, ["c"], partition=1)
    assert take(enumerator_of(source, through_json(enumerator.snapshot())), source) == ["c"]


def test_the_beginning_of_all_partitions_is_durable_with_the_first_epoch(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    source = building(broker, topic).set_starting_offsets(KafkaOffsetsInitializer.latest()).build()
    first = enumerator_of(source, None)
    broker.produce(topic, ["a"], partition=0)
    plan = first.plan(SliceRequest(10, 1, 0))
    broker.produce(topic, ["b"], partition=1)
    second = enumerator_of(source, None)  # it would begin behind b
    second.advance(plan, {part.split: part.stop for part in plan.slices})
    assert take(second, source) == ["b"]


def test_budgets_are_shared_and_paused_partitions_are_left_out(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=3)
    for partition, count in enumerate((2, 50, 50)):
        broker.produce(topic, map(str, range(count)), partition=partition)
    enumerator = enumerator_of(building(broker, topic).build(), None)
    plan = enumerator.plan(SliceRequest(10, 2, 0))
    assert {part.split: part.stop for part in plan.slices} == {f"{topic}-0": 2, f"{topic}-1": 4, f"{topic}-2": 4}
    assert plan.backlog
    plan = enumerator.plan(SliceRequest(1000, 2, 0, paused=frozenset({f"{topic}-1"})))
    assert {part.split for part in plan.slices} == {f"{topic}-0", f"{topic}-2"}
    pending = enumerator.pending(0)
    assert (pending.records, pending.splits) == (102, {f"{topic}-0": 2, f"{topic}-1": 50, f"{topic}-2": 50})


def test_partitions_with_nothing_to_read_are_waited_for(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, ["a"], partition=0)
    plan = enumerator_of(building(broker, topic).build(), None).plan(SliceRequest(10, 2, 0))
    assert plan.waiting == (f"{topic}-1",)
    assert not plan.finished


def test_offsets_are_committed_to_the_group_after_the_checkpoint_only(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, map(str, range(10)), partition=0)
    group = f"group-{topic}"
    source = building(broker, topic).set_group_id(group).build()
    enumerator = enumerator_of(source, None)
    take(enumerator, source, budget=4)
    assert broker.committed_offsets(group, topic) == {}
    enumerator.acknowledge()
    take(enumerator, source)
    enumerator.close()
    assert broker.committed_offsets(group, topic) == {0: 10, 1: 0}, "the last acknowledged offsets are awaited"
    quiet = building(broker, topic).set_group_id(f"{group}-b").set_property("commit.offsets.on.checkpoint", "false")
    silent = enumerator_of(quiet.build(), None)
    silent.acknowledge()
    silent.close()
    assert broker.committed_offsets(f"{group}-b", topic) == {}


def write_transactions(broker: KafkaServer, topic: str) -> None:
    """Write a-b (committed), c-d (aborted), e (committed), f (aborted): markers and gaps, also at the end."""
    producer = broker.producer(f"test-{topic}")
    ends = (producer.commit_transaction, producer.abort_transaction)
    for index, values in enumerate((["a", "b"], ["c", "d"], ["e"], ["f"])):
        producer.begin_transaction()
        produce_all(producer, topic, values, partition=0)
        producer.flush(60)
        ends[index % 2](60)


@pytest.mark.parametrize(("level", "expected"), [("read_committed", "abe"), ("read_uncommitted", "abcdef")])
@pytest.mark.parametrize("budget", [1, 3, 100])
def test_aborted_transactions_and_markers_are_passed_over(
    broker: KafkaServer, level: str, expected: str, budget: int
) -> None:
    topic = broker.create_topic()
    write_transactions(broker, topic)
    source = bounded(broker, topic).set_property("isolation.level", level).build()
    run = run_source(source, Random(1), budgets=(budget, budget))
    assert "".join(run.records) == expected


def test_an_open_transaction_holds_committed_readers_back(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a"], partition=0)
    producer = broker.producer(f"test-{topic}")
    producer.begin_transaction()
    produce_all(producer, topic, ["b"], partition=0)
    producer.flush(60)
    broker.produce(topic, ["c"], partition=0)
    committed = building(broker, topic).set_property("isolation.level", "read_committed").build()
    enumerator = enumerator_of(committed, None)
    assert take(enumerator, committed) == ["a"]
    assert take(enumerator, committed) == []
    uncommitted = building(broker, topic).build()
    assert take(enumerator_of(uncommitted, None), uncommitted) == ["a", "b", "c"]
    producer.commit_transaction(60)
    assert take_until(enumerator, committed, 2) == ["b", "c"], "the broker writes the marker a moment later"


def test_records_that_retention_removed_are_an_error_that_says_what_to_set(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, map(str, range(10)))
    source = building(broker, topic).build()
    enumerator = enumerator_of(source, None)
    take(enumerator, source, budget=3)
    POOL.close()  # it has fetched the others already
    broker.delete_records(topic, 0, 7)
    message = f"Topic {topic}, partition 0: the job needs offset 3, but the broker has offsets from 7 to 10"
    with pytest.raises(ConnectorError, match=f"{message}.*auto.offset.reset"):
        take(enumerator, source)
    tolerant = building(broker, topic).set_property("auto.offset.reset", "earliest").build()
    assert take(enumerator_of(tolerant, enumerator.snapshot()), tolerant) == ["7", "8", "9"]


def test_a_deleted_topic_is_an_error_that_names_it(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a", "b"])
    source = building(broker, topic).set_property("default.api.timeout.ms", "2000").build()
    enumerator = enumerator_of(source, None)
    take(enumerator, source, budget=1)
    plan = enumerator.plan(SliceRequest(10, 1, 0))
    POOL.close()  # it has fetched the other already
    broker.delete_topic(topic)
    with pytest.raises(ConnectorError, match=f"topic {topic} does not exist any more.* read it up to offset 1"):
        list(source.create_reader().read(plan.slices[0]))
    with pytest.raises(ConnectorError, match=f"Partition 0 of topic {topic} does not exist any more"):
        plan_again_and_again(enumerator)
    with pytest.raises(ProgramError, match=f"topic {topic} does not exist"):
        enumerator_of(source, enumerator.snapshot())


def test_a_topic_that_was_created_again_is_noticed_by_its_end(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a", "b"])
    source = building(broker, topic).build()
    enumerator = enumerator_of(source, None)
    take(enumerator, source)
    broker.delete_topic(topic)
    broker.create_topic(topic)
    with pytest.raises(ConnectorError, match="has read up to offset 2, but the partition ends at 0"):
        enumerator_of(source, enumerator.snapshot()).plan(SliceRequest(10, 1, 0))


def test_partitions_that_are_not_read_any_more_leave_the_state(broker: KafkaServer) -> None:
    first, second = broker.create_topic(), broker.create_topic()
    for topic in (first, second):
        broker.produce(topic, ["a", "b"])
    both = building(broker, first, second).build()
    enumerator = enumerator_of(both, None)
    take(enumerator, both, budget=2)
    broker.delete_topic(first)
    one = building(broker, second).build()
    restored = enumerator_of(one, through_json(enumerator.snapshot()))
    assert take(restored, one) == ["b"]
    assert first not in str(restored.snapshot())


def test_a_slice_says_where_its_records_are(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["a", None, "b"], keys=["1", "1", "2"])
    source = bounded(broker, topic).build()
    reader = source.create_reader()
    (part,) = enumerator_of(source, None).plan(SliceRequest(10, 1, 0)).slices
    assert list(reader.read(part)) == ["a", "b"]
    assert [reader.locate(part, index) for index in range(2)] == [
        f"topic {topic}, partition 0, offset {offset}" for offset in (0, 2)
    ]
