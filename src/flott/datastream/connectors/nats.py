"""NATS JetStream: a source and a sink. Specifications only: ``flott.runtime.connectors.nats`` connects.

PyFlink has no such connector. Both need ``flott[nats]``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flott.common.serialization import DeserializationSchema, SerializationSchema
from flott.datastream.connectors._queues import QueueDeserializationSchema, QueueMessage, QueueSerializationSchema
from flott.datastream.connectors.base import (
    Boundedness,
    Committer,
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
    "NatsConnectionOptions",
    "NatsSource",
    "NatsSink",
    "StartPosition",
    "QueueMessage",
    "QueueDeserializationSchema",
    "QueueSerializationSchema",
]


@dataclass(frozen=True)
class NatsConnectionOptions:
    """How to reach NATS.

    >>> NatsConnectionOptions("nats://localhost:4222", user="jobs", password="secret")
    NatsConnectionOptions(servers='nats://localhost:4222', user='jobs', tls_ca_location=None)
    """

    servers: str | tuple[str, ...] = "nats://localhost:4222"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    credentials_file: str | None = field(default=None, repr=False)  #: a file of credentials (JWT and seed)
    tls_ca_location: str | None = None  #: the certificates to check the server's with; TLS is used if it is set
    timeout_seconds: float = field(default=10.0, repr=False)  #: how long a server may take to answer


@dataclass(frozen=True)
class StartPosition:
    """Where a source begins that has no checkpoint to continue from."""

    kind: str
    value: int = 0

    @staticmethod
    def earliest() -> StartPosition:
        """Begin with the oldest message that the stream has."""
        return StartPosition("earliest")

    @staticmethod
    def latest() -> StartPosition:
        """Begin with messages that arrive after the start of the job."""
        return StartPosition("latest")

    @staticmethod
    def sequence(number: int) -> StartPosition:
        """Begin with the message of this number."""
        return StartPosition("sequence", number)

    @staticmethod
    def timestamp(milliseconds: int) -> StartPosition:
        """Begin with the first message that was stored at this time or later."""
        return StartPosition("timestamp", milliseconds)


@dataclass(frozen=True)
class NatsSource(Source[Any]):
    """Reads a stream by the numbers of its messages: exactly once, and without a consumer on the server.

    Each subject (which may contain wildcards) is a split: one subtask reads it, in order. More subjects are read by
    more subtasks; they must not overlap.

    >>> from flott.common.serialization import SimpleStringSchema
    >>> NatsSource(NatsConnectionOptions(), "ORDERS", SimpleStringSchema(), ("orders.eu.*", "orders.us.*")).stream
    'ORDERS'
    """

    connection: NatsConnectionOptions
    stream: str
    deserialization_schema: DeserializationSchema
    subjects: tuple[str, ...] = (">",)
    start: StartPosition = StartPosition.earliest()  # noqa: RUF009 (immutable)
    bounded: bool = False  #: end with the last message that the stream has when the job starts
    on_error: OnError = OnError.fail()  # noqa: RUF009 (immutable)

    def __post_init__(self) -> None:
        if not self.subjects or not isinstance(self.subjects, tuple):
            raise ProgramError(f"A NatsSource reads a tuple of at least one subject, found {self.subjects!r}.")

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    @property
    def preferred_parallelism(self) -> int | None:
        return len(self.subjects)

    def create_enumerator(self) -> SplitEnumerator:
        from flott.runtime.connectors.nats.enumerator import NatsEnumerator

        return NatsEnumerator(self)

    def create_reader(self) -> SourceReader[Any]:
        from flott.runtime.connectors.nats.reader import NatsReader

        return NatsReader(self)


@dataclass(frozen=True)
class NatsSink(Sink[Any]):
    """Publishes to a subject that a stream stores.

    With ``DeliveryGuarantee.EXACTLY_ONCE``, the default, messages are published after the checkpoint with ids
    (``Nats-Msg-Id``), and the stream drops repeated ones within its duplicate window. With ``AT_LEAST_ONCE`` they are
    published as they come.
    """

    connection: NatsConnectionOptions
    subject: str
    serialization_schema: SerializationSchema
    delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE

    @property
    def guarantee(self) -> Guarantee:
        exactly = self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
        return Guarantee.EXACTLY_ONCE if exactly else Guarantee.AT_LEAST_ONCE

    def validate(self) -> None:
        from flott.runtime.connectors.nats.publishing import check_sink

        check_sink(self)

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.nats.publishing import create_writer

        return create_writer(self, context)

    def create_committer(self) -> Committer | None:
        from flott.runtime.connectors.nats.publishing import create_committer

        return create_committer(self)
