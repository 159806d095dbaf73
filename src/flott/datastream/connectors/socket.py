"""Lines of text from a socket, and to a socket: for demos and glue. Specifications only; not in PyFlink.

Flink's Java API has both as ``socketTextStream`` and ``writeToSocket``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flott.common.serialization import DeserializationSchema, SerializationSchema, SimpleStringSchema
from flott.datastream.connectors._pushed import PushedSource
from flott.datastream.connectors._stores import RetryPolicy
from flott.datastream.connectors.base import Guarantee, OnError, Sink, SinkWriter, WriterContext
from flott.errors import ProgramError

if TYPE_CHECKING:
    from flott.runtime.connectors.pushed.stream import PushedStream

__all__ = ["SocketTextSink", "SocketTextSource"]


@dataclass(frozen=True)
class SocketTextSource(PushedSource):
    """Connects to a server and reads lines. It ends when the server closes the connection, unless it is to reconnect.

    >>> SocketTextSource("localhost", 9999).label
    'socket localhost:9999'
    """

    host: str
    port: int
    delimiter: str = "\n"
    reconnects: bool = False  #: connect again after the server has closed the connection, instead of ending
    deserializer: DeserializationSchema = field(default_factory=SimpleStringSchema)
    on_error: OnError = field(default_factory=OnError.fail)
    capacity: int = 100_000
    connect_timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        _check_port(self.port)
        if not self.delimiter:
            raise ProgramError("The delimiter between records has at least one character, found none.")

    @property
    def label(self) -> str:
        return f"socket {self.host}:{self.port}"

    def connection(self) -> PushedStream:
        from flott.runtime.connectors.sockets import LineStream

        return LineStream(self)


@dataclass(frozen=True)
class SocketTextSink(Sink[Any]):
    """Connects to a server and writes what the schema makes of each record, followed by a delimiter.

    TCP does not say what the other program has read, so records may be lost when the connection is, and a repeated
    epoch writes again.
    """

    host: str
    port: int
    serializer: SerializationSchema = field(default_factory=SimpleStringSchema)
    delimiter: str = "\n"
    timeout_ms: int = 10_000
    retries: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        _check_port(self.port)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.NONE

    def create_writer(self, context: WriterContext) -> SinkWriter[Any]:
        from flott.runtime.connectors.sockets import LineWriter

        return LineWriter(self, context)


def _check_port(port: int) -> None:
    if not 0 < port < 65536:
        raise ProgramError(f"A port is a number between 1 and 65535, found {port}.")
