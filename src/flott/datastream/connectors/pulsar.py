"""Apache Pulsar: a source and a sink. Specifications only: ``flott.runtime.connectors.pulsar`` connects.

Names are PyFlink's. Both need ``flott[pulsar]``.
"""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NoReturn

from flott.common._secrets import Properties
from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.common.time import Duration
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import (
    Boundedness,
    DeliveryGuarantee,
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
    "PulsarSource",
    "PulsarSourceBuilder",
    "SubscriptionType",
    "StartCursor",
    "StopCursor",
    "PulsarSink",
    "PulsarSinkBuilder",
    "MessageDelayer",
    "RangeGenerator",
    "TopicRoutingMode",
    "QueueMessage",
    "QueueDeserializationSchema",
    "QueueSerializationSchema",
]


class SubscriptionType(Enum):
    """How consumers of one subscription share messages. Flott reads by message ids, so all have the same effect."""

    Exclusive = (0,)
    Shared = (1,)
    Failover = (2,)
    Key_Shared = 3


@dataclass(frozen=True)
class RangeGenerator:
    """Which ranges of keys a reader of a Key_Shared subscription takes. Without effect, for ported programs."""

    @staticmethod
    def full() -> RangeGenerator:
        """Take all keys."""
        return RangeGenerator()

    @staticmethod
    def fixed_key(support_null_key: bool = False, keys: Any = None, key_bytes: Any = None, **named: Any) -> NoReturn:
        """Refuse the call."""
        raise ProgramError("Flott reads all keys of a topic of Pulsar: filter() records by their key instead.")


@dataclass(frozen=True)
class StartCursor:
    """Where a source begins that has no checkpoint to continue from."""

    position: tuple[Any, ...] = ("earliest",)

    @staticmethod
    def default_start_cursor() -> StartCursor:
        """Begin with the oldest message."""
        return StartCursor.earliest()

    @staticmethod
    def earliest() -> StartCursor:
        """Begin with the oldest message."""
        return StartCursor(("earliest",))

    @staticmethod
    def latest() -> StartCursor:
        """Begin with messages that arrive after the start of the job."""
        return StartCursor(("latest",))

    @staticmethod
    def from_message_time(timestamp: int) -> StartCursor:
        """Begin with messages that were published at this time. Deprecated in PyFlink."""
        warnings.warn("Use from_publish_time() instead.", DeprecationWarning, stacklevel=2)
        return StartCursor.from_publish_time(timestamp)

    @staticmethod
    def from_message_id(message_id: bytes, inclusive: bool = True) -> StartCursor:
        """Begin with, or after, the message of this id, which pulsar's ``MessageId.serialize`` returned."""
        return StartCursor(("at" if inclusive else "after", b64encode(message_id).decode()))

    @staticmethod
    def from_publish_time(timestamp: int) -> StartCursor:
        """Begin with messages that were published at this time (in milliseconds)."""
        return StartCursor(("time", timestamp))


@dataclass(frozen=True)
class StopCursor:
    """Where a source ends."""

    kind: str = "never"

    @staticmethod
    def default_stop_cursor() -> StopCursor:
        """Never end."""
        return StopCursor.never()

    @staticmethod
    def never() -> StopCursor:
        """Never end."""
        return StopCursor("never")

    @staticmethod
    def latest() -> StopCursor:
        """End with the last message that each partition has when the job starts."""
        return StopCursor("latest")

    @staticmethod
    def at_event_time(timestamp: int) -> StopCursor:
        """Refuse the call."""
        _no_such_stop("at_event_time")

    @staticmethod
    def after_event_time(timestamp: int) -> StopCursor:
        """Refuse the call."""
        _no_such_stop("after_event_time")

    @staticmethod
    def at_publish_time(timestamp: int) -> StopCursor:
        """Refuse the call."""
        _no_such_stop("at_publish_time")

    @staticmethod
    def after_publish_time(timestamp: int) -> StopCursor:
        """Refuse the call."""
        _no_such_stop("after_publish_time")

    @staticmethod
    def at_message_id(message_id: bytes) -> StopCursor:
        """Refuse the call."""
        _no_such_stop("at_message_id")

    @staticmethod
    def after_message_id(message_id: bytes) -> StopCursor:
        """Refuse the call."""
        _no_such_stop("after_message_id")


def _no_such_stop(name: str) -> NoReturn:
    raise ProgramError(f"StopCursor.{name}() is not supported by Flott: use StopCursor.latest() or never().")


@dataclass(frozen=True)
class PulsarSource(Source[Any]):
    """Reads topics by message ids, exactly once. Each partition of a topic is a split.

    A subscription keeps what was not read. It is acknowledged after the checkpoint.
    """

    service_url: str = ""
    topics: tuple[str, ...] = ()
    subscription_name: str = ""
    deserialization_schema: DeserializationSchema | None = None
    start: StartCursor = StartCursor()
    stop: StopCursor = StopCursor()
    bounded: bool = False
    properties: Properties = field(default_factory=Properties)
    on_error: OnError = OnError.fail()  # noqa: RUF009 (immutable)

    @staticmethod
    def builder() -> PulsarSourceBuilder:
        """Start building a source."""
        return PulsarSourceBuilder()

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.pulsar.enumerator import PulsarEnumerator

        return PulsarEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.pulsar.reader import PulsarReader

        return PulsarReader(self)


class PulsarSourceBuilder:
    """Collects the settings of a :class:`PulsarSource`."""

    def __init__(self) -> None:
        self._source = PulsarSource()

    def _set(self, **changes: Any) -> PulsarSourceBuilder:
        self._source = replace(self._source, **changes)
        return self

    def set_admin_url(self, admin_url: str) -> PulsarSourceBuilder:
        """Do nothing, for ported programs: the service URL is enough."""
        return self

    def set_service_url(self, service_url: str) -> PulsarSourceBuilder:
        """Set the address: ``pulsar://host:6650``, or ``pulsar+ssl://`` for TLS."""
        return self._set(service_url=service_url)

    def set_subscription_name(self, subscription_name: str) -> PulsarSourceBuilder:
        """Set the subscription that keeps messages until they are processed."""
        return self._set(subscription_name=subscription_name)

    def set_subscription_type(self, subscription_type: SubscriptionType) -> PulsarSourceBuilder:
        """Do nothing, for ported programs: messages are read by their ids."""
        return self

    def set_topics(self, topics: str | Sequence[str]) -> PulsarSourceBuilder:
        """Set the topics. All partitions of each are read."""
        return self._set(topics=(topics,) if isinstance(topics, str) else tuple(topics))

    def set_topics_pattern(self, topics_pattern: str) -> PulsarSourceBuilder:
        """Refuse the call."""
        return self.set_topic_pattern(topics_pattern)

    def set_topic_pattern(self, topic_pattern: str) -> PulsarSourceBuilder:
        """Refuse the call."""
        raise ProgramError("Flott reads topics of Pulsar by name: call set_topics().")

    def set_range_generator(self, range_generator: RangeGenerator) -> PulsarSourceBuilder:
        """Do nothing, for ported programs: all keys are read."""
        return self

    def set_consumer_name(self, consumer_name: str) -> PulsarSourceBuilder:
        """Do nothing, for ported programs: messages are read by their ids."""
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | None = None, auth_params: Any = None
    ) -> PulsarSourceBuilder:
        """Set the parameters of authentication. Of plugins, tokens are supported."""
        return self.set_config(
            "pulsar.client.authParams", _token(auth_plugin_class_name, auth_params_string, auth_params)
        )

    def set_start_cursor(self, start_cursor: StartCursor) -> PulsarSourceBuilder:
        """Set where to begin without a checkpoint; the oldest message is the default."""
        return self._set(start=start_cursor)

    def set_unbounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Set where to end, of a source that counts as unbounded."""
        return self._set(stop=stop_cursor, bounded=False)

    def set_bounded_stop_cursor(self, stop_cursor: StopCursor) -> PulsarSourceBuilder:
        """Set where to end, of a source that counts as bounded."""
        return self._set(stop=stop_cursor, bounded=stop_cursor.kind != "never")

    def set_deserialization_schema(self, deserialization_schema: DeserializationSchema) -> PulsarSourceBuilder:
        """Set how bytes become a record."""
        return self._set(deserialization_schema=deserialization_schema)

    def set_on_error(self, on_error: OnError) -> PulsarSourceBuilder:
        """Set what happens to a message that cannot be decoded. Flott only."""
        return self._set(on_error=on_error)

    def set_config(self, key: str, value: Any) -> PulsarSourceBuilder:
        """Set a property, such as ``pulsar.client.authParams`` for a token."""
        return self._set(properties=self._source.properties | {key: str(value)})

    def set_config_with_dict(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Set properties."""
        return self.set_properties(config)

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSourceBuilder:
        """Set properties."""
        return self._set(properties=self._source.properties | {key: str(value) for key, value in config.items()})

    def build(self) -> PulsarSource:
        """Return the source."""
        source = self._source
        for value, method in (
            (source.service_url, "set_service_url"),
            (source.topics, "set_topics"),
            (source.subscription_name, "set_subscription_name"),
            (source.deserialization_schema, "set_deserialization_schema"),
        ):
            if not value:
                raise ProgramError(f"A PulsarSource is not complete: call {method}().")
        return source


def _token(plugin: str, text: str | None, params: Mapping[str, str] | None) -> str:
    token = text if text is not None else (params or {}).get("token")
    if token is None or "Token" not in plugin:
        raise ProgramError(
            "Flott authenticates to Pulsar by a token: pass org.apache.pulsar.client.impl.auth.AuthenticationToken and"
            ' "token:…" as parameters.'
        )
    return token


class TopicRoutingMode(Enum):
    """How the partition of a message is chosen."""

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


@dataclass(frozen=True)
class MessageDelayer:
    """When a message may be delivered, to consumers of shared subscriptions."""

    delay_ms: int = 0

    @staticmethod
    def never() -> MessageDelayer:
        """Deliver messages at once."""
        return MessageDelayer()

    @staticmethod
    def fixed(duration: Duration) -> MessageDelayer:
        """Deliver messages after this time."""
        return MessageDelayer(duration.to_millis())


@dataclass(frozen=True)
class PulsarSink(Sink[Any]):
    """Sends to a topic and waits for the broker's acknowledgements before the checkpoint: at least once."""

    service_url: str = ""
    topics: tuple[str, ...] = ()
    serialization_schema: SerializationSchema | None = None
    producer_name: str | None = None
    delay_ms: int = 0
    by_key: bool = False
    properties: Properties = field(default_factory=Properties)

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        """Start building a sink."""
        return PulsarSinkBuilder()

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.pulsar.producing import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.pulsar.producing import create_writer

        return create_writer(self, context)


class PulsarSinkBuilder:
    """Collects the settings of a :class:`PulsarSink`."""

    def __init__(self) -> None:
        self._sink = PulsarSink()

    def _set(self, **changes: Any) -> PulsarSinkBuilder:
        self._sink = replace(self._sink, **changes)
        return self

    def set_admin_url(self, admin_url: str) -> PulsarSinkBuilder:
        """Do nothing, for ported programs: the service URL is enough."""
        return self

    def set_service_url(self, service_url: str) -> PulsarSinkBuilder:
        """Set the address: ``pulsar://host:6650``, or ``pulsar+ssl://`` for TLS."""
        return self._set(service_url=service_url)

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """Set the beginning of the names of producers."""
        return self._set(producer_name=producer_name)

    def set_topics(self, topics: str | Sequence[str]) -> PulsarSinkBuilder:
        """Set the topic. A message of a ``QueueSerializationSchema`` may choose another of its own."""
        return self._set(topics=(topics,) if isinstance(topics, str) else tuple(topics))

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PulsarSinkBuilder:
        """Set the guarantee. EXACTLY_ONCE is refused: Pulsar's Python client has no transactions."""
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ProgramError(
                "A PulsarSink cannot be exactly once: Pulsar's client for Python has no transactions. Use"
                " DeliveryGuarantee.AT_LEAST_ONCE, and let consumers drop repeated messages."
            )
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | None = None, auth_params: Any = None
    ) -> PulsarSinkBuilder:
        """Set the parameters of authentication. Of plugins, tokens are supported."""
        return self.set_config(
            "pulsar.client.authParams", _token(auth_plugin_class_name, auth_params_string, auth_params)
        )

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> PulsarSinkBuilder:
        """Set how the partition of a message is chosen."""
        if topic_routing_mode is TopicRoutingMode.CUSTOM:
            raise ProgramError("A router of topics is a Java class in PyFlink: use a QueueSerializationSchema.")
        return self._set(by_key=topic_routing_mode is TopicRoutingMode.MESSAGE_KEY_HASH)

    def set_topic_router(self, topic_router_class_name: str) -> PulsarSinkBuilder:
        """Refuse the call: a router is a Java class."""
        raise ProgramError("A router of topics is a Java class in PyFlink: use a QueueSerializationSchema.")

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> PulsarSinkBuilder:
        """Set how a record becomes bytes."""
        return self._set(serialization_schema=serialization_schema)

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        """Set when messages may be delivered."""
        return self._set(delay_ms=message_delayer.delay_ms)

    def set_config(self, key: str, value: Any) -> PulsarSinkBuilder:
        """Set a property, such as ``pulsar.client.authParams`` for a token."""
        return self._set(properties=self._sink.properties | {key: str(value)})

    def set_properties(self, config: Mapping[str, Any]) -> PulsarSinkBuilder:
        """Set properties."""
        return self._set(properties=self._sink.properties | {key: str(value) for key, value in config.items()})

    def build(self) -> PulsarSink:
        """Return the sink."""
        sink = self._sink
        for value, method in (
            (sink.service_url, "set_service_url"),
            (sink.topics, "set_topics"),
            (sink.serialization_schema, "set_serialization_schema"),
        ):
            if not value:
                raise ProgramError(f"A PulsarSink is not complete: call {method}().")
        if len(sink.topics) > 1:
            raise ProgramError(f"A PulsarSink writes to one topic, found {len(sink.topics)}: use a sink for each.")
        return sink
