"""MQTT: a source and a sink. Specifications only: ``flott.runtime.connectors.mqtt`` connects.

PyFlink has no such connector. Both need ``flott[mqtt]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import (
    Boundedness,
    Guarantee,
    OnError,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    WriterContext,
)
from flott.errors import ProgramError

__all__ = [
    "MqttConnectionOptions",
    "MqttSource",
    "MqttSink",
    "QueueMessage",
    "QueueDeserializationSchema",
    "QueueSerializationSchema",
]


@dataclass(frozen=True)
class MqttConnectionOptions:
    """How to reach a broker, with MQTT 5.

    >>> MqttConnectionOptions("broker", user="jobs", password="secret")
    MqttConnectionOptions(host='broker', port=1883, user='jobs', tls_ca_location=None)
    """

    host: str = "localhost"
    port: int = 1883
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_ca_location: str | None = None  #: the certificates to check the broker's with; TLS is used if it is set
    timeout_seconds: float = field(default=10.0, repr=False)  #: how long the broker may take to answer
    keep_alive_seconds: int = field(default=30, repr=False)  #: after one and a half of it a silent broker is given up


@dataclass(frozen=True)
class MqttSource(Source[Any]):
    """Reads topics with QoS 1, in a session that the broker keeps: at least once.

    The broker keeps messages for the client id while the job is down. They are acknowledged after the checkpoint. MQTT
    gives messages no id; if the producer sets one as a user property of MQTT 5, name it in ``id_property``: messages
    that are delivered again are then dropped, and each takes effect exactly once.
    """

    connection: MqttConnectionOptions
    topics: tuple[str, ...]
    deserialization_schema: DeserializationSchema
    client_id: str  #: names the session; two jobs must not have the same
    id_property: str | None = None
    #: How many messages may be on the way between broker and checkpoint. The broker may allow fewer.
    prefetch: int = 10_000
    session_expiry_seconds: int = 7 * 24 * 3600  #: for how long the broker keeps messages for a job that is down
    on_error: OnError = OnError.fail()  # noqa: RUF009 (immutable)

    def __post_init__(self) -> None:
        if not self.topics or not isinstance(self.topics, tuple):
            raise ProgramError(f"An MqttSource reads a tuple of at least one topic, found {self.topics!r}.")
        if not self.client_id:
            raise ProgramError("An MqttSource needs a client id: the broker keeps its messages under this name.")
        if not 0 < self.prefetch < 65536:
            raise ProgramError(f"The prefetch count must be 1 to 65535, found {self.prefetch}.")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE if self.id_property is None else Guarantee.EXACTLY_ONCE

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.mqtt import create_enumerator

        return create_enumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.queues.reader import QueueReader

        return QueueReader(f"MQTT {', '.join(self.topics)}", self.deserialization_schema, self.on_error)


@dataclass(frozen=True)
class MqttSink(Sink[Any]):
    """Publishes with QoS 1 as records come, and waits for the broker's acknowledgements: at least once."""

    connection: MqttConnectionOptions
    topic: str
    serialization_schema: SerializationSchema
    retain: bool = False
    id_property: str | None = None  #: set a unique id as this user property

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.mqtt import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.mqtt import create_writer

        return create_writer(self, context)
