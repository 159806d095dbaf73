"""The settings of a sink's clients: a producer of librdkafka, and kafka-python for transactions. Pure."""

from __future__ import annotations

from typing import Any

from flott.datastream.connectors.base import DeliveryGuarantee
from flott.datastream.connectors.kafka._sink import KafkaSink
from flott.errors import ProgramError
from flott.runtime.connectors.kafka.client_settings import client_settings

#: How long a record may take to be delivered: Java's default. With transactions it is at most their time-out.
DELIVERY_TIMEOUT_MS = 120_000

#: Unless the program sets them. Keys go to the partitions where Java's producers put them.
_DEFAULTS = {
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "65536",
    "reconnect.backoff.max.ms": "1000",
    "log.connection.close": "false",
}
#: What the sink decides.
_DECIDED = ("transactional.id", "delivery.report.only.error", "statistics.interval.ms", "enable.idempotence")


def producer_settings(sink: KafkaSink) -> dict[str, Any]:
    """Return the settings of the sink's producers, without the transactional id."""
    given = client_settings(sink.properties, quiet=True)
    settings = {**_DEFAULTS, **{key: value for key, value in given.items() if key not in _DECIDED}}
    settings.pop("transaction.timeout.ms", None)
    limit = settings.pop("message.timeout.ms", settings.pop("delivery.timeout.ms", DELIVERY_TIMEOUT_MS))
    if sink.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        settings["transaction.timeout.ms"] = sink.transaction_timeout_ms
        limit = min(int(limit), sink.transaction_timeout_ms)
    elif sink.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
        settings["enable.idempotence"] = given.get("enable.idempotence", "true")
    settings["message.timeout.ms"] = int(limit)
    return settings


def delivery_seconds(sink: KafkaSink) -> float:
    """Return after which time every record has been delivered or has failed."""
    return float(producer_settings(sink)["message.timeout.ms"]) / 1000


#: librdkafka's names on the left, kafka-python's on the right.
_PROTOCOL_NAMES = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.mechanisms": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    "client.id": "client_id",
}
#: Settings of librdkafka that change how it connects and that kafka-python cannot follow.
_NOT_FOLLOWED = ("sasl.oauthbearer.", "ssl.keystore.location", "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")


def protocol_settings(sink: KafkaSink) -> dict[str, Any]:
    """Return the settings of the client that ends transactions. Refuses logins that it does not know."""
    given = client_settings(sink.properties, quiet=True)
    if unknown := [key for key in given if key.startswith(_NOT_FOLLOWED)]:
        raise ProgramError(
            f"A Kafka sink with EXACTLY_ONCE ends its transactions with a client that does not know {unknown[0]}."
            " Expected SASL PLAIN, SCRAM or Kerberos, and certificates in PEM files (ssl.ca.location,"
            " ssl.certificate.location, ssl.key.location). Or choose AT_LEAST_ONCE."
        )
    settings: dict[str, Any] = {"bootstrap_servers": [each.strip() for each in given["bootstrap.servers"].split(",")]}
    for key, name in _PROTOCOL_NAMES.items():
        if key in given:
            settings[name] = given[key]
    for name in ("security_protocol", "sasl_mechanism"):
        if name in settings:
            settings[name] = settings[name].upper()
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        settings["ssl_check_hostname"] = False
    return settings
