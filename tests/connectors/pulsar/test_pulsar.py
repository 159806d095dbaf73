"""Pulsar, against a real broker."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.base import DeliveryGuarantee, OnError, Sink, SliceRequest, Source
from flott.datastream.connectors.pulsar import PulsarSink, PulsarSource, StartCursor, StopCursor
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.pulsar import connection
from flott.testing import collect, in_process
from flott.testing.connectors import SinkConformance, SourceConformance
from flott.testing.connectors.sink_run import SinkRun
from tests.connectors.pages import run_page
from tests.servers.process import NoServer
from tests.servers.pulsar import serve
from tests.servers.sharing import shared

pytestmark = pytest.mark.connectors

TEXT = SimpleStringSchema()


@pytest.fixture(scope="session")
def facts() -> Iterator[dict[str, str]]:
    pytest.importorskip("pulsar", reason="no client: pip install 'flott[pulsar]'")
    try:
        with shared("pulsar", serve) as found:
            yield found
    except NoServer as reason:
        pytest.skip(str(reason))


def topic_of(facts: dict[str, str], partitions: int = 0) -> str:
    name = uuid4().hex
    if partitions:
        address = f"{facts['admin']}/admin/v2/persistent/public/default/{name}/partitions"
        request = urllib.request.Request(
            address, json.dumps(partitions).encode(), {"Content-Type": "application/json"}, method="PUT"
        )
        urllib.request.urlopen(request, timeout=30).close()
    return f"persistent://public/default/{name}"


def source_of(facts: dict[str, str], topic: str, on_error: OnError | None = None) -> PulsarSource:
    builder = PulsarSource.builder().set_service_url(facts["url"]).set_topics(topic).set_subscription_name("job")
    return builder.set_deserialization_schema(TEXT).set_on_error(on_error or OnError.fail()).build()


def subscribed(source: PulsarSource) -> PulsarSource:
    """Let the subscription exist, so that the broker keeps what is sent from now on."""
    enumerator = source.create_enumerator()
    enumerator.open()
    enumerator.close()
    return source


def fill(facts: dict[str, str], topic: str, values: Sequence[bytes]) -> None:
    producer = connection.client(facts["url"], PulsarSource().properties).create_producer(topic, batching_enabled=True)
    for value in values:
        producer.send_async(value, lambda result, ident: None)
    producer.flush()
    producer.close()


class TestSourceOfThreePartitions(SourceConformance):
    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, facts: dict[str, str]) -> None:
        self.facts = facts

    def _source(self, values: Sequence[bytes], on_error: OnError) -> Source[Any]:
        topic = topic_of(self.facts, 3)
        source = subscribed(source_of(self.facts, topic, on_error))
        fill(self.facts, topic, values)
        return source

    def source(self, count: int) -> Source[Any]:
        return self._source([str(number).encode() for number in range(count)], OnError.fail())

    def bad_source(self, count: int, bad: frozenset[int], on_error: OnError) -> Source[Any]:
        return self._source([b"\xff" if n in bad else str(n).encode() for n in range(count)], on_error)


class TestSink(SinkConformance):
    seeds = 2

    @pytest.fixture(autouse=True)
    def _server(self, facts: dict[str, str]) -> None:
        self.facts = facts

    def sink(self) -> Sink[Any]:
        self.topic = topic_of(self.facts)
        subscribed(source_of(self.facts, self.topic))
        builder = PulsarSink.builder().set_service_url(self.facts["url"]).set_topics(self.topic)
        return builder.set_serialization_schema(TEXT).build()

    def visible(self) -> Sequence[Any]:
        return content(self.facts, self.topic, f"look-{uuid4().hex}")


def content(facts: dict[str, str], topic: str, subscription: str) -> list[Any]:
    builder = PulsarSource.builder().set_service_url(facts["url"]).set_topics(topic).set_subscription_name(subscription)
    source = builder.set_deserialization_schema(TEXT).set_bounded_stop_cursor(StopCursor.latest()).build()
    return collect(in_process(1).from_source(source, WatermarkStrategy.no_watermarks(), "topic"))


def test_a_source_continues_where_its_start_cursor_says(facts: dict[str, str]) -> None:
    topic = topic_of(facts)
    source = subscribed(source_of(facts, topic))
    fill(facts, topic, [b"1", b"2"])
    builder = PulsarSource.builder().set_service_url(facts["url"]).set_topics(topic).set_subscription_name("later")
    later = builder.set_deserialization_schema(TEXT).set_start_cursor(StartCursor.latest()).build()
    enumerator = later.create_enumerator()
    enumerator.open()
    assert not enumerator.plan(SliceRequest(10, 1, 0)).slices
    fill(facts, topic, [b"3"])
    (part,) = enumerator.plan(SliceRequest(10, 1, 0)).slices
    assert list(later.create_reader().read(part)) == ["3"]
    enumerator.close()
    whole = source.create_enumerator()
    whole.open()
    (part,) = whole.plan(SliceRequest(10, 1, 0)).slices
    assert list(source.create_reader().read(part)) == ["1", "2", "3"]
    whole.close()


def test_a_broker_that_is_away_is_an_error_that_can_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "OPERATION_SECONDS", 1)
    away = {"url": "pulsar://127.0.0.1:1"}
    with pytest.raises(ConnectorError, match="Check that the broker runs"):
        source_of(away, "topic").create_enumerator().open()
    builder = PulsarSink.builder().set_service_url(away["url"]).set_topics("topic").set_serialization_schema(TEXT)
    with pytest.raises(ConnectorError, match="producing to topic"):
        SinkRun(builder.build()).stage(1, ["a"])


def test_exactly_once_is_refused_and_secrets_are_hidden() -> None:
    with pytest.raises(ProgramError, match="no transactions"):
        PulsarSink.builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    source = PulsarSource.builder().set_config("pulsar.client.authParams", "token:very-secret")
    assert "very-secret" not in repr(source._source)


def test_the_program_of_the_page_runs(facts: dict[str, str]) -> None:
    orders, answers = topic_of(facts), topic_of(facts)
    fill(facts, orders, [b"tea", b"jam"])
    changes = {
        "pulsar://localhost:6650": facts["url"],
        "persistent://public/default/orders": orders,
        "persistent://public/default/answers": answers,
    }
    subscribed(source_of(facts, answers))

    def answered() -> list[str]:
        return sorted(content(facts, answers, f"look-{uuid4().hex}"))

    run_page("pulsar.md", changes, until=lambda: len(answered()) >= 2)
    assert answered() == ["JAM", "TEA"]
