"""The Kafka sink against a real broker: what a record becomes, and the promises of every sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from flott.common.serialization import ByteArraySchema, SerializationSchema, SimpleStringSchema
from flott.datastream.connectors.base import BadRecord, DeliveryGuarantee, Guarantee, Sink
from flott.datastream.connectors.kafka import (
    FlinkKafkaProducer,
    KafkaDeadLetterSink,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
    Semantic,
)
from flott.errors import ConnectorError, FlottError, ProgramError, TypeMismatchError
from flott.runtime.connectors.kafka import sink_validation
from flott.testing.connectors import SinkConformance, SinkRun
from tests.servers.kafka import KafkaServer


def string_schema(topic: str) -> KafkaRecordSerializationSchema:
    """Return the schema of texts without a key."""
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return builder.set_value_serialization_schema(SimpleStringSchema()).build()


def sink_builder(broker: KafkaServer, topic: str, guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
    """Return the builder of a sink for texts."""
    builder = KafkaSink.builder().set_bootstrap_servers(broker.address).set_record_serializer(string_schema(topic))
    return builder.set_delivery_guarantee(guarantee).set_transactional_id_prefix(f"test-{topic}")


class _KafkaConformance(SinkConformance):
    guarantee: ClassVar[DeliveryGuarantee]
    seeds = 1

    @pytest.fixture(autouse=True)
    def _use_broker(self, broker: KafkaServer) -> None:
        self.broker = broker
        self.topic = ""

    def sink(self) -> Sink[Any]:
        self.topic = self.broker.create_topic(partitions=2)
        return sink_builder(self.broker, self.topic, self.guarantee).build()

    def visible(self) -> Sequence[Any]:
        return [value.decode() for value in self.broker.values(self.topic) if value is not None]


class TestExactlyOnceSink(_KafkaConformance):
    guarantee = DeliveryGuarantee.EXACTLY_ONCE


@pytest.mark.connectors
class TestAtLeastOnceSink(_KafkaConformance):
    guarantee = DeliveryGuarantee.AT_LEAST_ONCE


# ---- what a record becomes -------------------------------------------------------------------------------------------


class _Key(SerializationSchema):
    def serialize(self, element: Any) -> bytes:
        return str(element["id"]).encode()


class _Value(SerializationSchema):
    def serialize(self, element: Any) -> bytes | None:  # type: ignore[override]
        return None if element.get("deleted") else element["text"].encode()


def _written(broker: KafkaServer, sink: Sink[Any], values: list[Any], timestamps: list[int] | None = None) -> None:
    run = SinkRun(sink)
    run.restart(None)
    writer = run.writer(1, "only")
    writer.write(values, timestamps)
    committables = writer.prepare_commit()
    writer.close()
    if (committer := run.committer()) is not None:
        from flott.testing.sinks import commit_permit

        committer.commit(commit_permit(1, now_ms=0), committables)
    run.close()


def test_key_value_headers_topic_and_timestamp_are_written(broker: KafkaServer) -> None:
    one, two = broker.create_topic(), broker.create_topic()

    class ById(KafkaTopicSelector):
        def apply(self, data: Any) -> str:
            return one if data["id"] % 2 else two

    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(ById())
        .set_key_serialization_schema(_Key())
        .set_value_serialization_schema(_Value())
        .set_header_provider(lambda record: [("from", b"test"), ("nothing", None)] if record["id"] < 3 else None)
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(broker.address)
        .set_record_serializer(schema)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"test-{one}")
        .build()
    )
    records = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}, {"id": 3, "text": "c", "deleted": True}]
    _written(broker, sink, records, [1_700_000_000_001, 1_700_000_000_002, -1])
    first, third = broker.read(one)
    (second,) = broker.read(two)
    assert (first.key, first.value, first.timestamp) == (b"1", b"a", 1_700_000_000_001)
    assert first.headers == (("from", b"test"), ("nothing", None)) == second.headers
    assert (second.key, second.value, second.timestamp) == (b"2", b"b", 1_700_000_000_002)
    assert (third.key, third.value, third.headers) == (b"3", None, ())
    assert third.timestamp > 1_700_000_000_002, "a record without a timestamp gets the present time"


def test_a_partitioner_chooses_partitions(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=3)
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_value_serialization_schema(ByteArraySchema())
        .set_partitioner(lambda record, key, value, name, partitions: partitions[int(record) % len(partitions)])
        .build()
    )
    sink = KafkaSink.builder().set_bootstrap_servers(broker.address).set_record_serializer(schema)
    _written(broker, sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build(), [b"0", b"1", b"2", b"4"])
    placed = [(found.partition, found.value) for found in broker.read(topic)]
    assert placed == [(0, b"0"), (1, b"1"), (1, b"4"), (2, b"2")]


def test_keys_go_where_java_producers_put_them(broker: KafkaServer) -> None:
    topic = broker.create_topic(partitions=7)
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = KafkaSink.builder().set_bootstrap_servers(broker.address).set_record_serializer(schema)
    _written(broker, sink.set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build(), ["21", "foobar", "a-little"])
    # murmur2 & 0x7fffffff of Java's client for these texts: -973932308, -790332482, -985981536
    expected = {key: (code & 0x7FFFFFFF) % 7 for key, code in
                ((b"21", -973932308), (b"foobar", -790332482))}  # fmt: skip
    placed = {found.key: found.partition for found in broker.read(topic)}
    assert {key: placed[key] for key in expected} == expected


def test_a_dead_letter_keeps_the_record_and_says_why(broker: KafkaServer) -> None:
    topic = broker.create_topic()
    sink = KafkaDeadLetterSink(broker.address, topic)
    bad = BadRecord("topic orders, partition 3, offset 17", "no JSON", b"{", b"k", (("h", b"1"),), 1_700_000_000_000)
    _written(broker, sink, [bad])
    (found,) = broker.read(topic)
    assert (found.key, found.value, found.timestamp) == (b"k", b"{", 1_700_000_000_000)
    assert dict(found.headers) == {
        "h": b"1", "flott.error": b"no JSON", "flott.place": b"topic orders, partition 3, offset 17",
    }  # fmt: skip


@pytest.mark.parametrize("semantic", list(Semantic))
def test_the_older_producer_writes_a_subtask_to_one_partition(broker: KafkaServer, semantic: Semantic) -> None:
    topic = broker.create_topic(partitions=3)
    with pytest.warns(DeprecationWarning, match="use KafkaSink"):
        sink = FlinkKafkaProducer(
            topic, SimpleStringSchema(), {"bootstrap.servers": broker.address}, semantic=semantic
        )
    sink.set_write_timestamp_to_kafka(True)
    assert sink.guarantee is Guarantee[semantic.name]
    _written(broker, sink, ["a", "b", "c"], [1_700_000_000_001] * 3)
    if semantic is not Semantic.NONE:
        found = broker.read(topic)
        assert [(each.partition, each.value, each.timestamp) for each in found] == [
            (0, value, 1_700_000_000_001) for value in (b"a", b"b", b"c")
        ]


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_builder_refuses_what_is_missing_or_wrong() -> None:
    schema = string_schema("t")
    builder = KafkaSink.builder().set_record_serializer(schema)
    with pytest.raises(ProgramError, match="set_bootstrap_servers"):
        builder.build()
    builder.set_bootstrap_servers("b:9092").set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ProgramError, match="set_transactional_id_prefix"):
        builder.build()
    with pytest.raises(ProgramError, match="set_record_serializer"):
        KafkaSink.builder().set_bootstrap_servers("b:9092").build()
    with pytest.raises(ProgramError, match="set_topic"):
        KafkaRecordSerializationSchema.builder().set_value_serialization_schema(SimpleStringSchema()).build()
    with pytest.raises(ProgramError, match="set_value_serialization_schema"):
        KafkaRecordSerializationSchema.builder().set_topic("t").build()
    with pytest.raises(ProgramError, match="milliseconds"):
        builder.set_transactional_id_prefix("p").set_property("transaction.timeout.ms", "soon").build()


def test_a_secret_is_in_no_text() -> None:
    builder = KafkaSink.builder().set_bootstrap_servers("b:9092").set_record_serializer(string_schema("t"))
    builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("p")
    builder.set_property("security.protocol", "SASL_SSL").set_property("sasl.mechanism", "PLAIN")
    sink = builder.set_property("sasl.username", "me").set_property("sasl.password", "hunter2").build()
    assert "hunter2" not in f"{sink!r}{sink}{sink.create_committer()!r}"
    letters = KafkaDeadLetterSink("b:9092", "t", {"sasl.password": "hunter2"})
    assert "hunter2" not in repr(letters)


def test_validation_says_what_is_wrong(broker: KafkaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = broker.create_topic()
    exactly_once = DeliveryGuarantee.EXACTLY_ONCE
    sink_builder(broker, topic, exactly_once).build().validate()
    with pytest.raises(ProgramError, match="does not have it"):
        sink_builder(broker, "absent", DeliveryGuarantee.NONE).build().validate()
    late = sink_builder(broker, topic, exactly_once).set_property("transaction.timeout.ms", "900001").build()
    with pytest.raises(ProgramError, match="allows 900000 at most"):
        late.validate()
    with pytest.raises(ProgramError, match=r"not valid.*no\.such\.thing"):
        sink_builder(broker, topic, exactly_once).set_property("no.such.thing", "1").build().validate()
    unreachable = sink_builder(broker, topic, exactly_once).set_bootstrap_servers("127.0.0.1:1").build()
    monkeypatch.setattr(sink_validation, "ANSWER_SECONDS", 1.0)
    with pytest.raises(ConnectorError, match=r"No Kafka broker answered at 127\.0\.0\.1:1"):
        unreachable.validate()


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_a_record_that_kafka_does_not_take_fails_the_epoch(broker: KafkaServer, guarantee: DeliveryGuarantee) -> None:
    topic = broker.create_topic(max_message_bytes="300")
    run = SinkRun(sink_builder(broker, topic, guarantee).build())
    with pytest.raises(ConnectorError, match=f"topic {topic}, partition 0.*too large"):
        run.stage(1, ["small", "x" * 1000])
    builder = sink_builder(broker, f"absent-{uuid4().hex}", guarantee).set_property("delivery.timeout.ms", "2000")
    with pytest.raises(ConnectorError, match=r"epoch 1 \(topic absent-"):
        SinkRun(builder.build()).stage(1, ["a"])


def test_a_value_of_a_wrong_type_is_refused(broker: KafkaServer) -> None:
    sink = sink_builder(broker, broker.create_topic(), DeliveryGuarantee.AT_LEAST_ONCE).build()
    writer = SinkRun(sink).writer(1, "a")
    with pytest.raises(FlottError, match="SimpleStringSchema writes str"):
        writer.write(["a", 1], None)
    with pytest.raises(TypeMismatchError):
        writer.write([1], None)
    writer.close()
