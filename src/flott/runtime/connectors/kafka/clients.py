"""Makes clients of librdkafka that log through Python, and puts what they report into Flott's words. Both sides."""

from __future__ import annotations

import logging
from typing import Any

from flott._extras import require
from flott.common._secrets import Properties, without_secrets
from flott.errors import ConnectorError, FlottError, ProgramError
from flott.runtime.connectors.kafka.client_settings import client_settings

confluent_kafka = require("confluent_kafka", "kafka")
KafkaError, KafkaException = confluent_kafka.KafkaError, confluent_kafka.KafkaException

#: librdkafka's own lines. They repeat a failed connection several times a second, and errors are reported as such.
log = logging.getLogger("flott.connectors.kafka.client")
log.setLevel(logging.CRITICAL)

#: The broker has understood who asks, and refuses.
REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
SILENCES = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN})
#: What a cluster answers while a leader or coordinator is elected or restarted: it is asked again.
PASSING = SILENCES | {
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,  # no leader was found
    KafkaError._WAIT_COORD,
}
#: The topic was deleted, or never existed.
MISSING = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}
)


class ClientErrors:
    """What a client has reported besides answers: that no broker can be reached, or that one refuses the login."""

    def __init__(self) -> None:
        self.last: Any = None  #: the last error; it may be over
        self.refusal: Any = None  #: the login is refused, so nothing will be answered

    def __call__(self, error: Any) -> None:
        self.last = error
        # A certificate that is not trusted stays so; other errors of TLS may be those of a broker that is restarted.
        if error.code() in REFUSALS or (error.code() == KafkaError._SSL and "certificate" in error.str()):
            self.refusal = error


class KafkaWords:
    """Describes what happened at one cluster, without secrets."""

    def __init__(self, properties: Properties):
        self._servers = properties.get("bootstrap.servers", "?")
        jaas = client_settings({"sasl.jaas.config": found}) if (found := properties.get("sasl.jaas.config")) else {}
        self._secrets = (*properties.secrets(), *(str(value) for key, value in jaas.items() if "username" not in key))

    def text(self, error: Any) -> str:
        """Return what an error of the client says."""
        found = error.args[0] if isinstance(error, KafkaException) and error.args else error
        said = f"{found.name()}: {found.str()}" if isinstance(found, KafkaError) else str(found)
        return without_secrets(said, *self._secrets).rstrip(".")

    def failure(self, doing: str, error: Any, *, at_start: bool = False) -> FlottError:
        """Return the failure to raise. ``at_start``: nothing runs yet, so a refused login is the program's error."""
        if code_of(error) in REFUSALS or code_of(error) == KafkaError._SSL:
            advice = "Check the properties security.protocol, sasl.* and ssl.*, and what the user is allowed to do."
            message = f"Kafka at {self._servers} refused {doing} ({self.text(error)}). {advice}"
            return ProgramError(message) if at_start else ConnectorError(message)
        if code_of(error) in SILENCES:
            return ConnectorError(
                f"Kafka at {self._servers} did not answer {doing} ({self.text(error)}). Check the address and the"
                " broker, or raise the property default.api.timeout.ms."
            )
        return ConnectorError(f"Kafka at {self._servers} failed at {doing} ({self.text(error)}).")

    def silence(self, doing: str, waited_ms: int, errors: ClientErrors, *, at_start: bool = False) -> FlottError:
        """Return the failure to raise after waiting for too long."""
        if errors.refusal is not None:
            return self.failure(doing, errors.refusal, at_start=at_start)
        last = f" The client reports {self.text(errors.last)}." if errors.last is not None else ""
        return ConnectorError(
            f"Kafka at {self._servers} did not answer {doing} within {waited_ms} ms.{last} Check the address and the"
            " broker, or raise the property default.api.timeout.ms."
        )


def code_of(error: Any) -> int | None:
    """Return the code of an error of the client."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return int(found.code()) if isinstance(found, KafkaError) else None


def make_client(
    kind: Any, properties: Properties, own: dict[str, Any], errors: ClientErrors, *, quiet: bool = True
) -> Any:
    """Return a client of librdkafka. Refuses properties that it does not know."""
    settings = {**client_settings(properties, quiet=quiet), **own, "error_cb": errors}
    prefix = properties.get("client.id.prefix")
    settings.setdefault("client.id", f"{prefix}-flott" if prefix else "flott")
    try:
        return kind(settings, logger=log)
    except KafkaException as error:
        raise ProgramError(
            f"The Kafka client refuses its properties: {KafkaWords(properties).text(error)}. Expected names of Kafka's"
            " Java client or of librdkafka."
        ) from None
