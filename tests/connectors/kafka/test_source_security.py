"""Logins and TLS of the Kafka source against a real broker. Secrets appear in no text."""

from __future__ import annotations

import logging

import pytest

from flott.common.serialization import SimpleStringSchema
from flott.common.watermark_strategy import WatermarkStrategy
from flott.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.testing.connectors.source_run import enumerator_of
from flott.testing.harness import collect, in_process
from tests.servers.kafka import PASSWORD, USER, KafkaServer

WRONG = "not-the-password-of-alice"
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}


def login(broker: KafkaServer, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Return the properties of a login, as programs for Java clients have them."""
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
    return {
        "bootstrap.servers": broker.sasl_address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
    }


def source_of(topic: str, properties: dict[str, str]) -> KafkaSource:
    return (
        KafkaSource.builder()
        .set_topics(topic)
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_properties(properties)
        .build()
    )


def written(broker: KafkaServer) -> str:
    topic = broker.create_topic()
    broker.produce(topic, ["a", "b"])
    return topic


def read_by_job(source: KafkaSource) -> list[str]:
    env = in_process(1)
    return collect(env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka"))


@pytest.mark.parametrize("mechanism", list(MODULES))
def test_a_job_logs_in_with_a_password(broker: KafkaServer, mechanism: str) -> None:
    assert read_by_job(source_of(written(broker), login(broker, mechanism))) == ["a", "b"]


@pytest.mark.parametrize("mechanism", list(MODULES))
def test_a_wrong_password_is_an_error_at_once_that_does_not_show_it(
    broker: KafkaServer, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    source = source_of(written(broker), login(broker, mechanism, WRONG))
    with pytest.raises(ProgramError, match=r"refused describing.*sasl") as caught:
        enumerator_of(source, None)
    for text in (str(caught.value), repr(caught.value), repr(source), repr(source.properties), caplog.text):
        assert WRONG not in text


def test_a_login_that_is_refused_while_the_job_runs_fails_the_epoch(broker: KafkaServer) -> None:
    topic = written(broker)
    plan = enumerator_of(source_of(topic, login(broker, "PLAIN")), None)
    from flott.datastream.connectors.base import SliceRequest

    (part,) = plan.plan(SliceRequest(10, 1, 0)).slices
    expired = source_of(topic, login(broker, "PLAIN", WRONG))
    with pytest.raises(ConnectorError, match=f"refused reading topic {topic}") as caught:
        list(expired.create_reader().read(part))
    assert WRONG not in str(caught.value)


@pytest.mark.parametrize("name", ["ssl.ca.location", "ssl.truststore.location"])
def test_a_job_reads_over_tls(broker: KafkaServer, name: str) -> None:
    properties = {"bootstrap.servers": broker.tls_address, "security.protocol": "SSL", name: str(broker.certificate)}
    assert read_by_job(source_of(written(broker), properties)) == ["a", "b"]


def test_a_broker_that_is_not_trusted_is_an_error_that_says_so(broker: KafkaServer) -> None:
    properties = {"bootstrap.servers": broker.tls_address, "security.protocol": "SSL"}
    with pytest.raises(FlottError, match=r"certificate|SSL"):
        enumerator_of(source_of(written(broker), properties), None)
