"""RabbitMQ: a source and a sink. Specifications only: ``flott.runtime.connectors.rabbitmq`` connects.

Names and parameters are PyFlink's; what Flott adds has a default. Both need ``flott[rabbitmq]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import (
    Boundedness,
    Committer,
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
    "RMQConnectionConfig",
    "RMQSource",
    "RMQSink",
    "QueueMessage",
    "QueueDeserializationSchema",
    "QueueSerializationSchema",
]

#: How many messages the broker hands over before one is acknowledged.
PREFETCH = 10_000


@dataclass(frozen=True)
class RMQConnectionConfig:
    """How to reach a broker: a URI, or host, port, virtual host, user name and password.

    >>> builder = RMQConnectionConfig.Builder().set_host("broker").set_user_name("jobs").set_password("secret")
    >>> builder.build()
    RMQConnectionConfig(host='broker', port=5672, virtual_host='/', user_name='jobs', ssl_ca_location=None)
    """

    host: str | None = None
    port: int = 5672
    virtual_host: str = "/"
    user_name: str = "guest"
    password: str = field(default="guest", repr=False)
    uri: str | None = field(default=None, repr=False)
    network_recovery_interval: int | None = field(default=None, repr=False)
    automatic_recovery: bool = field(default=True, repr=False)
    topology_recovery: bool = field(default=True, repr=False)
    connection_timeout: int = field(default=30_000, repr=False)  #: in milliseconds
    requested_channel_max: int | None = field(default=None, repr=False)
    requested_frame_max: int | None = field(default=None, repr=False)
    requested_heartbeat: int = field(default=30, repr=False)  #: in seconds
    prefetch_count: int = field(default=PREFETCH, repr=False)
    ssl_ca_location: str | None = None  #: the certificates to check the broker's with; TLS is used if it is set

    def get_host(self) -> str | None:
        """Return the name of the host."""
        return self.host

    def get_port(self) -> int:
        """Return the port."""
        return self.port

    def get_virtual_host(self) -> str:
        """Return the virtual host."""
        return self.virtual_host

    def get_user_name(self) -> str:
        """Return the name of the user."""
        return self.user_name

    def get_password(self) -> str:
        """Return the password."""
        return self.password

    def get_uri(self) -> str | None:
        """Return the URI."""
        return self.uri

    def get_network_recovery_interval(self) -> int | None:
        """Return the interval that was set. Flott chooses its own delays between attempts to connect."""
        return self.network_recovery_interval

    def is_automatic_recovery(self) -> bool:
        """Return what was set. Flott always connects again."""
        return self.automatic_recovery

    def is_topology_recovery(self) -> bool:
        """Return what was set. Flott declares the queue when it connects."""
        return self.topology_recovery

    def get_connection_timeout(self) -> int:
        """Return the time in milliseconds that connecting may take."""
        return self.connection_timeout

    def get_requested_channel_max(self) -> int | None:
        """Return how many channels are asked for."""
        return self.requested_channel_max

    def get_requested_frame_max(self) -> int | None:
        """Return how large a frame may be."""
        return self.requested_frame_max

    def get_requested_heartbeat(self) -> int:
        """Return the seconds between heartbeats."""
        return self.requested_heartbeat

    class Builder:
        """Collects the settings of a connection."""

        def __init__(self) -> None:
            self._config = RMQConnectionConfig()

        def _set(self, **changes: Any) -> RMQConnectionConfig.Builder:
            self._config = replace(self._config, **changes)
            return self

        def set_port(self, port: int) -> RMQConnectionConfig.Builder:
            """Set the port; 5672 is the default."""
            return self._set(port=port)

        def set_host(self, host: str) -> RMQConnectionConfig.Builder:
            """Set the name of the host."""
            return self._set(host=host)

        def set_virtual_host(self, vhost: str) -> RMQConnectionConfig.Builder:
            """Set the virtual host; ``/`` is the default."""
            return self._set(virtual_host=vhost)

        def set_user_name(self, user_name: str) -> RMQConnectionConfig.Builder:
            """Set the name of the user."""
            return self._set(user_name=user_name)

        def set_password(self, password: str) -> RMQConnectionConfig.Builder:
            """Set the password."""
            return self._set(password=password)

        def set_uri(self, uri: str) -> RMQConnectionConfig.Builder:
            """Set all at once: ``amqp://user:password@host:port/vhost``, or ``amqps://`` for TLS."""
            return self._set(uri=uri)

        def set_topology_recovery_enabled(self, topology_recovery_enabled: bool) -> RMQConnectionConfig.Builder:
            """Do nothing, for ported programs: the queue is declared with every connection."""
            return self._set(topology_recovery=topology_recovery_enabled)

        def set_requested_heartbeat(self, requested_heartbeat: int) -> RMQConnectionConfig.Builder:
            """Set the seconds between heartbeats, by which a broker that hangs is noticed."""
            return self._set(requested_heartbeat=requested_heartbeat)

        def set_requested_frame_max(self, requested_frame_max: int) -> RMQConnectionConfig.Builder:
            """Set how large a frame may be."""
            return self._set(requested_frame_max=requested_frame_max)

        def set_requested_channel_max(self, requested_channel_max: int) -> RMQConnectionConfig.Builder:
            """Set how many channels are asked for."""
            return self._set(requested_channel_max=requested_channel_max)

        def set_network_recovery_interval(self, network_recovery_interval: int) -> RMQConnectionConfig.Builder:
            """Do nothing, for ported programs: the delay before a connection is made again grows up to 3 s."""
            return self._set(network_recovery_interval=network_recovery_interval)

        def set_connection_timeout(self, connection_timeout: int) -> RMQConnectionConfig.Builder:
            """Set how many milliseconds connecting may take."""
            return self._set(connection_timeout=connection_timeout)

        def set_automatic_recovery(self, automatic_recovery: bool) -> RMQConnectionConfig.Builder:
            """Do nothing, for ported programs: a lost connection is made again."""
            return self._set(automatic_recovery=automatic_recovery)

        def set_prefetch_count(self, prefetch_count: int) -> RMQConnectionConfig.Builder:
            """Set how many messages may be on the way between broker and checkpoint; 10,000 is the default.

            An epoch takes this many at most. As many ids are remembered to recognize redelivered messages.
            """
            return self._set(prefetch_count=prefetch_count)

        def set_ssl_ca_location(self, path: str) -> RMQConnectionConfig.Builder:
            """Use TLS, and check the broker's certificate with those in this file. Flott only."""
            return self._set(ssl_ca_location=path)

        def build(self) -> RMQConnectionConfig:
            """Return the settings."""
            config = self._config
            if config.host is None and config.uri is None:
                raise ProgramError("A connection to RabbitMQ needs a host or a URI: call set_host() or set_uri().")
            if not 0 < config.prefetch_count < 65536:
                raise ProgramError(f"The prefetch count must be 1 to 65535, found {config.prefetch_count}.")
            return config


@dataclass(frozen=True)
class RMQSource(Source[Any]):
    """Reads a queue. Messages are acknowledged after the checkpoint that contains their effects.

    With ``use_correlation_id`` every message must have a correlation id that is unique in the queue. A message that the
    broker delivers again is then dropped, and each takes effect exactly once. Without it, at least once.
    """

    connection_config: RMQConnectionConfig
    queue_name: str
    use_correlation_id: bool
    deserialization_schema: DeserializationSchema
    on_error: OnError = OnError.fail()  # noqa: RUF009 (immutable)

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.EXACTLY_ONCE if self.use_correlation_id else Guarantee.AT_LEAST_ONCE

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.rabbitmq import create_enumerator

        return create_enumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.queues.reader import QueueReader

        return QueueReader(f"RabbitMQ queue {self.queue_name}", self.deserialization_schema, self.on_error)


@dataclass(frozen=True)
class RMQSink(Sink[Any]):
    """Publishes to a queue, with persistent messages and publisher confirms: at least once.

    Records are published as they come, so a repeated epoch publishes them again. With ``after_checkpoint`` they are
    published once their checkpoint is complete, with correlation ids that stay the same if they are published again:
    then they appear at most twice, and ``RMQSource`` with ``use_correlation_id`` takes each once.
    """

    connection_config: RMQConnectionConfig
    queue_name: str
    serialization_schema: SerializationSchema
    exchange: str = ""  #: publish to this exchange; the routing key is the message's topic, or ``queue_name``
    after_checkpoint: bool = False

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.rabbitmq import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.rabbitmq import create_writer

        return create_writer(self, context)

    def create_committer(self) -> Committer | None:
        from flott.runtime.connectors.rabbitmq import create_committer

        return create_committer(self)
