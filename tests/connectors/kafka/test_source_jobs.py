"""Whole jobs that read Kafka, in this process: event time by partition, bad records, failure cards, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.time import Duration
from flott.common.typeinfo import Types
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import OnError
from flott.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource, KafkaSourceBuilder
from flott.datastream.functions import ProcessFunction
from flott.errors import JobFailedError
from flott.runtime.connectors.kafka.partition_consumer import POOL
from flott.testing.harness import collect, in_process
from flott.testing.sinks import Ledger, LedgerSink
from tests.servers.kafka import KafkaServer


def reading(broker: KafkaServer, topic: str) -> KafkaSourceBuilder:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.address)
        .set_topics(topic)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bounded(KafkaOffsetsInitializer.latest())
    )


class WithTime(ProcessFunction):
    """Emits a record with its timestamp and the watermark that it met."""

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp(), ctx.timer_service().current_watermark()


def test_records_have_the_timestamps_of_kafka_and_partitions_their_own_watermarks(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, ["a1", "a2", "a3"], partition=0, timestamps=[1000, 2000, 3000])
    broker.produce(topic, ["b1", "b2", "b3"], partition=1, timestamps=[10, 20, 30])
    env = in_process(1, flott__epoch__max_records="2")
    stream = env.from_source(
        reading(broker, topic).build(), WatermarkStrategy.for_monotonous_timestamps(), "kafka"
    ).process(WithTime())
    found = {value: (timestamp, watermark) for value, timestamp, watermark in collect(stream)}
    assert {value: timestamp for value, (timestamp, _) in found.items()} == {
        "a1": 1000, "a2": 2000, "a3": 3000, "b1": 10, "b2": 20, "b3": 30,
    }  # fmt: skip
    # One record of each partition in an epoch: the slower partition holds event time back for both.
    assert [found[f"a{n}"][1] for n in (2, 3)] == [found[f"b{n}"][1] for n in (2, 3)] == [9, 19]


def test_a_record_that_cannot_be_decoded_fails_the_job_with_its_place(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, [b"good", b"\xff"])
    env = in_process(1)
    stream = env.from_source(reading(broker, topic).build(), WatermarkStrategy.no_watermarks(), "kafka")
    with pytest.raises(JobFailedError) as caught:
        collect(stream)
    assert f"topic {topic}, partition 0, offset 1" in str(caught.value)


def test_bad_records_go_to_the_dead_letters_with_key_and_headers(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    values = [b"good", b"\xff", b"fine"]
    broker.produce(topic, values, keys=["1", "2", "3"], timestamps=[5, 6, 7], headers=[("h", b"x")])
    letters = Ledger(f"letters-{uuid4().hex}")
    source = reading(broker, topic).set_on_error(OnError.dead_letter(LedgerSink(letters))).build()
    env = in_process(1)
    assert collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka")) == ["good", "fine"]
    (letter,) = letters.records
    assert (letter.value, letter.key, letter.headers, letter.timestamp) == (b"\xff", b"2", (("h", b"x"),), 6)
    assert letter.place == f"topic {topic}, partition 0, offset 1"


def test_a_failure_of_the_program_names_the_offset_of_its_record(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    broker.produce(topic, ["1", None, "2", "x", "4"], keys=list("abcde"))
    env = in_process(1)
    stream = env.from_source(reading(broker, topic).build(), WatermarkStrategy.no_watermarks(), "kafka")
    with pytest.raises(JobFailedError) as caught:
        collect(stream.map(int, Types.INT()))
    assert f"topic {topic}, partition 0, offset 3" in str(caught.value)


def test_a_partition_that_is_far_ahead_waits_for_the_others(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, [f"slow{n}" for n in range(10)], partition=0, timestamps=range(1000, 1100, 10))
    broker.produce(topic, [f"fast{n}" for n in range(10)], partition=1, timestamps=range(1000, 11_000, 1000))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_watermark_alignment("group", Duration.of_millis(50))
    env = in_process(1, flott__epoch__max_records="2")
    found = collect(env.from_source(reading(broker, topic).build(), strategy, "kafka"))
    assert sorted(found) == sorted([f"{name}{n}" for name in ("slow", "fast") for n in range(10)])
    assert found.index("slow9") < found.index("fast4"), "it was not held back"


def test_nothing_is_fetched_any_more_when_a_job_has_ended(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    for partition in range(2):
        broker.produce(topic, ["a"], partition=partition)
    env = in_process(2)
    assert collect(env.from_source(reading(broker, topic).build(), WatermarkStrategy.no_watermarks(), "kafka"))
    assert POOL._idle == {}


def run_until(env: Any, holds: Callable[[], bool]) -> None:
    """Run the program of an environment in the background until a condition holds, and cancel it."""
    client = env.execute_async("live")
    deadline = time.monotonic() + 60
    try:
        while not holds():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.02)
    finally:
        client.cancel().result()


def test_an_idle_partition_does_not_hold_event_time_back(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    broker.produce(topic, ["a1"], partition=0, timestamps=[1000])
    broker.produce(topic, ["b1"], partition=1, timestamps=[10])
    ledger = Ledger(f"idle-{uuid4().hex}")
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.address)
        .set_topics(topic)
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    env = in_process(1)
    env.from_source(source, strategy, "kafka").process(WithTime()).sink_to(LedgerSink(ledger))
    written = 1

    def later_record_has_met_the_time_of_the_fast_partition() -> bool:
        nonlocal written
        written += 1
        broker.produce(topic, [f"a{written}"], partition=0, timestamps=[1000 * written])
        return any(watermark > 10 for _, _, watermark in ledger.records)

    run_until(env, later_record_has_met_the_time_of_the_fast_partition)


def test_a_live_job_reads_what_is_written_and_tells_its_group(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=2)
    group = f"live-{topic}"
    ledger = Ledger(group)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.address)
        .set_topics(topic)
        .set_group_id(group)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("partition.discovery.interval.ms", "200")
        .build()
    )
    env = in_process(2)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka").sink_to(LedgerSink(ledger))

    def write() -> None:
        for n in range(30):
            broker.produce(topic, [str(n)], partition=n % 2)
        broker.add_partitions(topic, 3)
        broker.produce(topic, ["30"], partition=2)

    writer = Thread(target=write)

    def everything_is_there() -> bool:
        if not writer.ident:
            writer.start()
        return len(ledger.records) >= 31

    run_until(env, everything_is_there)
    writer.join()
    assert sorted(map(int, ledger.records)) == list(range(31))
    assert sum(broker.committed_offsets(group, topic).values()) == 31
