"""MQTT, against a real Mosquitto."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.datastream.connectors.base import Guarantee, OnError, Sink, SliceRequest, Source, SplitEnumerator
from flott.datastream.connectors.mqtt import (
    MqttConnectionOptions,
    MqttSink,
    MqttSource,
    QueueDeserializationSchema,
    QueueMessage,
)
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.mqtt import MqttClient, MqttPublisher
from flott.testing.connectors import SinkConformance
from flott.testing.connectors.sink_run import SinkRun
from tests.connectors.pages import run_page
from tests.connectors.queues.queue_kit import QueueConformance
from tests.servers.mosquitto import mosquitto_server, serve
from tests.servers.process import NoServer
from tests.servers.sharing import shared

pytestmark = pytest.mark.connectors

TEXT = SimpleStringSchema()
WATCHDOG_SECONDS = 60


@pytest.fixture(scope="session")
def broker() -> Iterator[MqttConnectionOptions]:
    pytest.importorskip("paho.mqtt", reason="no client: pip install 'flott[mqtt]'")
    try:
        with shared("mosquitto", serve) as facts:
            yield MqttConnectionOptions("127.0.0.1", facts["port"])
    except NoServer as reason:
        pytest.skip(str(reason))


def source_of(broker: MqttConnectionOptions, topic: str, **options: Any) -> MqttSource:
    """Return a source whose session exists, so that the broker keeps what is published from now on."""
    source = MqttSource(broker, (topic,), TEXT, client_id=uuid4().hex, **options)
    client = MqttClient(source)
    client.open()
    client.close()
    return source


def publish(broker: MqttConnectionOptions, topic: str, values: Sequence[bytes], id_property: str | None = "id") -> None:
    publisher = MqttPublisher(MqttSink(broker, topic, TEXT, id_property=id_property))
    publisher.publish([QueueMessage(value, f"{topic}-{number}") for number, value in enumerate(values)])
    publisher.flush()
    publisher.close()


def await_records(enumerator: SplitEnumerator, source: MqttSource, count: int) -> list[Any]:
    deadline = time.monotonic() + WATCHDOG_SECONDS
    while True:
        plan = enumerator.plan(SliceRequest(1000, 1, 0))
        if sum(part.records or 0 for part in plan.slices) >= count:
            enumerator.advance(plan, {})
            return [value for part in plan.slices for value in source.create_reader().read(part)]
        assert time.monotonic() < deadline
        time.sleep(0.01)


class TestSourceWithIds(QueueConformance):
    @pytest.fixture(autouse=True)
    def _server(self, broker: MqttConnectionOptions) -> None:
        self.broker = broker

    def _source(self, values: Sequence[bytes], on_error: OnError) -> Source[Any]:
        topic = uuid4().hex
        source = source_of(self.broker, topic, id_property="id", on_error=on_error)
        publish(self.broker, topic, values)
        return source

    def source(self, count: int) -> Source[Any]:
        return self._source([str(number).encode() for number in range(count)], OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        return self._source([b"\xff" if n in bad else str(n).encode() for n in range(count)], on_error)


class TestSink(SinkConformance):
    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, broker: MqttConnectionOptions) -> None:
        self.broker = broker

    def sink(self) -> Sink[Any]:
        topic = uuid4().hex
        self.reader = source_of(self.broker, topic)
        self.seen: list[str] = []
        return MqttSink(self.broker, topic, TEXT)

    def visible(self) -> Sequence[Any]:
        client = MqttClient(self.reader)
        client.open()
        found = []
        while some := client.receive(10_000, 0.5):
            found += some
        client.acknowledge([delivery.tag for delivery in found])
        client.close()
        self.seen += [delivery.message.value.decode() for delivery in found]
        return self.seen


def test_messages_that_were_not_acknowledged_come_again(broker: MqttConnectionOptions) -> None:
    topic = uuid4().hex
    source = source_of(broker, topic)
    assert source.guarantee is Guarantee.AT_LEAST_ONCE
    publish(broker, topic, [b"1", b"2"], id_property=None)
    for _ in range(2):
        enumerator = source.create_enumerator()
        enumerator.open()
        assert await_records(enumerator, source, 2) == ["1", "2"]
        enumerator.close()  # before it acknowledged
    enumerator = source.create_enumerator()
    enumerator.open()
    await_records(enumerator, source, 2)
    enumerator.acknowledge()
    publish(broker, topic, [b"3"], id_property=None)
    assert await_records(enumerator, source, 1) == ["3"]
    enumerator.close()


def test_the_broker_is_stopped_and_started(tmp_path: Path) -> None:
    with mosquitto_server(tmp_path / "mosquitto") as server:
        options = MqttConnectionOptions("127.0.0.1", server.port)
        source = source_of(options, "orders", id_property="id")
        publish(options, "orders", [b"1"])
        enumerator = source.create_enumerator()
        enumerator.open()
        assert await_records(enumerator, source, 1) == ["1"]
        server.process.stop()
        server.process.start()
        publisher = MqttPublisher(MqttSink(options, "orders", TEXT, id_property="id"))
        publisher.publish([QueueMessage(b"2", "another")])
        publisher.flush()
        publisher.close()
        assert await_records(enumerator, source, 1) == ["2"]
        enumerator.close()


class WithTopic(QueueDeserializationSchema):
    def deserialize_message(self, message: QueueMessage) -> Any:
        return message.topic, message.value.decode()

    def get_produced_type(self) -> Any:
        raise NotImplementedError


def test_wildcards_and_topics(broker: MqttConnectionOptions) -> None:
    root = uuid4().hex
    source = replace(source_of(broker, f"{root}/+/temperature"), deserialization_schema=WithTopic())
    publish(broker, f"{root}/3/temperature", [b"21.5"], id_property=None)
    publish(broker, f"{root}/3/humidity", [b"60"], id_property=None)
    enumerator = source.create_enumerator()
    enumerator.open()
    assert await_records(enumerator, source, 1) == [(f"{root}/3/temperature", "21.5")]
    enumerator.close()


def test_a_wrong_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    with mosquitto_server(tmp_path / "mosquitto", "right-password") as server:
        right = MqttConnectionOptions("127.0.0.1", server.port, "jobs", "right-password")
        MqttSink(right, "orders", TEXT).validate()
        wrong = replace(right, password="wrong-password")
        with pytest.raises(ProgramError, match="refused the connection") as refused:
            MqttSink(wrong, "orders", TEXT).validate()
        assert "wrong-password" not in str(refused.value) + repr(wrong)
        with pytest.raises(ProgramError, match="Check user, password"):
            MqttSource(wrong, ("orders",), TEXT, "job").create_enumerator().open()


def test_a_broker_that_is_away_is_an_error_that_can_be_tried_again() -> None:
    away = MqttConnectionOptions("127.0.0.1", 1, timeout_seconds=2)
    with pytest.raises(ConnectorError, match=r"127\.0\.0\.1:1 cannot be reached"):
        MqttSource(away, ("orders",), TEXT, "job").create_enumerator().open()
    with pytest.raises(ConnectorError, match="cannot be reached"):
        SinkRun(MqttSink(away, "orders", TEXT)).stage(1, ["a"])


def test_a_broker_that_hangs_is_noticed(tmp_path: Path) -> None:
    with mosquitto_server(tmp_path / "mosquitto") as server:
        server.process.pause()
        options = MqttConnectionOptions("127.0.0.1", server.port, timeout_seconds=1)
        with pytest.raises(ConnectorError, match="did not answer within 1 s"):
            MqttSink(options, "orders", TEXT).validate()
        server.process.resume()


def test_a_message_without_the_id_property_is_an_error(broker: MqttConnectionOptions) -> None:
    topic = uuid4().hex
    source = source_of(broker, topic, id_property="id")
    publish(broker, topic, [b"1"], id_property=None)
    enumerator = source.create_enumerator()

    def read() -> None:  # the message may arrive at once
        enumerator.open()
        await_records(enumerator, source, 1)

    with pytest.raises(ProgramError, match="no user property 'id'"):
        read()
    enumerator.close()


def test_the_program_of_the_page_runs(broker: MqttConnectionOptions) -> None:
    displays = source_of(broker, "displays/all")
    enumerator = displays.create_enumerator()
    enumerator.open()
    shown: list[str] = []

    def displayed() -> bool:
        publish(broker, "sensors/1/temperature", [b"21"])  # again and again: the broker forgets what nobody hears
        plan = enumerator.plan(SliceRequest(1000, 1, 0))
        shown.extend(value for part in plan.slices for value in displays.create_reader().read(part))
        return bool(shown)

    address = 'MqttConnectionOptions("localhost", 1883, user="jobs", password="secret")'
    run_page("mqtt.md", {address: f'MqttConnectionOptions("127.0.0.1", {broker.port})'}, until=displayed)
    enumerator.close()
    assert set(shown) == {"21 °C"}
