"""Checks on the driver, before anything runs, whether a sink can work. Driver side."""

from __future__ import annotations

import logging
from typing import Any

from flott._extras import require
from flott.common._secrets import without_secrets
from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.kafka._sink import KafkaSink
from flott.errors import ConnectorError, ProgramError
from flott.runtime.connectors.kafka.client_settings import client_settings
from flott.runtime.connectors.kafka.producer_settings import producer_settings, protocol_settings
from flott.runtime.connectors.kafka.transactions import client_log

log = logging.getLogger("flott.connectors.kafka")

#: How long a broker may take to answer.
ANSWER_SECONDS = 10.0


def validate(sink: KafkaSink) -> None:
    """Refuse a sink whose settings, broker or topic cannot work."""
    require("confluent_kafka.admin", "kafka")
    client_settings(sink.properties)  # logs what has no effect
    if sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        require("kafka", "kafka")
        protocol_settings(sink)
    _check_settings(sink)
    admin = _admin(sink)
    topic = sink.serializer.topic
    brokers, missing = _ask(sink, admin, topic)
    if missing is None and sink.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
        return
    facts = _broker_facts(admin, brokers)
    if missing is not None and facts.get("auto.create.topics.enable", "true") != "true":
        raise ProgramError(
            f"The Kafka sink writes to topic {topic!r}, but the broker does not have it ({missing}) and does not"
            " create topics by itself. Create the topic, or set auto.create.topics.enable of the broker."
        )
    limit = facts.get("transaction.max.timeout.ms")
    if sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE and limit and sink.transaction_timeout_ms > int(limit):
        raise ProgramError(
            f"transaction.timeout.ms of the Kafka sink is {sink.transaction_timeout_ms}, but the broker allows"
            f" {limit} at most. Call set_property('transaction.timeout.ms', '{limit}'), or increase"
            " transaction.max.timeout.ms of the brokers."
        )


def _check_settings(sink: KafkaSink) -> None:
    """Let librdkafka judge the names and values of all properties."""
    kafka = require("confluent_kafka", "kafka")
    settings = producer_settings(sink)
    if sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        settings["transactional.id"] = sink.transactional_id_prefix
    try:
        kafka.Producer({**settings, "bootstrap.servers": ""}, logger=client_log)  # connects to nothing
    except (kafka.KafkaException, TypeError, ValueError) as error:
        reason = without_secrets(str(error), *sink.properties.secrets())
        raise ProgramError(f"The properties of the Kafka sink are not valid: {reason}") from None


def _admin(sink: KafkaSink) -> Any:
    admin = require("confluent_kafka.admin", "kafka")
    kept = ("bootstrap.servers", "security.", "sasl.", "ssl.", "socket.", "client.", "broker.", "enable.ssl")
    settings = {key: value for key, value in client_settings(sink.properties, quiet=True).items()
                if key.startswith(kept)}  # fmt: skip
    return admin.AdminClient(settings, logger=client_log)


def _ask(sink: KafkaSink, admin: Any, topic: str | None) -> tuple[list[int], str | None]:
    """Return the ids of the brokers, and why the topic cannot be written to, if it cannot."""
    kafka = require("confluent_kafka", "kafka")
    try:
        found = admin.list_topics(topic, timeout=ANSWER_SECONDS) if topic else admin.list_topics(timeout=ANSWER_SECONDS)
    except kafka.KafkaException as error:
        reason = without_secrets(error.args[0].str(), *sink.properties.secrets())
        servers = sink.properties["bootstrap.servers"]
        if error.args[0].code() == kafka.KafkaError._AUTHENTICATION:
            raise ProgramError(f"The Kafka brokers {servers} refuse the credentials of the sink: {reason}.") from None
        raise ConnectorError(
            f"No Kafka broker answered at {servers} within {ANSWER_SECONDS:.0f} s ({reason}). Check the address, and"
            " security.protocol and sasl.* of the sink if the brokers ask for a login."
        ) from None
    if topic is None:
        return list(found.brokers), None
    answer = found.topics.get(topic)
    missing = "unknown" if answer is None else answer.error.str() if answer.error is not None else None
    return list(found.brokers), missing


def _broker_facts(admin: Any, brokers: list[int]) -> dict[str, str]:
    """Return the configuration of a broker. Empty if this user may not read it."""
    kinds = require("confluent_kafka.admin", "kafka")
    if not brokers:
        return {}
    resource = kinds.ConfigResource(kinds.ConfigResource.Type.BROKER, str(brokers[0]))
    try:
        (answer,) = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS).values()
        return {name: entry.value for name, entry in answer.result(ANSWER_SECONDS).items() if entry.value is not None}
    except Exception as error:
        log.debug("The configuration of the broker cannot be read: %s", error)
        return {}
