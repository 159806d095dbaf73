"""What a Kafka source is made of, without a broker: the builder, its refusals, the translation of properties."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import Boundedness
from flott.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
    SimpleStringValueKafkaRecordDeserializationSchema,
)
from flott.errors import ProgramError

pytest.importorskip("confluent_kafka", reason="no client: pip install 'flott[kafka]'")

from flott.runtime.connectors.kafka.client_settings import client_settings
from flott.runtime.connectors.kafka.shares import share_out

JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def complete() -> KafkaSourceBuilder:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("broker:9092")
        .set_topics("orders")
        .set_value_only_deserializer(SimpleStringSchema())
    )


def test_a_source_shows_what_it_reads_and_no_secret() -> None:
    secret = "open-sesame"
    source = (
        complete()
        .set_group_id("accounting")
        .set_property("sasl.password", secret)
        .set_properties({"sasl.jaas.config": f'{JAAS} username="u" password="{secret}";'})
        .build()
    )
    assert repr(source) == "KafkaSource(topic orders, from earliest(), at broker:9092)"
    assert secret not in repr(source.properties)
    assert secret not in repr(complete().set_property("sasl.password", secret).__dict__)
    assert pickle.loads(pickle.dumps(source)) == source


def test_a_source_ends_only_if_it_is_told_to() -> None:
    assert complete().build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    stop = KafkaOffsetsInitializer.timestamp(17)
    assert complete().set_bounded(stop).build().boundedness is Boundedness.BOUNDED
    unbounded = complete().set_unbounded(stop).build()
    assert unbounded.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert repr(unbounded) == "KafkaSource(topic orders, from earliest() to timestamp(17), at broker:9092)"
    assert unbounded.discovery_interval_ms is None, "what ends does not look for more"
    assert complete().set_property("partition.discovery.interval.ms", "-1").build().discovery_interval_ms is None


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KafkaSource.builder().build(), "needs brokers"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("b").build(), "needs topics"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("b").set_topics("t").build(), "needs a deserializer"),
        (lambda: complete().set_topic_pattern("x.*"), "only one of"),
        (lambda: KafkaSource.builder().set_topic_pattern("x("), "no regular expression"),
        (lambda: KafkaSource.builder().set_topics(), "names of topics"),
        (lambda: KafkaSource.builder().set_partitions([]), "at least one"),
        (lambda: complete().set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(), "group"),
        (lambda: complete().set_bounded(KafkaOffsetsInitializer.earliest()), "reads nothing"),
        (lambda: complete().set_property("isolation.level", "serializable").build(), "isolation.level"),
        (lambda: complete().set_property("default.api.timeout.ms", "long").build(), "number of milliseconds"),
        (lambda: complete().set_deserializer(SimpleStringSchema()), "set_value_only_deserializer"),  # type: ignore
        (lambda: complete().set_property("a", None), "a text or a number"),  # type: ignore
        (lambda: KafkaTopicPartition("t", -1), "from 0 on"),
        (lambda: KafkaOffsetsInitializer.offsets({KafkaTopicPartition("t", 0): -2}), "from 0 on"),
        (lambda: KafkaOffsetsInitializer.timestamp(-1), "since 1970"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_written(build: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        build()


def test_unknown_properties_are_refused_before_anything_runs_without_showing_secrets() -> None:
    source = complete().set_properties({"no.such.thing": "1", "sasl.password": "open-sesame"}).build()
    with pytest.raises(ProgramError, match=r"no\.such\.thing") as caught:
        source.create_enumerator()
    assert "open-sesame" not in str(caught.value)


def test_the_older_consumer_is_another_form_of_the_source() -> None:
    properties = {
        "bootstrap.servers": "b:1",
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "flink.partition-discovery.interval-millis": "500",
    }
    consumer = FlinkKafkaConsumer(["a", "b"], SimpleStringSchema(), properties)
    assert consumer.source.discovery_interval_ms == 500
    committed = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)
    assert consumer.source.starting_offsets == committed
    assert consumer.source.commits_offsets
    assert not consumer.set_commit_offsets_on_checkpoints(False).source.commits_offsets
    assert consumer.set_start_from_latest().source.starting_offsets == KafkaOffsetsInitializer.latest()
    assert consumer.set_start_from_timestamp(5).source.starting_offsets == KafkaOffsetsInitializer.timestamp(5)
    assert repr(consumer) == "FlinkKafkaConsumer(topics a, b, from timestamp(5), at b:1)"
    alone = FlinkKafkaConsumer("a", SimpleStringSchema(), {"bootstrap.servers": "b:1"})
    assert alone.source.starting_offsets == KafkaOffsetsInitializer.latest()
    with pytest.raises(ProgramError, match="needs a group"):
        alone.set_start_from_group_offsets()


def test_the_schema_of_strings_takes_a_character_set() -> None:
    schema = SimpleStringValueKafkaRecordDeserializationSchema("latin-1").schema
    assert schema.deserialize(b"\xe4") == "ä"


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"fetch.max.wait.ms": "7"}, {"fetch.wait.max.ms": "7"}),
        ({"max.poll.records": "1", "key.deserializer": "x", "partition.discovery.interval.ms": "5"}, {}),
        ({"security.protocol": "SASL_SSL"}, {"security.protocol": "SASL_SSL"}),
        (
            {"sasl.jaas.config": f'{JAAS} username="al\\"ice" password=\'p;w\';'},
            {"sasl.username": 'al"ice', "sasl.password": "p;w"},
        ),
        ({"ssl.truststore.location": "/a/ca.pem", "ssl.truststore.password": "x"}, {"ssl.ca.location": "/a/ca.pem"}),
        (
            {"ssl.keystore.location": "/a/k.p12", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "x"},
            {"ssl.keystore.location": "/a/k.p12", "ssl.keystore.password": "x"},
        ),
        (
            {"ssl.keystore.location": "/a/k", "ssl.keystore.type": "PEM"},
            {"ssl.certificate.location": "/a/k", "ssl.key.location": "/a/k"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"statistics.interval.ms": "5"}, {"statistics.interval.ms": "5"}),
        ({"buffer.memory": "2048"}, {"queue.buffering.max.kbytes": "2"}),
    ],
)  # fmt: skip
def test_properties_of_java_clients_are_translated(java: dict[str, str], expected: dict[str, str]) -> None:
    assert client_settings(java) == expected


@pytest.mark.parametrize(
    ("java", "message"),
    [
        ({"sasl.jaas.config": f"{JAAS};"}, "no username and password"),
        ({"sasl.jaas.config": 'com.example.LoginModule required password="hush";'}, "com.example.LoginModule"),
        ({"ssl.truststore.location": "/a/trust.jks"}, "expected a PEM file"),
        ({"ssl.keystore.location": "/a/key.jks"}, "expected a PEM or PKCS#12 file"),
    ],
)
def test_what_librdkafka_cannot_do_is_refused_with_what_to_do(java: dict[str, str], message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        client_settings(java)
    assert "hush" not in str(caught.value)


def test_shares_are_equal_and_use_up_the_budget() -> None:
    assert share_out(100, {"a": 1000, "b": 10, "c": 1000}) == {"a": 45, "b": 10, "c": 45}
    assert share_out(7, {"a": 3, "b": 3}) == {"a": 3, "b": 3}
    assert sum(share_out(10, dict.fromkeys("abc", 100)).values()) == 10
    assert share_out(5, {}) == {}
