"""Translates properties of Kafka's Java clients, which PyFlink programs use, to those of librdkafka. Pure.

Most names are the same. What librdkafka calls otherwise is renamed, what Flott does by itself is left out with a line
in the log, and everything else is handed through. librdkafka refuses names that it does not know.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from flott.errors import ProgramError

log = logging.getLogger("flott.connectors.kafka")

#: Java's names on the left, librdkafka's on the right.
_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "max.request.size": "message.max.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "sasl.login.connect.timeout.ms": "socket.timeout.ms",
}

#: Properties that are accepted without effect, each with the reason.
_WITHOUT_EFFECT = {
    "auto.commit.interval.ms": "Flott commits offsets after checkpoints",
    "auto.include.jmx.reporter": "there is no JVM",
    "client.dns.lookup": "librdkafka tries all addresses of a name",
    "enable.auto.commit": "Flott commits offsets after checkpoints",
    "exclude.internal.topics": "topics are chosen by name or pattern",
    "heartbeat.interval.ms": "the source assigns partitions by itself",
    "interceptor.classes": "there is no JVM",
    "key.deserializer": "the deserializer of the source decides",
    "key.serializer": "the serializer of the sink decides",
    "max.poll.interval.ms": "the source assigns partitions by itself",
    "max.poll.records": "the job sizes its epochs by what it has measured",
    "metric.reporters": "there is no JVM",
    "metrics.num.samples": "there is no JVM",
    "metrics.recording.level": "there is no JVM",
    "metrics.sample.window.ms": "there is no JVM",
    "partition.assignment.strategy": "the source assigns partitions by itself",
    "partitioner.class": "the serializer of the sink decides",
    "register.consumer.metrics": "Flott has metrics of its own",
    "session.timeout.ms": "the source assigns partitions by itself",
    "ssl.enabled.protocols": "librdkafka takes the best one that both sides know",
    "ssl.keymanager.algorithm": "there is no JVM",
    "ssl.protocol": "librdkafka takes the best one that both sides know",
    "ssl.provider": "there is no JVM",
    "ssl.secure.random.implementation": "there is no JVM",
    "ssl.trustmanager.algorithm": "there is no JVM",
    "ssl.truststore.password": "certificates that are trusted are read from a PEM file",
    "value.deserializer": "the deserializer of the source decides",
    "value.serializer": "the serializer of the sink decides",
}

#: What Flott reads itself; librdkafka does not get it.
_FLOTTS_OWN = frozenset(
    {
        "auto.offset.reset",
        "client.id.prefix",
        "commit.offsets.on.checkpoint",
        "default.api.timeout.ms",
        "partition.discovery.interval.ms",
        "flink.partition-discovery.interval-millis",
    }
)

_JAAS_OPTION = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


def client_settings(properties: Mapping[str, str], *, quiet: bool = False) -> dict[str, Any]:
    """Return what librdkafka understands. ``quiet``: do not log what has no effect.

    >>> client_settings({"bootstrap.servers": "b:9092", "fetch.max.wait.ms": "5", "max.poll.records": "9"}, quiet=True)
    {'bootstrap.servers': 'b:9092', 'fetch.wait.max.ms': '5'}
    """
    settings: dict[str, Any] = {}
    for key, value in properties.items():
        if key in _FLOTTS_OWN:
            continue
        if key in _WITHOUT_EFFECT:
            if not quiet:
                log.info("The Kafka property %s has no effect: %s.", key, _WITHOUT_EFFECT[key])
            continue
        if key == "sasl.jaas.config":
            settings |= _login(value)
        elif key == "buffer.memory":
            settings["queue.buffering.max.kbytes"] = str(max(1, int(value) // 1024))
        elif key == "ssl.endpoint.identification.algorithm":
            settings[key] = value.strip().lower() or "none"
        elif not key.startswith(("ssl.truststore.", "ssl.keystore.")) or key in _RENAMED:
            settings[_RENAMED.get(key, key)] = value
    return settings | _stores(properties)


def _login(jaas: str) -> dict[str, str]:
    """Return the options of a JAAS login, which is one line of text in Java's notation."""
    module, _, rest = jaas.strip().partition(" ")
    options = {name: _unquoted(found) for name, *found in _JAAS_OPTION.findall(rest)}
    if module.endswith(("PlainLoginModule", "ScramLoginModule")):
        if "username" not in options or "password" not in options:
            raise ProgramError(
                "sasl.jaas.config has no username and password. Expected:"
                f' {module} required username="…" password="…"; (or set sasl.username and sasl.password)'
            )
        return {"sasl.username": options["username"], "sasl.password": options["password"]}
    if module.endswith("OAuthBearerLoginModule"):
        names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        found = {f"sasl.oauthbearer.{name}": options[java] for java, name in names.items() if java in options}
        return {"sasl.oauthbearer.method": "oidc", **found}
    if module.endswith("Krb5LoginModule"):
        names = {"keyTab": "keytab", "principal": "principal", "serviceName": "service.name"}
        return {f"sasl.kerberos.{name}": options[java] for java, name in names.items() if java in options}
    raise ProgramError(
        f"The login module {module} of sasl.jaas.config is not known. Expected PlainLoginModule, ScramLoginModule,"
        " OAuthBearerLoginModule or Krb5LoginModule; other logins are set with librdkafka's properties (sasl.*)."
    )


def _unquoted(found: list[str]) -> str:
    double, single, bare = found
    return re.sub(r"\\(.)", r"\1", double or single) if double or single else bare


def _stores(properties: Mapping[str, str]) -> dict[str, str]:
    """Return where keys and certificates are. librdkafka reads PEM and PKCS#12 files, no Java key stores."""
    settings = {}
    if trusted := properties.get("ssl.truststore.location"):
        if properties.get("ssl.truststore.type", "JKS").upper() != "PEM" and not trusted.endswith((".pem", ".crt")):
            raise ProgramError(
                f"ssl.truststore.location is {trusted}, expected a PEM file (ssl.truststore.type=PEM, or a name that"
                " ends with .pem). Export the certificates with: keytool -exportcert -rfc, and set ssl.ca.location."
            )
        settings["ssl.ca.location"] = trusted
    if own := properties.get("ssl.keystore.location"):
        kind = properties.get("ssl.keystore.type", "JKS").upper()
        if kind == "PEM" or own.endswith(".pem"):
            settings |= {"ssl.certificate.location": own, "ssl.key.location": own}
        elif kind == "PKCS12" or own.endswith((".p12", ".pfx")):
            settings["ssl.keystore.location"] = own
            if password := properties.get("ssl.keystore.password"):
                settings["ssl.keystore.password"] = password
        else:
            raise ProgramError(
                f"ssl.keystore.location is {own}, expected a PEM or PKCS#12 file (ssl.keystore.type). Convert it with:"
                " keytool -importkeystore -deststoretype PKCS12."
            )
    return settings
