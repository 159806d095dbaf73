"""The Kafka source passes the tests that every source must pass, against a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from flott.common.serialization import DeserializationSchema, SimpleStringSchema
from flott.common.typeinfo import TypeInformation, Types
from flott.datastream.connectors.base import OnError
from flott.datastream.connectors.kafka import FlinkKafkaConsumer, KafkaOffsetsInitializer, KafkaSource
from flott.testing.connectors import SourceConformance
from tests.servers.kafka import KafkaServer

FAST = {"fetch.max.wait.ms": "5"}  # slices are read again and again, and a consumer that moves back waits for a fetch


class Number(DeserializationSchema):
    def deserialize(self, message: bytes) -> Any:
        return int(message)

    def get_produced_type(self) -> TypeInformation:
        return Types.INT()


class _Kafka(SourceConformance):
    seeds = 2
    broker: KafkaServer

    @pytest.fixture(autouse=True)
    def _broker(self, broker: KafkaServer) -> None:
        self.broker = broker

    def topic(self, values: list[str]) -> str:
        topic = self.broker.create_topic(partitions=3)
        for partition in range(3):
            self.broker.produce(topic, values[partition::3], partition=partition)
        return topic


class TestBoundedSource(_Kafka):
    def source(self, count: int) -> KafkaSource:
        return self.bad_source(count, frozenset(), OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> KafkaSource:
        return (
            KafkaSource.builder()
            .set_bootstrap_servers(self.broker.address)
            .set_topics(self.topic(["x" if n in bad else str(n) for n in range(count)]))
            .set_group_id("conformance")
            .set_bounded(KafkaOffsetsInitializer.latest())
            .set_value_only_deserializer(Number())
            .set_properties(FAST)
            .set_on_error(on_error)
            .build()
        )


class TestUnboundedSource(_Kafka):
    def source(self, count: int) -> KafkaSource:
        return (
            KafkaSource.builder()
            .set_bootstrap_servers(self.broker.address)
            .set_topic_pattern(self.topic(list(map(str, range(count)))))
            .set_value_only_deserializer(SimpleStringSchema())
            .set_properties({**FAST, "isolation.level": "read_committed"})
            .build()
        )


class TestOlderConsumer(_Kafka):
    seeds = 1

    def source(self, count: int) -> FlinkKafkaConsumer:
        properties = {**FAST, "bootstrap.servers": self.broker.address, "group.id": "older"}
        topic = self.topic(list(map(str, range(count))))
        return FlinkKafkaConsumer(topic, SimpleStringSchema(), properties).set_start_from_earliest()
